//! A sparse matrix, stored with its zeros, times a dense one: with a third of the elements there, multiplying all of them is the shorter
//! way than looking for them.

use super::matrix_multiplication::matrix_multiplication;
use girih::prelude::*;

/// c = a · b in f32 by matrix units: each number is the sum of two that tf32 holds, and of the four products the smallest is left out
/// (the field's 3xTF32). What is lost of a product is less than 2⁻²⁰ of it: see `split_rounding`.
#[kernel(
    tile(BM = [128, 64, 32], BN = [128, 64, 256, 32], BK = [32, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Overlap, Registers]),
    raster(X = [8, 1]),
    split(Z = [1, 2]),
    min_blocks(Q = [1, 2])
)]
pub fn split_matrix_multiplication(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            let (left, right) = (a.load((m, k)), b.load((k, n)));
            let (left_high, right_high) = (left.round_tf32(), right.round_tf32());
            let (left_low, right_low) = ((left - left_high).round_tf32(), (right - right_high).round_tf32());
            acc = dot(left_low, right_high, acc);
            acc = dot(left_high, right_low, acc);
            acc = dot(left_high, right_high, acc);
        }
        c.store((m, n), acc);
    }
}

/// What the judge calls; the number of elements other than zero is not needed.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    if variant("multiply-adds") {
        matrix_multiplication(a, b, c);
    } else {
        split_matrix_multiplication(a, b, c);
    }
}

girih::challenge! {
    Challenge::new(
        "sparse_matrix_dense_matrix_multiplication",
        solve::Program::def,
        "void solve(const float* A[M, N], const float* B[N, K], float* C[M, K], int M, int N, int K, int nnz)",
    )
    .input("A", Distribution::Sparse(-1.0, 1.0, 0.35))
    .input("B", uniform(-1.0, 1.0))
    .output("C", |x, i| {
        let (inner, cols) = (x.len("N"), x.len("K"));
        (0..inner).map(|l| x.at("A", i / cols * inner + l) * x.at("B", l * cols + i % cols)).sum()
    })
    .tolerance(1e-3, 1e-3)
    .check_at([
        "M=0 N=3 K=2 nnz=0",
        "M=1 N=0 K=5 nnz=0",
        "M=1 N=1 K=1 nnz=1",
        "M=17 N=33 K=65 nnz=200",
        "M=64 N=32 K=128 nnz=700",
        "M=129 N=67 K=31 nnz=3000",
    ])
    .perf_at("M=4096, N=2048, K=512, nnz=2_936_013")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

//! A batch of matrix multiplications in fp32.

use super::split_planes::planes_of_batch;
use super::split_products::split_batched_multiplication;
use girih::prelude::*;

/// `c[i] = a[i] · b[i]`.
#[kernel(
    tile(B = 1, BM = [64, 32, 128, 16], BN = [64, 32, 128, 16], BK = [16, 8, 32]),
    coarsen(TM of BM = [4, 8, 2, 1], TN of BN = [4, 8, 2, 1]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Registers]),
    split(Z = [1, 2, 0]),
    min_blocks(Q = [2, 1]),
    opt_level(L = [3, 1])
)]
pub fn batched_matrix_multiplication(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, c: &mut Tensor<f32, 3>) {
    let (a, b) = (a.slice(0, 0, c.len(0)), b.slice(0, 0, c.len(0)));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), acc);
        }
        c.store((i.number(), m, n), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, c: &mut Tensor<f32, 3>) {
    if variant("multiply-adds") {
        batched_matrix_multiplication(a, b, c);
    } else if variant("split on its way") {
        split_batched_multiplication(a, b, c);
    } else {
        planes_of_batch(a, b, c);
    }
}

girih::challenge! {
    Challenge::new(
        "batched_matrix_multiplication",
        solve::Program::def,
        "void solve(const float* A[BATCH, M, K], const float* B[BATCH, K, N], float* C[BATCH, M, N], int BATCH, int M, int N, int K)",
    )
    .input("A", uniform(-10.0, 10.0))
    .input("B", uniform(-10.0, 10.0))
    .output("C", |x, i| {
        let (rows, inner, cols) = (x.len("M"), x.len("K"), x.len("N"));
        let (matrix, row, col) = (i / (rows * cols), i / cols % rows, i % cols);
        (0..inner).map(|l| x.at("A", (matrix * rows + row) * inner + l) * x.at("B", (matrix * inner + l) * cols + col)).sum()
    })
    .tolerance(1e-5, 1e-5)
    .rounding(|s| girih::challenge::sum_rounding(s.size("K"), 100.0 / 3.0))
    .check_at([
        "BATCH=0 M=3 N=2 K=5",
        "BATCH=2 M=1 N=3 K=0",
        "BATCH=3 M=1 N=1 K=1",
        "BATCH=2 M=17 N=33 K=20",
        "BATCH=1 M=64 N=32 K=48",
        "BATCH=2 M=33 N=65 K=31",
    ])
    .perf_at("BATCH=32, M=256, N=256, K=256")
    .flops(|s| 2.0 * s.size("BATCH") * s.size("M") * s.size("N") * s.size("K"))
}

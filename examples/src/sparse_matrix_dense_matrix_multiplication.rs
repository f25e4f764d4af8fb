//! A sparse matrix, stored with its zeros, times a dense one: with a third of the elements there, multiplying all of them is the shorter
//! way than looking for them.

use super::matrix_multiplication::matrix_multiplication;
use super::split_planes::planes_product;
use super::split_products::split_matrix_multiplication;
use girih::prelude::*;

/// What the judge calls; the number of elements other than zero is not needed.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    if variant("multiply-adds") {
        matrix_multiplication(a, b, c);
    } else if variant("split on its way") {
        split_matrix_multiplication(a, b, c);
    } else {
        planes_product(a, b, c);
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
        "M=64 N=16 K=128 nnz=350",
        "M=129 N=35 K=31 nnz=1500",
    ])
    .perf_at("M=4096, N=2048, K=512, nnz=2_936_013")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

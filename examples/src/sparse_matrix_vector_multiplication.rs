//! A "sparse" matrix times a vector: the zeros are stored, so every element must be read, and the product is a dense one.
//!
//! Rows stream from memory with 16 bytes per access; the vector stays in the caches. A block owns a few rows and sums along them.

use girih::prelude::*;

/// y = A · x.
#[kernel(
    tile(R = [1, 2, 4, 8], C = [128, 256, 512, 1024, 2048]),
    coarsen(CR of R = [1, 2, 4], CC of C = [1, 2, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn matrix_vector(a: &Tensor<f32, 2>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for r in a.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in a.axis(1).tiles(C) {
            acc += a.load((r, c)) * x.load(c).expand(0, R);
        }
        y.store(r, acc.sum_axis(1));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 2>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    matrix_vector(a, x, y);
}

girih::challenge! {
    Challenge::new(
        "sparse_matrix_vector_multiplication",
        solve::Program::def,
        "void solve(const float* A[M, N], const float* x[N], float* y[M], int M, int N, int nnz)",
    )
    .input("A", sparse(-10.0, 10.0, 0.35))
    .input("x", uniform(-5.0, 5.0))
    .output("y", |c, i| {
        let n = c.len("N");
        (0..n).map(|j| c.at("A", i * n + j) * c.at("x", j)).sum()
    })
    .tolerance(1e-3, 1e-3)
    .check_at(["M=0 N=3", "M=1 N=1", "M=3 N=0", "M=5 N=127", "M=17 N=513", "M=9 N=1031", "M=8 N=2048"])
    .perf_at("M=1000, N=10_000, nnz=3_500_000")
    .flops(|s| 2.0 * s.size("M") * s.size("N"))
}

//! Matrix addition. Rows follow each other without gaps, so the matrices are added as the vectors that they are in memory.

use girih::prelude::*;

/// c = a + b, element by element.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn matrix_addition(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        c.store(t, a.load(t) + b.load(t));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    matrix_addition(&a.flat(), &b.flat(), &mut c.flat());
}

girih::challenge! {
    Challenge::new("matrix_addition", solve::Program::def, "void solve(const float* A[N, N], const float* B[N, N], float* C[N, N], int N)")
        .input("A", uniform(-1000.0, 1000.0))
        .input("B", uniform(-1000.0, 1000.0))
        .output("C", |x, i| x.at("A", i) + x.at("B", i))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=7", "N=16", "N=33", "N=64", "N=67"])
        .perf_at("N=4096")
        .flops(|s| s.size("N") * s.size("N"))
}

//! Matrix copy: the yardstick of all memory-bound kernels.

use girih::prelude::*;

/// b = a.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn matrix_copy(a: &Tensor<f32, 1>, b: &mut Tensor<f32, 1>) {
    for t in b.tiles([T]) {
        b.store(t, a.load(t));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &mut Tensor<f32, 2>) {
    matrix_copy(&a.flat(), &mut b.flat());
}

girih::challenge! {
    Challenge::new("matrix_copy", solve::Program::def, "void solve(const float* A[N, N], float* B[N, N], int N)")
        .input("A", uniform(-1000.0, 1000.0))
        .output("B", |x, i| x.at("A", i))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=7", "N=16", "N=33", "N=64", "N=67"])
        .perf_at("N=4096")
}

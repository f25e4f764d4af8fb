//! ReLU: negative numbers become zero, NaN stays NaN.

use girih::prelude::*;

/// y = max(x, 0).
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn relu(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t).max(0.0));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    relu(x, y);
}

girih::challenge! {
    Challenge::new("relu", solve::Program::def, "void solve(const float* input[N], float* output[N], int N)")
        .input("input", uniform(-100.0, 100.0))
        .output("output", |x, i| x.at("input", i).max(0.0))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("N=25_000_000")
        .flops(|s| s.size("N"))
}

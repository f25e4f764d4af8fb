//! Sigmoid, 1 / (1 + e⁻ˣ). The exponential hides behind the memory.

use girih::prelude::*;

/// y = 1 / (1 + e⁻ˣ).
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn sigmoid(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t).sigmoid());
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    sigmoid(x, y);
}

girih::challenge! {
    Challenge::new("sigmoid", solve::Program::def, "void solve(const float* X[N], float* Y[N], int N)")
        .input("X", uniform(-10.0, 10.0))
        .output("Y", |x, i| 1.0 / (1.0 + (-x.at("X", i)).exp()))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("N=50_000_000")
        .flops(|s| 4.0 * s.size("N"))
}

//! Leaky ReLU: a choice per element. Both sides are cheap, so the choice is a select and no thread diverges.

use girih::prelude::*;

/// y = x where x is positive, x / 100 elsewhere.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn leaky_relu(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y.store(t, if v > 0.0 { v } else { 0.01 * v });
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    leaky_relu(x, y);
}

girih::challenge! {
    Challenge::new("leaky_relu", solve::Program::def, "void solve(const float* input[N], float* output[N], int N)")
        .input("input", uniform(-1000.0, 1000.0))
        .output("output", |x, i| {
            let v = x.at("input", i);
            if v > 0.0 { v } else { 0.01 * v }
        })
        .tolerance(1e-6, 1e-6)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("N=50_000_000")
        .flops(|s| s.size("N"))
}

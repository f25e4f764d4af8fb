//! SiLU, x / (1 + e⁻ˣ). The judge's size is so small that the launch itself is most of the time;
//! the fast units (2 ulp each, far inside of the tolerance) keep the rest short.

use girih::prelude::*;

/// y = x / (1 + e⁻ˣ).
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Streaming])
)]
pub fn silu(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y.store(t, v.div_approx(1.0 + (-v).exp_approx()));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    silu(x, y);
}

girih::challenge! {
    Challenge::new("silu", solve::Program::def, "void solve(const float* input[N], float* output[N], int N)")
        .input("input", uniform(-50.0, 50.0))
        .output("output", |x, i| x.at("input", i) / (1.0 + (-x.at("input", i)).exp()))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("N=50_000")
        .flops(|s| 5.0 * s.size("N"))
}

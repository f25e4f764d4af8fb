//! Value clipping between two scalars that the caller gives.

use girih::prelude::*;

/// y = x, at least `lo` and at most `hi`.
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Streaming])
)]
pub fn value_clipping(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, lo: Scalar<f32>, hi: Scalar<f32>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t).clamp(lo, hi));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, lo: Scalar<f32>, hi: Scalar<f32>) {
    value_clipping(x, y, lo, hi);
}

girih::challenge! {
    Challenge::new("value_clipping", solve::Program::def, "void solve(const float* input[N], float* output[N], float lo, float hi, int N)")
        .input("input", uniform(-100.0, 100.0))
        .output("output", |x, i| x.at("input", i).max(x.scalar("lo")).min(x.scalar("hi")))
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=257", "N=1024", "N=4099"])
        .perf_at("lo=-51.24, hi=39.51, N=100_000")
        .flops(|s| 2.0 * s.size("N"))
}

//! SwiGLU: the first half of the input, through SiLU, gates the second half. One kernel reads both halves through two views.

use girih::prelude::*;

/// y = silu(first half of x) · second half of x.
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Streaming])
)]
pub fn swiglu(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let (first, second) = (x.slice(0, 0, y.len(0)), x.slice(0, y.len(0), y.len(0)));
    for t in y.tiles([T]) {
        let gate = first.load(t);
        y.store(t, gate.div_approx(1.0 + (-gate).exp_approx()) * second.load(t));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    swiglu(x, y);
}

girih::challenge! {
    Challenge::new("swiglu", solve::Program::def, "void solve(const float* input[N], float* output[N / 2], int N)")
        .input("input", uniform(-100.0, 100.0))
        .output("output", |x, i| {
            let (a, b) = (x.at("input", i), x.at("input", i + x.len("N") / 2));
            a / (1.0 + (-a).exp()) * b
        })
        .tolerance(1e-4, 1e-5)
        .check_at(["N=0", "N=2", "N=63", "N=514", "N=2048", "N=8198"])
        .perf_at("N=100_000")
        .flops(|s| 3.0 * s.size("N"))
}

//! The integral of a function over [a, b], estimated by the mean of its values at random points.

use girih::prelude::*;

/// result = (b − a) · the mean of y.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192, 16384]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8, 0]),
    cache(H = [Default, Loads])
)]
pub fn monte_carlo_integration(y: &Tensor<f32, 1>, result: &mut Tensor<f32, 1>, a: Scalar<f32>, b: Scalar<f32>) {
    let mut acc = zeros::<f32>([T]);
    for t in y.tiles([T]).strided() {
        acc += y.load(t);
    }
    let mean = acc.sum().sum_grid() / y.len(0).cast::<f32>();
    result.store_at(0, (b - a) * mean);
}

/// What the judge calls.
#[program]
pub fn solve(y_samples: &Tensor<f32, 1>, result: &mut Tensor<f32, 1>, a: Scalar<f32>, b: Scalar<f32>) {
    monte_carlo_integration(y_samples, result, a, b);
}

girih::challenge! {
    Challenge::new(
        "monte_carlo_integration",
        solve::Program::def,
        "void solve(const float* y_samples[n_samples], float* result[1], float a, float b, int n_samples)",
    )
    .input("y_samples", uniform(-1000.0, 1000.0))
    .output("result", |x, _| {
        let n = x.len("n_samples");
        let sum: f64 = (0..n).map(|i| x.at("y_samples", i)).sum();
        (x.scalar("b") - x.scalar("a")) * sum / n as f64
    })
    .tolerance(1e-2, 1e-2)
    .check_at(["n_samples=1 a=0 b=2", "n_samples=31", "n_samples=511 a=2 b=-3", "n_samples=2049", "n_samples=4099"])
    .perf_at("a=-10.0, b=10.0, n_samples=10_000_000")
    .flops(|s| s.size("n_samples"))
}

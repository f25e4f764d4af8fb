//! The mean of the squared differences of two vectors, in one launch.

use girih::prelude::*;

/// mse = the mean of (predictions − targets)².
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192]),
    coarsen(C of T = [1, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn mean_squared_error(predictions: &Tensor<f32, 1>, targets: &Tensor<f32, 1>, mse: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in predictions.tiles([T]).strided() {
        let difference = predictions.load(t) - targets.load(t);
        acc += difference * difference;
    }
    let total = acc.sum().sum_grid();
    mse.store_at(0, total / predictions.len(0).cast::<f32>());
}

/// What the judge calls.
#[program]
pub fn solve(predictions: &Tensor<f32, 1>, targets: &Tensor<f32, 1>, mse: &mut Tensor<f32, 1>) {
    mean_squared_error(predictions, targets, mse);
}

girih::challenge! {
    Challenge::new(
        "mean_squared_error",
        solve::Program::def,
        "void solve(const float* predictions[N], const float* targets[N], float* mse[1], int N)",
    )
    .input("predictions", uniform(-1000.0, 1000.0))
    .input("targets", uniform(-1000.0, 1000.0))
    .output("mse", |x, _| {
        let n = x.len("N");
        (0..n).map(|i| (x.at("predictions", i) - x.at("targets", i)).powi(2)).sum::<f64>() / n as f64
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["N=0", "N=1", "N=31", "N=511", "N=2049", "N=4099"])
    .perf_at("N=50_000_000")
    .flops(|s| 3.0 * s.size("N"))
}

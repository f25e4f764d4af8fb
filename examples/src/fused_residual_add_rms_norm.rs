//! A transformer's residual addition and the RMS normalisation behind it, in one kernel: the sum of the two inputs never goes to memory.
//! A row that fits one tile stays in registers between the two steps; a longer one is read and added up again, from the cache.

use girih::prelude::*;

/// y = z / √(mean over the row of z² + eps) · weight, where z = x + residual.
#[kernel(
    tile(R = [1, 2, 4], C = [256, 512, 1024, 2048, 4096]),
    coarsen(CR of R = [1, 2], CC of C = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    cluster(X of C = [1, 2, 4, 8]),
    cache(H = [Default, Streaming, Stores])
)]
pub fn fused_residual_add_rms_norm(
    x: &Tensor<f32, 2>,
    residual: &Tensor<f32, 2>,
    weight: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 2>,
    eps: Scalar<f32>,
) {
    let width = x.len(1).cast::<f32>();
    for r in x.axis(0).tiles(R) {
        let mut squares = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let z = x.load((r, c)) + residual.load((r, c));
            squares += z * z;
        }
        let scale = (squares.sum_axis(1) / width + eps).rsqrt();
        for c in x.axis(1).tiles(C) {
            let z = x.load((r, c)) + residual.load((r, c));
            y.store((r, c), z * scale.expand(1, C) * weight.load(c).expand(0, R));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, residual: &Tensor<f32, 2>, weight: &Tensor<f32, 1>, out: &mut Tensor<f32, 2>, eps: Scalar<f32>) {
    fused_residual_add_rms_norm(x, residual, weight, out, eps);
}

girih::challenge! {
    Challenge::new(
        "fused_residual_add_rms_norm",
        solve::Program::def,
        "void solve(const float* x[N, C], const float* residual[N, C], const float* weight[C], float* out[N, C], int N, int C, float eps)",
    )
    .input("x", normal(0.0, 1.0))
    .input("residual", normal(0.0, 1.0))
    .input("weight", uniform(0.5, 1.5))
    .output_rows("out", |x, i| {
        let width = x.len("C");
        let row: Vec<f64> = (0..width).map(|j| x.at("x", i * width + j) + x.at("residual", i * width + j)).collect();
        let mean = row.iter().map(|z| z * z).sum::<f64>() / width as f64;
        let scale = 1.0 / (mean + x.scalar("eps")).sqrt();
        (0..width).map(|j| row[j] * scale * x.at("weight", j)).collect()
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["N=0 C=5", "N=1 C=1", "N=3 C=127", "N=5 C=128", "N=7 C=129", "N=2 C=4096", "N=2 C=4099", "N=2 C=1031"])
    .perf_at("N=4096, C=4096, eps=1e-05")
    .flops(|s| 5.0 * s.size("N") * s.size("C"))
}

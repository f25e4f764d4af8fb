//! Layer normalisation: every row is brought to mean 0 and variance 1, then scaled and shifted column by column.
//!
//! The variance is the mean of squared differences from the mean, not a difference of large sums. That takes the row three times; a row
//! that fits one tile stays in registers and is read once.

use girih::prelude::*;

/// y = (x − mean of the row) / √(variance of the row + eps) · weight + bias.
#[kernel(
    tile(R = [1, 2, 4, 8, 16], C = [256, 512, 1024, 2048, 4096]),
    coarsen(CR of R = [1, 2, 4], CC of C = [1, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    cluster(X of C = [1, 2, 4, 8]),
    cache(H = [Default, Streaming, Stores])
)]
pub fn layer_normalization(x: &Tensor<f32, 2>, weight: &Tensor<f32, 1>, bias: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>, eps: Scalar<f32>) {
    let width = x.len(1).cast::<f32>();
    for r in x.axis(0).tiles(R) {
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            sum += x.load((r, c));
        }
        let mean = sum.sum_axis(1) / width;
        let mut squares = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let difference = x.load((r, c)) - mean.expand(1, C);
            squares += difference * difference;
        }
        let scale = (squares.sum_axis(1) / width + eps).rsqrt();
        for c in x.axis(1).tiles(C) {
            let normal = (x.load((r, c)) - mean.expand(1, C)) * scale.expand(1, C);
            y.store((r, c), normal * weight.load(c).expand(0, R) + bias.load(c).expand(0, R));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 2>, weight: &Tensor<f32, 1>, bias: &Tensor<f32, 1>, output: &mut Tensor<f32, 2>, eps: Scalar<f32>) {
    layer_normalization(input, weight, bias, output, eps);
}

girih::challenge! {
    Challenge::new(
        "layer_normalization",
        solve::Program::def,
        "void solve(const float* input[N, C], const float* weight[C], const float* bias[C], float* output[N, C], int N, int C, float eps)",
    )
    .input("input", uniform(-5.0, 10.0))
    .input("weight", uniform(0.5, 2.0))
    .input("bias", uniform(-1.0, 1.0))
    .output_rows("output", |x, i| {
        let width = x.len("C");
        let row: Vec<f64> = (0..width).map(|j| x.at("input", i * width + j)).collect();
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
        let scale = 1.0 / (variance + x.scalar("eps")).sqrt();
        (0..width).map(|j| (row[j] - mean) * scale * x.at("weight", j) + x.at("bias", j)).collect()
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["N=0 C=5", "N=1 C=1", "N=3 C=127", "N=5 C=128", "N=7 C=129", "N=9 C=512", "N=2 C=1031"])
    .perf_at("N=65_536, C=512, eps=1e-05")
    .flops(|s| 8.0 * s.size("N") * s.size("C"))
}

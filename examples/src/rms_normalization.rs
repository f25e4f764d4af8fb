//! RMS normalisation of one long vector: x · γ / √(mean of x² + ε) + β. Two launches, since every element needs the mean over all of them.
//!
//! As in `softmax` short vectors are a matter of latency: each chunk leaves its own sum of squares, and every block of the second launch adds
//! them up. In long ones the blocks of the first launch meet.

use girih::prelude::*;

/// scale = gamma / √(mean of x² + eps).
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [1, 2, 4])
)]
pub fn rms_scale(x: &Tensor<f32, 1>, scale: &mut Tensor<f32, 1>, gamma: Scalar<f32>, eps: Scalar<f32>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        acc += v * v;
    }
    let mean = acc.sum().sum_grid() / x.len(0).cast::<f32>();
    scale.store_at(0, gamma / (mean + eps).sqrt());
}

/// y = scale · x + beta.
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4])
)]
pub fn scale_and_shift(x: &Tensor<f32, 1>, scale: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, beta: Scalar<f32>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) * scale.at(0) + beta);
    }
}

/// The sum of the squares of each chunk.
#[kernel(tile(T = 1024), coarsen(C of T = [1, 2, 4, 8]), vector(V = [1, 2, 4]))]
pub fn rms_chunks(x: &Tensor<f32, 1>, squares: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        squares.scatter(t.number(), (v * v).sum());
    }
}

/// y = gamma / √(mean of x² + eps) · x + beta, with the mean from the squares of the chunks.
#[kernel(
    tile(T = [256, 512, 1024, 2048], P = [128, 256]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4])
)]
pub fn rms_join(
    x: &Tensor<f32, 1>,
    squares: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 1>,
    gamma: Scalar<f32>,
    beta: Scalar<f32>,
    eps: Scalar<f32>,
) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        let mut sum = zeros::<f32>([P]);
        for p in squares.axis(0).tiles(P) {
            sum += squares.load(p);
        }
        let mean = sum.sum() / x.len(0).cast::<f32>();
        y.store(t, v * (gamma / (mean + eps).sqrt()) + beta);
    }
}

/// Elements of a chunk.
const CHUNK: i64 = 1024;
/// The longest vector whose chunks every block adds up by itself.
const SHORT: i64 = 512 * CHUNK;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 1>, gamma: Scalar<f32>, beta: Scalar<f32>, output: &mut Tensor<f32, 1>, eps: Scalar<f32>) {
    if input.len(0) <= SHORT && variant("chunks") {
        let mut squares = temp([(input.len(0) + CHUNK - 1) / CHUNK]);
        rms_chunks(input, &mut squares);
        rms_join(input, &squares, output, gamma, beta, eps);
    } else {
        let mut scale = temp([1]);
        rms_scale(input, &mut scale, gamma, eps);
        scale_and_shift(input, &scale, output, beta);
    }
}

girih::challenge! {
    Challenge::new(
        "rms_normalization",
        solve::Program::def,
        "void solve(const float* input[N], float gamma, float beta, float* output[N], int N, float eps)",
    )
    .input("input", uniform(-10.0, 10.0))
    .output_all("output", |x| {
        let v: Vec<f64> = (0..x.len("N")).map(|i| x.at("input", i)).collect();
        let mean = v.iter().map(|v| v * v).sum::<f64>() / v.len() as f64;
        let scale = x.scalar("gamma") / (mean + x.scalar("eps")).sqrt();
        v.iter().map(|v| v * scale + x.scalar("beta")).collect()
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["N=0", "N=1 beta=-0.5", "N=31", "N=255 eps=0.1", "N=1025 gamma=-1", "N=4099"])
    .perf_at("gamma=1.5, beta=0.0, N=100_000, eps=1e-05")
    .flops(|s| 5.0 * s.size("N"))
}

//! A dense layer with a low-rank adapter: x·Wᵀ + scale · (x·Aᵀ)·Bᵀ. What the adapter adds is a sum of few terms, with which the layer's sum
//! begins.

use super::dense_layers::{dense_onto, dense_scaled};
use super::products::{Halves, Product, Split};
use super::split_planes::planes_onto;
use girih::prelude::*;

/// y = low·bᵀ + x·wᵀ.
#[kernel(
    types(P = [Halves]),
    tile(BM = [64, 128, 32], BN = [64, 128, 256], BK = [32, 16, 64], BR = [32, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Registers]),
    raster(X = [1, 4]),
    min_blocks(Q = [2, 1])
)]
pub fn adapted_product<P: Product>(
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 2>,
    low: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    y: &mut Tensor<f32, 2>,
) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for r in low.axis(1).tiles(BR) {
            acc = P::add(low.load((m, r)), b.load((n, r)).t(), acc, [BM, BN]);
        }
        for k in x.axis(1).tiles(BK) {
            acc = P::add(x.load((m, k)), w.load((n, k)).t(), acc, [BM, BN]);
        }
        y.store((m, n), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 2>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    output: &mut Tensor<f32, 2>,
    lora_scale: Scalar<f32>,
) {
    let mut low = temp([x.len(0), a.len(0)]);
    dense_scaled::<Split>(x, a, &mut low, lora_scale);
    if variant("adapter in a launch of its own") {
        // Blocks may share the layer's sum then.
        let mut adapter = temp([x.len(0), w.len(0)]);
        dense_scaled::<Split>(&low, b, &mut adapter, scalar(1.0));
        if variant("tf32 parts") {
            dense_onto::<Split>(x, w, &adapter, output);
        } else if variant("split on its way") {
            dense_onto::<Halves>(x, w, &adapter, output);
        } else {
            planes_onto(x, w, &adapter, output);
        }
    } else {
        adapted_product::<Halves>(x, w, &low, b, output);
    }
}

girih::challenge! {
    Challenge::new(
        "lora_linear",
        solve::Program::def,
        "void solve(const float* x[batch, d_in], const float* W[d_out, d_in], const float* A[rank, d_in], const float* B[d_out, rank], \
         float* output[batch, d_out], int batch, int d_in, int d_out, int rank, float lora_scale)",
    )
    .input("x", normal(0.0, 1.0))
    .input("W", normal(0.0, 0.02))
    .input("A", normal(0.0, 0.02))
    // The judge's B is zero at nearly all sizes, which tells nothing of the adapter.
    .input("B", normal(0.0, 0.5))
    .output_rows("output", |x, m| {
        let (inner, cols, rank) = (x.len("d_in"), x.len("d_out"), x.len("rank"));
        let row: Vec<f64> = (0..inner).map(|k| x.at("x", m * inner + k)).collect();
        let product = |weights: &str, n: usize| row.iter().enumerate().map(|(k, v)| v * x.at(weights, n * inner + k)).sum::<f64>();
        let low: Vec<f64> = (0..rank).map(|r| product("A", r)).collect();
        let adapter = |n: usize| low.iter().enumerate().map(|(r, v)| v * x.at("B", n * rank + r)).sum::<f64>();
        (0..cols).map(|n| product("W", n) + x.scalar("lora_scale") * adapter(n)).collect()
    })
    .tolerance(1e-4, 1e-4)
    .check_at([
        "batch=0, d_in=4, d_out=8, rank=4, lora_scale=0.5",
        "batch=1, d_in=1, d_out=1, rank=1, lora_scale=2.0",
        "batch=33, d_in=35, d_out=70, rank=5, lora_scale=2.0",
        "batch=5, d_in=40, d_out=36, rank=40, lora_scale=-1.0",
        "batch=3, d_in=132, d_out=12, rank=8, lora_scale=0.015625",
    ])
    .perf_at("batch=256, d_in=4096, d_out=4096, rank=64, lora_scale=0.015625")
    .flops(|s| {
        let (inner, cols) = (s.size("d_in"), s.size("d_out"));
        2.0 * s.size("batch") * (inner * cols + s.size("rank") * (inner + cols))
    })
}

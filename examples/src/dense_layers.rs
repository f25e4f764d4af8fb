//! Dense layers of f32 and what commonly stands behind them, each in one kernel: a bias, an activation, a residual, a gate.

use super::products::{Halves, Product, Split, Tf32};
use girih::prelude::*;
use std::f32::consts::FRAC_2_PI;

/// What becomes of a layer's elements.
pub trait Activation: 'static {
    /// The activation of each element.
    fn of(x: Tile<f32>) -> Tile<f32>;
}

/// Elements stay as they are.
pub struct Linear;

/// The tanh form of GELU.
pub struct Gelu;

impl Activation for Linear {
    fn of(x: Tile<f32>) -> Tile<f32> {
        x
    }
}

impl Activation for Gelu {
    /// (1 + tanh z) / 2 is the logistic function of 2z.
    fn of(x: Tile<f32>) -> Tile<f32> {
        let z = (x + 0.044715 * x * x * x) * FRAC_2_PI.sqrt();
        x * (2.0 * z).sigmoid()
    }
}

/// y = activation(x · w + bias), of weights `[in, out]`.
#[kernel(
    types(P = [Tf32], A = [Linear, Gelu]),
    tile(BM = [64, 128, 32], BN = [128, 64, 256], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Overlap, Registers]),
    raster(X = [1, 8]),
    min_blocks(Q = [2, 1])
)]
pub fn dense_bias<P: Product, A: Activation>(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let bias = bias.load(n);
        let mut acc = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            acc = P::add(x.load((m, k)), w.load((k, n)), acc, [BM, BN]);
        }
        y.store((m, n), A::of(acc + bias.expand(0, BM)));
    }
}

/// y = before + x · w + bias, of weights `[in, out]`.
#[kernel(
    types(P = [Tf32]),
    tile(BM = [64, 128, 32], BN = [64, 128, 32], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Overlap, Registers]),
    split(Z = [1, 2, 4]),
    min_blocks(Q = [2, 1])
)]
pub fn dense_bias_onto<P: Product>(
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 2>,
    bias: &Tensor<f32, 1>,
    before: &Tensor<f32, 2>,
    y: &mut Tensor<f32, 2>,
) {
    for (m, n) in y.tiles([BM, BN]) {
        let bias = bias.load(n);
        let mut acc = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            acc = P::add(x.load((m, k)), w.load((k, n)), acc, [BM, BN]);
        }
        y.store((m, n), before.load((m, n)) + (acc + bias.expand(0, BM)));
    }
}

/// y = scale · x · wᵀ, of weights `[out, in]`.
#[kernel(
    types(P = [Split]),
    tile(BM = [64, 32, 16, 128], BN = [64, 32, 16, 128], BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 2, 1, 8], TN of BN = [4, 2, 1, 8]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [3, 2, 1]),
    copy(C = [Async, Overlap, Registers]),
    split(Z = [1, 4, 8, 16, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn dense_scaled<P: Product>(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, scale: Scalar<f32>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            acc = P::add(x.load((m, k)), w.load((n, k)).t(), acc, [BM, BN]);
        }
        y.store((m, n), acc * scale);
    }
}

/// y = before + x · wᵀ, of weights `[out, in]`.
#[kernel(
    types(P = [Tf32, Split, Halves]),
    tile(BM = [64, 128, 32], BN = [64, 128, 32, 256], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Overlap, Registers]),
    raster(X = [1, 8]),
    split(Z = [1, 2, 4, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn dense_onto<P: Product>(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, before: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            acc = P::add(x.load((m, k)), w.load((n, k)).t(), acc, [BM, BN]);
        }
        y.store((m, n), before.load((m, n)) + acc);
    }
}

/// y = silu(x · gateᵀ) · (x · upᵀ), of weights `[out, in]`.
#[kernel(
    types(P = [Tf32]),
    tile(BM = [64, 128, 32], BN = [64, 32, 128], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Overlap, Registers]),
    raster(X = [1, 8]),
    min_blocks(Q = [2, 1])
)]
pub fn dense_gated<P: Product>(x: &Tensor<f32, 2>, gate: &Tensor<f32, 2>, up: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let (mut g, mut u) = (zeros::<f32>([BM, BN]), zeros::<f32>([BM, BN]));
        for k in x.axis(1).tiles(BK) {
            let left = x.load((m, k));
            g = P::add(left, gate.load((n, k)).t(), g, [BM, BN]);
            u = P::add(left, up.load((n, k)).t(), u, [BM, BN]);
        }
        y.store((m, n), g * g.sigmoid() * u);
    }
}

//! A causal convolution of each channel with its own few taps; channels vary fastest.
//!
//! A block has some positions of some channels; a thread keeps its channels' neighbours in registers, so that every element is loaded once.

use girih::prelude::*;

/// Four taps, written out.
#[kernel(
    tile(B = 1, L = [16, 8, 32, 64], D = [128, 256, 512]),
    coarsen(CL of L = [8, 4, 16, 32], CD of D = [4, 2, 1]),
    vector(V = [4, 2, 1]),
    halo(H = [Direct, Shared]),
    cache(K = [Default, Stores])
)]
pub fn conv_4(x: &Tensor<f32, 3>, weight: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, y: &mut Tensor<f32, 3>) {
    x.same_shape(y);
    for (b, l, d) in y.tiles([B, L, D]) {
        let w = weight.load((d, ..4));
        let near = x.window((b, l, d), [(0, 0), (3, 0), (0, 0)], Boundary::Zero);
        let mut acc = bias.load(d).expand(0, L).expand(0, B);
        for k in 0..4 {
            let tap = w.pick(1, k).expand(0, L).expand(0, B);
            acc += tap * near.at((0, -(k as i64), 0));
        }
        y.store((b, l, d), acc);
    }
}

/// Any number of taps, one after another.
#[kernel(
    tile(B = 1, L = [8, 4, 16], D = [128, 64, 256]),
    coarsen(CL of L = [4, 2, 8], CD of D = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    halo(H = [Direct, Shared])
)]
pub fn conv_any(x: &Tensor<f32, 3>, weight: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, y: &mut Tensor<f32, 3>) {
    x.same_shape(y);
    for (b, l, d) in y.tiles([B, L, D]) {
        let mut acc = bias.load(d).expand(0, L).expand(0, B);
        for k in 0..weight.len(1) {
            let tap = weight.load((d, k)).expand(0, L).expand(0, B);
            let near = x.window((b, l + (0 - k), d), [(0, 0), (0, 0), (0, 0)], Boundary::Zero);
            acc += tap * near.at((0, 0, 0));
        }
        y.store((b, l, d), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 3>, weight: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, output: &mut Tensor<f32, 3>) {
    if weight.len(1) == 4 {
        conv_4(x, &weight.flat().chunked(0, 4), bias, output);
    } else {
        conv_any(x, weight, bias, output);
    }
}

girih::challenge! {
    Challenge::new("causal_depthwise_conv1d", solve::Program::def,
        "void solve(const float* x[B, L, D], const float* weight[D, K], const float* bias[D], float* output[B, L, D], int B, int L, int D, int K)")
        .input("x", normal(0.0, 1.0))
        .input("weight", normal(0.0, 1.0))
        .input("bias", normal(0.0, 1.0))
        .output("output", |x, i| {
            let (n, d, taps) = (x.len("L"), x.len("D"), x.len("K"));
            let (c, l) = (i % d, i / d % n);
            (0..taps.min(l + 1)).fold(x.at("bias", c), |s, k| s + x.at("weight", c * taps + k) * x.at("x", i - k * d))
        })
        .tolerance(1e-4, 1e-4)
        .check_at([
            "B=1, L=1, D=1, K=1",
            "B=2, L=5, D=3, K=4",
            "B=1, L=17, D=128, K=4",
            "B=3, L=33, D=130, K=4",
            "B=2, L=9, D=64, K=3",
            "B=1, L=4, D=20, K=8",
            "B=0, L=4, D=20, K=4",
            "B=1, L=2, D=260, K=4",
        ])
        .perf_at("B=8, L=2048, D=4096, K=4")
        .flops(|s| 2.0 * s.size("B") * s.size("L") * s.size("D") * s.size("K"))
}

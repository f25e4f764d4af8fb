//! A gated block of a language model: two products that share an operand meet in one kernel, a third one brings them back. Operands are
//! rounded to tf32, which the tolerance allows, sums are f32.

use super::lower_precision_gemm::{NN, Tf32, lower_precision_gemm};
use girih::prelude::*;

/// hidden = silu(x · gate) · (x · up).
#[kernel(
    tile(BM = [64, 128, 32], BN = [64, 128, 32], BK = [16, 32, 8]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [8, 4]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Registers]),
    raster(X = [8, 1]),
    min_blocks(Q = [2, 1])
)]
pub fn gated_products(x: &Tensor<f32, 2>, gate: &Tensor<f32, 2>, up: &Tensor<f32, 2>, hidden: &mut Tensor<f32, 2>) {
    for (m, n) in hidden.tiles([BM, BN]) {
        let mut g = zeros::<f32>([BM, BN]);
        let mut u = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            let left = x.load((m, k)).round_tf32();
            g = dot(left, gate.load((k, n)).round_tf32(), g);
            u = dot(left, up.load((k, n)).round_tf32(), u);
        }
        hidden.store((m, n), g * g.sigmoid() * u);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, gate: &Tensor<f32, 2>, up: &Tensor<f32, 2>, down: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let mut hidden = temp([x.len(0), gate.len(1)]);
    gated_products(x, gate, up, &mut hidden);
    lower_precision_gemm::<Tf32, NN>(&hidden, down, output);
}

girih::challenge! {
    Challenge::new(
        "swiglu_mlp_block",
        solve::Program::def,
        "void solve(const float* x[M, d_model], const float* W_gate[d_model, d_ffn], const float* W_up[d_model, d_ffn], const float* W_down[d_ffn, d_model], float* output[M, d_model], int M, int d_model, int d_ffn)",
    )
    .input("x", Distribution::Normal(0.0, 0.1))
    .input("W_gate", Distribution::Normal(0.0, 0.02))
    .input("W_up", Distribution::Normal(0.0, 0.02))
    .input("W_down", Distribution::Normal(0.0, 0.02))
    .output_rows("output", |c, m| {
        let (model, ffn) = (c.len("d_model"), c.len("d_ffn"));
        // Row by row of the weights, as they lie in memory.
        let product = |row: &[f64], weights: &str, cols: usize| {
            let (weights, mut sums) = (c.tensor(weights), vec![0.0; cols]);
            for (l, factor) in row.iter().enumerate() {
                sums.iter_mut().enumerate().for_each(|(n, sum)| *sum += factor * weights.get(l * cols + n));
            }
            sums
        };
        let x: Vec<f64> = (0..model).map(|l| c.at("x", m * model + l)).collect();
        let (gate, up) = (product(&x, "W_gate", ffn), product(&x, "W_up", ffn));
        let hidden: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        product(&hidden, "W_down", model)
    })
    .tolerance(1e-4, 1e-4)
    .check_at([
        "M=0 d_model=3 d_ffn=2",
        "M=1 d_model=1 d_ffn=1",
        "M=2 d_model=0 d_ffn=3",
        "M=17 d_model=33 d_ffn=20",
        "M=32 d_model=16 d_ffn=64",
        "M=33 d_model=67 d_ffn=35",
    ])
    .perf_at("M=512, d_model=4096, d_ffn=14_336")
    .flops(|s| 6.0 * s.size("M") * s.size("d_model") * s.size("d_ffn"))
}

//! A gated block of a language model: two products that share an operand meet in one kernel, a third one brings them back. Operands are
//! rounded to 11 bits, which the tolerance allows, on their way as tf32 or ahead of the products as f16; sums are f32.

use super::half_products::{gated_halves, halve_columns, halve_rows, mended_gates, multiply_halves};
use super::lower_precision_gemm::{NN, Tf32, lower_precision_gemm};
use super::split_planes::padded;
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
    let (rows, model, ffn) = (x.len(0), x.len(1), gate.len(1));
    let mut hidden = temp([rows, ffn]);
    if variant("operands as they are") {
        gated_products(x, gate, up, &mut hidden);
        lower_precision_gemm::<Tf32, NN>(&hidden, down, output);
    } else {
        let (x_half, gates, ups, downs) =
            (temp([rows, padded(model)]), temp([model, padded(ffn)]), temp([model, padded(ffn)]), temp([ffn, padded(model)]));
        let (mut x_half, mut gates) = (x_half.slice(1, 0, model), gates.slice(1, 0, ffn));
        let (mut ups, mut downs) = (ups.slice(1, 0, ffn), downs.slice(1, 0, model));
        let (mut of_gates, mut of_ups, mut of_downs) = (temp_filled([ffn], 0u32), temp_filled([ffn], 0u32), temp_filled([model], 0u32));
        let mut of_x = temp([rows]);
        halve_rows(x, &mut x_half, &mut of_x);
        halve_columns(gate, &mut gates, &mut of_gates);
        halve_columns(up, &mut ups, &mut of_ups);
        gated_halves(&x_half, &of_x, &gates, &ups, &mut hidden);
        mended_gates(&of_x, &of_gates, &of_ups, x, gate, up, &mut hidden);
        let hidden_half = temp([rows, padded(ffn)]);
        let mut hidden_half = hidden_half.slice(1, 0, ffn);
        let mut of_hidden = temp([rows]);
        halve_rows(&hidden, &mut hidden_half, &mut of_hidden);
        halve_columns(down, &mut downs, &mut of_downs);
        multiply_halves(&hidden_half, &downs, &of_hidden, &of_downs, &hidden, down, output);
    }
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

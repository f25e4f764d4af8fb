//! GPT-2's transformer block, whose attention sees all positions: seven launches. Biases, the activation and the residuals stand behind the
//! products in their kernels; operands are rounded to tf32, which the tolerance allows, sums are f32.

use super::attention::{AllKeys, attention_units};
use super::block_references::{Rows, attended, normal_weight, uniform_weight};
use super::dense_layers::{Gelu, Linear, dense_bias, dense_bias_onto};
use super::layer_normalization::layer_normalization;
use super::products::Tf32;
use girih::challenge::Case;
use girih::prelude::*;

/// The block of any width. Its weights lie one behind the other: the first normalisation's scale and shift, the matrix of queries, keys and
/// values and its bias, that of the attention's result, the second normalisation's, and those of the two layers of four times the width.
#[program]
pub fn block(x: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, weights: &Tensor<f32, 1>, heads: Scalar<i32>) {
    let (rows, d) = (x.len(0), x.len(1));
    let (square, heads) = (d * d, heads.cast::<i64>());
    let vector = |squares: i64, vectors: i64, len: i64| weights.slice(0, square * squares + d * vectors, d * len);
    let matrix = |squares: i64, vectors: i64, ins: i64, outs: i64| {
        weights.slice(0, square * squares + d * vectors, square * (ins * outs)).chunked(0, d * outs)
    };
    let mut normal = temp([rows, d]);
    let mut qkv = temp([rows, d * 3]);
    let seen = temp([rows, d]);
    let mut between = temp([rows, d]);
    let mut wide = temp([rows, d * 4]);

    layer_normalization(x, &vector(0, 0, 1), &vector(0, 1, 1), &mut normal, scalar(1e-5));
    dense_bias::<Tf32, Linear>(&normal, &matrix(0, 2, 1, 3), &vector(3, 2, 3), &mut qkv);
    let parts = qkv.chunked(1, d / heads);
    let (q, k, v) = (parts.slice(1, 0, heads), parts.slice(1, heads, heads), parts.slice(1, heads * 2, heads));
    attention_units::<AllKeys>(&q, &k, &v, &mut seen.chunked(1, d / heads), scalar(0));
    dense_bias_onto::<Tf32>(&seen, &matrix(3, 5, 1, 1), &vector(4, 5, 1), x, &mut between);

    layer_normalization(&between, &vector(4, 6, 1), &vector(4, 7, 1), &mut normal, scalar(1e-5));
    dense_bias::<Tf32, Gelu>(&normal, &matrix(4, 8, 1, 4), &vector(8, 8, 4), &mut wide);
    dense_bias_onto::<Tf32>(&wide, &matrix(8, 12, 4, 1), &vector(12, 12, 1), &between, output);
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, weights: &Tensor<f32, 1>) {
    block(x, output, weights, scalar(12));
}

/// Where the parts of the weights begin, in their order.
fn offsets(d: usize) -> [usize; 12] {
    let lens = [d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d];
    std::array::from_fn(|part| lens[..part].iter().sum())
}

/// The block's weights: scales around 1, small shifts and biases, and matrices that keep the size of what they multiply.
fn weight(lens: &[i64], i: usize) -> f64 {
    // There are 12 d² + 13 d.
    let d = (((169 + 48 * lens[0]) as f64).sqrt() as usize - 13) / 24;
    match offsets(d).iter().filter(|at| **at <= i).count() - 1 {
        0 | 6 => uniform_weight(i, 0.8, 1.2),
        2 | 4 | 8 | 10 => normal_weight(i, 0.02 * (768.0 / d as f64).sqrt()),
        // The judge's biases are zero, which tells nothing of them.
        _ => uniform_weight(i, -0.1, 0.1),
    }
}

/// The block in double precision.
fn expected(x: &Case, d: usize, heads: usize) -> Vec<f64> {
    let (at, weights) = (offsets(d), x.tensor("weights"));
    let layer = |input: &Rows, part: usize, outs: usize| {
        let sums = input.times(outs, |k, n| weights.get(at[part] + k * outs + n));
        sums.map(outs, |_, row| row.iter().enumerate().map(|(n, v)| v + weights.get(at[part + 1] + n)).collect())
    };
    let normal = |input: &Rows, part: usize| {
        input.map(d, |_, row| {
            let mean = row.iter().sum::<f64>() / d as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / d as f64;
            let scaled = |n: usize| (row[n] - mean) / (variance + 1e-5).sqrt() * weights.get(at[part] + n);
            (0..d).map(|n| scaled(n) + weights.get(at[part + 1] + n)).collect()
        })
    };
    let gelu = |z: &f64| 0.5 * z * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z.powi(3))).tanh());

    let input = Rows { width: d, of: (0..x.len("seq_len") * d).map(|i| x.at("x", i)).collect() };
    let qkv = layer(&normal(&input, 0), 2, 3 * d);
    let [q, k, v] = [0, 1, 2].map(|part| qkv.map(d, |_, row| row[part * d..(part + 1) * d].to_vec()));
    let between = input.plus(&layer(&attended(&q, &k, &v, d / heads, false), 4, d));
    let wide = layer(&normal(&between, 6), 8, 4 * d).map(4 * d, |_, row| row.iter().map(gelu).collect());
    between.plus(&layer(&wide, 10, d)).of
}

girih::challenge! {
    Challenge::new(
        "gpt2_block",
        solve::Program::def,
        "void solve(const float* x[seq_len, 768], float* output[seq_len, 768], const float* weights[7087872], int seq_len)",
    )
    .input("x", uniform(-1.0, 1.0))
    .input("weights", formula(weight))
    .output_all("output", |x| expected(x, 768, 12))
    .tolerance(1e-3, 1e-3)
    // One row is multiplied as many are: what the simulator takes too long for is checked of narrower blocks, and at the perf size.
    .check_at(["seq_len=0"])
    .perf_at("seq_len=1024")
    .flops(|s| 24.0 * s.size("seq_len") * 768f64.powi(2) + 4.0 * s.size("seq_len").powi(2) * 768.0)
}

/// The block of any width as a challenge of its own.
pub mod of_any_width {
    use super::expected;
    use super::weight;
    use girih::prelude::*;

    /// What a caller calls.
    #[program]
    pub fn solve(x: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, weights: &Tensor<f32, 1>, heads: Scalar<i32>) {
        super::block(x, output, weights, heads);
    }

    girih::challenge! {
        Challenge::new(
            "gpt2_block_of_any_width",
            solve::Program::def,
            "void solve(const float* x[seq_len, d], float* output[seq_len, d], const float* weights[12 * d * d + 13 * d], \
             int seq_len, int d, int heads)",
        )
        .input("x", uniform(-1.0, 1.0))
        .input("weights", formula(weight))
        .output_all("output", |x| expected(x, x.len("d"), x.len("heads")))
        .tolerance(1e-3, 1e-3)
        .check_at(["seq_len=1 d=2 heads=1", "seq_len=5 d=12 heads=3", "seq_len=17 d=16 heads=2"])
        .perf_at("seq_len=1024, d=768, heads=12")
        .flops(|s| 24.0 * s.size("seq_len") * s.size("d").powi(2) + 4.0 * s.size("seq_len").powi(2) * s.size("d"))
    }
}

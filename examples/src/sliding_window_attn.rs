//! Attention to the keys near a query, on both sides.

use super::attention::{NARROW, Near, attention, attention_narrow, reference_within, rounding};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, window_size: Scalar<i32>) {
    let width = q.len(1);
    let (q, k, v) = (q.chunked(1, width), k.chunked(1, width), v.chunked(1, width));
    let mut output = output.chunked(1, width);
    if q.len(2) <= NARROW {
        attention_narrow::<Near>(&q, &k, &v, &mut output, window_size.cast());
    } else {
        attention::<Near>(&q, &k, &v, &mut output, window_size.cast());
    }
}

girih::challenge! {
    Challenge::new(
        "sliding_window_attn",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[M, d], const float* V[M, d], float* output[M, d], int M, int d, int window_size)",
    )
    .input("Q", uniform(-100.0, 100.0))
    .input("K", uniform(-100.0, 100.0))
    .input("V", uniform(-100.0, 100.0))
    .output_rows_within("output", |x, i| {
        let (rows, d, window) = (x.len("M"), x.len("d"), x.len("window_size"));
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", j * d + e)).sum::<f64>();
        let keys = i.saturating_sub(window)..(i + window + 1).min(rows);
        reference_within(keys, |j| product(j) / (d as f64).sqrt(), (d, 100.0), d, |j, e| x.at("V", j * d + e))
    })
    .tolerance(1e-5, 1e-5)
    .rounding(|s| rounding(s.size("d"), 100.0, 100.0))
    .check_at(["M=0 d=8 window_size=3", "M=1 d=1 window_size=1", "M=20 d=20 window_size=0", "M=70 d=32 window_size=9", "M=9 d=7 window_size=100"])
    .perf_at("M=5000, d=64, window_size=16")
    .flops(|s| {
        let (rows, w) = (s.size("M"), s.size("window_size").min(s.size("M") - 1.0));
        4.0 * s.size("d") * (rows * (2.0 * w + 1.0) - w * (w + 1.0))
    })
}

//! Attention of several heads side by side: each has some columns of every row.

use super::attention::{AllKeys, attention, reference_within, rounding};
use super::attention_planes::attention_by_planes;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, h: Scalar<i32>) {
    let width = q.len(1) / h.cast::<i64>();
    let (q, k, v) = (q.chunked(1, width), k.chunked(1, width), v.chunked(1, width));
    let mut output = output.chunked(1, width);
    if width > 128 || variant("multiply-adds") {
        attention::<AllKeys>(&q, &k, &v, &mut output, scalar(0));
    } else {
        attention_by_planes(&q, &k, &v, &mut output);
    }
}

girih::challenge! {
    Challenge::new(
        "multi_head_attention",
        solve::Program::def,
        "void solve(const float* Q[N, d_model], const float* K[N, d_model], const float* V[N, d_model], float* output[N, d_model], \
         int N, int d_model, int h)",
    )
    .input("Q", uniform(-10.0, 10.0))
    .input("K", uniform(-10.0, 10.0))
    .input("V", uniform(-10.0, 10.0))
    .output_rows_within("output", |x, i| {
        let (rows, d, heads) = (x.len("N"), x.len("d_model"), x.len("h"));
        let width = d / heads;
        let head = |first: usize| {
            let product = |j: usize| (0..width).map(|e| x.at("Q", i * d + first + e) * x.at("K", j * d + first + e)).sum::<f64>();
            reference_within(0..rows, |j| product(j) / (width as f64).sqrt(), (width, 10.0), width, |j, e| x.at("V", j * d + first + e))
        };
        (0..heads).flat_map(|t| head(t * width)).collect()
    })
    .tolerance(1e-5, 1e-5)
    .rounding(|s| rounding(s.size("d_model") / s.size("h"), 10.0, 10.0))
    .check_at(["N=0 d_model=6 h=2", "N=1 d_model=1 h=1", "N=5 d_model=40 h=2", "N=34 d_model=32 h=1"])
    .perf_at("N=1024, d_model=1024, h=16")
    .flops(|s| 4.0 * s.size("N").powi(2) * s.size("d_model"))
}

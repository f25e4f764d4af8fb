//! Causal attention: a query sees the keys up to its own position.
//!
//! Late queries have more keys than early ones. Cut into chunks of keys, all blocks have the same work.

use super::attention::{Causal, attention, attention_parts, join_attention, reference_within, rounding};
use super::attention_planes::{causal_attention_by_chunks_of_planes, causal_attention_by_planes};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let width = q.len(1);
    let (q, k, v) = (q.chunked(1, width), k.chunked(1, width), v.chunked(1, width));
    let mut output = output.chunked(1, width);
    if q.len(2) <= 128 && !variant("multiply-adds") {
        if variant("rows at once") {
            causal_attention_by_planes(&q, &k, &v, &mut output);
        } else {
            causal_attention_by_chunks_of_planes(&q, &k, &v, &mut output);
        }
    } else if variant("chunks of keys") {
        // A chunk has a multiple of 64 keys, and there are at most 10.
        let chunk = ((k.len(0) + 639) / 640 * 64).max(64);
        let chunks = (k.len(0) + chunk - 1) / chunk;
        let mut parts = temp((chunks, q.len(0), 1, width));
        let mut largest = temp((chunks, q.len(0), 1));
        let mut totals = temp((chunks, q.len(0), 1));
        attention_parts::<Causal>(&q, &k, &v, &mut parts, &mut largest, &mut totals, chunk, scalar(0));
        join_attention::<Causal>(&parts, &largest, &totals, &mut output, k.len(0), chunk, scalar(0));
    } else {
        attention::<Causal>(&q, &k, &v, &mut output, scalar(0));
    }
}

girih::challenge! {
    Challenge::new(
        "casual_attention",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[M, d], const float* V[M, d], float* output[M, d], int M, int d)",
    )
    .input("Q", uniform(-100.0, 100.0))
    .input("K", uniform(-100.0, 100.0))
    .input("V", uniform(-100.0, 100.0))
    .output_rows_within("output", |x, i| {
        let d = x.len("d");
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", j * d + e)).sum::<f64>();
        reference_within(0..=i, |j| product(j) / (d as f64).sqrt(), (d, 100.0), d, |j, e| x.at("V", j * d + e))
    })
    .tolerance(1e-5, 1e-5)
    .rounding(|s| rounding(s.size("d"), 100.0, 100.0))
    .check_at(["M=0 d=8", "M=1 d=1", "M=67 d=20"])
    .perf_at("M=5000, d=128")
    .flops(|s| 2.0 * s.size("M") * (s.size("M") + 1.0) * s.size("d"))
}

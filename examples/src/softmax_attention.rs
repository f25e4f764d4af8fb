//! Attention of one head with few queries: the keys are cut into chunks, so that enough blocks share the work.

use super::attention::{AllKeys, attention, attention_parts, attention_parts_units, join_attention, reference};
use super::attention_planes::attention_by_chunks_of_planes;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let width = q.len(1);
    let (q, k, v) = (q.chunked(1, width), k.chunked(1, width), v.chunked(1, width));
    let mut output = output.chunked(1, width);
    if q.len(2) <= 128 && variant("planes") {
        attention_by_chunks_of_planes(&q, &k, &v, &mut output);
    } else if variant("chunks of keys") {
        // A chunk has a multiple of 64 keys, and there are at most 16.
        let chunk = ((k.len(0) + 1023) / 1024 * 64).max(64);
        let chunks = (k.len(0) + chunk - 1) / chunk;
        let mut parts = temp((chunks, q.len(0), 1, width));
        let mut largest = temp((chunks, q.len(0), 1));
        let mut totals = temp((chunks, q.len(0), 1));
        if variant("matrix units") {
            attention_parts_units(&q, &k, &v, &mut parts, &mut largest, &mut totals, chunk);
        } else {
            attention_parts::<AllKeys>(&q, &k, &v, &mut parts, &mut largest, &mut totals, chunk, scalar(0));
        }
        join_attention::<AllKeys>(&parts, &largest, &totals, &mut output, k.len(0), chunk, scalar(0));
    } else {
        attention::<AllKeys>(&q, &k, &v, &mut output, scalar(0));
    }
}

girih::challenge! {
    Challenge::new(
        "softmax_attention",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[N, d], const float* V[N, d], float* output[M, d], int M, int N, int d)",
    )
    .input("Q", uniform(-0.1, 0.1))
    .input("K", uniform(-0.1, 0.1))
    .input("V", uniform(-0.1, 0.1))
    .output_rows("output", |x, i| {
        let (keys, d) = (x.len("N"), x.len("d"));
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", j * d + e)).sum::<f64>();
        reference(0..keys, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", j * d + e))
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["M=0 N=3 d=4", "M=1 N=1 d=1", "M=17 N=70 d=20", "M=5 N=33 d=36"])
    .perf_at("M=512, N=256, d=128")
    .flops(|s| 4.0 * s.size("M") * s.size("N") * s.size("d"))
}

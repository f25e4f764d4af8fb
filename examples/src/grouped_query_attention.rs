//! Attention in which several heads of queries share one head of keys and values.

use super::attention::{AllKeys, attention, reference};
use super::attention_planes::attention_by_planes;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, output: &mut Tensor<f32, 3>) {
    let (q, k, v) = (q.permuted([1, 0, 2]), k.permuted([1, 0, 2]), v.permuted([1, 0, 2]));
    let mut output = output.permuted([1, 0, 2]);
    if q.len(2) > 128 || variant("multiply-adds") {
        attention::<AllKeys>(&q, &k, &v, &mut output, scalar(0));
    } else {
        attention_by_planes(&q, &k, &v, &mut output);
    }
}

girih::challenge! {
    Challenge::new(
        "grouped_query_attention",
        solve::Program::def,
        "void solve(const float* Q[num_q_heads, seq_len, head_dim], const float* K[num_kv_heads, seq_len, head_dim], \
         const float* V[num_kv_heads, seq_len, head_dim], float* output[num_q_heads, seq_len, head_dim], \
         int num_q_heads, int num_kv_heads, int seq_len, int head_dim)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K", normal(0.0, 1.0))
    .input("V", normal(0.0, 1.0))
    .output_rows("output", |x, r| {
        let (rows, d) = (x.len("seq_len"), x.len("head_dim"));
        let first = r / rows / (x.len("num_q_heads") / x.len("num_kv_heads")) * rows;
        let product = |j: usize| (0..d).map(|e| x.at("Q", r * d + e) * x.at("K", (first + j) * d + e)).sum::<f64>();
        reference(0..rows, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", (first + j) * d + e))
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["num_q_heads=2 num_kv_heads=1 seq_len=0 head_dim=4", "num_q_heads=1 num_kv_heads=1 seq_len=1 head_dim=1", "num_q_heads=4 num_kv_heads=2 seq_len=3 head_dim=20", "num_q_heads=1 num_kv_heads=1 seq_len=34 head_dim=32"])
    .perf_at("num_q_heads=32, num_kv_heads=8, seq_len=1024, head_dim=128")
    .flops(|s| 4.0 * s.size("num_q_heads") * s.size("seq_len").powi(2) * s.size("head_dim"))
}

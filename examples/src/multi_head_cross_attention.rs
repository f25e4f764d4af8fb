//! Attention of some rows to other ones, of several heads side by side.

use super::attention::{AllKeys, attention, reference};
use super::attention_planes::attention_by_planes;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, output: &mut Tensor<f32, 3>) {
    if q.len(2) > 128 || variant("multiply-adds") {
        attention::<AllKeys>(q, k, v, output, scalar(0));
    } else {
        attention_by_planes(q, k, v, output);
    }
}

girih::challenge! {
    Challenge::new(
        "multi_head_cross_attention",
        solve::Program::def,
        "void solve(const float* Q[M, H, D], const float* K[N, H, D], const float* V[N, H, D], float* output[M, H, D], \
         int M, int N, int H, int D)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K", normal(0.0, 1.0))
    .input("V", normal(0.0, 1.0))
    .output_rows("output", |x, r| {
        let (keys, heads, d) = (x.len("N"), x.len("H"), x.len("D"));
        let row = |j: usize| (j * heads + r % heads) * d;
        let product = |j: usize| (0..d).map(|e| x.at("Q", r * d + e) * x.at("K", row(j) + e)).sum::<f64>();
        reference(0..keys, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", row(j) + e))
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["M=0 N=3 H=2 D=4", "M=1 N=1 H=1 D=1", "M=3 N=20 H=2 D=20", "M=17 N=33 H=1 D=32"])
    .perf_at("M=1024, N=2048, H=16, D=128")
    .flops(|s| 4.0 * s.size("M") * s.size("N") * s.size("H") * s.size("D"))
}

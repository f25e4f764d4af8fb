//! Two sorted vectors become one, by the merge of `girih::algorithms`.

use girih::algorithms::{Ascending, merge};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    merge::<f32, Ascending>(a, b, c);
}

/// Ascending numbers in [−1, 1). A short vector has many equal ones among them.
fn sorted(lens: &[i64], i: usize, seed: u64) -> f64 {
    let h = (i as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let u = (i as f64 + (h >> 40) as f64 / (1u64 << 24) as f64) / lens[0] as f64;
    if lens[0] < 3000 { (u * 16.0).floor() / 8.0 - 1.0 } else { u * 2.0 - 1.0 }
}

girih::challenge! {
    Challenge::new(
        "parallel_merge",
        solve::Program::def,
        "void solve(const float* A[M], const float* B[N], float* C[M + N], int M, int N)",
    )
    .input("A", formula(|lens, i| sorted(lens, i, 1)))
    .input("B", formula(|lens, i| sorted(lens, i, 77)))
    .output_all("C", |x| {
        let (m, n) = (x.len("M"), x.len("N"));
        let (mut i, mut j) = (0, 0);
        (0..m + n)
            .map(|_| {
                if j == n || (i < m && x.at("A", i) <= x.at("B", j)) {
                    i += 1;
                    x.at("A", i - 1)
                } else {
                    j += 1;
                    x.at("B", j - 1)
                }
            })
            .collect()
    })
    .check_at(["M=0, N=0", "M=0, N=5", "M=7, N=0", "M=1, N=1", "M=3839, N=1", "M=1920, N=1921", "M=4099, N=20_011", "M=50_000, N=33", "M=9001, N=2500"])
    .perf_at("M=25_000_000, N=25_000_000")
    .flops(|s| s.size("M") + s.size("N"))
}

//! The k largest of a vector, in descending order, by the selection of `girih::algorithms`.

use girih::algorithms::top_k;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    top_k::<f32>(input, output);
}

girih::challenge! {
    Challenge::new("top_k_selection", solve::Program::def, "void solve(const float* input[N], float* output[k], int N, int k)")
        .input("input", formula(|lens, i| element(lens[0], i)))
        .output_all("output", |x| {
            let mut all: Vec<f64> = (0..x.len("N")).map(|i| x.at("input", i)).collect();
            all.sort_by(|a, b| b.total_cmp(a));
            all.truncate(x.len("k"));
            all
        })
        .tolerance(1e-5, 1e-5)
        .check_at([
            "N=1 k=1",
            "N=0 k=0",
            "N=31 k=31",
            "N=1009 k=5",
            "N=9001 k=129",
            "N=8191 k=1024",
            "N=5003 k=1000",
            "N=9001 k=1025",
            "N=4096 k=1500",
        ])
        .perf_at("N=50_000_000, k=100")
}

/// Between -1e6 and 1e6. One length has few different numbers, one ascends.
fn element(n: i64, i: usize) -> f64 {
    let h = (i as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    match n {
        5_003 | 4_096 => (h >> 61) as f64 - 3.0,
        8_191 => i as f64 - 4000.0,
        _ => ((h >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * 1e6,
    }
}

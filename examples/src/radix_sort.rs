//! Unsigned 32-bit integers in ascending order, by the sort of `girih::algorithms`.

use girih::algorithms::{Ascending, sort};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<u32, 1>, output: &mut Tensor<u32, 1>) {
    sort::<u32, Ascending>(input, output);
}

/// All bits at random; short vectors have many equal numbers and all large ones, long ones the odd run of equal digits.
fn key(lens: &[i64], i: usize) -> f64 {
    let h = (i as u64 + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
    match lens[0] {
        8_193 => (u32::MAX as u64 - h % 300) as f64,
        20_011 => (h & 0xff00_0003) as f64,
        _ => h as f64,
    }
}

girih::challenge! {
    Challenge::new("radix_sort", solve::Program::def, "void solve(const unsigned int* input[N], unsigned int* output[N], int N)")
        .input("input", formula(key))
        .output_all("output", |x| {
            let mut all: Vec<u32> = (0..x.len("N")).map(|i| x.at("input", i) as u32).collect();
            all.sort();
            all.into_iter().map(f64::from).collect()
        })
        .check_at(["N=0", "N=1", "N=2", "N=31", "N=8191", "N=8193", "N=20_011", "N=50_021"])
        .perf_at("N=50_000_000")
}

//! The inclusive prefix sum of an array, in two launches or in one pass.
//!
//! The first of two launches sums every chunk. In the second every block adds up the sums of the chunks before its own (a few hundred numbers, from
//! the cache) instead of waiting for a launch that scans them, and scans its chunk from there. Long arrays are read once, by the
//! scan of `girih::algorithms`.

use girih::algorithms::{Inclusive, Sum, scan};
use girih::prelude::*;

/// Elements of which the chunks' sums are few enough for every block to add up.
const SHORT: i64 = 4 << 20;

/// The sum of each chunk.
#[kernel(tile(T = 2048), coarsen(C of T = [2, 4, 8, 16]), vector(V = [1, 2, 4]))]
pub fn chunk_sums(x: &Tensor<f32, 1>, sums: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        sums.scatter(t.number(), x.load(t).sum());
    }
}

/// The prefix sums of each chunk, on top of all chunks before it.
#[kernel(tile(T = 2048, S = [128, 256]), coarsen(C of T = [2, 4, 8, 16]), vector(V = [1, 2, 4]))]
pub fn scan_chunks(x: &Tensor<f32, 1>, sums: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut before = zeros::<f32>([S]);
        for s in sums.axis(0).tiles(S) {
            before += select(s.coords() < t.number(), sums.load(s), 0.0);
        }
        y.store(t, x.load(t).scan_sum(0) + before.sum());
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    if x.len(0) <= SHORT && variant("two launches") {
        let mut sums = temp([(x.len(0) + 2047) / 2048]);
        chunk_sums(x, &mut sums);
        scan_chunks(x, &sums, y);
    } else {
        scan::<f32, Sum, Inclusive>(x, y);
    }
}

girih::challenge! {
    Challenge::new("prefix_sum", solve::Program::def, "void solve(const float* input[N], float* output[N], int N)")
        .input("input", uniform(-100.0, 100.0))
        .output_all("output", |x| {
            let mut sum = 0.0;
            (0..x.len("N"))
                .map(|i| {
                    sum += x.at("input", i);
                    sum
                })
                .collect()
        })
        .tolerance(1e-2, 1e-2)
        // The judge's lengths are held to its tolerance alone.
        .rounding(|s| if s.size("N") > SHORT as f64 { girih::challenge::sum_rounding(s.size("N"), 100.0 / 3f64.sqrt()) } else { 0.0 })
        .check_at(["N=0", "N=1", "N=31", "N=2047", "N=2048", "N=2049", "N=6151", "N=20_011"])
        .perf_at("N=250_000")
        .flops(|s| s.size("N"))
}

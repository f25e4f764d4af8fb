//! The positive elements of a vector, in their order; zeros behind them.
//!
//! One pass of `girih::algorithms`, whose tiles are twice as long here as `keep_if` has them, and a launch that writes the zeros: the output may
//! arrive with anything in it.

use girih::algorithms::{Keep, Positive, keep_tile, last_total};
use girih::prelude::*;

/// Elements of a thread, and of its block.
const EACH: usize = 16;
const TILE: i64 = 512 * EACH as i64;

/// out = the positive elements of x.
#[kernel(tile(T = 8192), coarsen(C of T = 16), min_blocks(Q = [2, 1, 3]), cache(H = [Default, Loads, Streaming]))]
pub fn compact(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, states: &mut Tensor<u64, 1>) {
    for t in x.tiles([T]).in_order() {
        keep_tile(x, out, states, t.number(), EACH, |v, _| Positive::keep(v));
    }
}

/// Zeros behind the elements that were kept; the last tile's word has their number.
#[kernel(tile(T = [4096, 1024, 2048, 8192]), coarsen(C of T = [4, 8, 16]), vector(V = [4, 2, 1]))]
pub fn clear_rest(states: &Tensor<u64, 1>, out: &mut Tensor<f32, 1>) {
    // A launch without a tile is refused.
    let _first = states.slice(0, 0, 1);
    for t in out.tiles([T]) {
        let kept = last_total::<i32>(states).cast::<i64>();
        if t.start() >= kept {
            out.store(t, zeros::<f32>([T]));
        } else if t.end() > kept {
            out.store(t, select(t.coords() < kept, out.load(t), 0.0));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    if a.len(0) > 0 {
        let mut states = temp_filled([(a.len(0) + (TILE - 1)) / TILE], 0u64);
        compact(a, out, &mut states);
        clear_rest(&states, out);
    }
}

girih::challenge! {
    Challenge::new("stream_compaction", solve::Program::def, "void solve(const float* A[N], int N, float* out[N])")
        .input("A", uniform(-1.0, 1.0))
        .output_all("out", |x| {
            let n = x.len("N");
            let mut out: Vec<f64> = (0..n).map(|i| x.at("A", i)).filter(|&v| v > 0.0).collect();
            out.resize(n, 0.0);
            out
        })
        .check_at(["N=0", "N=1", "N=31", "N=8191", "N=8193", "N=20_011", "N=300_007"])
        .perf_at("N=50_000_000")
        .flops(|s| s.size("N"))
}

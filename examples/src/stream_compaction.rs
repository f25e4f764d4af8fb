//! The positive elements of a vector, in their order; zeros behind them.
//!
//! One pass with decoupled look-back: a block takes the next tile, counts its own elements, and looks back at the counts that the tiles before
//! it have left. Kept elements meet in shared memory and leave as whole rows. A second launch writes the zeros: the output may arrive with anything in it.

use girih::algorithms::{last_total, look_back};
use girih::prelude::*;

/// Threads of a block.
const THREADS: i32 = 512;
const WARPS: i32 = THREADS / 32;
/// Elements of a thread.
const E: usize = 16;
const TILE: i32 = THREADS * E as i32;

/// out = the positive elements of x. A thread's elements lie a block apart, so that a ballot gives their ranks in a warp.
#[kernel(tile(T = 8192), coarsen(C of T = 16), min_blocks(Q = [2, 1, 3]), cache(H = [Default, Loads, Streaming]))]
pub fn compact(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, states: &mut Tensor<u64, 1>) {
    for t in x.tiles([T]).in_order() {
        let me = t.number().cast::<i32>();
        let (thread, lane, warp) = (threads(THREADS), lanes(THREADS), warps(THREADS));
        let mine = thread + me * TILE;
        let v: [Tile<f32>; E] = std::array::from_fn(|e| x.gather(mine + e as i32 * THREADS));
        let mask: [Tile<u32>; E] = std::array::from_fn(|e| (v[e] > 0.0).ballot());
        let mut found = shared_uninit::<i32>([WARPS * E as i32]).by_hand();
        if lane == 0 {
            for e in 0..E {
                found.scatter(warp + e as i32 * WARPS, mask[e].count_ones().cast::<i32>());
            }
        }
        barrier();
        let each = found.load(..);
        let ranks = each.scan_sum(along(0).exclusive());
        let count = ranks.total();
        barrier();
        found.store(.., ranks);
        let before = look_back(states, t.number(), count, 0, |a, b| a + b);

        // Kept elements lie side by side, then leave in their order.
        let mut kept = shared_uninit::<f32>([TILE]).by_hand();
        barrier();
        let below = (full::<u32>([THREADS], 1) << lane.cast::<u32>()) - 1;
        for e in 0..E {
            let slot = found.gather(warp + e as i32 * WARPS) + (mask[e] & below).count_ones().cast::<i32>();
            if v[e] > 0.0 {
                kept.scatter(slot, v[e]);
            }
        }
        barrier();
        for e in 0..E {
            let k = thread + e as i32 * THREADS;
            if k < count {
                out.scatter(k + before, kept.gather(k));
            }
        }
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
        let mut states = temp_filled([(a.len(0) + (TILE as i64 - 1)) / TILE as i64], 0u64);
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

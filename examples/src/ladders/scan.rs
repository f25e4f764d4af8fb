//! The prefix sums of a vector: how blocks learn what lies before them.

use girih::prelude::*;

/// Elements of a chunk.
const CHUNK: i64 = 2048;

/// y = the prefix sums of every row, by one block a row that walks along it.
#[kernel(tile(R = 1, T = [1024, 512]))]
pub fn scan_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in y.axis(0).tiles(R) {
        let mut before = zeros::<f32>([R]);
        for t in y.axis(1).tiles(T) {
            let own = x.load((r, t)).scan_sum(1);
            y.store((r, t), own + before.expand(1, T));
            before += own.total_axis(1);
        }
    }
}

/// y = the prefix sums, in one launch: a block takes a number, sums up its chunk, and waits for what the one before leaves.
///
/// A chunk's word has bit 63 where the sum up to its end is there, and below it the sum.
#[kernel(tile(B = 1, T = 2048), coarsen(C of T = [4, 8, 16]))]
pub fn scan_by_look_back(x: &Tensor<f32, 1>, ticket: &mut Tensor<u32, 1>, states: &mut Tensor<u64, 1>, y: &mut Tensor<f32, 1>) {
    for _chunk in states.tiles([B]) {
        let me = ticket.fetch_add_at(0, 1).cast::<i64>();
        let at = iota::<i64>(T) + me * CHUNK;
        let own = x.gather(at).or(0.0).scan_sum(0);
        let mut state = scalar::<u64>(0);
        if me > 0 {
            while (state >> 63) == 0 {
                state = states.ordered(Scope::Device, MemoryOrder::Acquire).fetch_at(me - 1);
            }
        }
        let before = state.cast::<u32>().bitcast::<f32>();
        let word = (before + own.total()).bitcast::<u32>().cast::<u64>() | (1u64 << 63);
        states.ordered(Scope::Device, MemoryOrder::Release).atomic_set(me, word);
        y.scatter(at, own + before);
    }
}

/// One block for the whole vector.
pub mod one_block {
    use super::scan_rows;
    use girih::prelude::*;

    /// What the lowest rung runs.
    #[program]
    pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let length = x.len(0).max(1);
        scan_rows(&x.chunked(0, length), &mut y.chunked(0, length));
    }
}

/// Blocks that wait for each other.
pub mod look_back {
    use super::scan_by_look_back;
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let chunks = (x.len(0) + 2047) / 2048;
        let mut ticket = temp_filled([1], 0u32);
        let mut states = temp_filled([chunks], 0u64);
        scan_by_look_back(x, &mut ticket, &mut states, y);
    }
}

girih::ladder! {
    Ladder::new("scan", "The prefix sums of a vector", "prefix_sum")
        .rung_of(one_block::solve::Program::def, "One block walks along the vector", "T=1024")
        .rung("Two launches: sums of chunks, then each chunk on top of those before it", "chunk_sums: C=2; scan_chunks: C=2,S=256")
        .rung("Wider accesses, more elements a thread", "chunk_sums: C=4,V=4; scan_chunks: S=128,C=4,V=4")
        .rung_of(look_back::solve::Program::def, "One launch: each block looks back at the one before", "C=4")
        .found("A block that waits for the one before it waits for all of them: 122 blocks make a chain of 0.7 us each, and the model knows no chains.")
        .rung(
            "A warp looks at 32 blocks at once, and adds up what they have of their own (decoupled look-back)",
            "two launches=no; scan_in_order: T=4096,C=32,V=4,Q=2",
        )
}

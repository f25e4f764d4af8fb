//! How many elements of a matrix equal a given one: who counts, and how many additions meet in one place.

use girih::prelude::*;

/// count += how many elements of x equal k: a thread walks along a row, and adds one for each that does.
#[kernel(tile(T = [64, 128, 256]))]
pub fn count_by_rows(x: &Tensor<i32, 2>, count: &mut Tensor<i32, 1>, k: Scalar<i32>) {
    for r in x.axis(0).tiles(T) {
        for c in x.axis(1).tiles(1) {
            if x.load((r, c)).sum_axis(1) == k {
                count.atomic_add(full::<i32>([T], 0), full::<i32>([T], 1));
            }
        }
    }
}

/// count += how many elements of x equal k: a thread has one element, and the first lane of a warp adds what its lanes have found.
#[kernel(tile(T = [256, 512, 1024]))]
pub fn count_by_warps(x: &Tensor<i32, 1>, count: &mut Tensor<i32, 1>, k: Scalar<i32>) {
    for t in x.tiles([T]) {
        let found = (x.load(t) == k).ballot().count_ones().cast::<i32>();
        if iota::<i32>(T) & 31 == 0 {
            count.atomic_add(full::<i32>([T], 0), found);
        }
    }
}

/// Rows of threads.
pub mod by_rows {
    use super::count_by_rows;
    use girih::prelude::*;

    /// What the lowest rung runs.
    #[program]
    pub fn solve(input: &Tensor<i32, 2>, output: &mut Tensor<i32, 1>, k: Scalar<i32>) {
        output.fill(0);
        count_by_rows(input, output, k);
    }
}

/// Votes of warps.
pub mod by_warps {
    use super::count_by_warps;
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(input: &Tensor<i32, 2>, output: &mut Tensor<i32, 1>, k: Scalar<i32>) {
        output.fill(0);
        count_by_warps(&input.flat(), output, k);
    }
}

girih::ladder! {
    Ladder::new("count", "How many elements equal a given one", "count_2d_array_element")
        .rung_of(by_rows::solve::Program::def, "A thread for each row, an atomic addition for each element that is equal", "T=64")
        .found("Threads walk along rows, and a sector that one of them has loaded is found in the cache by its next turns; the model loads it again.")
        .rung_of(by_warps::solve::Program::def, "A thread for each element, whose warp votes: an atomic addition a warp", "T=256")
        .found("Three million warps add to one word, and the L2 takes one addition after the other, 0.8 ns each; the model lets them run beside each other.")
        .rung("Blocks that stay and add up four elements a thread: an atomic addition a block", "T=2048,C=4,V=1,G=4,F=Atomics")
        .rung("Sixteen elements a thread, 16 bytes an access", "T=8192,C=16,V=4,G=2,F=Atomics")
        .rung("The last block adds up what all have left", "T=8192,C=16,V=4,G=2,F=LastBlock")
}

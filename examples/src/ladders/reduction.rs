//! The sum of a vector: who adds to what, and how often they meet.

use girih::prelude::*;

/// total += x: a thread adds up its share, and adds that to the total.
#[kernel(tile(T = [256, 512, 1024]), grid(G = [1, 2, 4, 8]))]
pub fn sum_by_threads(x: &Tensor<f32, 1>, total: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    total.atomic_add(full::<i32>([T], 0), acc);
}

/// total += x: a block adds up 256 elements in a tree in shared memory.
#[kernel(tile(T = [256]))]
pub fn sum_by_trees(x: &Tensor<f32, 1>, total: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let mut own = shared::<f32>([T], 0.0);
        own.store(.., x.load(t));
        for half in [128, 64, 32, 16, 8, 4, 2, 1] {
            let i = iota::<i32>(T);
            let (mine, other) = (own.gather(i), own.gather(i + half));
            if i < half {
                own.scatter(i, mine + other);
            }
        }
        total.atomic_add(0, own.at(0));
    }
}

/// total = the sum of x: all blocks run at the same time, meet once, and the first one adds up what each has left (a cooperative launch).
/// There are no more blocks than the device holds.
#[kernel(tile(T = [32768]), coarsen(C of T = [32]), vector(V = [4]))]
pub fn sum_in_a_meeting(x: &Tensor<f32, 1>, parts: &mut Tensor<f32, 1>, total: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        parts.scatter(t.number(), x.load(t).sum());
        grid_barrier();
        if t.number() == 0 {
            total.scatter(0, parts.gather(iota::<i32>(1024)).or(0.0).sum());
        }
    }
}

/// An atomic addition for each thread.
pub mod by_threads {
    use super::sum_by_threads;
    use girih::prelude::*;

    /// What the lowest rung runs.
    #[program]
    pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
        output.fill(0.0);
        sum_by_threads(input, output);
    }
}

/// An atomic addition for each block.
pub mod by_trees {
    use super::sum_by_trees;
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
        output.fill(0.0);
        sum_by_trees(input, output);
    }
}

/// One cooperative launch.
pub mod by_meeting {
    use super::sum_in_a_meeting;
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
        output.fill(0.0);
        let mut parts = temp([input.len(0) / 32768 + 1]);
        sum_in_a_meeting(input, &mut parts, output);
    }
}

girih::ladder! {
    Ladder::new("reduction", "The sum of a vector", "reduction")
        .rung_of(by_threads::solve::Program::def, "Every thread adds its share to the total", "T=256,G=8")
        .found("135 168 threads add to one word, and the L2 takes one addition after the other; the model lets them run beside each other.")
        .rung_of(by_trees::solve::Program::def, "A tree in shared memory, one atomic addition a block", "")
        .slower("Few atomics, but every element now takes eight steps with a barrier each: the price of a tree that spans the whole block.")
        .rung("Shuffles instead of the tree, blocks that stay", "T=512,G=4,F=Atomics")
        .rung("Eight elements a thread, 16 bytes an access", "T=4096,C=8,V=4,G=2,F=Atomics")
        .rung_of(by_meeting::solve::Program::def, "A cooperative launch: all blocks meet, then the first adds up what they have left", "T=32768,C=32,V=4")
        .found("A cooperative launch and the meeting of its 128 blocks take some 4 us on an H200, which the model does not add.")
        .rung("Two stages: a second launch adds up what the blocks leave", "T=4096,C=8,V=4,G=2,F=SecondLaunch")
        .slower("A launch costs more than a meeting of all blocks; in exchange there may be more blocks than the device holds at once.")
        .rung("One launch: the last block does that", "T=4096,C=8,V=4,G=2,F=LastBlock")
        .rung("A block for each tile: all loads are on their way at once", "T=4096,C=8,V=2,G=0,H=Loads,F=LastBlock")
        .slower("Twice as many instructions for the same bytes: on a GPU that waits for memory they cost nothing, and no block waits for a second tile.")
}

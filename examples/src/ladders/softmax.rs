//! The softmax of one long vector: how often it is read, by how many blocks, and in how many launches.

use girih::prelude::*;

/// y = e^(x − largest) / sum of every row, by one block a row.
#[kernel(tile(R = 1, C = [1024, 512, 256]))]
pub fn softmax_by_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in y.axis(0).tiles(R) {
        let mut most = full([R, C], f32::MIN);
        for c in x.axis(1).tiles(C) {
            most = most.max(x.load((r, c)));
        }
        let largest = most.max_axis(1);
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            sum += (x.load((r, c)) - largest.expand(1, C)).exp_approx();
        }
        let scale = 1.0 / sum.sum_axis(1);
        for c in x.axis(1).tiles(C) {
            y.store((r, c), (x.load((r, c)) - largest.expand(1, C)).exp_approx() * scale.expand(1, C));
        }
    }
}

/// largest = the largest element of x.
#[kernel(
    tile(T = [512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 4, 8]),
    vector(V = [1, 4]),
    grid(G = [4, 2, 1]),
    finish(F = [LastBlock, Atomics])
)]
pub fn largest_of(x: &Tensor<f32, 1>, largest: &mut Tensor<f32, 1>) {
    let mut most = full([T], f32::MIN);
    for t in x.tiles([T]).strided() {
        most = most.max(x.load(t));
    }
    largest.store_at(0, most.max_all().max_grid());
}

/// sum = the sum of e^(x − largest).
#[kernel(
    tile(T = [512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 4, 8]),
    vector(V = [1, 4]),
    grid(G = [4, 2, 1]),
    finish(F = [LastBlock, Atomics])
)]
pub fn sum_of_powers(x: &Tensor<f32, 1>, largest: &Tensor<f32, 1>, sum: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += (x.load(t) - largest.at(0)).exp_approx();
    }
    sum.store_at(0, acc.sum().sum_grid());
}

/// y = e^(x − largest) / sum.
#[kernel(tile(T = [512, 1024, 2048, 4096]), coarsen(C of T = [1, 4, 8]), vector(V = [1, 4]))]
pub fn divided(x: &Tensor<f32, 1>, largest: &Tensor<f32, 1>, sum: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, (x.load(t) - largest.at(0)).exp_approx() * (1.0 / sum.at(0)));
    }
}

/// One block for the whole vector.
pub mod one_block {
    use super::softmax_by_rows;
    use girih::prelude::*;

    /// What the lowest rung runs.
    #[program]
    pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
        let length = input.len(0).max(1);
        softmax_by_rows(&input.chunked(0, length), &mut output.chunked(0, length));
    }
}

/// A launch for each step.
pub mod three_launches {
    use super::{divided, largest_of, sum_of_powers};
    use girih::prelude::*;

    /// A rung's program.
    #[program]
    pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
        let (mut largest, mut sum) = (temp([1]), temp([1]));
        largest_of(input, &mut largest);
        sum_of_powers(input, &largest, &mut sum);
        divided(input, &largest, &sum, output);
    }
}

girih::ladder! {
    Ladder::new("softmax", "The softmax of one long vector", "softmax")
        .rung_of(one_block::solve::Program::def, "One launch of one block", "C=1024")
        .rung_of(
            three_launches::solve::Program::def,
            "Three launches: the largest element, the sum, the quotients, each by all multiprocessors",
            "",
        )
        .rung_of(
            three_launches::solve::Program::def,
            "No last block: each brings what it has to the total by an atomic, the largest float as the largest of unsigned numbers",
            "largest_of: F=Atomics; sum_of_powers: F=Atomics",
        )
        .found("Totals to which blocks add must be there before, and are read back as floats behind: two launches more, of which the model has next to nothing.")
        .rung("Two: the largest element and the sum in one pass (online)", "chunks=no; softmax_statistics: T=1024,G=4; softmax_normalise: T=1024")
        .rung(
            "Eight elements a thread, 16 bytes an access",
            "chunks=no; softmax_statistics: T=2048,C=8,V=4,G=4; softmax_normalise: T=1024,C=4,V=4",
        )
        .rung(
            "No meeting of blocks: chunks leave what they have, and whoever needs all of them joins them",
            "chunks=yes; softmax_chunks: T=4096,C=8,V=4; softmax_join: T=4096,P=256,C=16,V=4",
        )
}

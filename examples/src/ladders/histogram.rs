//! A histogram: where its counters lie.

use girih::algorithms::{Value, histogram_global};
use girih::prelude::*;

/// What the lowest rung runs.
#[program]
pub fn solve(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    bins.fill(0);
    histogram_global::<i32, Value>(x, bins);
}

girih::ladder! {
    Ladder::new("histogram", "A histogram of 256 bins", "histogramming")
        .rung_of(solve::Program::def, "Counters in global memory", "T=1024,C=1,V=1")
        .found("50 million additions meet in 256 words of the L2, one after the other in each; the model lets them run beside each other.")
        .rung("Counters of each block in shared memory, added up at its end", "histogram_256: T=4096,C=4,V=1,G=4,K=1")
        .rung("Copies of them, so that lanes that meet in a bin do not wait for each other", "histogram_256: T=4096,C=4,V=1,G=4,K=8")
        .rung("16 bytes an access, the next ones loaded ahead", "histogram_256: T=8192,C=8,V=4,G=2,S=2,K=8,H=Streaming")
}

//! Dots: every schedule computes what `eval` computes; what the generated code does, counted; what is refused.

pub mod chained {
    //! Dots whose results the body goes on with.
    pub mod kernels;
}
pub mod sliced {
    //! Sums that slices of a block share.
    pub mod kernels;
}
pub mod spanned {
    //! Sums over some positions of their axis.
    pub mod kernels;
}
pub mod turns {
    //! Loops that do more than add up dots.
    pub mod kernels;
}
mod blocks;
mod flat;
pub mod kernels;
mod levels;
mod numerics;
mod precision;
mod slices;
mod splits;
mod traffic;

use super::differential::compare;
use super::rungs::all_kernels;

#[test]
fn every_schedule_of_dots_computes_what_eval_computes() {
    let chosen = super::differential::chosen();
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.path.contains("dots::")).collect();
    assert!(kernels.len() >= 12, "{} kernels with dots", kernels.len());
    compare(&kernels.into_iter().filter(|k| chosen.iter().any(|c| c.path == k.path)).collect::<Vec<_>>());
}

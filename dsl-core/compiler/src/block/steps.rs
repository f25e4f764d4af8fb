//! The steps of a combination, and their order.

use girih_ir::layout::{Digit, Layout, Source};

/// One step of a combination, the least significant part of the reduced axes first.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A digit in the registers of each thread.
    Registers { axis: usize, digit: Digit },
    /// Lanes `distance` apart, a power of two of them.
    Lanes { distance: i64, extent: i64 },
    /// Threads that meet through shared memory: (stride, extent) in the thread index, the least significant first.
    Threads(Vec<(i64, i64)>),
}

/// The steps of a reduction over `axes`, in the order in which they are taken.
pub(crate) fn steps(layout: &Layout, axes: &[usize], commutative: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    for axis in sorted.into_iter().rev() {
        for digit in &layout.axes[axis] {
            match digit.source {
                Source::Register => steps.push(Step::Registers { axis, digit: *digit }),
                Source::Thread => {
                    let lanes = lanes_of(digit);
                    if lanes > 1 {
                        steps.push(Step::Lanes { distance: digit.stride, extent: lanes });
                    }
                    if digit.extent > lanes {
                        steps.push(Step::Threads(vec![(digit.stride * lanes, digit.extent / lanes)]));
                    }
                }
            }
        }
    }
    if commutative {
        let rank = |s: &Step| match s {
            Step::Registers { .. } => 0,
            Step::Lanes { .. } => 1,
            Step::Threads(_) => 2,
        };
        steps.sort_by_key(rank);
    }
    // Neighbouring steps through shared memory share its barrier.
    let mut merged: Vec<Step> = Vec::new();
    for step in steps {
        match (merged.last_mut(), step) {
            (Some(Step::Threads(before)), Step::Threads(more)) => before.extend(more),
            (_, step) => merged.push(step),
        }
    }
    merged
}

/// How many values of a thread digit lie in one warp, a power of two apart and a power of two of them.
fn lanes_of(digit: &Digit) -> i64 {
    if !(digit.stride as u64).is_power_of_two() {
        return 1;
    }
    let mut lanes = 1;
    while digit.stride * lanes * 2 <= 32 && digit.extent % (lanes * 2) == 0 {
        lanes *= 2;
    }
    lanes
}

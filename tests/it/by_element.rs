//! A `while` that each element leaves by itself: a thread, or a warp, goes on alone.

use super::differential::compare;
use super::language::{mistakes_in, says};
use super::launches::best_facts;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Of each number how many steps of Collatz's it takes to 1, sixty at most.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 4]))]
pub fn steps_to_one(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let mut n = x.load(t);
        let mut steps = n.like(0);
        while n > 1 && steps < 60 {
            n = if (n & 1) == 0 { n >> 1 } else { n * 3 + 1 };
            steps += 1;
        }
        y.store(t, steps);
    }
}

/// The same of one element, as a function.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2]))]
pub fn mapped_steps(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let steps = x.load(t).map(|x| {
            let mut n = x;
            let mut steps = x >> 31;
            while n > 1 && steps < 60 {
                n = if (n & 1) == 0 { n >> 1 } else { n * 3 + 1 };
                steps += 1;
            }
            steps
        });
        y.store(t, steps);
    }
}

/// Where each number of `x` would stand in `sorted`, which is walked by jumps that fall to one.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2]))]
pub fn walked_from(x: &Tensor<i32, 1>, next: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let n = next.len(0).cast::<i32>();
        let mut at = x.load(t) & 63;
        let mut sum = at.like(0);
        while at < n && sum < 40 {
            let v = next.gather(at);
            sum += (v & 7) + 1;
            at += (v & 3) + 1;
        }
        y.store(t, sum * 100 + at);
    }
}

/// The largest power of two up to each row's number: the lanes of a warp try 32 at a time.
#[kernel(tile(P = [2, 8], L = 32))]
pub fn tried_by_lanes(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for p in x.tiles([P]) {
        let lane = lanes(L).expand(0, P);
        let most = (x.load(p).or(0) & 1023).expand(1, L);
        let mut low = full::<i32>([P, L], 0);
        let mut high = most;
        while low < high {
            let step = (high - low + 31) / 32;
            let takes = low + lane * step < most;
            let taken = takes.ballot().count_ones().cast::<i32>();
            high = if taken == 0 { low } else { high.min(low + taken * step) };
            low = if taken == 0 { low } else { low + (taken - 1) * step + 1 };
        }
        if lane == 0 {
            y.scatter(p.coords().cast::<i32>().expand(1, L), low);
        }
    }
}

/// Counts of a table that eight elements of a block's many threads raise, as often as each says: all threads hear of the old values.
#[kernel(tile(T = 64))]
pub fn raised_in_turns(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, counts: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let place = iota::<i32>(8);
        let mut left = (place + t.number().cast::<i32>()) & 3;
        let mut raised = full::<i32>([8], 0);
        while left > 0 {
            let old = counts.fetch_add(place, 1).or(0);
            raised += select(old >= 0, 1, 1000);
            left -= 1;
        }
        y.store(t, v + raised.sum());
    }
}

#[device]
fn wrong_turns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let mut summed = v;
        while summed > 1.0 {
            summed -= summed.sum().splat([m, n]);
        }
        let mut stored = v;
        while stored > 1.0 {
            stored -= 1.0;
            y.store((i, j), stored);
        }
        let mut assigned = v;
        while {
            assigned -= 1.0;
            assigned > 1.0
        } {
            assigned -= 2.0;
        }
        let mut turns = scalar::<i32>(0);
        let mut counted = v;
        while counted > 1.0 {
            counted -= 1.0;
            turns += 1;
        }
        y.store((i, j), summed + assigned + counted + turns.cast::<f32>());
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn text(def: KernelDef, schedule: &str) -> String {
    let kernel = built(def);
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    emit(&lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn elements_that_leave_by_themselves_are_what_eval_says() {
    let all = [steps_to_one::Kernel::def(), mapped_steps::Kernel::def(), walked_from::Kernel::def(), tried_by_lanes::Kernel::def()];
    compare(&all.map(built));
    compare(&[built(raised_in_turns::Kernel::def())]);
}

#[test]
fn threads_leave_by_themselves() {
    for (def, schedule) in [(steps_to_one::Kernel::def(), "C=1"), (steps_to_one::Kernel::def(), "C=4"), (walked_from::Kernel::def(), "C=2")]
    {
        let text = text(def, schedule);
        assert!(text.contains("while (") || text.contains("for (;;)"), "{text}");
        assert!(!text.contains("__syncthreads") && !text.contains("_sync("), "{text}");
    }
}

#[test]
fn warps_leave_together_where_lanes_vote() {
    let text = text(tried_by_lanes::Kernel::def(), "P=8");
    assert!(text.contains("__any_sync"), "{text}");
    assert!(!text.contains("__syncthreads"), "{text}");
}

#[test]
fn a_block_leaves_together_where_it_meets() {
    let text = text(raised_in_turns::Kernel::def(), "T=64");
    let turn = text.split("while (true) {").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(turn.contains("__syncthreads"), "{text}");
}

#[test]
fn what_needs_other_elements_is_refused() {
    let text = mistakes_in(include_str!("by_element.rs"), wrong_turns);
    let needs = |what: &str| format!("each element leaves this `while` by itself, and {what} needs the others");
    says(&text, &[&needs("a reduction or scan"), &needs("a store of a tile"), "while open.any()"]);
    says(&text, &["a condition that each element has for itself cannot assign variables"]);
    // A scalar has one value, and elements leave in turns of their own.
    says(&text, &["`turns` changes in a loop that each of [M, N] leaves by itself, and is a scalar i32"]);
}

//! An `if` on a vote: a warp takes a side or passes it.

use super::differential::compare;
use super::evaluator::{Given, ints, kernel};
use super::language::{mistakes_in, says};
use super::launches::best_facts;
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;

/// Counts what is above a bound, and the sum of squares of those lanes whose warp has some: a warp without any goes on at once.
#[kernel(tile(T = [128, 64]))]
pub fn rare(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, found: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t).or(0);
        let above = v > 40;
        let mut squares = full::<i32>([T], 0);
        if above.warp_any() {
            let before = (above.ballot() & ((full::<u32>([T], 1) << lanes(T).cast::<u32>()) - 1)).count_ones();
            squares = v * v + before.cast::<i32>() * 10000;
            if above {
                found.atomic_add(v & 7, 1);
            }
        }
        y.store(t, squares);
    }
}

/// Both sides, a value, and a variable that one of them changes.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2]))]
pub fn both_sides(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, table: &Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t).or(0);
        let mut kept = v;
        let near = if (v > -40).warp_all() {
            kept += 1000;
            table.gather(v & 15).or(-1)
        } else {
            v.shuffle_xor(1) * 3
        };
        y.store(t, near + kept * 2);
    }
}

#[device]
fn wrong_sides(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let mut sum = v;
        if (v > 1.0).warp_any() {
            sum -= v.sum().splat([m, n]);
        }
        if (v > 2.0).warp_any() {
            y.store((i, j), v);
        }
        let mut row = v.sum_axis(1);
        if (v > 3.0).warp_any() {
            row += 1.0;
        }
        y.store((i, j), sum + row.expand(1, n));
    }
}

fn text(def: KernelDef, schedule: &str) -> String {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    emit(&lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}")))
}

#[test]
fn warps_take_or_pass_a_side() {
    let text = text(rare::Kernel::def(), "T=128");
    let (before, inside) = text.split_once("if (vote").or(text.split_once("if (any")).unwrap_or_else(|| panic!("a branch in {text}"));
    assert!(before.contains("__any_sync") && !before.contains("__ballot_sync"), "{text}");
    assert!(inside.contains("__ballot_sync") && inside.contains("atomicAdd"), "{text}");
    assert!(!text.contains("__syncthreads") && !text.contains("while"), "{text}");
}

#[test]
fn sides_of_warps_are_plain_numbers() {
    let x: Vec<i32> = (0..128).map(|i| if i / 32 % 2 == 0 { i % 32 - 20 } else { i * 3 % 97 - 45 }).collect();
    let table: Vec<i32> = (0..16).map(|i| 100 + i).collect();
    let given = [Given::i(x.clone()), Given::i(vec![0; 128]), Given::i(table.clone())];
    let after = ints(&kernel(both_sides::Kernel::def(), &given)[1]);
    for (i, found) in after.into_iter().enumerate() {
        let warp = &x[i / 32 * 32..][..32];
        let all = warp.iter().all(|v| *v > -40);
        let expected = match all {
            true => table[(x[i] & 15) as usize] + (x[i] + 1000) * 2,
            false => x[i ^ 1] * 3 + x[i] * 2,
        };
        assert_eq!(found, expected, "{i}");
    }
}

#[test]
fn sides_of_warps_are_what_eval_says() {
    compare(&[rare::Kernel::def(), both_sides::Kernel::def()].map(|def| (def.build)().unwrap_or_else(|e| panic!("{e}"))));
}

#[test]
fn what_needs_other_warps_is_refused() {
    let wrong = |x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size| wrong_sides(x, y, m, n);
    let text = mistakes_in(include_str!("warp_branches.rs"), wrong);
    let needs = |what: &str| format!("warps take this `if` by themselves, and {what} needs the others");
    says(&text, &[&needs("a reduction or scan"), &needs("a store of a tile"), "if found.any()"]);
    says(&text, &["the sides of an `if` that warps take by themselves give"]);
}

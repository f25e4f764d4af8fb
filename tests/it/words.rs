//! Words that say outright what others say by a detour, and what is left out because nobody asks for it: `or`, `gather_in_bounds`, totals of
//! scans; values that nobody reads; stores to shared arrays that do not meet.

pub mod kernels;

use super::differential::compare;
use super::evaluator::{Given, floats, ints, kernel, try_kernel};
use super::language::{mistakes_in, says};
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::prelude::*;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::simt;
use girih_core::simt::print::print;
use girih_core::target::Target;
use girih_core::tile::eval::{EvalError, EvalOptions};

fn lowered(def: &KernelDef, schedule: &[(&str, i64)]) -> simt::Kernel {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let mut s = Schedule::default_of(&kernel);
    for (name, value) in schedule {
        let at = kernel.knobs.iter().position(|k| k.name == *name).unwrap_or_else(|| panic!("no knob {name}"));
        s.choices[at] = girih_core::schedule::Choice::Int(*value);
    }
    lower(&kernel, &best_facts(&kernel), &s, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

fn count(text: &str, word: &str) -> usize {
    text.lines().filter(|l| !l.trim_start().starts_with("//") && l.contains(word)).count()
}

fn barriers(def: &KernelDef, schedule: &[(&str, i64)]) -> usize {
    print(&lowered(def, schedule)).lines().filter(|l| l.trim().starts_with("barrier")).count()
}

#[test]
fn what_is_absent_is_a_number() {
    let (n, m) = (100, 40);
    let x: Vec<f32> = (0..m).map(|i| i as f32 + 0.5).collect();
    let at: Vec<i32> = (0..n).map(|i| i % 19).collect();
    let given = [Given::i(at.clone()), Given::f(x.clone()), Given::f(vec![0.0; n as usize]), Given::f(vec![0.0; n as usize])];
    let after = kernel(kernels::filled::Kernel::def(), &given);
    let found = |i: usize| usize::try_from(at[i] * 3 - 5).ok().and_then(|p| x.get(p).copied());
    let tiles: Vec<f32> = (0..2).map(|t| (t * 64..(t * 64 + 64).min(n as usize)).map(|i| found(i).unwrap_or(1.0)).sum()).collect();
    for (i, (y, z)) in floats(&after[2]).into_iter().zip(floats(&after[3])).enumerate() {
        assert_eq!(y, found(i).unwrap_or(7.5) + found(i).unwrap_or(0.0) * 2.0, "{i}");
        assert_eq!(z, found(i).map_or(-1.0, |v| v * 2.0) + tiles[i / 64], "{i}");
    }
}

#[test]
fn zero_for_absent_zeros_costs_nothing() {
    // A gather that finds nothing gives zero as it is: its own condition is the only one.
    let cuda = girih_core::cuda::emit(&lowered(&kernels::zeros_for_absent::Kernel::def(), &[("C", 1)]));
    assert_eq!(count(&cuda, " ? "), 1, "{cuda}");
    let cuda = girih_core::cuda::emit(&lowered(&kernels::filled::Kernel::def(), &[("C", 1)]));
    assert!(count(&cuda, " ? ") > 3, "{cuda}");
}

#[test]
fn positions_in_bounds_are_not_compared() {
    let cuda = girih_core::cuda::emit(&lowered(&kernels::taken_as_they_are::Kernel::def(), &[]));
    assert_eq!((count(&cuda, " ? "), count(&cuda, "if ("), count(&cuda, "x_len")), (0, 1, 0), "{cuda}");
    let (x, at) = (vec![1.0, 2.0, 3.0, 4.0], [3, 0, 2, 1]);
    let def = kernels::taken_as_they_are::Kernel::def;
    let given = |at: &[i32]| [Given::i(at.to_vec()), Given::f(x.clone()), Given::f(vec![0.0; at.len()])];
    assert_eq!(floats(&kernel(def(), &given(&at))[2]), [4.0, 1.0, 3.0, 2.0]);
    for wrong in [-1, 4] {
        let error = try_kernel(def(), &given(&[0, wrong]), &EvalOptions::default()).expect_err("out of bounds");
        assert!(matches!(error, EvalError::BeyondAxis { axis: 0, at, len: 4, .. } if at == i64::from(wrong)), "{error}");
    }
}

#[test]
fn positions_in_shared_arrays_are_not_compared_either() {
    let def = kernels::taken_from_shared::Kernel::def;
    let cuda = girih_core::cuda::emit(&lowered(&def(), &[]));
    // The elements' own guards are there, and none for a position.
    assert!(!cuda.contains("128u") && !cuda.contains("< 128"), "{cuda}");
    let given = |at: &[i32]| [Given::i(at.to_vec()), Given::f(vec![5.0, 6.0, 7.0]), Given::f(vec![0.0; at.len()])];
    assert_eq!(floats(&kernel(def(), &given(&[2, 0, 127]))[2]), [7.0, 5.0, 1.0]);
    for wrong in [-1, 128] {
        let error = try_kernel(def(), &given(&[0, wrong, 1]), &EvalOptions::default()).expect_err("out of bounds");
        assert!(matches!(error, EvalError::BeyondAxis { axis: 0, at, len: 128, .. } if at == i64::from(wrong)), "{error}");
    }
    let built = (def().build)().unwrap_or_else(|e| panic!("{e}"));
    let mut launch = Launch::new(&built, &shapes(&built, &[64], 1, 0).pop().expect("a shape"), Placement::Aligned, 0);
    launch.set(&built, "at", &|i| if i == 7 { 1 << 20 } else { 0 });
    let trap = launch.simulate(&lowered(&def(), &[]), 1 << 24).map(|_| ()).expect_err("a position far behind the end");
    assert!(trap.to_string().contains("out of bounds"), "{trap}");
}

#[test]
fn the_simulator_traps_where_a_position_is_none() {
    let def = kernels::taken_as_they_are::Kernel::def();
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let simt = lowered(&def, &[]);
    let shape = shapes(&kernel, &[64], 1, 0).pop().expect("a shape");
    let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
    launch.set(&kernel, "at", &|_| 0);
    launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
    launch.set(&kernel, "at", &|i| if i == 7 { 1 << 20 } else { 0 });
    let trap = launch.simulate(&simt, 1 << 24).map(|_| ()).expect_err("a position far behind the end");
    assert!(trap.to_string().contains("out of bounds"), "{trap}");
}

#[test]
fn a_scan_tells_its_total() {
    // One row of 64 elements by two warps: the scan alone brings warps' parts to shared memory, and no lane combines anything again.
    let schedule = [("R", 1), ("C", 64), ("CC", 1), ("CR", 1)];
    let with = print(&lowered(&kernels::scans_with_totals::Kernel::def(), &schedule));
    let without = print(&lowered(&kernels::scans_and_reductions::Kernel::def(), &schedule));
    let lanes = |text: &str| count(text, "shuffle") + count(text, "warp reduce");
    let words = |text: &str| (lanes(text), text.lines().filter(|l| l.trim().starts_with("barrier")).count());
    assert_eq!((words(&with), words(&without)), ((2, 1), (3, 2)), "{with}\n{without}");
    // A scan within one warp: the last lane tells the others.
    let schedule = [("R", 8), ("C", 16), ("CC", 1), ("CR", 1)];
    let with = print(&lowered(&kernels::scans_with_totals::Kernel::def(), &schedule));
    assert_eq!(words(&with), (3, 0), "{with}");
}

#[test]
fn totals_are_of_scans() {
    let rows: [i32; 8] = std::array::from_fn(|i| i as i32 * 5 - 7);
    let given = [Given::I(rows.to_vec(), vec![1, 8]), Given::I(vec![0; 8], vec![1, 8])];
    let mut sum = 0;
    let expected: Vec<i32> = rows
        .iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect();
    assert_eq!(ints(&kernel(kernels::scans_with_totals::Kernel::def(), &given)[1]), expected);
    let wrong = |x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size| wrong_totals(x, y, m, n);
    let text = mistakes_in(include_str!("words.rs"), wrong);
    says(&text, &["the total of what is no scan", "this total leaves axes of the tile", "the scan is along another axis"]);
}

#[device]
fn wrong_totals(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in y.tiles([m, n]) {
        let v = x.load((i, j));
        let ends = v.scan_sum(1);
        y.store((i, j), v + v.total_axis(1).expand(1, n) + ends.total() + ends.total_axis(0).expand(0, m));
    }
}

#[test]
fn the_load_of_a_fetch_has_its_order() {
    let def = kernels::fetched::Kernel::<u32>::def();
    let cuda = girih_core::cuda::emit(&lowered(&def, &[]));
    for order in ["ld.relaxed.gpu", "ld.acquire.gpu", "ld.relaxed.sys", "ld.acquire.sys"] {
        assert!(cuda.contains(order), "{order} in {cuda}");
    }
    assert_eq!((count(&cuda, "atomic"), count(&cuda, "__threadfence")), (0, 0), "{cuda}");
    let wrong = |x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size| released(x, y, m, n);
    says(&mistakes_in(include_str!("words.rs"), wrong), &["a fetch releases nothing", "release by what stores"]);
}

#[device]
fn released(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let one = y.ordered(Scope::Device, MemoryOrder::Release).fetch_at((0, 0));
        y.atomic_add((i.coords().expand(1, n), j.coords().expand(0, m)), x.load((i, j)) + one);
    }
}

#[test]
fn products_are_added_up_by_multiply_adds() {
    let def = kernels::products_of_rows::Kernel::def();
    let cuda = girih_core::cuda::emit(&lowered(&def, &[("R", 1), ("C", 64), ("CC", 4), ("V", 1)]));
    assert!(cuda.lines().any(|l| l.contains(" ? sum") && l.contains(" : sum")), "{cuda}");
}

#[test]
fn what_both_sides_of_a_branch_use_is_computed_once() {
    // Several elements of a thread have a text for full tiles and one for the tail.
    for (coarsen, texts) in [(1, 1), (4, 2)] {
        let cuda = girih_core::cuda::emit(&lowered(&kernels::used_on_both_sides::Kernel::def(), &[("T", 256), ("C", coarsen)]));
        assert_eq!(count(&cuda, "sqrt"), texts, "{cuda}");
    }
}

#[test]
fn what_nobody_reads_is_not_made() {
    let def = kernels::unread::Kernel::def();
    let text = print(&lowered(&def, &[]));
    // No maximum, and no old value on its way through shared memory.
    assert_eq!(count(&text, " max "), 0, "{text}");
    assert_eq!(count(&text, "old"), 0, "{text}");
    assert_eq!(count(&text, "before"), 0, "{text}");
}

#[test]
fn stores_that_do_not_meet_need_no_barrier() {
    // Between stores and reads; where tiles are dealt, the next one's stores wait for the reads.
    let def = kernels::kept_rows::Kernel::def();
    assert_eq!((barriers(&def, &[("G", 0)]), barriers(&def, &[("G", 1)])), (1, 2));
    let def = kernels::quarters::Kernel::def();
    assert_eq!((barriers(&def, &[("G", 0)]), barriers(&def, &[("G", 1)])), (2, 3));
}

#[test]
fn reductions_that_do_not_need_each_other_meet_once() {
    // One meeting for three, and one for the sum that needs one of them.
    let def = kernels::several_of_a_row::Kernel::def();
    assert_eq!((barriers(&def, &[("G", 0)]), barriers(&def, &[("G", 1)])), (2, 2));
    let text = print(&lowered(&def, &[]));
    assert_eq!(count(&text, "_parts#"), 4 * 3, "{text}");
}

#[test]
fn rows_and_authors_operators_meet_once() {
    // One meeting for four and one for the sums that need one of them.
    let def = kernels::several_of_tiles::Kernel::def();
    for schedule in [&[("G", 0)][..], &[("R", 4)], &[("R", 4), ("CC", 2), ("CR", 2), ("V", 2)], &[("G", 1)]] {
        assert_eq!(barriers(&def, schedule), 2, "{schedule:?}\n{}", print(&lowered(&def, schedule)));
    }
}

/// Sums of centres are in the registers of all threads, which have a centre each.
#[test]
fn of_short_vectors_threads_choose_their_own() {
    let text = print(&lowered(&girih_examples::kmeans_clustering::rounds_of_8::Kernel::def(), &[]));
    assert!(text.contains("// each thread chooses its own of 8"), "{text}");
}

#[test]
fn each_barrier_left_is_needed() {
    let mut caught = 0;
    let all: [(KernelDef, &[(&str, i64)]); 4] = [
        (kernels::kept_rows::Kernel::def(), &[("G", 1), ("C", 2), ("V", 2)]),
        (kernels::quarters::Kernel::def(), &[("G", 1)]),
        (kernels::several_of_a_row::Kernel::def(), &[("G", 1)]),
        (kernels::several_of_tiles::Kernel::def(), &[("G", 1), ("R", 2)]),
    ];
    for (def, schedule) in all {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let simt = lowered(&def, schedule);
        let shape = shapes(&kernel, &[100], 4, 0).pop().expect("a shape");
        let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
        launch.simulate(&simt, 1 << 26).unwrap_or_else(|t| panic!("{t}"));
        for mutant in mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier) {
            let trap = launch.simulate(&mutant.kernel, 1 << 26).map(|_| ());
            assert!(
                trap.is_err() || mutant.place.contains("tail"),
                "{}: not caught without {} in\n{}",
                kernel.name,
                mutant.place,
                print(&simt)
            );
            caught += usize::from(trap.is_err());
        }
    }
    assert!(caught >= 5, "{caught}");
}

/// Rows of a table by numbers that lie in it, which nothing compares.
#[kernel(tile(R = [4, 8], C = [32, 16]))]
pub fn embedded(ids: &Tensor<i32, 1>, table: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    ids.within(0..table.len(0));
    let table = table.slice(1, 0, y.len(1));
    for (r, c) in y.tiles([R, C]) {
        let row = ids.load(r).cast::<i64>().expand(1, C);
        y.store((r, c), table.gather_in_bounds((row, c.coords().expand(0, R).min(table.len(1) - 1))));
    }
}

#[test]
fn elements_lie_where_the_author_says() {
    let def = embedded::Kernel::def;
    compare(&[(def().build)().unwrap_or_else(|e| panic!("{e}"))]);
    let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let given = |ids: &[i32]| {
        [Given::i(ids.to_vec()), Given::F(table.clone(), vec![3, 4]), Given::F(vec![0.0; ids.len() * 4], vec![ids.len() as i64, 4])]
    };
    let y = floats(&kernel(def(), &given(&[2, 0]))[2]);
    assert_eq!(y, [8.0, 9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0]);
    let error = try_kernel(def(), &given(&[0, 3]), &EvalOptions::default()).expect_err("no row of the table").to_string();
    assert!(error.contains("element 1 of ids is 3, not in 0..table.len(0) = 3"), "{error}");
    let wrong = |x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size| demands(x, y, m, n);
    let text = mistakes_in(include_str!("words.rs"), wrong);
    says(&text, &["a demand on the elements of a view", "a demand on elements without a first number or an end"]);
}

#[device]
fn demands(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let words = x.flat().reinterpret::<u32>();
    words.within(0..5);
    words.within(0..);
    for (i, j) in y.tiles([m, n]) {
        y.store((i, j), x.load((i, j)));
    }
}

#[test]
fn numbers_are_compared_without_a_look_for_nan() {
    let x: Vec<f32> = (0..3 * 40).map(|i| (i * 7 % 31) as f32 - 3.0).collect();
    let given = [Given::F(x.clone(), vec![3, 40]), Given::i(vec![0; 3]), Given::i(vec![0; 3])];
    let after = kernel(kernels::largest_numbers::Kernel::def(), &given);
    let row = |r: usize| x[r * 40..][..40].iter().copied().enumerate();
    let first = |r: usize, best: f32| row(r).find(|(_, v)| *v == best).map(|(i, _)| i as i32).expect("an element");
    let ends = |r: usize| row(r).fold((f32::MAX, f32::MIN), |(a, b), (_, v)| (a.min(v), b.max(v)));
    let expected = |end: fn((f32, f32)) -> f32| (0..3).map(|r| first(r, end(ends(r)))).collect::<Vec<_>>();
    assert_eq!(ints(&after[1]), expected(|e| e.1));
    assert_eq!(ints(&after[2]), expected(|e| e.0));
    let cuda = girih_core::cuda::emit(&lowered(&kernels::largest_numbers::Kernel::def(), &[("R", 2), ("CC", 1)]));
    assert!(!cuda.contains("isnan") && count(&cuda, "!=") == 0, "{cuda}");
}

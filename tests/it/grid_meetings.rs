//! Blocks of a grid that wait for one another: `grid_barrier()`.

use super::language::mistakes_in;
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::cuda::emit;
use girih_core::lang::build::{self, Header};
use girih_core::lang::world::ByReference;
use girih_core::loc::SourceLoc;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, Knob, KnobKind};
use girih_core::simt::{self, Barrier, Stmt};
use girih_core::target::Target;
use girih_core::tile::access::classify;
use girih_core::tile::{Kernel, Param, ParamKind};
use girih_core::types::{DType, Literal};

/// y = x back to front, through a tensor that other blocks have stored.
#[kernel(tile(T = [64, 32, 96]), coarsen(C of T = [1, 2]), vector(V = [1, 2]))]
pub fn mirrored(x: &Tensor<f32, 1>, between: &mut Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        between.store(t, x.load(t));
        grid_barrier();
        y.store(t, between.gather(y.len(0) - 1 - t.coords()));
    }
}

/// y = x after so many steps of each element's taking what its neighbours had, two tensors in turn: a meeting for each step.
#[kernel(tile(T = [64, 32]), coarsen(C of T = [1, 2]))]
pub fn spread_in_rounds(
    x: &Tensor<i32, 1>,
    even: &mut Tensor<i32, 1>,
    odd: &mut Tensor<i32, 1>,
    y: &mut Tensor<i32, 1>,
    rounds: Scalar<i32>,
) {
    for t in y.tiles([T]) {
        let mut v = x.load(t);
        for _ in 0..rounds / 2 {
            even.store(t, v);
            grid_barrier();
            v = beside(even, t);
            odd.store(t, v);
            grid_barrier();
            v = beside(odd, t);
        }
        if rounds % 2 == 1 {
            even.store(t, v);
            grid_barrier();
            v = beside(even, t);
        }
        y.store(t, v);
    }
}

/// What lies left and right of each element, and nothing behind the ends.
#[device]
fn beside(of: &Tensor<i32, 1>, t: TileIdx) -> Tile<i32> {
    of.gather(t.coords() - 1).or(0) + of.gather(t.coords() + 1).or(0)
}

/// labels = the lowest index that is reached over neighbours of one value, in as many rounds as it takes: the blocks go on while one of them
/// has changed something.
#[kernel(tile(T = [64, 32]))]
pub fn connected(x: &Tensor<i32, 1>, labels: &mut Tensor<i64, 1>, changed: &mut Tensor<i32, 1>, y: &mut Tensor<i64, 1>) {
    for t in y.tiles([T]) {
        let at = t.coords();
        let (own, left, right) = (x.load(t), x.gather(at - 1).or(-1), x.gather(at + 1).or(-1));
        let mut label = at;
        let mut round = scalar::<i32>(0);
        let mut open = scalar(true);
        while open {
            round += 1;
            labels.store(t, label);
            grid_barrier();
            let mut least = label;
            least = select(left == own, least.min(labels.gather((at - 1).max(0))), least);
            least = select(right == own, least.min(labels.gather(at + 1).or(i64::MAX)), least);
            if (least != label).any() {
                changed.atomic_max(0, round);
            }
            label = least;
            grid_barrier();
            open = changed.fetch_at(0) == round;
        }
        y.store(t, label);
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

/// A launch over so many elements, with counters that begin at zero and inputs of few values.
fn launch(kernel: &Kernel, len: i64, rounds: i32) -> Launch {
    let mut shape = shapes(kernel, &[64], 1, 0).pop().expect("a shape");
    shape.lens.iter_mut().for_each(|lens| *lens = vec![len; lens.len()]);
    for (param, lens) in kernel.params.iter().zip(&mut shape.lens) {
        if param.name == "changed" {
            *lens = vec![1];
        }
    }
    if let Some(last) = shape.scalars.last_mut().filter(|_| kernel.name == "spread_in_rounds") {
        *last = Some(Literal::i32(rounds));
    }
    let mut launch = Launch::new(kernel, &shape, Placement::Aligned, 7);
    if kernel.name != "mirrored" {
        launch.set(kernel, "x", &|i| (i % 5 / 3) as u64);
    }
    if kernel.name == "connected" {
        launch.zero(kernel, "changed");
    }
    launch
}

fn all() -> [Kernel; 3] {
    [built(mirrored::Kernel::def()), built(spread_in_rounds::Kernel::def()), built(connected::Kernel::def())]
}

#[test]
fn every_schedule_of_blocks_that_meet_computes_what_eval_computes() {
    for kernel in all() {
        let space = Space::new(&kernel, &best_facts(&kernel), Target::h200());
        let schedules = space.sample(6, 3);
        assert!(schedules.len() >= 2, "{} schedules of {}", schedules.len(), kernel.name);
        for (n, schedule) in schedules.iter().enumerate() {
            for (len, rounds) in [(0, 2), (1, 1), (31, 4), (64, 3), (65, 0), (192, 5), (257, 5)] {
                let launch = launch(&kernel, len, rounds);
                let simt = lower(&kernel, &launch.facts(&kernel), schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
                assert!(simt.launch.cooperative);
                let outcome = launch.disagreement(&kernel, &simt, 50_000_000);
                assert!(outcome.is_none(), "{n}: {} {} at {len}: {}", kernel.name, schedule.short(&kernel), outcome.unwrap_or_default());
            }
        }
    }
}

#[test]
fn what_blocks_that_meet_leave_is_what_the_text_says() {
    let kernel = built(connected::Kernel::def());
    let launch = launch(&kernel, 203, 0);
    let buffers = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let labels: Vec<i64> =
        launch.elements_in(&buffers, 3).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight"))).collect();
    let value = |i: usize| i % 5 / 3;
    let mut first = 0;
    for (i, label) in labels.iter().enumerate() {
        first = if i > 0 && value(i) == value(i - 1) { first } else { i };
        assert_eq!(*label, first as i64, "{i}");
    }
}

#[test]
fn each_meeting_is_needed() {
    for kernel in all() {
        let schedule =
            parse_schedule(&kernel, if kernel.name == "mirrored" { "T=32,C=1,V=1" } else { "T=32" }).unwrap_or_else(|e| panic!("{e}"));
        let launch = launch(&kernel, 203, 7);
        let simt = lower(&kernel, &launch.facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let meetings = mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier && m.place.contains("grid"));
        let mut found = 0;
        for mutant in meetings {
            found += 1;
            let outcome = launch.disagreement(&kernel, &mutant.kernel, 5_000_000);
            assert!(outcome.is_some(), "{}: nobody misses {}", kernel.name, mutant.place);
        }
        assert_eq!(
            found,
            if kernel.name == "mirrored" { 1 } else { 2 + usize::from(kernel.name == "spread_in_rounds") },
            "{}",
            kernel.name
        );
    }
}

/// Whether a kernel has two texts of one meeting, at which blocks would miss each other.
fn meetings_in(body: &[Stmt]) -> usize {
    let inner = |s: &Stmt| simt::visit::inner_blocks(s).into_iter().map(meetings_in).sum::<usize>();
    body.iter().map(|s| usize::from(matches!(s, Stmt::Barrier(Barrier::Grid { .. }))) + inner(s)).sum()
}

#[test]
fn full_tiles_and_the_tail_meet_at_one_place() {
    let kernel = built(mirrored::Kernel::def());
    let schedule = parse_schedule(&kernel, "T=64,C=2,V=2").unwrap_or_else(|e| panic!("{e}"));
    let simt =
        lower(&kernel, &girih_core::facts::Facts::packed(&kernel, true), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(meetings_in(&simt.body), 1);
    let text = emit(&simt);
    assert!(text.contains("grid_barrier(meetings);") && text.contains("unsigned int* meetings"), "{text}");
    // Another thread's element is no promise of `__restrict__`.
    assert!(!text.contains("__restrict__ between"), "{text}");
}

#[test]
fn launches_in_a_row_meet_at_the_counter_that_they_find() {
    let stream = Stream::on(&Device::sim(Target::h200()));
    for (n, rounds) in [(1000usize, 3), (65, 2), (1000, 1), (1, 7)] {
        let values: Vec<i32> = (0..n as i32).collect();
        let x = stream.tensor(&values, [n]).unwrap();
        let (mut even, mut odd, mut y) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
        spread_in_rounds(&stream, &x, &mut even, &mut odd, &mut y, rounds).unwrap();
        let mut expected = values;
        for _ in 0..rounds {
            let at = |i: usize| expected.get(i).copied().unwrap_or(0);
            expected = (0..n).map(|i| (if i > 0 { at(i - 1) } else { 0 }).wrapping_add(at(i + 1))).collect();
        }
        assert_eq!(stream.read(&y).unwrap(), expected, "{n} {rounds}");
    }
}

#[test]
fn a_grid_that_the_device_does_not_hold_is_refused() {
    let few = Target { multiprocessors: 1, blocks_per_multiprocessor: 4, ..Target::h200().clone() };
    let stream = Stream::on(&Device::sim(Box::leak(Box::new(few))));
    let n = 5 * 96;
    let x = stream.zeros([n]).unwrap();
    let (mut between, mut y) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
    let error = mirrored(&stream, &x, &mut between, &mut y).unwrap_err().to_string();
    assert!(error.contains("blocks meet over the grid and must run at the same time; the device holds 4 of them"), "{error}");
}

/// Blocks of which some meet and others do not, by what they load.
#[device]
fn some_meet(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, tile: Size) {
    for t in y.tiles([tile]) {
        if x.at(t.start()) > 0 {
            grid_barrier();
        }
        y.store(t, x.load(t));
    }
}

/// Loads what others store before the meeting of the next turn.
#[device]
fn loads_too_early(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, tile: Size) {
    for t in y.tiles([tile]) {
        let mut v = x.load(t);
        for _ in 0..scalar::<i32>(3) {
            y.store(t, v);
            grid_barrier();
            v = y.gather(t.coords() - 1);
        }
    }
}

/// A kernel that is in no registry, as wrong ones are.
fn unregistered(body: impl FnOnce(&Tensor<i32, 1>, &mut Tensor<i32, 1>, Size)) -> Kernel {
    let tensor = |name: &str, mutable| Param { name: name.into(), kind: ParamKind::Tensor { dtype: DType::I32, rank: 1, mutable } };
    let (loc, source) = (SourceLoc { line: 1, column: 1, ..SourceLoc::caller() }, include_str!("grid_meetings.rs"));
    let header = Header { name: "wrong", module: module_path!(), loc, source, params: vec![tensor("x", false), tensor("y", true)] };
    let knob = Knob { name: "T".into(), kind: KnobKind::Tile, of: None, choices: vec![Choice::Int(32)], loc };
    let attribute = build::Attribute { knobs: vec![knob], deterministic: false };
    let record = || body(&Tensor::symbol(0), &mut Tensor::symbol(1), Size::knob(0));
    build::kernel(header, &[], attribute, record).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn blocks_that_do_not_agree_are_told_apart() {
    let kernel = unregistered(some_meet);
    let mut launch = launch(&kernel, 96, 0);
    launch.set(&kernel, "x", &|i| (i / 32 % 2) as u64);
    let found = launch.evaluate(&kernel).expect_err("blocks go different ways");
    assert!(found.contains("some blocks of the grid would meet here once more while others go on"), "{found}");
    let schedule = parse_schedule(&kernel, "T=32").unwrap_or_else(|e| panic!("{e}"));
    let simt = lower(&kernel, &launch.facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let trap = launch.simulate(&simt, 1 << 20).err().expect("a trap").to_string();
    assert!(trap.contains("a barrier is reached, but other threads have finished"), "{trap}");
}

#[test]
fn what_is_stored_and_loaded_between_two_meetings_is_refused() {
    let found = classify(&unregistered(loads_too_early)).map(|_| ()).unwrap_err();
    let text = found.iter().map(|d| d.to_string()).collect::<String>();
    assert!(text.contains("`y` is loaded where another block may already have stored to `y`"), "{text}");
}

#[device]
fn meets_first(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, r: Size, c: Size) {
    grid_barrier();
    for (m, n) in y.tiles([r, c]) {
        y.store((m, n), x.load((m, n)));
    }
}

#[device]
fn meets_for_some(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, r: Size, c: Size) {
    for (m, n) in y.tiles([r, c]) {
        let v = x.load((m, n));
        if v > 0.0 {
            grid_barrier();
        }
        y.store((m, n), v);
    }
}

#[device]
fn meets_for_each_tile(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, r: Size, c: Size) {
    for m in y.axis(0).tiles(r) {
        for n in y.axis(1).tiles(c) {
            y.store((m, n), x.load((m, n)));
            grid_barrier();
        }
    }
}

#[device]
fn meets_among_dealt_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, r: Size, c: Size) {
    for (m, n) in y.tiles([r, c]).strided() {
        y.store((m, n), x.load((m, n)));
        grid_barrier();
    }
}

#[test]
fn meetings_that_a_block_may_miss_are_refused() {
    let source = include_str!("grid_meetings.rs");
    for (found, message) in [
        (mistakes_in(source, meets_first), "blocks of the grid meet outside of the grid's loop"),
        (mistakes_in(source, meets_for_some), "a barrier cannot depend on a per-element condition"),
        (
            mistakes_in(source, meets_for_each_tile),
            "blocks of the grid meet in a loop over tiles, which blocks may leave in different turns",
        ),
        (mistakes_in(source, meets_among_dealt_tiles), "blocks of the grid meet in a loop whose tiles are dealt to blocks"),
    ] {
        assert!(found.contains(message), "{message} is missing in:\n{found}");
    }
}

//! Sums that blocks share: every way to share them computes what `eval` computes, the same each time, and what cannot be shared is refused.

use super::super::launches::{Launch, Placement, Shape, best_facts, shapes_within};
use super::super::nvrtc::provide;
use super::super::rungs::{all_kernels, gallery};
use super::kernels::product;
use girih::{Compiled, Device, Stream};
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::simt::{self, Barrier, Stmt};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::MemoryOrder;

const FUEL: u64 = 50_000_000;

fn split_of(kernel: &Kernel) -> Option<usize> {
    kernel.knobs.iter().position(|k| k.kind == KnobKind::Split)
}

/// A schedule with another number of parts; `None` where that is illegal.
fn with_parts(kernel: &Kernel, facts: &Facts, schedule: &Schedule, parts: i64) -> Option<Schedule> {
    let mut schedule = schedule.clone();
    schedule.choices[split_of(kernel).expect("a knob")] = Choice::Int(parts);
    Space::new(kernel, facts, Target::h200()).check(&schedule).is_ok().then_some(schedule)
}

fn kernels() -> Vec<Kernel> {
    let names = std::env::var("GIRIH_TEST_KERNEL").ok();
    let own = all_kernels().into_iter().filter(|k| k.path.contains("dots::kernels") && split_of(k).is_some());
    own.filter(|k| names.as_ref().is_none_or(|n| n.split(',').any(|n| k.name == n))).collect()
}

#[test]
fn every_way_to_share_a_sum_computes_what_eval_computes() {
    let (mut launches, mut failures) = (0, Vec::new());
    for kernel in kernels().into_iter().filter(|k| !["watched_product", "short_product"].contains(&k.name.as_str())) {
        for (placement, facts) in [(Placement::Aligned, best_facts(&kernel)), (Placement::Shifted, Facts::none(&kernel))] {
            let space = Space::new(&kernel, &facts, Target::h200());
            for (n, sampled) in space.sample(6, 3).iter().enumerate() {
                // As many parts as there are turns, fewer, more; and equal runs of all turns.
                let parts = [0, 2, 3, 11][n % 4];
                let Some(schedule) = with_parts(&kernel, &facts, sampled, parts) else { panic!("{}: {parts}", kernel.name) };
                let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
                for shape in shapes_within(1 << 15, &kernel, &[48, 16, 0, 17, 112, 33, 1, 208], 7, n as u64) {
                    let launch = Launch::new(&kernel, &shape, placement, n as u64);
                    if !launch.facts(&kernel).imply(&facts) {
                        continue;
                    }
                    launches += 1;
                    let outcome = launch.disagreement(&kernel, &simt, FUEL);
                    failures.extend(outcome.map(|o| format!("{} {} {:?}: {o}", kernel.name, schedule.short(&kernel), shape.lens)));
                }
            }
        }
    }
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} of {launches} launches differ, first ones:\n{shown}", failures.len());
    assert!(launches > 20, "{launches} launches");
}

/// The bits of a product by a schedule, of several launches one after the other on the same memory.
fn products(stream: &Stream, [m, n, k]: [usize; 3], parts: i64) -> Vec<Vec<u32>> {
    let schedule = product::Schedule { bm: 16, bn: 16, bk: 8, tm: 2, tn: 2, v: 1, z: parts, ..Default::default() };
    let data = |len: usize| (0..len).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect::<Vec<_>>();
    let a = stream.tensor(&data(m * k), [m, k]).expect("memory");
    let b = stream.tensor(&data(k * n), [k, n]).expect("memory");
    let launch = || {
        let mut c = stream.zeros::<f32, 2>([m, n]).expect("memory");
        product(&stream.with(schedule.clone()), &a, &b, &mut c).unwrap_or_else(|e| panic!("{e}"));
        stream.read(&c).expect("results").into_iter().map(f32::to_bits).collect()
    };
    (0..3).map(|_| launch()).collect()
}

/// Counters are left as the next launch needs them, whatever its size; and the order of a sum is the schedule's alone.
#[test]
fn shared_sums_are_the_same_each_time() {
    let small = Target { multiprocessors: 4, ..Target::h200().clone() };
    for parts in [2, 3, 7, 0] {
        let stream = Stream::on(&Device::sim(&small));
        let first = products(&stream, [40, 33, 70], parts);
        let smaller = products(&stream, [16, 16, 100], parts);
        let again = products(&stream, [40, 33, 70], parts);
        for found in [&first, &smaller, &again] {
            assert!(found.iter().all(|c| *c == found[0]), "split = {parts}");
        }
        assert_eq!(first[0], again[0], "split = {parts}");
        assert!(first[0].iter().any(|bits| *bits != 0));
    }
}

/// A product of the tests' kernels under a split, of three tiles: two blocks with equal runs have one and a half each.
fn shared(parts: i64) -> (simt::Kernel, Launch) {
    let kernel = kernel("product");
    let facts = Facts::none(&kernel);
    let schedule = with_parts(&kernel, &facts, &Schedule::default_of(&kernel), parts).expect("a legal schedule");
    let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let shape = Shape { lens: vec![vec![35, 90], vec![90, 30], vec![35, 30]], scalars: vec![None; 3] };
    let launch = Launch::new(&kernel, &shape, Placement::Shifted, 1);
    (simt, launch)
}

fn kernel(name: &str) -> Kernel {
    all_kernels().into_iter().find(|k| k.path.contains("dots::kernels") && k.name == name).expect("a kernel")
}

/// Whoever is last, the sum is the same to the last bit.
#[test]
fn parts_are_added_in_the_order_of_the_turns() {
    for parts in [3, 0] {
        let (simt, launch) = shared(parts);
        let result = |seed| launch.results(&launch.simulate_in_order(&simt, seed).unwrap_or_else(|trap| panic!("{trap}")));
        let first = result(0);
        assert!((1..12).all(|seed| result(seed) == first), "split = {parts}");
    }
}

/// Changes statements wherever they are, or takes them out.
fn change(block: &mut Vec<Stmt>, how: &dyn Fn(&mut Stmt) -> bool) {
    block.retain_mut(|stmt| how(stmt));
    for stmt in block {
        match stmt {
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| change(b, how)),
            Stmt::For { body, .. } | Stmt::While { body, .. } => change(body, how),
            _ => {}
        }
    }
}

/// The ticket orders what blocks leave before what the last one reads; without that order, or without the barriers around it, it is a race.
#[test]
fn parts_are_ordered_by_tickets_and_barriers() {
    for parts in [3, 0] {
        let (simt, launch) = shared(parts);
        let mut relaxed = simt.clone();
        change(&mut relaxed.body, &|stmt| {
            if let Stmt::Atomic { order, .. } = stmt {
                *order = MemoryOrder::Relaxed;
            }
            true
        });
        let trap = launch.simulate(&relaxed, FUEL).err().map(|t| t.to_string()).unwrap_or_default();
        assert!(trap.contains("race"), "split = {parts}: {trap}");
        let mut apart = simt.clone();
        change(&mut apart.body, &|stmt| *stmt != Stmt::Barrier(Barrier::Block));
        let trap = launch.simulate(&apart, FUEL).err().map(|t| t.to_string()).unwrap_or_default();
        assert!(trap.contains("race"), "split = {parts}: {trap}");
    }
}

/// NVRTC compiles shared sums of every unit for every architecture; where they are tuned for without local memory, or nearly so where two
/// blocks are to fit a multiprocessor.
#[test]
fn shared_sums_are_machine_code_everywhere() {
    provide();
    let kernels = ["matrix_multiplication", "gemm", "int8_product", "linear"];
    for kernel in gallery().into_iter().filter(|k| kernels.contains(&k.name.as_str())) {
        for arch in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"] {
            let target = Target::find(arch).expect("a target");
            let tuned = arch == Target::h200().arch;
            let facts = best_facts(&kernel);
            let space = Space::new(&kernel, &facts, target);
            let ladder = Ladder::new(&space).expect("legal schedules").expect("it multiplies tiles");
            let with = |parts: i64, blocks: i64| {
                let mut schedule = ladder.up_to(Step::Mma).clone();
                schedule.choices[split_of(&kernel).expect("a knob")] = Choice::Int(parts);
                let at = kernel.knobs.iter().position(|k| k.kind == KnobKind::MinBlocks).expect("a knob");
                schedule.choices[at] = Choice::Int(blocks);
                schedule
            };
            // Who is last takes a word of shared memory, too much for a second block on some.
            let fits = |parts: i64| if space.check(&with(parts, 2)).is_ok() { 2 } else { 1 };
            let here = [(2, fits(2)), (0, fits(0)), (2, 1), (0, 1)];
            assert!(!tuned || here[..2] == [(2, 2), (0, 2)], "{} {arch}", kernel.name);
            for (parts, blocks) in if tuned { &here[..] } else { &here[..2] } {
                let schedule = with(*parts, *blocks);
                let simt = lower(&kernel, &facts, &schedule, target).unwrap_or_else(|e| panic!("{e}"));
                let compiled = Compiled::of(simt, target).with_cubin().unwrap_or_else(|e| panic!("{} {parts} {arch}: {e}", kernel.name));
                let found = compiled.resources.expect("a cubin has resources");
                assert_eq!(compiled.warnings, "", "{} {parts} {arch}", kernel.name);
                let most = if *blocks == 1 { 0 } else { 64 };
                assert!(!tuned || found.stack <= most, "{} {parts} {blocks} {arch}: {found:?}", kernel.name);
            }
        }
    }
}

#[test]
fn sums_that_cannot_be_shared_are_refused() {
    let refused = |name: &str, parts: i64| {
        let kernel = kernel(name);
        let mut schedule = Schedule::default_of(&kernel);
        schedule.choices[split_of(&kernel).expect("a knob")] = Choice::Int(parts);
        let facts = Facts::none(&kernel);
        lower(&kernel, &facts, &schedule, Target::h200()).expect_err("it cannot be shared").to_string()
    };
    let text = refused("watched_product", 2);
    assert!(text.contains("Z = 2: the loop carries") && text.contains("only 1 is allowed"), "{text}");
    let text = refused("short_product", 0);
    assert!(text.contains("Z = 0: the loop does more than load and add"), "{text}");
}

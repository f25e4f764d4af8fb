//! The lower door: kernels written thread by thread, append counters, and blocks that meet by atomics.

pub mod kernels;

use super::differential::compare;
use super::language::{ir, mistakes_in, says};
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use super::rungs::all_kernels;
use super::snapshots::page;
use girih::prelude::*;
use girih_core::cuda::{emit, function_name};
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_schedule_of_kernels_by_hand_computes_what_eval_computes() {
    let kernels: Vec<_> = all_kernels().into_iter().filter(|k| k.path.contains("threads::kernels")).collect();
    assert!(kernels.len() >= 5, "{} kernels by hand", kernels.len());
    compare(&kernels);
}

#[test]
fn lanes_count_what_lies_before_them() {
    let kernel = built(kernels::ranks::Kernel::def());
    let shape = of_lengths(&kernel, vec![vec![700], vec![700], vec![1]]);
    let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 11);
    launch.zero(&kernel, "kept");
    let after = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let x = numbers(&launch.elements_of(0));
    let before = |i: usize| x[i / 256 * 256..i].iter().filter(|v| **v > 0).count() as i32;
    assert_eq!(numbers(&launch.elements_in(&after, 1)), (0..700).map(before).collect::<Vec<_>>());
    // The first warp of each block counts for all.
    let first: usize = [0, 256, 512].map(|b| x[b..b + 32].iter().filter(|v| **v > 0).count()).iter().sum();
    assert_eq!(numbers(&launch.elements_in(&after, 2)), [first as i32]);
}

/// A shape with these lengths.
fn of_lengths(kernel: &Kernel, lens: Vec<Vec<i64>>) -> super::launches::Shape {
    let mut shape = shapes(kernel, &[64], 1, 0).pop().expect("a shape");
    shape.lens = lens;
    shape
}

#[test]
fn kernels_by_hand_read_like_cuda() {
    let shown = [
        (kernels::warp_row_sums::Kernel::def(), "W=4,L=32"),
        (kernels::ranks::Kernel::def(), "T=256,C=1,V=1,G=0"),
        (kernels::turned_warps::Kernel::def(), "T=128,G=1"),
        (append_by_blocks::Kernel::def(), "T=256,C=1"),
        (last_block_sums::Kernel::def(), "T=64"),
    ];
    for (def, schedule) in shown {
        let kernel = built(def);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("threads.{}", kernel.name), page(&kernel, &schedule));
        });
    }
}

#[test]
fn nvrtc_accepts_kernels_by_hand() {
    super::nvrtc::provide();
    let own = all_kernels().into_iter().filter(|k| k.path.contains("threads::kernels"));
    let more = [append_each::Kernel::def(), append_by_blocks::Kernel::def(), last_block_sums::Kernel::def()].map(built);
    for kernel in own.chain(more) {
        let schedules = girih_core::schedule::space::Space::new(&kernel, &best_facts(&kernel), Target::h200()).sample(2, 5);
        for (schedule, arch) in schedules.iter().flat_map(|s| ["sm_75", "sm_90a"].map(|a| (s, a))) {
            let target = Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}"));
            let simt = lower(&kernel, &best_facts(&kernel), schedule, target).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let what = format!("{} {} for {arch}", kernel.name, schedule.short(&kernel));
            let cubin = girih::compile::nvrtc::compile(&emit(&simt), arch, &[], &function_name(&simt), &what)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(!cubin.code.is_empty() && !cubin.log.contains("warning"), "{what}: {}", cubin.log);
        }
    }
}

#[test]
fn exchanges_are_operations_and_barriers_statements() {
    says(&ir(kernels::ranks::Kernel::def()), &["shared counts: i32[32], by hand", "votes: u32[T] = vote ballot %", "barrier block"]);
    says(&ir(kernels::warp_row_sums::Kernel::def()), &["f32[W, L] = shuffle xor sum_"]);
    says(&ir(kernels::turned_warps::Kernel::def()), &["barrier warp"]);
}

/// Keeps the positive elements, in any order: each takes its place from a counter.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]))]
pub fn append_each(x: &Tensor<i32, 1>, kept: &mut Tensor<i32, 1>, count: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let slot = if v > 0 { count.fetch_add(v.like(0), 1) } else { full::<u32>([T], u32::MAX) };
        kept.scatter(slot, v);
    }
}

/// The same with one atomic per block: ballots rank the elements of a warp, a scan the warps of the block.
#[kernel(tile(T = [256, 64, 1024]), coarsen(C of T = [1, 4]))]
pub fn append_by_blocks(x: &Tensor<i32, 1>, kept: &mut Tensor<i32, 1>, count: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let lane = lanes(T);
        let votes = (v > 0).ballot();
        let below = (votes & ((lane.like(1) << lane) - 1).bitcast::<u32>()).count_ones();
        let mut ends = shared::<u32>([32], 0u32);
        if lane == 0 {
            ends.scatter(warps(T), votes.count_ones());
        }
        let own = ends.gather(lane);
        let mut end = own;
        for distance in [1, 2, 4, 8, 16] {
            let before = end.shuffle_up(distance);
            end += if lane >= distance { before } else { before.like(0u32) };
        }
        let mut total = shared::<u32>([1], 0u32);
        if threads(T) == 31 {
            total.scatter(lane.like(0), end);
        }
        let first = count.fetch_add_at(0, total.at(0));
        let slot = (end - own).shuffle(warps(T)) + below + first;
        kept.scatter(if v > 0 { slot } else { slot.like(u32::MAX) }, v);
    }
}

/// Every block publishes its sum and counts itself; the one that finds all others done adds up what they left.
#[kernel(tile(T = 64))]
pub fn last_block_sums(x: &Tensor<i32, 1>, parts: &mut Tensor<i32, 1>, done: &mut Tensor<i32, 1>, total: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        parts.atomic_set(t.number(), x.load(t).sum());
        let before = done.ordered(Scope::Device, MemoryOrder::AcquireRelease).fetch_add_at(0, 1);
        if before == ((x.len(0) + 63) / 64 - 1).cast::<i32>() {
            let mut sum = zeros::<i32>([256]);
            for p in parts.tiles([256]) {
                sum += parts.fetch(p.coords());
            }
            total.atomic_set(0, sum.sum());
        }
    }
}

/// The elements of an i32 or u32 tensor in a buffer.
fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

#[test]
fn counters_append() {
    for def in [append_each::Kernel::def(), append_by_blocks::Kernel::def()] {
        let kernel = built(def);
        let space = girih_core::schedule::space::Space::new(&kernel, &best_facts(&kernel), Target::h200());
        for (n, schedule) in space.sample(6, 1).into_iter().enumerate() {
            let shape = of_lengths(&kernel, vec![vec![777], vec![777], vec![1]]);
            let mut launch = Launch::new(&kernel, &shape, Placement::Shifted, n as u64);
            launch.zero(&kernel, "count");
            let simt =
                lower(&kernel, &girih_core::facts::Facts::none(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
            let after = launch.simulate(&simt, 1 << 26).unwrap_or_else(|t| panic!("{t}"));
            let x = numbers(&launch.elements_of(0));
            let mut expected: Vec<i32> = x.into_iter().filter(|v| *v > 0).collect();
            let count = numbers(&after.elements_of(&launch, 2))[0] as usize;
            assert_eq!(count, expected.len(), "{}", schedule.short(&kernel));
            let mut kept = numbers(&after.elements_of(&launch, 1))[..count].to_vec();
            kept.sort_unstable();
            expected.sort_unstable();
            assert_eq!(kept, expected, "{}", schedule.short(&kernel));
        }
    }
}

#[test]
fn blocks_meet_by_atomics() {
    let kernel = built(last_block_sums::Kernel::def());
    let schedule = girih_core::schedule::Schedule::default_of(&kernel);
    let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let shape = of_lengths(&kernel, vec![vec![640], vec![10], vec![1], vec![1]]);
    let mut launch = Launch::new(&kernel, &shape, Placement::Aligned, 3);
    launch.zero(&kernel, "done");
    let after = launch.simulate(&simt, 1 << 26).unwrap_or_else(|t| panic!("{t}"));
    let sum = numbers(&launch.elements_of(0)).into_iter().fold(0i32, i32::wrapping_add);
    assert_eq!(numbers(&after.elements_of(&launch, 3)), [sum]);
    // The block is done with what it did before one thread of it says so.
    let text = emit(&simt);
    let counted = text.find("atomicAdd(&done").expect("the counter");
    let before = &text[..counted];
    assert!(before.trim_end().lines().rev().take(4).any(|l| l.contains("__threadfence();")), "{text}");
    assert!(before.lines().rev().take(6).any(|l| l.contains("__syncthreads();")), "{text}");
}

#[test]
fn an_author_needs_each_barrier() {
    let mut caught = 0;
    for (def, schedule) in [(kernels::ranks::Kernel::def(), "T=256,C=1,V=1,G=1"), (kernels::turned_warps::Kernel::def(), "T=128,G=1")] {
        let kernel = built(def);
        let schedule = parse_schedule(&kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
        let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
        let shape = shapes(&kernel, &[1280], 1, 0).pop().expect("a shape");
        let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
        launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
        for mutant in mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier) {
            if let Err(trap) = launch.simulate(&mutant.kernel, 1 << 24) {
                assert!([": race on ", ": uninitialised: "].iter().any(|k| trap.to_string().contains(k)), "{trap}");
                caught += 1;
            }
        }
    }
    assert!(caught >= 6, "{caught}");
}

/// Reads what another warp wrote with no barrier of the block between.
#[kernel(tile(T = 128))]
pub fn forgotten_barrier(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let mut own = shared::<i32>([T], 0).by_hand();
        barrier();
        own.scatter(threads(T), x.load(t));
        warp_barrier();
        y.store(t, own.gather(threads(T) ^ 96));
    }
}

#[test]
fn a_forgotten_barrier_is_reported() {
    let kernel = built(forgotten_barrier::Kernel::def());
    let shape = shapes(&kernel, &[128], 1, 0).pop().expect("a shape");
    let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
    let error = launch.evaluate(&kernel).expect_err("a barrier is missing");
    says(&error, &["element 96 of own was accessed by another thread since the last barrier; write `barrier()` between them"]);
    let simt = lower(&kernel, &best_facts(&kernel), &girih_core::schedule::Schedule::default_of(&kernel), Target::h200());
    let trap = launch.simulate(&simt.unwrap_or_else(|e| panic!("{e}")), 1 << 24).err().expect("a race").to_string();
    assert!(trap.contains(": race on "), "{trap}");
}

/// An array that is filled where it is made, and again: by the same threads, and then written by others.
#[kernel(tile(T = [128]))]
fn filled_by_hand(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<f32>([T], 0.0).by_hand();
        own.fill(1.0);
        barrier();
        own.scatter(threads(T), x.load(t));
        barrier();
        y.store(t, own.gather(threads(T) ^ 96));
    }
}

/// The same without a barrier behind the fill.
#[kernel(tile(T = [128]))]
fn filled_and_written(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<f32>([2 * T], 0.0).by_hand();
        own.scatter((threads(T) * 2) ^ 2, x.load(t));
        barrier();
        y.store(t, own.gather(threads(T)));
    }
}

#[test]
fn a_fill_is_an_access_by_threads_of_its_own() {
    let kernel = built(filled_by_hand::Kernel::def());
    let schedule = girih_core::schedule::Schedule::default_of(&kernel);
    let shape = shapes(&kernel, &[128], 1, 0).pop().expect("a shape");
    let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
    let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let after = launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
    assert_eq!(launch.difference(&kernel, &after, &expected), None);

    let kernel = built(filled_and_written::Kernel::def());
    let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
    let error = launch.evaluate(&kernel).expect_err("a barrier is missing");
    says(&error, &["of own was filled by another thread since the last barrier", "filled where it is made, by all threads"]);
    let simt = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"));
    let trap = launch.simulate(&simt, 1 << 24).err().expect("a race").to_string();
    assert!(trap.contains(": race on "), "{trap}");
}

#[device]
fn wrong_exchanges(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let _ = zeros::<f32>([20]).shuffle_xor(1);
        let crossed = v.shuffle(lanes(64));
        let inside = if v > 0.0 { v.shuffle_down(1) } else { v };
        let _ = zeros::<i32>([64]).match_any(33);
        if v > 1.0 {
            barrier();
        }
        y.store((i, j), crossed + inside);
    }
}

#[test]
fn misplaced_exchanges_are_explained() {
    let text = mistakes_in(include_str!("threads.rs"), wrong_exchanges);
    says(
        &text,
        &[
            "a shuffle of [20]: a warp is 32 elements along the last axis, which has 20",
            "by lane numbers of [64]",
            "a shuffle cannot depend on a per-element condition",
            "a barrier cannot depend on a per-element condition",
            "(m && c).ballot()",
            "a match of 33 bits: numbers of 32 bits have 1 to 32",
        ],
    );
}

#[test]
fn warps_must_be_whole() {
    let kernel = built(kernels::votes::Kernel::def());
    let schedule = parse_schedule(&kernel, "T=48,C=1,V=1,G=0").unwrap_or_else(|e| panic!("{e}"));
    let error = lower(&kernel, &best_facts(&kernel), &schedule, Target::h200()).unwrap_err().to_string();
    says(&error, &["lanes exchange values along 48 elements, dealt to 48 threads: both must be multiples of 32"]);
}

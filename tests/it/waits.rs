//! Waits for what other blocks publish: one thread, or one warp, waits for its block.

use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::prelude::*;
use girih_core::cuda::emit;
use girih_core::lower::{lower, page};
use girih_core::registry::KernelDef;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;

/// Elements of a tile.
const TILE: i64 = 256;
/// The upper two bits of a tile's word in [`looked_back`]: its own sum, or the sum of all up to it.
const OWN: u64 = 1 << 62;
const ALL: u64 = 2 << 62;

/// y = the sums of all elements up to each. A block waits for the word of the one before it, whose highest bit says that it is there.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8, 16]), grid(G = [0, 1]))]
pub fn chained(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, ticket: &mut Tensor<u32, 1>, states: &mut Tensor<u64, 1>) {
    for _t in x.tiles([T]) {
        let me = ticket.fetch_add_at(0, 1).cast::<i64>();
        let at = iota::<i64>(T) + me * TILE;
        let ends = x.gather(at).or(0).scan_sum(0);
        let mut state = scalar::<u64>(0);
        if me > 0 {
            while (state >> 63) == 0 {
                state = states.ordered(Scope::Device, MemoryOrder::Acquire).fetch_at(me - 1);
            }
        }
        let before = state.cast::<u32>().bitcast::<i32>();
        let all = (before + ends.total()).bitcast::<u32>().cast::<u64>();
        states.ordered(Scope::Device, MemoryOrder::Release).atomic_set(me, all | (1u64 << 63));
        y.scatter(at, ends + before);
    }
}

/// The same: a block leaves its own sum, and looks at 32 words a turn until one has the sum of all before it.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8, 16]), grid(G = [0, 1]))]
pub fn looked_back(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, ticket: &mut Tensor<u32, 1>, states: &mut Tensor<u64, 1>) {
    for _t in x.tiles([T]) {
        let me = ticket.fetch_add_at(0, 1).cast::<i64>();
        let at = iota::<i64>(T) + me * TILE;
        let ends = x.gather(at).or(0).scan_sum(0);
        let own = ends.total();
        let lane = iota::<i64>(32);
        states.ordered(Scope::Device, MemoryOrder::Release).atomic_set(me, own.bitcast::<u32>().cast::<u64>() | OWN);
        let mut before = scalar::<i32>(0);
        let mut end = me;
        let mut open = me > 0;
        while open {
            let near = end - 1 - lane;
            let word = states.ordered(Scope::Device, MemoryOrder::Acquire).fetch(near.max(0));
            let word = select(near < 0, ALL, word);
            let state = (word >> 62).cast::<i64>();
            let first = select(state == 1, 64, lane * 2 + select(state == 0, 1, 0)).min_all();
            if (first & 1) == 0 {
                before += select(lane * 2 <= first, word.cast::<u32>().bitcast::<i32>(), 0).sum();
                end -= 32;
                open = first == 64 && end > 0;
            }
        }
        let all = (before + own).bitcast::<u32>().cast::<u64>();
        states.ordered(Scope::Device, MemoryOrder::Release).atomic_set(me, all | ALL);
        y.scatter(at, ends + before + select(open, scalar(1000), scalar(0)));
    }
}

/// As [`told_of`], but a word has all that there is to tell, so that nothing else has to be in order.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8, 16]), grid(G = [0, 1]))]
pub fn chained_by_words(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, ticket: &mut Tensor<u32, 1>, states: &mut Tensor<u64, 1>) {
    for _t in x.tiles([T]) {
        let me = ticket.fetch_add_at(0, 1).cast::<i64>();
        let at = iota::<i64>(T) + me * TILE;
        let ends = x.gather(at).or(0).scan_sum(0);
        y.scatter(at, ends);
        let mut state = scalar::<u64>(0);
        if me > 0 {
            while (state >> 63) == 0 {
                state = states.fetch_at(me - 1);
            }
        }
        let before = state.cast::<u32>().bitcast::<i32>();
        let all = (before + ends.total()).bitcast::<u32>().cast::<u64>();
        states.atomic_set(me, all | (1u64 << 63));
    }
}

/// Counts how often it looks: that is more than to wait.
#[kernel(tile(T = 256))]
pub fn counted(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, looks: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let mut seen = scalar::<i32>(0);
        while seen == 0 {
            seen = looks.ordered(Scope::Device, MemoryOrder::Acquire).fetch_at(0);
            looks.atomic_add(0, 1);
        }
        y.store(t, x.load(t) + seen);
    }
}

fn built(def: KernelDef) -> Kernel {
    (def.build)().unwrap_or_else(|e| panic!("{e}"))
}

fn lowered(kernel: &Kernel, schedule: &str) -> simt::Kernel {
    let schedule = parse_schedule(kernel, schedule).unwrap_or_else(|e| panic!("{e}"));
    lower(kernel, &best_facts(kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

/// A launch over so many elements, whose words begin at zero.
fn launch(kernel: &Kernel, len: i64) -> Launch {
    let mut shape = shapes(kernel, &[64], 1, 0).pop().expect("a shape");
    shape.lens = vec![vec![len], vec![len], vec![1], vec![(len + TILE - 1) / TILE]];
    let mut launch = Launch::new(kernel, &shape, Placement::Aligned, 7);
    launch.zero(kernel, "ticket");
    launch.zero(kernel, "states");
    launch
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// The lines of the loop in which a kernel waits, and those behind it.
fn around_wait(text: &str) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let start = lines.iter().position(|l| l.trim_start().starts_with("while (")).unwrap_or_else(|| panic!("no loop in\n{text}"));
    let end = start + lines[start..].iter().position(|l| l.trim() == "}" && indent(l) == indent(lines[start])).expect("an end");
    (lines[start..=end].join("\n"), lines[end + 1..].join("\n"))
}

/// Barriers of the block up to the line with a word.
fn barriers_before(text: &str, word: &str) -> usize {
    let end = text.find(word).unwrap_or_else(|| panic!("no {word} in\n{text}"));
    text[..end].matches("__syncthreads").count()
}

#[test]
fn every_schedule_of_a_wait_computes_what_eval_computes() {
    for kernel in [built(chained::Kernel::def()), built(looked_back::Kernel::def())] {
        let space = Space::new(&kernel, &best_facts(&kernel), Target::h200());
        let schedules = space.sample(8, 3);
        assert!(schedules.len() >= 6, "{} schedules of {}", schedules.len(), kernel.name);
        for (schedule, len) in schedules.iter().flat_map(|s| [1, 256, 777, 9000].map(|len| (s, len))) {
            let (launch, what) = (launch(&kernel, len), format!("{} {} of {len}", kernel.name, schedule.short(&kernel)));
            let mut sum = 0i32;
            let sums: Vec<i32> = numbers(&launch.elements_of(0))
                .into_iter()
                .map(|x| {
                    sum = sum.wrapping_add(x);
                    sum
                })
                .collect();
            let evaluated = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(numbers(&launch.elements_in(&evaluated, 1)), sums, "{what}");
            let simt = lower(&kernel, &best_facts(&kernel), schedule, Target::h200()).unwrap_or_else(|e| panic!("{what}: {e}"));
            for seed in 0..3 {
                let after = launch.simulate_in_order(&simt, seed).unwrap_or_else(|t| panic!("{what}: {t}"));
                assert_eq!(numbers(&after.elements_of(&launch, 1)), sums, "{what}");
            }
        }
    }
}

#[test]
fn one_thread_waits_for_its_block() {
    let kernel = built(chained::Kernel::def());
    let text = emit(&lowered(&kernel, "T=256,C=1,G=0"));
    let (wait, behind) = around_wait(&text);
    assert!(wait.contains("fetch_acquire(") && !wait.contains("atomic") && !wait.contains("__sync"), "{text}");
    assert!(text.contains("ld.acquire.gpu"), "{text}");
    assert_eq!(barriers_before(&behind, "= state_found[0]"), 1, "{text}");
    // The choice around the loop is the thread's, too.
    assert!(!text.contains("goes_on"), "{text}");
    let shown = page(&kernel, &best_facts(&kernel), &parse_schedule(&kernel, "T=256,C=1,G=0").expect("a schedule"), Target::h200(), None);
    let shown = shown.unwrap_or_else(|e| panic!("{e}")).expect("a page");
    assert!(shown.contains("by thread 0 alone {") && shown.contains(" through shared memory, barrier block"), "{shown}");
}

#[test]
fn one_warp_looks_at_words_for_its_block() {
    let kernel = built(looked_back::Kernel::def());
    let text = emit(&lowered(&kernel, "T=256,C=1,G=0"));
    let (wait, behind) = around_wait(&text);
    assert!(wait.contains("fetch_acquire(") && !wait.contains("atomic") && !wait.contains("__syncthreads"), "{text}");
    assert!(text.contains("if (thread < 32) {"), "{text}");
    assert_eq!(barriers_before(&behind, "= before_found[0]"), 1, "{text}");
    // Lanes see what any of them has acquired.
    assert_eq!(wait.matches("__syncwarp").count(), 1, "{text}");
}

/// As [`chained`], but the block has stored something before it waits, which its word tells of.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2]), grid(G = [0, 1]))]
pub fn told_of(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, ticket: &mut Tensor<u32, 1>, states: &mut Tensor<u64, 1>) {
    for _t in x.tiles([T]) {
        let me = ticket.fetch_add_at(0, 1).cast::<i64>();
        let at = iota::<i64>(T) + me * TILE;
        let ends = x.gather(at).or(0).scan_sum(0);
        y.scatter(at, ends);
        let mut state = scalar::<u64>(0);
        if me > 0 {
            while (state >> 63) == 0 {
                state = states.ordered(Scope::Device, MemoryOrder::Acquire).fetch_at(me - 1);
            }
        }
        states.ordered(Scope::Device, MemoryOrder::Release).atomic_set(me, 1u64 << 63);
    }
}

#[test]
fn who_has_waited_publishes() {
    for (def, threads) in [(chained::Kernel::def(), "thread 0"), (looked_back::Kernel::def(), "warp 0")] {
        let kernel = built(def);
        let text = emit(&lowered(&kernel, "T=256,C=1,G=0"));
        let (_, behind) = around_wait(&text);
        let (alone, _) = behind.split_once("__syncthreads").unwrap_or_else(|| panic!("{text}"));
        assert!(alone.contains("__threadfence();") && alone.contains("atomicExch(&states"), "{threads}: {text}");
    }
    // A relaxed word tells of nothing else: it may leave before the block has met, whatever was stored, and with tiles dealt to blocks.
    for schedule in ["T=256,C=1,G=0", "T=256,C=1,G=1"] {
        let text = emit(&lowered(&built(chained_by_words::Kernel::def()), schedule));
        let (_, behind) = around_wait(&text);
        let (alone, _) = behind.split_once("__syncthreads").unwrap_or_else(|| panic!("{text}"));
        assert!(alone.contains("atomicExch(&states") && !alone.contains("__threadfence"), "{text}");
    }
    // With tiles dealt to blocks, others may still store of the tile before; and what was stored before the wait is to be seen.
    let dealt = |def: KernelDef, schedule: &str| emit(&lowered(&built(def), schedule));
    for text in [dealt(chained::Kernel::def(), "T=256,C=1,G=1"), dealt(told_of::Kernel::def(), "T=256,C=1,G=0")] {
        let (_, behind) = around_wait(&text);
        let (alone, _) = behind.split_once("__syncthreads").unwrap_or_else(|| panic!("{text}"));
        assert!(!alone.contains("atomicExch"), "{text}");
    }
}

#[test]
fn a_block_of_one_warp_waits_without_shared_memory() {
    for (def, told) in [(chained::Kernel::def(), true), (looked_back::Kernel::def(), false)] {
        let kernel = built(def);
        let text = emit(&lowered(&kernel, "T=256,C=8,G=0"));
        let (wait, behind) = around_wait(&text);
        let shared = ["state_found[", "before_found["].iter().any(|array| text.contains(array));
        assert!(!wait.contains("__syncthreads") && !shared, "{text}");
        let until = behind.find("__syncthreads").unwrap_or(behind.len());
        assert_eq!(behind[..until].contains("__shfl_sync"), told, "{text}");
    }
}

#[test]
fn the_block_meets_behind_a_wait() {
    for def in [chained::Kernel::def(), looked_back::Kernel::def()] {
        let kernel = built(def);
        let launch = launch(&kernel, 3000);
        for schedule in ["T=256,C=1,G=0", "T=256,C=2,G=1"] {
            let simt = lowered(&kernel, schedule);
            launch.simulate(&simt, 1 << 26).unwrap_or_else(|t| panic!("{t}"));
            let without = mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier);
            let traps: Vec<String> = without.filter_map(|m| launch.simulate(&m.kernel, 1 << 26).err()).map(|t| t.to_string()).collect();
            assert!(traps.iter().any(|t| t.contains("state_found") || t.contains("before_found")), "{}: {traps:?}", kernel.name);
        }
    }
}

#[test]
fn what_does_more_than_to_look_is_done_by_the_block() {
    let kernel = built(counted::Kernel::def());
    let text = emit(&lowered(&kernel, "T=256"));
    let (wait, _) = around_wait(&text);
    assert!(wait.contains("__syncthreads") && !text.contains("seen_found["), "{text}");
}

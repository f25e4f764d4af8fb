//! Shared arrays and atomics: what they record, where barriers stand, what is refused, and that a missing barrier is a race.

pub mod kernels;

use super::language::{has, ir, mistakes_in, says};
use super::launches::{Launch, Placement, best_facts, shapes};
use super::mutator::{Removed, mutants};
use girih::prelude::*;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::simt::print::print;
use girih_core::target::Target;
use girih_core::tile::access::classify;

fn lowered(def: KernelDef, schedule: &[(&str, i64)]) -> girih_core::simt::Kernel {
    let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
    let mut s = Schedule::default_of(&kernel);
    for (name, value) in schedule {
        let at = kernel.knobs.iter().position(|k| k.name == *name).unwrap_or_else(|| panic!("no knob {name}"));
        s.choices[at] = girih_core::schedule::Choice::Int(*value);
    }
    lower(&kernel, &best_facts(&kernel), &s, Target::h200()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn accesses_are_statements_in_order() {
    let text = ir(kernels::alike_in_tile::Kernel::def());
    has(&text, &["shared counts: i32[16]", "fill counts, 0i32", "atomic add shared counts (key), %2", "%3: i32[T] = gather counts (key)"]);
    let text = ir(kernels::slots::Kernel::def());
    says(&text, &["slot: i32[T] = atomic add shared next (", "before: i32 = atomic add device relaxed total (0), "]);
    let text = ir(kernels::global_updates::Kernel::def());
    says(&text, &["atomic compareswap device relaxed i (", "atomic min system acquirerelease u ("]);
}

/// The barriers of a kernel, each with the statement before it.
fn barriers(def: KernelDef, schedule: &[(&str, i64)]) -> usize {
    print(&lowered(def, schedule)).lines().filter(|l| l.trim().starts_with("barrier")).count()
}

#[test]
fn barriers_stand_between_conflicting_accesses_only() {
    // Fill, add, read.
    assert_eq!(barriers(kernels::alike_in_tile::Kernel::def(), &[("G", 0)]), 2);
    // Taken again, the fill waits for the reads of the last turn: an array of the author's has one copy, which keeps what is not written.
    assert_eq!(barriers(kernels::alike_in_tile::Kernel::def(), &[("G", 1)]), 3);
    // Adds of all turns commute: the block meets before the loop and after it.
    use girih::algorithms::{Value, histogram_256};
    assert_eq!(barriers(histogram_256::Kernel::<i32, Value>::def(), &[]), 2);
    // The fill before the loop needs none: the loop fills again first. Write, read, and the next turn's fill.
    assert_eq!(barriers(kernels::mirrored_tiles::Kernel::def(), &[("G", 1)]), 3);
}

#[test]
fn a_missing_barrier_is_a_race() {
    let mut caught = 0;
    for def in [kernels::alike_in_tile::Kernel::def(), kernels::mirrored_tiles::Kernel::def(), kernels::slots::Kernel::def()] {
        let kernel = (def.build)().unwrap_or_else(|e| panic!("{e}"));
        let simt = lowered(def, &[("G", 1)]);
        let shape = shapes(&kernel, &[700], 1, 0).pop().expect("a shape");
        let launch = Launch::new(&kernel, &shape, Placement::Aligned, 0);
        launch.simulate(&simt, 1 << 24).unwrap_or_else(|t| panic!("{t}"));
        for mutant in mutants(&simt).into_iter().filter(|m| m.removed == Removed::Barrier) {
            let full = !mutant.place.contains("tail");
            match launch.simulate(&mutant.kernel, 1 << 24) {
                Err(trap) => {
                    // A warp that runs ahead reads what nobody has written, or races.
                    assert!([": race on ", ": uninitialised: "].iter().any(|k| trap.to_string().contains(k)), "{trap}");
                    caught += 1;
                }
                Ok(_) => assert!(!full, "{}: not caught without {}", kernel.name, mutant.place),
            }
        }
    }
    assert!(caught >= 7, "{caught}");
}

#[test]
fn copies_lie_side_by_side() {
    use girih::algorithms::{Value, histogram_256};
    let one = lowered(histogram_256::Kernel::<i32, Value>::def(), &[("K", 1)]);
    let many = lowered(histogram_256::Kernel::<i32, Value>::def(), &[("K", 32)]);
    assert_eq!((one.shared[0].len, many.shared[0].len), (256, 256 * 32));
    // An array that is scattered to has no copies.
    let slots = lowered(kernels::slots::Kernel::def(), &[]);
    assert!(slots.shared.iter().all(|a| a.len <= 128), "{:?}", slots.shared);
    let kernel = (histogram_256::Kernel::<i32, Value>::def().build)().unwrap();
    let mut s = Schedule::default_of(&kernel);
    let at = kernel.knobs.iter().position(|k| k.name == "K").unwrap();
    s.choices[at] = girih_core::schedule::Choice::Int(3);
    let error = lower(&kernel, &best_facts(&kernel), &s, Target::h200()).unwrap_err().to_string();
    assert!(error.contains("must be a power of two up to 32"), "{error}");
}

#[device]
fn wrong_accesses(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let mut table = shared::<f32>([4, 4], 0.0);
    let mut halves = shared::<f16>([4], 0.0);
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let key = v.cast::<i32>();
        table.atomic_add(key, 1.0);
        table.atomic_add((key, 0), zeros::<f32>([16]));
        let one = table.fetch_add((0, 0), 1.0);
        halves.atomic_add(key, 1.0);
        if v > 0.0 {
            table.fill(1.0);
            table.atomic_add((0, 0), 1.0);
        }
        y.store((i, j), v + one);
    }
}

#[test]
fn mistakes_are_explained() {
    let text = mistakes_in(include_str!("shared.rs"), wrong_accesses);
    says(
        &text,
        &[
            "1 indices where there are 2 axes",
            "[16] stored to positions of shape [M, N]",
            "an atomic on one element gives no tile",
            "no atomics on elements of f16",
            "a shared array is filled as a whole: not under a per-element condition",
            "under a per-element condition, but with no element of its own",
        ],
    );
}

#[kernel(tile(T = 64))]
pub fn kept_too_long(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let mut counts = shared::<i32>([16], 0);
    for t in x.tiles([T]) {
        counts.atomic_add(x.load(t), 1);
        y.store(t, counts.gather(x.load(t)));
    }
}

#[kernel(tile(T = 64))]
pub fn starts_too_high(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let mut counts = shared::<i32>([16], 5);
    for t in x.tiles([T]).strided() {
        counts.atomic_add(x.load(t), 1);
    }
    y.atomic_add(iota::<i32>(16), counts.load(..));
}

#[test]
fn an_array_belongs_to_one_block() {
    let refusal = |def: KernelDef| match classify(&(def.build)().unwrap_or_else(|e| panic!("{e}"))) {
        Ok(_) => panic!("accepted"),
        Err(all) => all.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n"),
    };
    says(
        &refusal(kept_too_long::Kernel::def()),
        &[
            "`counts` changes in the grid loop, whose turns run at the same time",
            "make it inside of the loop, or write `.tiles(..).strided()`",
        ],
    );
    says(
        &refusal(starts_too_high::Kernel::def()),
        &["each block starts `counts` with 5 and updates it", "start it with 0, which changes nothing"],
    );
}

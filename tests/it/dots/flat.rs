//! Tiles dealt to a block whose turns are one pipeline: blocks with several tiles compute what `eval` computes, and each wait and barrier is
//! needed.

use super::super::launches::{Launch, Placement, Shape, best_facts, shapes_within};
use super::super::mutator::{Removed, mutants};
use super::super::rungs::all_kernels;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::host::HostExpr;
use girih_core::types::BinaryOp;

const FUEL: u64 = 50_000_000;

/// The comment nearest to the waits behind the last tile.
const BEHIND: &str = "// 2 neighbours in registers that follow one another";

/// Kernels with dots whose tiles can be dealt and whose turns can overlap.
fn kernels() -> Vec<Kernel> {
    let has = |k: &Kernel, kind: KnobKind| k.knobs.iter().any(|knob| knob.kind == kind);
    let overlaps = |k: &Kernel| k.knobs.iter().any(|knob| knob.choices.contains(&Choice::Word("Overlap".into())));
    let own = all_kernels().into_iter().filter(|k| k.path.contains("dots::kernels") && has(k, KnobKind::Grid) && overlaps(k));
    let all: Vec<Kernel> = own.collect();
    assert!(all.len() >= 5, "{} kernels", all.len());
    all
}

/// Schedules whose turns overlap and whose tiles are dealt, by matrix instructions: `most` for each 40 that are drawn, looked for as they
/// are asked for, since a draw lowers many kernels.
fn dealt<'a>(space: &'a Space, copy: &'a str, most: usize) -> impl Iterator<Item = Schedule> + 'a {
    let kernel = space.kernel();
    let changed = space.shuffled(5).take(40 * most).map(move |mut schedule| {
        for (knob, choice) in kernel.knobs.iter().zip(&mut schedule.choices) {
            match knob.kind {
                KnobKind::Unit => *choice = Choice::Word("Mma".into()),
                KnobKind::Copy => *choice = Choice::Word(copy.into()),
                KnobKind::Grid => *choice = Choice::Int(1),
                KnobKind::Split => *choice = Choice::Int(1),
                KnobKind::Stages if *choice == Choice::Int(1) => *choice = Choice::Int(2),
                _ => {}
            }
        }
        schedule
    });
    let mut before = None;
    let new = move |s: &Schedule| before.replace(s.clone()).as_ref() != Some(s);
    changed.filter(|s| space.check(s).is_ok()).filter(new).take(most)
}

/// The kernel on two blocks at most, so that they have several tiles each.
fn on_two_blocks(kernel: &Kernel, facts: &Facts, schedule: &Schedule) -> simt::Kernel {
    let mut simt = lower(kernel, facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.full_name()));
    simt.launch.grid = HostExpr::binary(BinaryOp::Min, simt.launch.grid, HostExpr::Const(2));
    simt
}

#[test]
fn blocks_with_several_tiles_compute_what_eval_computes() {
    let (mut launches, mut failures) = (0, Vec::new());
    for kernel in kernels() {
        for (placement, facts) in [(Placement::Aligned, best_facts(&kernel)), (Placement::Shifted, Facts::none(&kernel))] {
            let space = Space::new(&kernel, &facts, Target::h200());
            let ways = ["Overlap", "Mbarriers"].map(|copy| (copy, dealt(&space, copy, 3).collect::<Vec<_>>()));
            for (copy, legal) in &ways {
                // There copies depend on what a tile does before its loop, or move less than 4 bytes.
                let excused = *copy == "Mbarriers" && (kernel.name == "batch_product" || facts == Facts::none(&kernel));
                assert!(!legal.is_empty() || excused, "{}: no schedule with {copy}", kernel.full_name());
            }
            for (n, schedule) in ways.iter().flat_map(|(_, legal)| legal).enumerate() {
                let simt = on_two_blocks(&kernel, &facts, schedule);
                let flat = emit(&simt).contains("are one pipeline");
                // There the place of a copy depends on what comes before the loop of the sum.
                assert_eq!(flat, !["batch_product"].contains(&kernel.name.as_str()), "{}", emit(&simt));
                for shape in shapes_within(1 << 17, &kernel, &[96, 64, 0, 33, 112, 17, 1], 4, n as u64) {
                    let launch = Launch::new(&kernel, &shape, placement, n as u64);
                    if !launch.facts(&kernel).imply(&facts) {
                        continue;
                    }
                    launches += 1;
                    let outcome = launch.disagreement(&kernel, &simt, FUEL);
                    failures.extend(outcome.map(|o| format!("{} {} {:?}: {o}", kernel.full_name(), schedule.short(&kernel), shape.lens)));
                }
            }
        }
    }
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} of {launches} launches differ, first ones:\n{shown}", failures.len());
    assert!(launches > 60, "{launches} launches");
}

#[test]
fn each_wait_and_barrier_of_the_pipeline_is_needed() {
    let kernel = kernels().into_iter().find(|k| k.name == "split_product").expect("a kernel");
    let facts = best_facts(&kernel);
    let shape = Shape { lens: vec![vec![64, 64]; 4], scalars: vec![None; 4] };
    let launch = Launch::new(&kernel, &shape, Placement::Aligned, 1);
    let space = Space::new(&kernel, &facts, Target::h200());
    for (copy, least) in [("Overlap", 4), ("Mbarriers", 4)] {
        let of_two_warps = |s: &Schedule| s.short(&kernel).contains("W=2") && s.short(&kernel).contains("S=3");
        let schedule = dealt(&space, copy, 200).find(of_two_warps).expect("a ring of three");
        let simt = on_two_blocks(&kernel, &facts, &schedule);
        launch.simulate(&simt, FUEL).unwrap_or_else(|t| panic!("{t}"));
        let mut caught = 0;
        for mutant in mutants(&simt).into_iter().filter(|m| matches!(m.removed, Removed::Barrier | Removed::Wait)) {
            let trap = (0..6).find_map(|seed| launch.simulate_in_order(&mutant.kernel, seed).err());
            // Behind the last tile copies are on their way that write nothing but zeros: nobody reads them.
            let spare = mutant.place.starts_with("async wait until 0 pending") || mutant.place.ends_with(BEHIND);
            assert!(trap.is_some() || spare, "nobody misses {:?} {} of\n{}", mutant.removed, mutant.place, emit(&mutant.kernel));
            caught += usize::from(trap.is_some());
        }
        assert!(caught >= least, "{copy}: {caught}");
    }
}

/// Rows and columns behind the ends may hold anything only where all that is computed is stored within the ends.
#[test]
fn behind_the_ends_lie_zeros_where_somebody_looks() {
    let looks = [("padded_product", false), ("totalled_product", false), ("tf32_product", true)];
    for (name, anything) in looks {
        let kernel = all_kernels().into_iter().find(|k| k.name == name).expect("a kernel");
        let facts = best_facts(&kernel);
        let space = Space::new(&kernel, &facts, Target::h200());
        let handed = |s: &Schedule| s.short(&kernel).contains("P=Mbarriers");
        let schedules: Vec<Schedule> = space.shuffled(3).take(2000).filter(handed).take(6).collect();
        let mut lean = false;
        for schedule in &schedules {
            let simt = lower(&kernel, &facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{name}: {e}"));
            lean |= emit(&simt).contains("the last ones where nobody looks");
            for shape in shapes_within(1 << 17, &kernel, &[16, 48, 64, 112], 4, 7) {
                let launch = Launch::new(&kernel, &shape, Placement::Aligned, 7);
                if launch.facts(&kernel).imply(&facts) {
                    let outcome = launch.disagreement(&kernel, &simt, FUEL);
                    assert!(outcome.is_none(), "{name} {} {:?}: {}", schedule.short(&kernel), shape.lens, outcome.unwrap_or_default());
                }
            }
        }
        assert!(lean == anything && !schedules.is_empty(), "{name}: {} schedules with mbarriers", schedules.len());
    }
}

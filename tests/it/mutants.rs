//! Mutants: every barrier, wait, word and predicate of the lowered gallery is taken out in turn, and the simulator must notice.
//!
//! A mutant is caught where some launch at an odd size traps, or leaves something else than the evaluator. Those that no launch can
//! tell from the original are listed in [`HARMLESS`] with the reason; docs/TESTING.md repeats the list.

use super::launches::{Launch, Placement, Shape, best_facts, shapes};
use super::mutator::{Mutant, Removed, mutants, of_each};
use super::rungs::in_gallery;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::schedule::{KnobKind, Schedule};
use girih_core::simt::{self, Stmt};
use girih_core::target::Target;
use girih_core::tile::access::visit;
use girih_core::tile::{Kernel, KnobId, ParamKind};
use std::collections::{BTreeMap, BTreeSet};

/// Warp instructions after which a launch of these sizes is taken for endless.
const FUEL: u64 = 2_000_000;

/// A kind of mutant that changes nothing.
struct Harmless {
    kernel: &'static str,
    removed: Removed,
    /// Text of the statement or of the comment above it.
    place: &'static str,
    /// Why nothing changes.
    reason: &'static str,
}

/// What may be taken out without any launch noticing.
const HARMLESS: [Harmless; 28] = [
    Harmless {
        kernel: "halves_of_pairs",
        removed: Removed::StorePredicate,
        place: "store y[i%2]",
        reason: "of as many elements as there are, pairs are half: their numbers lie in the first half",
    },
    Harmless {
        kernel: "decaying_sums",
        removed: Removed::Condition,
        place: "goes from warp to warp",
        reason: "what the chain's first value is for the other warps they never take: it is overwritten before",
    },
    Harmless {
        kernel: "hashes",
        removed: Removed::Condition,
        place: "goes from warp to warp",
        reason: "what the chain's first value is for the other warps they never take: it is overwritten before",
    },
    Harmless {
        kernel: "hashes",
        removed: Removed::LoadPredicate,
        place: "x_gathered",
        reason: "behind the last step the hash stays as it is; the predicate of the load spares traffic",
    },
    Harmless {
        kernel: "segments",
        removed: Removed::LoadPredicate,
        place: "t_end",
        reason: "a sum keeps what it had where the position is none of the loop's; the predicate of its load spares traffic",
    },
    Harmless {
        kernel: "near_sums",
        removed: Removed::LoadPredicate,
        place: "k_end",
        reason: "a sum keeps what it had where the position is none of the loop's; the predicate of its load spares traffic",
    },
    Harmless {
        kernel: "constant_positions",
        removed: Removed::LoadPredicate,
        place: "c_end",
        reason: "a sum keeps what it had where the position is none of the loop's; the predicate of its load spares traffic",
    },
    Harmless {
        kernel: "ragged_rows",
        removed: Removed::LoadPredicate,
        place: "x_frag",
        reason: "what lies behind the end of a row exists where rows are wide enough, and is not stored; the predicate spares its traffic",
    },
    Harmless {
        kernel: "join_attention",
        removed: Removed::LoadPredicate,
        place: "load(largest[",
        reason: "the parts of chunks without a key that a query sees are there in these launches, and not taken; the predicate spares their traffic",
    },
    Harmless {
        kernel: "join_attention",
        removed: Removed::LoadPredicate,
        place: "load(totals[",
        reason: "the parts of chunks without a key that a query sees are there in these launches, and not taken; the predicate spares their traffic",
    },
    Harmless {
        kernel: "join_attention",
        removed: Removed::LoadPredicate,
        place: "load(parts[",
        reason: "the parts of chunks without a key that a query sees are there in these launches, and not taken; the predicate spares their traffic",
    },
    Harmless {
        kernel: "clear_rest",
        removed: Removed::Condition,
        place: "> kept",
        reason: "a tile in front of the zeros is stored as it was loaded; the condition spares its traffic",
    },
    Harmless {
        kernel: "windows_between",
        removed: Removed::Condition,
        place: "< t_to",
        reason: "copies of turns that there are not find nothing, or what nobody reads; the condition spares them",
    },
    Harmless {
        kernel: "histogram_global",
        removed: Removed::AtomicPredicate,
        place: "a full tile",
        reason: "the launches of full tiles have a bin for each value that they draw",
    },
    Harmless {
        kernel: "filtered",
        removed: Removed::LoadPredicate,
        place: "taps_element",
        reason: "the offsets stay inside of the chunk, which divides the length of these launches",
    },
    Harmless {
        kernel: "filtered",
        removed: Removed::Condition,
        place: "< k_tiles",
        reason: "copies of turns that there are not find nothing inside of their bounds; the condition spares them",
    },
    Harmless {
        kernel: "filtered",
        removed: Removed::Condition,
        place: "// copy a window of 8 elements of w",
        reason: "what a stage copies too many are the first taps of the next stage, as that copies them itself",
    },
    Harmless {
        kernel: "mirrored_tiles",
        removed: Removed::Barrier,
        place: "full tiles and the tail alike",
        reason: "with one element per thread, the thread that fills an element also writes it",
    },
    Harmless {
        kernel: "ranks",
        removed: Removed::Barrier,
        place: "change the layout",
        reason: "the barrier with which a turn begins stands before it",
    },
    Harmless {
        kernel: "ranks",
        removed: Removed::Barrier,
        place: "kept by hand",
        reason: "the barrier of the change of layout that follows stands before the next access, too",
    },
    Harmless {
        kernel: "chosen",
        removed: Removed::LoadPredicate,
        place: "load",
        reason: "the element that is not chosen exists, too; the predicate spares its traffic",
    },
    Harmless {
        kernel: "extremes",
        removed: Removed::AtomicPredicate,
        place: "atomic Max",
        reason: "the maximum of a value with itself: all threads of the block may add theirs",
    },
    Harmless {
        kernel: "extremes",
        removed: Removed::Update,
        place: "atomic Max",
        reason: "what the memory held before may be larger than all that a launch brings",
    },
    Harmless {
        kernel: "column_sums",
        removed: Removed::AtomicPredicate,
        place: "a full tile",
        reason: "a full tile's columns lie inside of the sums wherever these are as long as a row",
    },
    Harmless {
        kernel: "extremes",
        removed: Removed::Condition,
        place: "if any",
        reason: "some tile of every launch that is tried holds a seven",
    },
    Harmless {
        kernel: "scaled_by_last",
        removed: Removed::Barrier,
        place: "the last block to do so goes on",
        reason: "where a block has several warps, they have met for their sum since they read the total",
    },
    Harmless {
        kernel: "grown",
        removed: Removed::Barrier,
        place: "the last block to do so goes on",
        reason: "where a block has several warps, they have met for their sum since they read the total",
    },
    Harmless {
        kernel: "flipped_count",
        removed: Removed::Barrier,
        place: "the last block to do so goes on",
        reason: "the thread that counts also takes the ticket",
    },
];

/// Kernels whose atomics show nothing of an element more or less: minima, unions, updates by zero. `a_missing_barrier_is_a_race` takes
/// out the barriers of some. Kernels that copy by hand, whose waits show at other lengths: `chains` takes them out. Arrays of which a
/// thread reads its own elements alone at some places (`even_places`, `one_place`), or whose readers may be one warp
/// (`exchanged_in_shared`). Copies of dots' operands are guarded twice, by the turn and by the lengths, and their waits have nothing to
/// wait for where elements are too narrow for asynchronous copies. What a solver's kernel would read too much of its system lies inside of
/// it, or in a chunk's neighbour. Words that blocks leave in their order are there before the last block asks, which only other orders
/// show: `meeting.rs` tries them. Lists that begin with whom comes last (`list_agents`).
const LEFT_OUT: [&str; 17] = [
    "flash_decoding",
    "chains::kernels::sums_ahead",
    "chains::kernels::turned_runs",
    "cooperating::kernels::composition",
    "dots::",
    "presence::kernels::",
    "ordinary_least_squares::",
    "shared::kernels::even_places",
    "shared::kernels::one_place",
    "shared::kernels::extremes",
    "shared::kernels::slots",
    "shared::kernels::global_updates",
    "words::kernels::fetched",
    "words::kernels::taken_as_they_are",
    "words::kernels::taken_from_shared",
    "words::kernels::exchanged_in_shared",
    "multi_agent_sim::",
];

/// A lowered kernel and the launches that its mutants are tried on.
struct Case {
    kernel: Kernel,
    simt: simt::Kernel,
    what: String,
    launches: Vec<Launch>,
}

/// One schedule of each structure (which kinds of statements the lowered kernel has), the one with the smallest tiles.
fn structures(kernel: &Kernel, facts: &Facts) -> Vec<(Schedule, simt::Kernel)> {
    let space = Space::new(kernel, facts, Target::h200());
    let mut found: BTreeMap<Vec<String>, (i64, Schedule, simt::Kernel)> = BTreeMap::new();
    let naive = space.naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    for schedule in std::iter::once(naive).chain(space.sample(60, 7)) {
        let simt = lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let mut kinds: BTreeSet<String> = mutants(&simt).iter().map(|m| format!("{:?}", m.removed)).collect();
        features(&simt.body, &mut kinds);
        let size = |(i, k): (usize, &girih_core::schedule::Knob)| match k.kind {
            KnobKind::Tile => schedule.int(KnobId(i as u32)),
            _ => 1,
        };
        let elements = kernel.knobs.iter().enumerate().map(size).product();
        let kinds = kinds.into_iter().collect();
        if found.get(&kinds).is_none_or(|(e, _, _)| elements < *e) {
            found.insert(kinds, (elements, schedule, simt));
        }
    }
    found.into_values().map(|(_, schedule, simt)| (schedule, simt)).collect()
}

fn features(block: &[Stmt], kinds: &mut BTreeSet<String>) {
    for stmt in block {
        match stmt {
            Stmt::LoadVector { .. } => drop(kinds.insert("vector load".into())),
            Stmt::StoreVector { .. } => drop(kinds.insert("vector store".into())),
            Stmt::If { then, otherwise, .. } => {
                features(then, kinds);
                features(otherwise, kinds);
            }
            Stmt::For { body, unroll, .. } => {
                if !unroll {
                    kinds.insert("loop".into());
                }
                features(body, kinds);
            }
            Stmt::While { header, body, .. } => {
                features(header, kinds);
                features(body, kinds);
            }
            _ => {}
        }
    }
}

fn lengths(kernel: &Kernel, schedule: &Schedule) -> Vec<i64> {
    let tiles: Vec<i64> =
        (0..kernel.knobs.len()).filter(|i| kernel.knobs[*i].kind == KnobKind::Tile).map(|i| schedule.int(KnobId(i as u32))).collect();
    let mut all: Vec<i64> =
        tiles.iter().flat_map(|t| [3 * t + 16, 3 * t - 16, 2 * t + 1, t - 1, (t - 16).max(0), *t, 5 * t, (3 * t + 16) / 16 * 16]).collect();
    all.extend([0, 1, 16, 37]);
    all.retain(|l| *l >= 0);
    all
}

/// Tensors of several axes rarely meet facts about all of them, have a whole tile and are small by chance: for kernels with such, the
/// smallest shapes of multiples of 16 that are as long as a tile along one axis at most.
fn small_shapes(kernel: &Kernel, schedule: &Schedule, seed: u64) -> Vec<Shape> {
    let ranks = kernel.params.iter().map(|p| match p.kind {
        ParamKind::Tensor { rank, .. } => rank,
        ParamKind::Scalar(_) => 0,
    });
    let rank = ranks.max().unwrap_or(0);
    if rank < 2 || !kernel.path.contains("scans::") {
        return Vec::new();
    }
    let tiles = (0..kernel.knobs.len()).filter(|i| kernel.knobs[*i].kind == KnobKind::Tile).map(|i| schedule.int(KnobId(i as u32)));
    let longest = (tiles.max().unwrap_or(1) + 15) / 16 * 16;
    let mut all = shapes(kernel, &[16, longest], 1 << rank, seed);
    all.sort_by_key(|s| s.lens.iter().map(|l| l.iter().product::<i64>()).max());
    all.truncate(1 + rank);
    all
}

/// Gallery kernels whose threads cooperate are too much to simulate this often: small kernels of `cooperating`, `dots`, `scans`, `shared`,
/// `threads` and `windows` stand for them, which lower by the same code, and `algorithms::guards` takes out what the library's tell each other.
pub fn stood_for(kernel: &Kernel) -> bool {
    let mut cooperate = false;
    visit(&kernel.body, &mut |stmt| {
        use girih_core::tile::{Op, Stmt};
        cooperate |= matches!(
            stmt,
            Stmt::Combine(_)
                | Stmt::Shared(_)
                | Stmt::While { .. }
                | Stmt::Let(_, Op::Window { .. } | Op::Gather(..) | Op::GatherInside(..) | Op::Dot { .. })
        );
    });
    // What a solver's launches share are shapes that only their program knows.
    let solver = kernel.path.contains("logistic_regression");
    solver || cooperate && in_gallery(&kernel.path)
}

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for kernel in super::differential::chosen().into_iter().filter(|k| !LEFT_OUT.iter().any(|l| k.path.contains(l)) && !stood_for(k)) {
        for (facts, placement) in [
            (Facts::none(&kernel), Placement::Strided),
            (Facts::packed(&kernel, true), Placement::Shifted),
            (best_facts(&kernel), Placement::Aligned),
        ] {
            for (n, (schedule, simt)) in structures(&kernel, &facts).into_iter().enumerate() {
                let fits = |l: &Launch| l.facts(&kernel).imply(&facts);
                let mut shapes = shapes(&kernel, &lengths(&kernel, &schedule), 16, n as u64);
                shapes.extend(small_shapes(&kernel, &schedule, n as u64));
                let launches: Vec<Launch> = shapes.iter().map(|s| Launch::new(&kernel, s, placement, 3).exact()).filter(fits).collect();
                let what = format!("{} {} with {facts}", kernel.name, schedule.short(&kernel));
                assert!(!launches.is_empty(), "{what}: no launch meets these facts");
                all.push(Case { kernel: kernel.clone(), simt, what, launches });
            }
        }
    }
    all
}

/// Whether a launch of the kernel is unlike the expected one, by more than the last bit of an element.
fn noticed(case: &Case, simt: &simt::Kernel, launch: &Launch, expected: &[Vec<u8>]) -> bool {
    match launch.simulate(simt, FUEL) {
        Err(_) => true,
        Ok(after) => launch.difference(&case.kernel, &after, expected).is_some(),
    }
}

/// Mutants that no launch noticed.
fn survivors(case: &Case) -> (usize, Vec<Mutant>) {
    // The kernel itself is right, other tests say: a mutant must do what it does, in the same order of operations.
    let mut launches = Vec::new();
    for launch in &case.launches {
        match launch.simulate(&case.simt, FUEL) {
            Ok(after) => launches.push((launch, after.buffers(launch))),
            Err(trap) => assert!(trap.to_string().contains("not finished"), "{}: the kernel itself is wrong: {trap}", case.what),
        }
    }
    // Launches of much work are left to the differential test, where a kernel has smaller ones.
    assert!(!launches.is_empty(), "{}: no launch finishes in {FUEL} warp instructions", case.what);
    let all = mutants(&case.simt);
    let count = all.len();
    let lives = |m: &Mutant| !launches.iter().any(|(l, e)| noticed(case, &m.kernel, l, e));
    (count, all.into_iter().filter(lives).collect())
}

#[test]
fn every_guard_matters() {
    let cases = cases();
    let found = of_each(&cases, |case| (survivors(case), case.what.clone()));
    let count: usize = found.iter().map(|((count, _), _)| count).sum();
    let survivors: Vec<(Mutant, String)> =
        found.into_iter().flat_map(|((_, survivors), what)| survivors.into_iter().map(move |m| (m, what.clone()))).collect();
    let all = std::env::var("GIRIH_TEST_KERNEL").is_err();
    assert!(count > 200 || !all, "only {count} mutants were made");
    let fits = |h: &Harmless, m: &Mutant| h.kernel == m.kernel.name && h.removed == m.removed && m.place.contains(h.place);
    let listed = |m: &Mutant| HARMLESS.iter().position(|h| fits(h, m));
    let missed: Vec<String> = survivors
        .iter()
        .filter(|(m, _)| listed(m).is_none())
        .map(|(m, what)| format!("{:?} of `{}` in {what}", m.removed, m.place))
        .collect();
    let shown = missed.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(missed.is_empty(), "{} of {count} mutants were not caught, first ones:\n{shown}", missed.len());
    let used: BTreeSet<usize> = survivors.iter().filter_map(|(m, _)| listed(m)).collect();
    for (i, h) in HARMLESS.iter().enumerate() {
        assert!(used.contains(&i) || !all, "every {:?} of {} is caught now ({}): take it off the list", h.removed, h.kernel, h.reason);
    }
}

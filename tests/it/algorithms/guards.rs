//! Guards of the library's cooperating kernels: each barrier, wait, order, update, ticket and condition is taken out in turn, and the simulator
//! must notice. (`mutants` leaves them out: they want words that begin at zero, counts that are those of their keys, and whole blocks of
//! threads.) What scans over the grid are lowered to has its guards taken out in `over_grid`, too.

use super::super::launches::{After, Launch, Placement, Shape};
use super::super::mutator::{Mutant, Removed, mutants, of_each};
use super::mixed;
use girih_core::lower::lower;
use girih_core::registry::kernels;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::{Kernel, ParamKind};
use girih_core::types::{DType, Literal};

/// The orders of threads in which a mutant is tried.
const ORDERS: u64 = 16;

/// Elements of a tensor as bits, by their number.
type Bits = Box<dyn Fn(usize) -> u64 + Sync>;

/// Launches of a kernel of the library that are written out alike.
struct Case {
    kernel: &'static str,
    schedule: &'static str,
    /// The lengths of its tensors in each launch, and the values of its scalars.
    lens: Vec<Vec<i64>>,
    scalars: Vec<Literal>,
    /// What tensors hold; others hold random elements.
    holds: Vec<(&'static str, Bits)>,
}

/// The number of elements up to 255 among keys.
fn digits(n: usize) -> Bits {
    let mut counts = vec![0; 256];
    (0..n).for_each(|i| counts[(mixed(i) & 255) as usize] += 1);
    Box::new(move |i| counts.get(i).copied().unwrap_or(0))
}

fn keys() -> Bits {
    Box::new(|i| mixed(i) & 0xffff_ffff)
}

fn zeros() -> Bits {
    Box::new(|_| 0)
}

fn cases() -> Vec<Case> {
    let case = |kernel, schedule, lens: &[i64], holds| Case { kernel, schedule, lens: vec![lens.to_vec()], scalars: Vec::new(), holds };
    let pass = |kernel, lens: &[i64], n, wide: bool| {
        let zero = if wide { Literal::from_i64(DType::U64, 0) } else { Literal::u32(0) };
        let scalars = vec![Literal::i32(0), zero, zero];
        let holds: Vec<(&str, Bits)> = vec![("from", keys()), ("counts", digits(n)), ("tickets", zeros()), ("states", zeros())];
        Case { kernel, schedule: "Q=1", lens: vec![lens.to_vec()], scalars, holds }
    };
    let near_runs = || -> Bits { Box::new(|i| mixed(i / 5) & 3) };
    let signs = || -> Bits { Box::new(|i| (mixed(i) & 0x8000_0000) | 0x3f80_0000) };
    vec![
        case("reduce_runs<i32, i32, Sum>", "T=128,C=2,V=2,Q=1", &[777, 777, 777, 777, 1], vec![("keys", near_runs())]),
        // The tile that ends early is the last of seven, and of two.
        Case {
            lens: [777, 201].map(|n| vec![n, n]).to_vec(),
            ..case("scan_in_order<i32, Sum, Inclusive>", "T=128,C=2,V=2,Q=1", &[], vec![])
        },
        case("keep_in_order<f32, Positive>", "Q=1", &[9001, 9001, 3, 1], vec![("x", signs()), ("states", zeros())]),
        pass("radix_pass<u32>", &[17001, 17001, 1024, 4, 768], 17001, false),
        pass("radix_pass_wide<u64>", &[9001, 9001, 2048, 8, 768], 9001, true),
        pass("radix_pass_pairs<u32, u32>", &[9001, 9001, 9001, 9001, 1024, 4, 768], 9001, false),
        case(
            "histogram_256<i32, Value>",
            "T=256,C=2,V=2,G=1,S=1,K=2",
            &[2000, 256],
            vec![("x", Box::new(|i| mixed(i) & 255)), ("bins", zeros())],
        ),
        case(
            "histogram_8192<i32, Value>",
            "T=256,C=2,V=1,G=1,K=1",
            &[2000, 8192],
            vec![("x", Box::new(|i| mixed(i) & 8191)), ("bins", zeros())],
        ),
    ]
}

impl Case {
    fn built(&self) -> Kernel {
        let short = self.kernel.split('<').next();
        let alike = kernels().into_iter().filter(|d| d.module.starts_with("girih::algorithms") && Some(d.name) == short);
        let mut built = alike.map(|d| (d.build)().unwrap_or_else(|e| panic!("{}: {e}", d.path())));
        built.find(|k| k.full_name() == self.kernel).unwrap_or_else(|| panic!("the library has no {}", self.kernel))
    }

    fn launches(&self, kernel: &Kernel) -> Vec<Launch> {
        self.lens.iter().map(|lens| self.launch(kernel, lens)).collect()
    }

    fn launch(&self, kernel: &Kernel, lens: &[i64]) -> Launch {
        let (mut lens, mut scalars) = (lens.iter(), self.scalars.iter());
        let mut shape = Shape { lens: Vec::new(), scalars: Vec::new() };
        for param in &kernel.params {
            let tensor = matches!(param.kind, ParamKind::Tensor { .. });
            shape.lens.push(if tensor { vec![*lens.next().expect("a length for each tensor")] } else { Vec::new() });
            shape.scalars.push(if tensor { None } else { Some(*scalars.next().expect("a value for each scalar")) });
        }
        let mut launch = Launch::new(kernel, &shape, Placement::Aligned, 3);
        self.holds.iter().for_each(|(name, bits)| launch.set(kernel, name, bits));
        launch
    }
}

/// A mutant that changes nothing, one of each of these kernels.
struct Harmless {
    kernels: &'static [&'static str],
    removed: Removed,
    /// Text of the statement or of the comment above it.
    place: &'static str,
    /// How many there are: full tiles and the last one may be written out apart.
    times: usize,
    /// Why nothing changes.
    reason: &'static str,
}

const PASSES: &[&str] = &["radix_pass", "radix_pass_wide", "radix_pass_pairs"];

/// What may be taken out without any launch noticing.
const HARMLESS: [Harmless; 12] = [
    Harmless {
        kernels: &["scan_in_order"],
        removed: Removed::Condition,
        place: "if thread%0 < 32",
        times: 2,
        reason: "all warps look back then, and find the same",
    },
    Harmless {
        kernels: &["scan_in_order"],
        removed: Removed::Condition,
        place: "(tile_taken%3 > 0)",
        times: 2,
        reason: "what the tiles up to this one come to is said once more, by more threads",
    },
    Harmless {
        kernels: &["scan_in_order"],
        removed: Removed::Update,
        place: "| 1u32) << 32u64)",
        times: 2,
        reason: "the tiles behind can add up what each tile before them comes to",
    },
    Harmless {
        kernels: &["scan_in_order"],
        removed: Removed::Update,
        place: "u64(u32(combined%46))",
        times: 1,
        reason: "no tile is behind the last one, which alone may end early",
    },
    Harmless {
        kernels: &["reduce_runs"],
        removed: Removed::Condition,
        place: "if thread%0 < 32",
        times: 1,
        reason: "all warps look back then, and find the same",
    },
    Harmless {
        kernels: &["reduce_runs"],
        removed: Removed::Condition,
        place: "(tile_taken%3 > 0)",
        times: 1,
        reason: "what the tiles up to this one come to is said once more, by more threads",
    },
    Harmless {
        kernels: &["keep_in_order"],
        removed: Removed::Condition,
        place: "one warp waits for the block",
        times: 1,
        reason: "all warps look back then, and find the same",
    },
    Harmless {
        kernels: &["keep_in_order"],
        removed: Removed::Update,
        place: "scan 4 parts",
        times: 1,
        reason: "the tiles behind wait for what all tiles up to this one come to; its own part spares them time",
    },
    Harmless {
        kernels: &["keep_in_order"],
        removed: Removed::Barrier,
        place: "combine 32 lanes",
        times: 1,
        reason: "the block has met to learn what the tiles before its own come to",
    },
    Harmless {
        kernels: PASSES,
        removed: Removed::Update,
        place: "u64(count%",
        times: 1,
        reason: "the tiles behind wait for what all tiles up to this one come to; its own part spares them time",
    },
    Harmless { kernels: PASSES, removed: Removed::Barrier, place: "barrier warp", times: 1, reason: "behind the last key the block meets" },
    Harmless {
        kernels: PASSES,
        removed: Removed::Barrier,
        place: "barrier block;  // scan 16 parts",
        times: 1,
        reason: "nothing follows: it is there for blocks with another tile",
    },
];

/// How many mutants a case has, and those that no order of threads tells from the original.
fn survivors(case: &Case) -> (usize, Vec<Mutant>) {
    let kernel = case.built();
    let launches = case.launches(&kernel);
    let schedule = parse_schedule(&kernel, case.schedule).unwrap_or_else(|e| panic!("{}: {e}", case.kernel));
    let facts = launches[0].facts(&kernel);
    let simt = lower(&kernel, &facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", case.kernel));
    // Bounds of what is loaded and stored are not what threads tell each other.
    let cooperates = |m: &Mutant| match m.removed {
        Removed::LoadPredicate | Removed::StorePredicate | Removed::CopyPredicate => false,
        Removed::AtomicPredicate => m.place.contains("tickets"),
        _ => true,
    };
    let mut alive: Vec<Mutant> = mutants(&simt).into_iter().filter(cooperates).collect();
    let count = alive.len();
    for launch in launches {
        assert_eq!(launch.facts(&kernel), facts, "{}: launches of different texts", case.kernel);
        let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{}: {e}", case.kernel));
        let mut steps = 0;
        for seed in 0..ORDERS {
            let (after, report) = launch.simulate_as(&simt, seed, u64::MAX).unwrap_or_else(|trap| panic!("{}: {trap}", case.kernel));
            assert_eq!(launch.difference(&kernel, &after, &expected), None, "{} with seed {seed}", case.kernel);
            steps = steps.max(report.steps);
        }
        let right = |after: &After| launch.difference(&kernel, after, &expected).is_none();
        let runs = |m: &Mutant, seed| launch.simulate_as(&m.kernel, seed, 4 * steps).is_ok_and(|(after, _)| right(&after));
        alive.retain(|m| (0..ORDERS).all(|seed| runs(m, seed)));
    }
    (count, alive)
}

#[test]
fn every_guard_of_the_library_matters() {
    let cases = cases();
    let found = of_each(&cases, survivors);
    let count: usize = found.iter().map(|(count, _)| count).sum();
    let survivors: Vec<Mutant> = found.into_iter().flat_map(|(_, survivors)| survivors).collect();
    assert!(count > 120, "only {count} mutants were made");
    let fits =
        |h: &Harmless, m: &Mutant| h.kernels.contains(&m.kernel.name.as_str()) && h.removed == m.removed && m.place.contains(h.place);
    let missed = survivors.iter().filter(|m| !HARMLESS.iter().any(|h| fits(h, m)));
    let missed: Vec<String> = missed.map(|m| format!("{}: {:?} of `{}`", m.kernel.name, m.removed, m.place)).collect();
    assert!(missed.is_empty(), "{} of {count} mutants were not caught:\n{}", missed.len(), missed.join("\n"));
    for (h, kernel) in HARMLESS.iter().flat_map(|h| h.kernels.iter().map(move |kernel| (h, kernel))) {
        let listed = survivors.iter().filter(|m| m.kernel.name == *kernel && fits(h, m)).count();
        assert_eq!(listed, h.times, "{:?} of {kernel} that change nothing ({})", h.removed, h.reason);
    }
}

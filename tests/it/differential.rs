//! Every kernel × sampled schedules × facts × odd sizes and placements: the simulator leaves what the evaluator leaves, and traps nowhere.
//! On a machine with a GPU that the code is for, so does the GPU.

use super::launches::gpu::OnGpu;
use super::launches::{Launch, Placement, best_facts, even_facts, row_facts, shapes_within};
use super::mutants::stood_for;
use super::rungs::{all_kernels, in_gallery};
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::schedule::{KnobKind, Schedule};
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Warp instructions after which a launch of these sizes is taken for endless.
const FUEL: u64 = 200_000_000;
/// Elements that a launch visits at most.
const MOST_WORK: i64 = 1 << 16;
/// Schedules sampled per kernel of the gallery and facts, besides the naive one and the default.
const SAMPLES: usize = 3;
/// The same of a kernel of the tests, of which there are fewer launches.
const SAMPLES_OF_TESTS: usize = 6;
/// By how much a GPU's own functions may be off.
const APPROXIMATION: f64 = 1e-3;

/// The facts that code is compiled for, and the launches it is tried on.
struct Tier {
    facts: Facts,
    placement: Placement,
    /// Lengths of the axes of these launches, given those of [`lengths`].
    round: fn(i64) -> i64,
}

/// Facts that each kernel is compiled for.
const TIERS: usize = 6;

fn tiers(kernel: &Kernel) -> [Tier; TIERS] {
    let any: fn(i64) -> i64 = |len| len;
    [
        Tier { facts: Facts::none(kernel), placement: Placement::Strided, round: any },
        Tier { facts: Facts::none(kernel), placement: Placement::Shifted, round: any },
        Tier { facts: Facts::packed(kernel, true), placement: Placement::Shifted, round: any },
        // Multiples of 2, but not of 4.
        Tier { facts: even_facts(kernel), placement: Placement::Even, round: |len| if len > 1 { len / 4 * 4 + 2 } else { len * 2 } },
        Tier { facts: row_facts(kernel), placement: Placement::Rows, round: any },
        Tier { facts: best_facts(kernel), placement: Placement::Aligned, round: any },
    ]
}

fn schedules(kernel: &Kernel, facts: &Facts, seed: u64) -> Vec<Schedule> {
    let space = Space::new(kernel, facts, Target::h200());
    let mut all = vec![space.naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name))];
    let default = space.canonical(&Schedule::default_of(kernel));
    let samples = if in_gallery(&kernel.path) { SAMPLES } else { SAMPLES_OF_TESTS };
    for schedule in [default].into_iter().chain(space.sample(samples, seed)) {
        if space.check(&schedule).is_ok() && !all.contains(&schedule) {
            all.push(schedule);
        }
    }
    all
}

/// 0, a multiple of 16 that fits every tier of facts, 1, a prime, and lengths about the tiles of a schedule.
fn lengths(kernel: &Kernel, schedule: &Schedule) -> Vec<i64> {
    let tiles = kernel.knobs.iter().zip(&schedule.choices).enumerate().filter(|(_, (k, _))| k.kind == KnobKind::Tile);
    let mut all = vec![0, 48, 1, 97];
    for (i, _) in tiles {
        let t = schedule.int(girih_core::tile::KnobId(i as u32));
        all.extend([t - 1, t, t + 1, 2 * t + 16, 5 * t + 3]);
    }
    all
}

/// A schedule's code for some facts.
struct Code {
    facts: Facts,
    simt: simt::Kernel,
    /// The same for the GPU, where there is one.
    on_gpu: Option<OnGpu>,
}

impl Code {
    fn new(kernel: &Kernel, facts: Facts, schedule: &Schedule) -> Code {
        let simt = lower(kernel, &facts, schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let on_gpu = OnGpu::new(&simt);
        Code { facts, simt, on_gpu }
    }

    /// What is wrong with a launch of it.
    fn fault(&self, kernel: &Kernel, launch: &Launch, tiles: Option<Schedule>) -> Option<String> {
        let (expected, after) = match (launch.evaluate_under(kernel, tiles), launch.simulate(&self.simt, FUEL)) {
            (Err(e), _) => return Some(format!("eval: {e}")),
            (_, Err(trap)) => return Some(trap.to_string()),
            (Ok(expected), Ok(after)) => (expected, after),
        };
        let simulated = launch.difference(kernel, &after, &expected);
        let measured = self.on_gpu.as_ref().and_then(|code| {
            // Functions such as the exponential are approximations there.
            let mut rough = launch.clone();
            rough.slack = rough.slack.max(if is_random(kernel) { 0.0 } else { APPROXIMATION });
            match rough.on(code) {
                Err(e) => Some(e),
                Ok(after) => rough.difference(kernel, &after, &expected).map(|d| format!("on {}: {d}", code.name())),
            }
        });
        simulated.or(measured)
    }
}

fn is_random(kernel: &Kernel) -> bool {
    kernel.path.contains("random")
}

/// Runs one kernel under one tier; what was wrong, and the schedules under which it was launched.
fn run(kernel: &Kernel, tier: &Tier, failures: &Mutex<Vec<String>>) -> Vec<Schedule> {
    let (facts, placement) = (&tier.facts, tier.placement);
    let mut tried = Vec::new();
    for (n, schedule) in schedules(kernel, facts, kernel.identity()).iter().enumerate() {
        let code = Code::new(kernel, facts.clone(), schedule);
        // Half of the schedules run as code for rows that fit the schedule's tile, where a launch has such.
        let fitting = facts.clone().fitting(kernel, schedule);
        let single = (n % 2 == 0 && fitting != *facts).then(|| Code::new(kernel, fitting, schedule));
        let mut lengths: Vec<i64> = lengths(kernel, schedule).into_iter().map(tier.round).collect();
        lengths.dedup();
        let shapes = shapes_within(MOST_WORK, kernel, &lengths, 10, n as u64);
        assert!(shapes.len() > 1, "{}: no shapes meet its requirements", kernel.name);
        let mut launches = 0;
        for shape in shapes {
            let launch = Launch::new(kernel, &shape, placement, n as u64);
            if !launch.facts(kernel).imply(facts) {
                continue;
            }
            launches += 1;
            let code = single.as_ref().filter(|single| launch.facts(kernel).imply(&single.facts)).unwrap_or(&code);
            let what = || format!("{} {} with {}, {placement:?} {:?}", kernel.name, schedule.short(kernel), code.facts, shape.lens);
            // Scans and sums of a tile show where it begins.
            let tiles = (is_random(kernel) || ["scans", "words"].iter().any(|p| kernel.path.contains(p))).then(|| schedule.clone());
            let outcome = code.fault(kernel, &launch, tiles);
            failures.lock().expect("no panic while reporting").extend(outcome.map(|o| format!("{}: {o}", what())));
        }
        tried.extend((launches > 0).then(|| schedule.clone()));
    }
    tried
}

/// All kernels, or those whose names `GIRIH_TEST_KERNEL` lists.
pub fn chosen() -> Vec<Kernel> {
    let names = std::env::var("GIRIH_TEST_KERNEL").ok();
    all_kernels().into_iter().filter(|k| names.as_ref().is_none_or(|n| n.split(',').any(|n| k.name == n))).collect()
}

#[test]
fn every_schedule_computes_what_eval_computes() {
    let kernels: Vec<Kernel> = chosen()
        .into_iter()
        // Positions that an author says to lie inside must; chunks of a paged cache are as many as its program makes parts for; who comes first
        // decides how a list of agents begins, and nobody follows a list of anything.
        .filter(|k| {
            let left = ["cooperating", "dots", "scans", "threads::kernels", "taken_as_they_are", "taken_from_shared", "decode_parts"];
            !left.iter().chain(&["multi_agent_sim"]).any(|p| k.path.contains(p))
        })
        .filter(|k| !stood_for(k))
        .collect();
    compare(&kernels);
}

#[test]
fn every_schedule_of_cooperating_threads_computes_what_eval_computes() {
    let kernels: Vec<Kernel> = all_kernels().into_iter().filter(|k| k.path.contains("cooperating")).collect();
    assert!(kernels.len() >= 7, "{} kernels whose threads cooperate", kernels.len());
    let chosen = chosen();
    compare(&kernels.into_iter().filter(|k| chosen.iter().any(|c| c.path == k.path)).collect::<Vec<_>>());
}

/// Sampled schedules, facts and sizes of these kernels; the schedules under which each was launched.
pub fn compare(kernels: &[Kernel]) -> Vec<Vec<Schedule>> {
    let tasks: Vec<(&Kernel, Tier)> = kernels.iter().flat_map(|k| tiers(k).into_iter().map(move |tier| (k, tier))).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let tried = Mutex::new(vec![vec![]; tasks.len()]);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((kernel, tier)) = tasks.get(at) else { break };
            let schedules = run(kernel, tier, &failures);
            tried.lock().expect("no panic while counting")[at] = schedules;
        }
    };
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().expect("no panic while reporting");
    let shown = failures.iter().take(10).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} launches differ, first ones:\n{shown}", failures.len());
    let tried = tried.into_inner().expect("no panic while counting");
    for ((kernel, Tier { facts, placement, .. }), schedules) in tasks.iter().zip(&tried) {
        assert!(!schedules.is_empty(), "{} with {facts}, {placement:?}: no launch meets these facts", kernel.name);
    }
    tried.chunks(TIERS).map(|tiers| tiers.concat()).collect()
}

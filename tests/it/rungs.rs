//! The schedules that snapshots show and NVRTC compiles: rungs of a learner's ladder, for every registered kernel.

use super::launches::{best_facts, facts_for};
use girih::challenge::challenges;
use girih::launch::schedule_lookup;
use girih::subject::Subject;
use girih::tune::launches::AtPerf;
use girih_core::lengths::Lengths;
use girih_core::lower::check;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule, mix};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// A named schedule.
#[derive(Clone, Debug)]
pub struct Rung {
    /// `naive`, `middle` or `winner`.
    pub name: &'static str,
    /// The schedule.
    pub schedule: Schedule,
}

/// The kernels that `GIRIH_TEST_KERNEL` names, separated by commas, if it is set: a test of all of them is then one of these alone.
pub fn chosen() -> Option<Vec<String>> {
    std::env::var("GIRIH_TEST_KERNEL").ok().map(|list| list.split(',').map(str::to_string).collect())
}

/// Whether a module or a kernel's path is one of the gallery, or of the algorithms that its programs call.
pub fn in_gallery(path: &str) -> bool {
    path.starts_with("girih_examples") || path.starts_with("girih::algorithms")
}

/// Every kernel of the gallery, in a fixed order; what only rungs of ladders launch has tests of its own (`teaching`).
pub fn gallery() -> Vec<Kernel> {
    // Links the gallery in.
    use girih_examples as _;
    let defs = girih_core::registry::kernels().into_iter().filter(|d| in_gallery(d.module) && !d.module.contains("::ladders::"));
    let kernels: Vec<Kernel> = defs.map(|d| (d.build)().unwrap_or_else(|e| panic!("{}: {e}", d.path()))).collect();
    assert!(kernels.len() >= 15, "the gallery has {} kernels", kernels.len());
    let chosen = chosen();
    kernels.into_iter().filter(|k| chosen.as_ref().is_none_or(|c| c.contains(&k.name))).collect()
}

/// The gallery's kernels and those of [`super::kernels`].
pub fn all_kernels() -> Vec<Kernel> {
    let own = girih_core::registry::kernels().into_iter().filter(|d| d.module.ends_with("::kernels"));
    let own: Vec<Kernel> = own.map(|d| (d.build)().unwrap_or_else(|e| panic!("{}: {e}", d.path()))).collect();
    assert!(own.len() >= 6, "the tests have {} kernels of their own", own.len());
    gallery().into_iter().chain(own).collect()
}

/// Three different schedules: the textbook kernel, vectors alone, and the best one known for the H200. Found once per process, since the
/// whole space is looked through.
pub fn rungs(kernel: &Kernel) -> Vec<Rung> {
    type Found = HashMap<(String, u64), Arc<OnceLock<Vec<Rung>>>>;
    static ALL: Mutex<Option<Found>> = Mutex::new(None);
    let key = (kernel.path.clone(), kernel.former_identity());
    let own = ALL.lock().expect("no panic in between").get_or_insert_default().entry(key).or_default().clone();
    own.get_or_init(|| find_rungs(kernel, Target::h200())).clone()
}

fn find_rungs(kernel: &Kernel, target: &'static Target) -> Vec<Rung> {
    let facts = best_facts(kernel);
    let space = Space::new(kernel, &facts, target);
    let naive = space.naive().unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let legal = |s: &Schedule| check(kernel, &facts_for(kernel, s), s, target).is_ok() && *s != naive;
    let committed = schedule_lookup::of_kernel(kernel, &facts, lengths_at_perf(kernel), target, None);
    let committed = committed.into_iter().map(|(s, _)| space.canonical(&s)).find(|s| legal(s));
    let winner = committed.unwrap_or_else(|| guess(&space, &naive));
    let middle = middle(&space, &naive, &winner);
    vec![Rung { name: "naive", schedule: naive }, Rung { name: "middle", schedule: middle }, Rung { name: "winner", schedule: winner }]
}

/// How long a gallery kernel's tensors are where its challenge is judged.
fn lengths_at_perf(kernel: &Kernel) -> Option<&'static Lengths> {
    static ALL: LazyLock<HashMap<u64, Lengths>> = LazyLock::new(|| {
        let mut all = HashMap::new();
        for challenge in challenges() {
            let subject = Subject::of_challenge(&challenge).expect(challenge.slug);
            for launch in AtPerf::of(&subject).launches {
                let identity = (launch.kernel.build)().expect("a kernel that a program launches builds").identity();
                all.entry(identity).or_insert(launch.lengths);
            }
        }
        all
    });
    ALL.get(&kernel.identity())
}

fn number(choice: &Choice) -> i64 {
    match choice {
        Choice::Int(i) => *i,
        Choice::Word(_) => 0,
    }
}

/// Product of a schedule's numbers over the knobs of some kinds.
fn product(kernel: &Kernel, schedule: &Schedule, of: impl Fn(KnobKind) -> bool) -> i64 {
    kernel.knobs.iter().zip(&schedule.choices).filter(|(k, _)| of(k.kind)).map(|(_, c)| number(c).max(1)).product()
}

/// Of larger spaces as many points are drawn.
const MOST_POINTS: u64 = 1 << 14;

/// Of a large space its author's first choice, if it is another kernel than the naive one.
fn default_of_large(space: &Space, naive: &Schedule) -> Option<Schedule> {
    let default = space.canonical(&Schedule::default_of(space.kernel()));
    (space.points() > MOST_POINTS && space.check(&default).is_ok() && default != *naive).then_some(default)
}

/// Of the candidates with the widest vectors the one that owns no more than they need and whose tile is nearest to 1024 elements.
fn guess(space: &Space, naive: &Schedule) -> Schedule {
    let kernel = space.kernel();
    let rank = |s: &Schedule| {
        let tile = product(kernel, s, |k| k == KnobKind::Tile);
        let coarsen = product(kernel, s, |k| matches!(k, KnobKind::Coarsen { .. }));
        let words = kernel.knobs.iter().zip(&s.choices).filter(|(k, c)| **c != k.choices[0]).count();
        (-product(kernel, s, |k| k == KnobKind::Vector), coarsen, (tile - 1024).abs(), words, s.clone())
    };
    if let Some(default) = default_of_large(space, naive) {
        return default;
    }
    least(space, rank, &[naive]).unwrap_or_else(|| panic!("{} has one schedule only", kernel.name))
}

/// A candidate between the two: elements in a thread but no vectors, if there is one.
fn middle(space: &Space, naive: &Schedule, winner: &Schedule) -> Schedule {
    let kernel = space.kernel();
    let rank = |s: &Schedule| {
        let coarsen = product(kernel, s, |k| matches!(k, KnobKind::Coarsen { .. }));
        let vector = product(kernel, s, |k| k == KnobKind::Vector);
        let others = kernel.knobs.iter().zip(s.choices.iter().zip(&naive.choices));
        let changed = others.filter(|(k, (a, b))| !matches!(k.kind, KnobKind::Coarsen { .. }) && a != b).count();
        (vector, (coarsen - 4).abs(), changed, s.clone())
    };
    let known = [naive, winner];
    least(space, rank, &known).unwrap_or_else(|| panic!("{} has two schedules only", kernel.name))
}

/// The candidate of the least rank that is not known, of [`MOST_POINTS`] that are drawn from a large space. Points are ranked before
/// they are lowered: few are looked at.
fn least<K: Ord>(space: &Space, rank: impl Fn(&Schedule) -> K, known: &[&Schedule]) -> Option<Schedule> {
    let all = space.points();
    let looked_at = |n: u64| space.point(if all > MOST_POINTS { mix(n) % all } else { n });
    let mut points: Vec<Schedule> = (0..all.min(MOST_POINTS)).map(looked_at).filter(|s| !known.contains(&s)).collect();
    points.sort_by_cached_key(rank);
    points.into_iter().find(|s| space.is_candidate(s))
}

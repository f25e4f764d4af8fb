//! Strategies of the tuner replayed on recorded times: how many trials each needs until it is near the best that is recorded, and how near it
//! is after 30. What is recorded is a sample of each space (half drawn evenly, half beside the best of these), not all of it: the table says what
//! strategies are worth beside each other, and is no proof of an optimum. `GIRIH_UPDATE_DOCS=1 cargo test -p girih-tests strategies` writes it.

use super::recordings::{recordings, recordings_in, target_of, way_of};
use girih::challenge::Sizes;
use girih::launch::schedule_lookup;
use girih::store::{Status, Trial, winners};
use girih::subject::Subject;
use girih::tune::launches::{Launch, at};
use girih::tune::predict::Prediction;
use girih::tune::recording::{Recording, Timed};
use girih::tune::search::{Budget, Candidates, Measure, Observer, Strategy, search};
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashSet;
use std::path::Path;

/// Trials after which a strategy should be near the best.
const TRIALS: usize = 30;
/// Seconds for one prediction, about.
const LOOK: f64 = 0.125;
/// How near: the share of the best one's speed.
const NEAR: f64 = 0.98;

/// The recorded schedules of one way to run a program, the one of which the most are recorded.
struct Ways {
    subject: Subject,
    sizes: Sizes,
    target: &'static Target,
    kernels: Vec<Kernel>,
    launches: Vec<Launch>,
    /// A schedule for each launch site, and what the program took.
    timed: Vec<(Vec<Schedule>, f64)>,
}

impl Ways {
    fn of(recording: &Recording) -> Option<Ways> {
        let variants = |joint: &girih::launch::program_schedule::Joint| joint.variants.clone();
        let alike = |a: &Timed, b: &Timed| variants(&a.joint) == variants(&b.joint);
        let most = recording.timed.iter().max_by_key(|t| recording.timed.iter().filter(|o| alike(o, t)).count())?;
        let (sizes, (subject, kernels, _)) = (Sizes::parse(&recording.sizes).ok()?, way_of(recording, most)?);
        let launches = at(&subject, &sizes).ok()?;
        let way = |t: &Timed| Some((way_of(recording, t)?.2, t.us));
        let timed = recording.timed.iter().filter(|t| alike(t, most)).filter_map(way).collect();
        Some(Ways { subject, sizes, target: target_of(recording), kernels, launches, timed })
    }

    /// How many ways are legal: each launch site's schedules with those of the others.
    fn legal(&self) -> usize {
        let of_site = |launch: &Launch| Space::new(&self.kernels[launch.site], &launch.facts, self.target).candidates().count();
        self.launches.iter().map(of_site).product()
    }

    /// Those under which the only launch does best at other lengths, by the committed winners, the nearest first: what the tuner begins with where
    /// these lengths are new.
    fn seeds(&self) -> Vec<usize> {
        let [launch] = &self.launches[..] else { return Vec::new() };
        let (kernel, lengths) = (&self.kernels[launch.site], Some(&launch.lengths));
        let (path, facts) = (winners::kernel_path(kernel), launch.facts.to_string());
        let same = winners::all().into_iter().filter(|w| w.kernel == path && w.lengths.as_ref() == lengths);
        assert!(same.into_iter().all(|w| w.facts == facts), "{path}: winners for the same lengths are not told from seeds");
        let near = schedule_lookup::near(kernel, &launch.facts, lengths, self.target, None);
        let others = near.into_iter().filter(|(_, distance)| *distance > 0.0).collect();
        let seeds = schedule_lookup::seeds(others, &Space::new(kernel, &launch.facts, self.target));
        seeds.iter().filter_map(|seed| self.timed.iter().position(|(way, _)| way[launch.site] == *seed)).collect()
    }
}

/// Candidates with what they took.
struct Recorded {
    choices: Vec<Vec<Choice>>,
    us: Vec<f64>,
    predicted: Vec<f64>,
    /// Knobs in which neighbours differ: one, as in the tuner, where all of a space is recorded. A sample has holes.
    reach: usize,
}

impl Recorded {
    /// With what the model says of each.
    fn of(recorded: &Ways) -> Option<Recorded> {
        let Ways { subject, sizes, target, kernels, launches, timed } = recorded;
        let first = &timed.first()?.0;
        let mut predictions = Vec::new();
        for launch in launches {
            predictions.push((launch.site, Prediction::new(subject, sizes, (&kernels[launch.site], launch), target, first.clone())));
        }
        let (mut choices, mut us, mut predicted) = (Vec::new(), Vec::new(), Vec::new());
        for (way, taken) in timed {
            predicted.push(predictions.iter().map(|(site, p)| p.rough_us_within(&way[*site], (LOOK, None))).sum::<Option<f64>>());
            choices.push(way.iter().flat_map(|s| s.choices.clone()).collect());
            us.push(*taken);
        }
        // As the tuner has it: what takes too long to predict is taken for average.
        let mut known: Vec<f64> = predicted.iter().copied().flatten().collect();
        known.sort_by(f64::total_cmp);
        let average = known.get(known.len() / 2).copied().unwrap_or(1.0);
        let predicted = predicted.into_iter().map(|us: Option<f64>| us.unwrap_or(average)).collect();
        (us.len() >= TRIALS).then_some(Recorded { choices, us, predicted, reach: 3 })
    }

    fn best(&self) -> f64 {
        self.us.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn distance(&self, a: usize, b: usize) -> usize {
        self.choices[a].iter().zip(&self.choices[b]).filter(|(a, b)| a != b).count()
    }
}

impl Candidates for Recorded {
    /// Those that differ in the fewest knobs, up to as many as reach.
    fn near(&self, candidate: usize) -> Vec<usize> {
        let others = (0..self.us.len()).filter(|other| *other != candidate);
        let mut near: Vec<usize> = others.filter(|other| self.distance(candidate, *other) <= self.reach).collect();
        near.sort_by_key(|other| self.distance(candidate, *other));
        near
    }
    fn known(&self, _: usize) -> Option<Trial> {
        None
    }
    fn complexity(&self, _: usize) -> u64 {
        0
    }
}

/// Times of the recording.
struct Replay<'a>(&'a Recorded);

impl Measure for Replay<'_> {
    fn trial(&mut self, candidate: usize) -> Option<Trial> {
        Some(Trial {
            schedule: String::new(),
            status: Status::Measured,
            reason: String::new(),
            median_us: Some(self.0.us[candidate]),
            samples_us: Vec::new(),
            registers: None,
            flaw: None,
            code: None,
        })
    }
    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
        candidates.iter().map(|c| vec![self.0.us[*c]; rounds]).collect()
    }
}

/// The times of a search's trials in their order.
#[derive(Default)]
struct Log(Vec<f64>);

impl Observer for Log {
    fn tried(&mut self, _: usize, trial: &Trial) {
        self.0.extend(trial.median_us);
    }
    fn stopped(&self) -> bool {
        false
    }
}

/// How a strategy did: trials until it was near the best, and its speed after [`TRIALS`] in parts of the best one's.
#[derive(Clone, Copy)]
struct Outcome {
    needed: f64,
    speed: f64,
}

fn replayed(recorded: &Recorded, strategy: Strategy) -> Outcome {
    replayed_from(&[], recorded, strategy)
}

/// The same, with some candidates before all others.
fn replayed_from(seeds: &[usize], recorded: &Recorded, strategy: Strategy) -> Outcome {
    let rest = strategy.order(recorded.us.len(), &recorded.predicted).into_iter().filter(|c| !seeds.contains(c));
    let order: Vec<usize> = seeds.iter().copied().chain(rest).collect();
    let mut log = Log::default();
    let budget = Budget { time: None, trials: None };
    search(&order, &mut *strategy.walk(), recorded, budget, &mut Replay(recorded), &mut log);
    assert_eq!(log.0.len(), recorded.us.len(), "every candidate is tried once");
    let best = recorded.best();
    let needed = log.0.iter().position(|us| best / us >= NEAR).map_or(log.0.len(), |at| at + 1);
    let found = log.0.iter().take(TRIALS).copied().fold(f64::INFINITY, f64::min);
    Outcome { needed: needed as f64, speed: best / found }
}

/// The mean over seeds, of strategies that have one.
fn mean(recorded: &Recorded, of: impl Fn(u64) -> Strategy) -> Outcome {
    let all: Vec<Outcome> = (1..=10).map(|seed| replayed(recorded, of(seed))).collect();
    let mean = |of: fn(&Outcome) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    Outcome { needed: mean(|o| o.needed), speed: mean(|o| o.speed) }
}

const NAMES: [&str; 4] = ["exhaustive", "random", "evolve", "model (the default)"];

fn outcomes(recorded: &Recorded) -> [Outcome; 4] {
    [
        replayed(recorded, Strategy::Exhaustive),
        mean(recorded, |seed| Strategy::Random { seed }),
        mean(recorded, |seed| Strategy::Evolve { seed }),
        replayed(recorded, Strategy::Model),
    ]
}

#[test]
fn the_default_is_chosen_by_recorded_times() {
    let update = std::env::var_os("GIRIH_UPDATE_DOCS").is_some();
    let recordings: Vec<Recording> = recordings();
    let of = |i: usize| {
        let recorded = Recorded::of(&Ways::of(&recordings[i])?)?;
        Some((recordings[i].name.clone(), recorded.us.len(), outcomes(&recorded)))
    };
    let all: Vec<(String, usize, [Outcome; 4])> = girih::cores::each_of(recordings.len(), of).into_iter().flatten().collect();
    assert!(all.len() >= 6, "{} recordings have {TRIALS} schedules that are still those of their kernels", all.len());
    let table = table(&all);
    let mean = |strategy: usize| all.iter().map(|(.., o)| o[strategy].needed).sum::<f64>() / all.len() as f64;
    let reached = |strategy: usize| all.iter().filter(|(.., o)| o[strategy].speed >= NEAR).count() as f64 / all.len() as f64;
    let [exhaustive, random, evolve, default] = [0, 1, 2, 3];
    assert!(reached(default) >= 0.9, "within {TRIALS} trials the default is near the best of too few recordings\n{table}");
    assert!(mean(default) <= mean(exhaustive).min(mean(random)), "an order that asks nobody needs fewer trials than the default\n{table}");
    // These two differ by less than one trial: neither is proved better.
    assert!(mean(default) <= mean(evolve) + 2.0, "evolution needs fewer trials than the default\n{table}");
    if update {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance/strategies.md");
        std::fs::write(&file, table).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}

/// All legal schedules of kernels of different classes are recorded (normalisation, scan, hashing, pairs of all points, elementwise, convolution,
/// transposition, loss), so the best is the best there is. No strategy is told of other sizes or GPUs.
#[test]
fn the_default_finds_the_best_of_full_spaces() {
    let full = recordings_in("full");
    let trials = |i: usize| {
        let ways = Ways::of(&full[i])?;
        let recorded = Recorded { reach: 1, ..Recorded::of(&ways)? };
        let allowed = TRIALS.max(recorded.us.len() / 20);
        let needed = replayed(&recorded, Strategy::Model).needed;
        // A schedule that was measured again is one.
        let distinct = recorded.choices.iter().collect::<HashSet<_>>().len();
        Some((full[i].name.clone(), distinct, ways.legal(), allowed, needed))
    };
    let all: Vec<(String, usize, usize, usize, f64)> = girih::cores::each_of(full.len(), trials).into_iter().flatten().collect();
    println!("kernel, schedules, legal ones, trials that are allowed, trials until within 2 % of the best: {all:?}");
    assert!(all.len() >= 10, "{all:?}");
    assert!(all.iter().all(|(_, recorded, legal, ..)| recorded >= legal), "not all that are legal are recorded: {all:?}");
    assert!(all.iter().all(|(.., allowed, needed)| *needed <= *allowed as f64), "{all:?}");
}

/// Schedules that did best at other lengths: with them at the head of the order recorded searches need less than half of the trials, and none
/// needs more than the seeds themselves cost. Winners for the recorded lengths on the same GPU have no part in it: they would be the answer.
#[test]
fn seeds_of_other_lengths_save_trials() {
    let all: Vec<Recording> = recordings().into_iter().chain(recordings_in("lengths")).collect();
    let seeds = |recording: &Recording| {
        let ways = Ways::of(recording)?;
        let seeds = ways.seeds();
        (!seeds.is_empty()).then(|| (recording.name.clone(), ways, seeds))
    };
    let seeded: Vec<(String, Ways, Vec<usize>)> = all.iter().filter_map(seeds).collect();
    let needed = |(name, ways, seeds): &(String, Ways, Vec<usize>)| {
        let recorded = Recorded::of(ways)?;
        let without = replayed(&recorded, Strategy::Model).needed;
        Some((name.clone(), seeds.len(), without, replayed_from(seeds, &recorded, Strategy::Model).needed))
    };
    let needed: Vec<(String, usize, f64, f64)> =
        girih::cores::each_of(seeded.len(), |i| needed(&seeded[i])).into_iter().flatten().collect();
    println!("seeds, trials without them and with them: {needed:?}");
    assert!(needed.len() >= 5, "seeds of {} recordings are recorded", needed.len());
    assert!(needed.iter().all(|(_, seeds, without, with)| *with <= without + *seeds as f64), "{needed:?}");
    let [without, with] =
        [|n: &(String, usize, f64, f64)| n.2, |n: &(String, usize, f64, f64)| n.3].map(|of| needed.iter().map(of).sum::<f64>());
    assert!(with < 0.8 * without, "{needed:?}");
}

fn table(all: &[(String, usize, [Outcome; 4])]) -> String {
    let mut text = format!(
        "# Strategies on recorded times\n\n\
         Written by `GIRIH_UPDATE_DOCS=1 cargo test -p girih-tests strategies` from `tests/recordings`: times of an H200.\n\
         Of each space a sample is recorded, half of it drawn evenly and half beside the best of these, so a strategy sees fewer candidates than on \
         a GPU, and the best is the best that is recorded.\n\
         No strategy is told of other sizes or GPUs. Those with a seed stand with the mean of ten. The default's two numbers were chosen on these same \
         times, so the last column flatters it.\n\n\
         How many trials until one is within {:.0} % of the best, and which share of its speed is reached after {TRIALS}:\n\n| kernel | recorded |",
        100.0 * (1.0 - NEAR)
    );
    text += &NAMES.map(|name| format!(" {name} |")).concat();
    text += "\n|---|--:|--:|--:|--:|--:|\n";
    let cells = |outcomes: &[Outcome; 4]| outcomes.map(|o| format!(" {:.1}, {:.3} |", o.needed, o.speed)).concat();
    for (name, recorded, outcomes) in all {
        text += &format!("| {name} | {recorded} |{}\n", cells(outcomes));
    }
    let mean = |i: usize, of: fn(&Outcome) -> f64| all.iter().map(|(.., o)| of(&o[i])).sum::<f64>() / all.len() as f64;
    let means = std::array::from_fn(|i| Outcome { needed: mean(i, |o| o.needed), speed: mean(i, |o| o.speed) });
    text += &format!("| mean | |{}\n", cells(&means));
    text
}

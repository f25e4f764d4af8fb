//! The search itself: which candidate next, until when, and which one wins. It sees schedules and durations, nothing else.

use crate::store::{Status, Trial};
use crate::subject::inputs::Rng;
use girih_core::schedule::Permutation;
use std::collections::HashSet;
use std::time::{Duration, Instant};

mod race;
#[cfg(test)]
mod tests;
pub mod walk;

use walk::{Climb, Evolve, InOrder, Seen, Walk};

/// How candidates are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By the model's prediction, the fastest first, where there is one, and then what lies near the fastest; the default.
    Model,
    /// In the space's order.
    Exhaustive,
    /// In random order.
    Random {
        /// The same seed gives the same order.
        seed: u64,
    },
    /// By the model's prediction at first, then children of the fastest few.
    Evolve {
        /// The same seed walks the same way.
        seed: u64,
    },
}

impl Strategy {
    /// The order in which to try `candidates` candidates. `predicted` has a time for each, or is empty.
    pub fn order(self, candidates: usize, predicted: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..candidates).collect();
        match self {
            Strategy::Model | Strategy::Evolve { .. } if predicted.len() == candidates => {
                // Equals come in random order: neighbours in the space are much alike.
                let mix = Permutation::new(candidates as u64, 1);
                order.sort_by(|a, b| predicted[*a].total_cmp(&predicted[*b]).then_with(|| mix.at(*a as u64).cmp(&mix.at(*b as u64))));
            }
            Strategy::Model | Strategy::Exhaustive | Strategy::Evolve { .. } => {}
            Strategy::Random { seed } => order = Rng::new(seed).permutation(candidates),
        }
        order
    }

    /// Whether predictions decide the order.
    pub fn asks_the_model(self) -> bool {
        matches!(self, Strategy::Model | Strategy::Evolve { .. })
    }

    /// Which candidate comes next, once trials say something.
    pub fn walk(self) -> Box<dyn Walk> {
        match self {
            Strategy::Model => Box::new(Climb::default()),
            Strategy::Exhaustive | Strategy::Random { .. } => Box::new(InOrder),
            Strategy::Evolve { seed } => Box::new(Evolve::new(seed)),
        }
    }
}

/// Measures candidates, given by their place in the space. A worker process, a model, or a recording.
pub trait Measure {
    /// Times one candidate, and checks it unless it is much slower than the best so far. `None` where the check has to wait for something:
    /// the candidate comes again when it is ready.
    fn trial(&mut self, candidate: usize) -> Option<Trial>;

    /// Whether a trial of a candidate would begin at once: it is compiled.
    fn ready(&self, _candidate: usize) -> bool {
        true
    }

    /// Whether the search may end: what has to be tried was.
    fn settled(&self) -> bool {
        true
    }

    /// Whether nothing answers any more: the program's time is over.
    fn ended(&self) -> bool {
        false
    }

    /// How long to wait for any candidate to be ready.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Times several candidates in turn (A B C A B C ..): `rounds` samples of each, in microseconds. Empty where one failed.
    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>>;
}

/// The candidates of a search by number. Others may come to be known while it runs: what is near one of them.
pub trait Candidates {
    /// What lies one step away.
    fn near(&self, candidate: usize) -> Vec<usize>;

    /// Its trial in an earlier run.
    fn known(&self, candidate: usize) -> Option<Trial>;

    /// How much it asks of a reader; equals go to the simpler one.
    fn complexity(&self, candidate: usize) -> u64;
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Wall-clock time of the trials.
    pub time: Option<Duration>,
    /// Number of new trials.
    pub trials: Option<usize>,
}

/// What a search tells while it runs.
pub trait Observer {
    /// A trial ended (and should be stored now).
    fn tried(&mut self, candidate: usize, trial: &Trial);

    /// Whether to stop: the user asked to.
    fn stopped(&self) -> bool;
}

/// How a search ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The winner with its median in microseconds, if any candidate was right.
    pub best: Option<(usize, f64)>,
    /// Candidates that were as fast in the final comparison and are not simpler.
    pub equals: Vec<usize>,
    /// Candidates tried in this run.
    pub tried: usize,
    /// Candidates that the budget or the user left untried.
    pub left: usize,
}

/// How far behind the next candidate others are looked for that are compiled already.
const WINDOW: usize = 64;

/// Which candidate comes next: what the strategy wishes, and else those in order.
struct Queue<'a> {
    order: &'a [usize],
    next: usize,
    done: HashSet<usize>,
    candidates: &'a dyn Candidates,
    walk: &'a mut dyn Walk,
}

impl Queue<'_> {
    /// Nothing is left, or the first that may be taken, or that none may.
    fn take(&mut self, times: &[(usize, f64)], flawed: &HashSet<usize>, may: impl Fn(usize) -> bool) -> Option<Option<usize>> {
        let wishes = self.walk.wishes(&Seen { times, flawed, done: &self.done }, self.candidates);
        while self.order.get(self.next).is_some_and(|c| self.done.contains(c)) {
            self.next += 1;
        }
        let left = wishes.into_iter().chain(self.order[self.next..].iter().copied()).filter(|c| !self.done.contains(c));
        let mut left = left.take(WINDOW).peekable();
        left.peek()?;
        let found = left.find(|c| may(*c));
        self.done.extend(found);
        Some(found)
    }
}

/// Tries candidates within the budget, in order and as the strategy wishes; the best few race (`race.rs`), and one of them is elected.
///
/// Candidates that were tried before have known trials, so that a run resumes.
pub fn search(
    order: &[usize],
    walk: &mut dyn Walk,
    candidates: &dyn Candidates,
    budget: Budget,
    measure: &mut dyn Measure,
    observer: &mut dyn Observer,
) -> Outcome {
    let start = Instant::now();
    let mut times: Vec<(usize, f64)> = Vec::new();
    let mut flawed = HashSet::new();
    let (mut tried, mut left) = (0, 0);
    let mut queue = Queue { order, next: 0, done: HashSet::new(), candidates, walk };
    // What was measured before comes first: the search goes on around the best of it.
    let recall = |candidate: usize, times: &mut Vec<(usize, f64)>, flawed: &mut HashSet<usize>| {
        let former = candidates.known(candidate);
        if let Some(former) = &former {
            times.extend(former.right_us().map(|t| (candidate, t)));
            flawed.extend(former.flaw.is_some().then_some(candidate));
        }
        former.is_some()
    };
    for candidate in order {
        if recall(*candidate, &mut times, &mut flawed) {
            queue.done.insert(*candidate);
        }
    }
    let mut waiting = start;
    // What all trials took that were begun.
    let (mut trying, mut begins) = (Duration::ZERO, 0);
    loop {
        // One time at least: a search that nothing is left for says something of its site, too. And no trial that is likely to end too late.
        let known = (tried > 0 || !times.is_empty()) && measure.settled();
        let late = budget.time.is_some_and(|t| start.elapsed() + trying / begins.max(1) >= t);
        let spent = known && late || measure.ended() || budget.trials.is_some_and(|n| tried >= n);
        let over = spent || observer.stopped();
        let hurry = over || waiting.elapsed() >= measure.patience();
        let candidate = match queue.take(&times, &flawed, |c| hurry || candidates.known(c).is_some() || measure.ready(c)) {
            None => break,
            Some(None) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Some(Some(candidate)) => candidate,
        };
        if recall(candidate, &mut times, &mut flawed) {
            continue;
        }
        if over {
            left += 1;
            continue;
        }
        let begun = Instant::now();
        let trial = measure.trial(candidate);
        waiting = Instant::now();
        trying += waiting - begun;
        begins += 1;
        let Some(trial) = trial else {
            queue.done.remove(&candidate);
            continue;
        };
        // A trial that the user's interrupt killed says nothing about its candidate.
        if observer.stopped() && trial.status == Status::Crashed {
            left += 1;
            continue;
        }
        observer.tried(candidate, &trial);
        if trial.status == Status::Untried {
            left += 1;
            continue;
        }
        tried += 1;
        times.extend(trial.right_us().map(|t| (candidate, t)));
        flawed.extend(trial.flaw.is_some().then_some(candidate));
    }
    let seen = Seen { times: &times, flawed: &flawed, done: &queue.done };
    let (best, equals) = match observer.stopped() {
        true => (seen.preferred(), Vec::new()),
        false => race::elect(seen.eligible(), candidates, measure),
    };
    Outcome { best, equals, tried, left }
}

fn fastest(times: &[(usize, f64)]) -> Option<(usize, f64)> {
    times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The middle of the samples (the mean of the middle two); `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// Between which two samples the median of what was sampled lies in 95 of 100 cases, whatever its distribution; `None` for fewer than six.
///
/// (By order statistics: as many samples may lie below the first as a fair coin shows heads in so many throws in at most 2.5 % of cases. Conover,
/// Practical Nonparametric Statistics, 3.2.)
pub fn interval(samples: &[f64]) -> Option<(f64, f64)> {
    let n = samples.len();
    let (mut outside, mut below, mut share) = (0, 0.0, 0.5f64.powi(n as i32));
    while outside < n && below + share <= 0.025 {
        below += share;
        outside += 1;
        share *= (n - outside + 1) as f64 / outside as f64;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    (outside > 0).then(|| (sorted[outside - 1], sorted[n - outside]))
}

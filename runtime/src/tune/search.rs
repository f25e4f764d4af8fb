//! The search itself: which candidate next, until when, and which one wins. It sees schedules and durations, nothing else.

use crate::acceptance::PREFERENCE;
use crate::inputs::Rng;
use crate::store::{Status, Trial};
use girih_core::schedule::space::Permutation;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// In which order candidates are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By the model's prediction, the fastest first, where there is one; in the space's order otherwise.
    Model,
    /// In the space's order.
    Exhaustive,
    /// In random order.
    Random {
        /// The same seed gives the same order.
        seed: u64,
    },
}

impl Strategy {
    /// The order in which to try `candidates` candidates. `predicted` has a time for each, or is empty.
    pub fn order(self, candidates: usize, predicted: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..candidates).collect();
        match self {
            Strategy::Model if predicted.len() == candidates => {
                // Equals come in random order: neighbours in the space are much alike.
                let mix = Permutation::new(candidates as u64, 1);
                order.sort_by(|a, b| predicted[*a].total_cmp(&predicted[*b]).then_with(|| mix.at(*a as u64).cmp(&mix.at(*b as u64))));
            }
            Strategy::Model | Strategy::Exhaustive => {}
            Strategy::Random { seed } => order = Rng::new(seed).permutation(candidates),
        }
        order
    }
}

/// Measures candidates, given by their place in the space. A worker process, a model, or a recording.
pub trait Measure {
    /// Times one candidate, and checks it unless it is much slower than the best so far.
    fn trial(&mut self, candidate: usize) -> Trial;

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
    /// Wall-clock time; the final comparison comes on top.
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
    /// Candidates tried in this run.
    pub tried: usize,
    /// Candidates that the budget or the user left untried.
    pub left: usize,
}

/// Finalists are at most this many, and at most this much slower than the fastest.
const FINALISTS: usize = 5;
const FINALIST_SLACK: f64 = 1.05;
/// Interleaved samples of each finalist.
const ROUNDS: usize = 31;
/// Finalists this close are equals; the simpler one wins.
const TIE: f64 = 1.001;

/// Trials in the given order before the neighbours of the best so far come first.
const FIRST: usize = 16;

/// Which candidate comes next: those in order, but from [`FIRST`] trials on first what is near the fastest one.
struct Queue<'a> {
    order: &'a [usize],
    next: usize,
    done: HashSet<usize>,
    candidates: &'a dyn Candidates,
}

impl Queue<'_> {
    fn take(&mut self, times: &[(usize, f64)]) -> Option<usize> {
        // Trials of slow candidates leave no times, and count all the same.
        let around = if self.done.len() < FIRST { None } else { fastest(times).map(|(best, _)| self.candidates.near(best)) };
        let close = around.into_iter().flatten().find(|c| !self.done.contains(c));
        let found = close.or_else(|| {
            let rest = &self.order[self.next..];
            let skipped = rest.iter().position(|c| !self.done.contains(c))?;
            self.next += skipped + 1;
            Some(rest[skipped])
        })?;
        self.done.insert(found);
        Some(found)
    }
}

/// Tries candidates within the budget, in order at first, then what is `near` the best (the queue of those left); measures the best few again in turn
/// and elects one.
///
/// Candidates that were tried before have known trials, so that a run resumes.
pub fn search(
    order: &[usize],
    candidates: &dyn Candidates,
    budget: Budget,
    measure: &mut dyn Measure,
    observer: &mut dyn Observer,
) -> Outcome {
    let start = Instant::now();
    let mut times: Vec<(usize, f64)> = Vec::new();
    let mut flawed = HashSet::new();
    let (mut tried, mut left) = (0, 0);
    let mut queue = Queue { order, next: 0, done: HashSet::new(), candidates };
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
    while let Some(candidate) = queue.take(&times) {
        if recall(candidate, &mut times, &mut flawed) {
            continue;
        }
        // One trial at least: a search that nothing is left for says something of its site, too.
        let spent = tried > 0 && budget.time.is_some_and(|t| start.elapsed() >= t) || budget.trials.is_some_and(|n| tried >= n);
        if spent || observer.stopped() {
            left += 1;
            continue;
        }
        let trial = measure.trial(candidate);
        // A trial that the user's interrupt killed says nothing about its candidate.
        if observer.stopped() && trial.status == Status::Crashed {
            left += 1;
            continue;
        }
        observer.tried(candidate, &trial);
        tried += 1;
        times.extend(trial.right_us().map(|t| (candidate, t)));
        flawed.extend(trial.flaw.is_some().then_some(candidate));
    }
    let best = if observer.stopped() { preferred(&times, &flawed) } else { elect(times, candidates, &flawed, measure) };
    Outcome { best, tried, left }
}

fn fastest(times: &[(usize, f64)]) -> Option<(usize, f64)> {
    times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The fastest, but one whose cubin is not accepted only where it is faster than every accepted one by more than [`PREFERENCE`].
fn preferred(times: &[(usize, f64)], flawed: &HashSet<usize>) -> Option<(usize, f64)> {
    let accepted: Vec<(usize, f64)> = times.iter().copied().filter(|(c, _)| !flawed.contains(c)).collect();
    let best = fastest(times)?;
    Some(fastest(&accepted).filter(|(_, t)| *t <= best.1 * PREFERENCE).unwrap_or(best))
}

fn elect(
    mut times: Vec<(usize, f64)>,
    candidates: &dyn Candidates,
    flawed: &HashSet<usize>,
    measure: &mut dyn Measure,
) -> Option<(usize, f64)> {
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let limit = times.first()?.1 * FINALIST_SLACK;
    let mut finalists: Vec<usize> = times.iter().take(FINALISTS).filter(|(_, t)| *t <= limit).map(|(c, _)| *c).collect();
    // An accepted one that may be preferred takes part, however many others are a little faster.
    let accepted = times.iter().find(|(c, t)| !flawed.contains(c) && *t <= limit).map(|(c, _)| *c);
    finalists.extend(accepted.filter(|a| !finalists.contains(a)));
    let samples = measure.interleaved(&finalists, ROUNDS);
    let again: Vec<(usize, f64)> = finalists.iter().zip(&samples).filter_map(|(c, s)| Some((*c, median(s)?))).collect();
    // Without a final comparison (it failed, or a model has nothing to measure) the first times decide, without ties.
    if again.is_empty() {
        return preferred(&times, flawed);
    }
    let (chosen, lowest) = preferred(&again, flawed)?;
    again
        .into_iter()
        .filter(|(c, _)| flawed.contains(c) == flawed.contains(&chosen))
        .filter(|(_, t)| *t <= lowest * TIE)
        .min_by_key(|(c, _)| candidates.complexity(*c))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording: a time for each candidate (`None`: it is wrong), and other times for the final comparison.
    struct Recording {
        first: Vec<Option<f64>>,
        again: Vec<f64>,
        asked: Vec<usize>,
    }

    impl Measure for Recording {
        fn trial(&mut self, candidate: usize) -> Trial {
            self.asked.push(candidate);
            trial(self.first[candidate])
        }
        fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
            candidates.iter().map(|c| vec![self.again[*c]; rounds]).collect()
        }
    }

    #[derive(Default)]
    struct Log {
        tried: Vec<usize>,
        stop_after: Option<usize>,
    }

    impl Observer for Log {
        fn tried(&mut self, candidate: usize, _trial: &Trial) {
            self.tried.push(candidate);
        }
        fn stopped(&self) -> bool {
            self.stop_after.is_some_and(|n| self.tried.len() >= n)
        }
    }

    /// Candidates that are all listed.
    struct Listed<'a> {
        known: Vec<Option<Trial>>,
        complexity: Vec<u64>,
        near: &'a dyn Fn(usize) -> Vec<usize>,
    }

    impl Candidates for Listed<'_> {
        fn near(&self, candidate: usize) -> Vec<usize> {
            (self.near)(candidate)
        }
        fn known(&self, candidate: usize) -> Option<Trial> {
            self.known.get(candidate).cloned().flatten()
        }
        fn complexity(&self, candidate: usize) -> u64 {
            self.complexity.get(candidate).copied().unwrap_or(0)
        }
    }

    fn listed(known: Vec<Option<Trial>>, complexity: &[u64]) -> Listed<'static> {
        Listed { known, complexity: complexity.to_vec(), near: &|_| Vec::new() }
    }

    fn trial(median_us: Option<f64>) -> Trial {
        let status = if median_us.is_some() { Status::Measured } else { Status::Wrong };
        Trial {
            schedule: String::new(),
            status,
            reason: String::new(),
            median_us,
            samples_us: Vec::new(),
            registers: None,
            flaw: None,
            code: None,
        }
    }

    fn recording(first: &[f64], again: &[f64]) -> Recording {
        let first = first.iter().map(|t| t.is_finite().then_some(*t)).collect();
        Recording { first, again: again.to_vec(), asked: Vec::new() }
    }

    const FREE: Budget = Budget { time: None, trials: None };

    #[test]
    fn the_final_comparison_decides() {
        let mut r = recording(&[10.0, 9.9, 20.0, f64::NAN], &[9.0, 10.5, 1.0, 1.0]);
        let outcome = search(&[0, 1, 2, 3], &listed(vec![], &[1, 2, 3, 0]), FREE, &mut r, &mut Log::default());
        assert_eq!(outcome, Outcome { best: Some((0, 9.0)), tried: 4, left: 0 });
    }

    #[test]
    fn equals_go_to_the_simpler() {
        let mut r = recording(&[10.0, 10.0], &[10.0, 10.005]);
        let outcome = search(&[0, 1], &listed(vec![], &[7, 3]), FREE, &mut r, &mut Log::default());
        assert_eq!(outcome.best, Some((1, 10.005)));
    }

    #[test]
    fn accepted_candidates_are_preferred_to_slightly_faster_ones() {
        let spilled = |us| Some(Trial { flaw: Some("48 bytes spilled per thread".into()), ..trial(Some(us)) });
        let elected = |times: [f64; 3]| {
            let known = vec![spilled(times[0]), Some(trial(Some(times[1]))), Some(trial(Some(times[2])))];
            let mut r = recording(&times, &times);
            search(&[0, 1, 2], &listed(known, &[0, 2, 1]), FREE, &mut r, &mut Log::default()).best
        };
        assert_eq!(elected([9.9, 10.0, 10.1]), Some((1, 10.0)));
        assert_eq!(elected([9.9, 10.0, 10.005]), Some((2, 10.005)), "ties among the accepted go to the simpler one");
        assert_eq!(elected([9.0, 10.0, 10.1]), Some((0, 9.0)), "five per cent are worth a spill");
    }

    #[test]
    fn known_trials_are_not_repeated() {
        let known = vec![Some(trial(Some(5.0))), None, Some(trial(None))];
        let mut r = recording(&[1.0, 6.0, 1.0], &[5.0, 6.0, 1.0]);
        let mut log = Log::default();
        let outcome = search(&[2, 1, 0], &listed(known, &[]), FREE, &mut r, &mut log);
        assert_eq!((outcome.best, outcome.tried), (Some((0, 5.0)), 1));
        assert_eq!((r.asked, log.tried), (vec![1], vec![1]));
    }

    #[test]
    fn what_was_not_checked_is_not_elected() {
        let slow = Trial { status: Status::Slow, ..trial(Some(5.0)) };
        let mut r = recording(&[5.0, 6.0], &[5.0, 6.0]);
        let known = listed(vec![Some(slow), Some(trial(Some(6.0)))], &[]);
        assert_eq!(search(&[0, 1], &known, FREE, &mut r, &mut Log::default()).best, Some((1, 6.0)));
    }

    #[test]
    fn budgets_and_interrupts_keep_what_was_found() {
        let mut r = recording(&[3.0, 2.0, 1.0], &[3.0, 2.0, 1.0]);
        let budget = Budget { trials: Some(2), ..FREE };
        let outcome = search(&[0, 1, 2], &listed(vec![], &[]), budget, &mut r, &mut Log::default());
        assert_eq!(outcome, Outcome { best: Some((1, 2.0)), tried: 2, left: 1 });
        let mut log = Log { stop_after: Some(1), ..Log::default() };
        let outcome = search(&[0, 1, 2], &listed(vec![], &[]), FREE, &mut r, &mut log);
        assert_eq!(outcome, Outcome { best: Some((0, 3.0)), tried: 1, left: 2 });
    }

    #[test]
    fn what_is_near_the_best_comes_first() {
        // The best is far down the order, at the end of a path of ever better neighbours that begins at the best of the first trials.
        let times: Vec<f64> = (0..100).map(|c| 100.0 + (c as f64 - 70.0).abs()).collect();
        let order: Vec<usize> = (0..100).collect();
        let near = |c: usize| vec![c + 3, c + 1];
        let downhill = Listed { near: &near, ..listed(vec![], &[]) };
        let budget = Budget { trials: Some(60), ..FREE };
        let outcome = search(&order, &downhill, budget, &mut recording(&times, &times), &mut Log::default());
        assert!(outcome.best.is_some_and(|(_, t)| t < 102.0), "{outcome:?}");
        let plain = search(&order, &listed(vec![], &[]), budget, &mut recording(&times, &times), &mut Log::default());
        assert_eq!(plain.best, Some((59, 111.0)));
    }

    #[test]
    fn slow_candidates_do_not_delay_the_walk() {
        // Of 200 candidates in order all but every tenth are too slow to be checked; a path of neighbours leads to the best.
        let times: Vec<f64> = (0..200).map(|c| if c < 100 { 500.0 } else { 300.0 - c as f64 }).collect();
        let near = |c: usize| if c < 100 { vec![100] } else { vec![(c + 1).min(199)] };
        let status = |c: usize| Trial {
            status: if c < 100 && !c.is_multiple_of(10) { Status::Slow } else { Status::Measured },
            ..trial(Some(times[c]))
        };
        struct MostlySlow<'t>(&'t dyn Fn(usize) -> Trial);
        impl Measure for MostlySlow<'_> {
            fn trial(&mut self, candidate: usize) -> Trial {
                (self.0)(candidate)
            }
            fn interleaved(&mut self, _: &[usize], _: usize) -> Vec<Vec<f64>> {
                Vec::new()
            }
        }
        let order: Vec<usize> = (0..200).collect();
        let budget = Budget { trials: Some(60), ..FREE };
        let outcome = search(&order, &Listed { near: &near, ..listed(vec![], &[]) }, budget, &mut MostlySlow(&status), &mut Log::default());
        assert!(outcome.best.is_some_and(|(_, t)| t < 170.0), "{outcome:?}");
    }

    #[test]
    fn a_search_goes_on_around_the_best_of_an_earlier_one() {
        let times: Vec<f64> = (0..100).map(|c| 100.0 + (c as f64 - 70.0).abs()).collect();
        let order: Vec<usize> = (0..100).collect();
        let near = |c: usize| vec![c + 1, c - 1];
        let known = (0..100).map(|c| (c % 5 == 4).then(|| trial(Some(times[c])))).collect();
        let resumed = Listed { near: &near, ..listed(known, &[]) };
        let budget = Budget { trials: Some(3), ..FREE };
        let outcome = search(&order, &resumed, budget, &mut recording(&times, &times), &mut Log::default());
        assert_eq!(outcome.best, Some((70, 100.0)), "{outcome:?}");
    }

    #[test]
    fn strategies_order_every_candidate_once() {
        assert_eq!(Strategy::Model.order(3, &[3.0, 1.0, 2.0]), [1, 2, 0]);
        assert_eq!(Strategy::Model.order(3, &[]), [0, 1, 2]);
        assert_eq!(Strategy::Exhaustive.order(3, &[3.0, 1.0, 2.0]), [0, 1, 2]);
        let mut random = Strategy::Random { seed: 5 }.order(50, &[]);
        assert_ne!(random, (0..50).collect::<Vec<_>>());
        random.sort();
        assert_eq!(random, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}

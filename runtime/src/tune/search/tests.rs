//! The search on recorded times.

use super::walk::Climb;
use super::*;

/// The default's search.
fn search(order: &[usize], candidates: &dyn Candidates, budget: Budget, measure: &mut dyn Measure, observer: &mut dyn Observer) -> Outcome {
    super::search(order, &mut Climb::default(), candidates, budget, measure, observer)
}

/// A recording: a time for each candidate (`None`: it is wrong), and other times for the final comparison.
struct Recording {
    first: Vec<Option<f64>>,
    again: Vec<f64>,
    asked: Vec<usize>,
}

impl Measure for Recording {
    fn trial(&mut self, candidate: usize) -> Option<Trial> {
        self.asked.push(candidate);
        Some(trial(self.first[candidate]))
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
    assert_eq!(outcome, Outcome { best: Some((0, 9.0)), equals: vec![], tried: 4, left: 0 });
}

/// A worker whose time is over at its first trial.
struct Late(usize);

impl Measure for Late {
    fn trial(&mut self, _candidate: usize) -> Option<Trial> {
        self.0 += 1;
        Some(Trial { status: Status::Untried, ..trial(None) })
    }
    fn ended(&self) -> bool {
        self.0 > 0
    }
    fn interleaved(&mut self, candidates: &[usize], _rounds: usize) -> Vec<Vec<f64>> {
        vec![Vec::new(); candidates.len()]
    }
}

/// Not even one time is wanted then: each further candidate would be compiled for nothing.
#[test]
fn when_the_time_is_over_nothing_more_is_asked_for() {
    let (mut late, budget) = (Late(0), Budget { time: Some(Duration::from_secs(60)), trials: None });
    let outcome = search(&[0, 1, 2], &listed(vec![], &[]), budget, &mut late, &mut Log::default());
    assert_eq!((outcome, late.0), (Outcome { best: None, equals: vec![], tried: 0, left: 3 }, 1));
}

/// Every other candidate has to be looked at twice.
struct Twice(Vec<usize>);

impl Measure for Twice {
    fn trial(&mut self, candidate: usize) -> Option<Trial> {
        std::thread::sleep(Duration::from_millis(40));
        self.0.push(candidate);
        (self.0.iter().filter(|c| **c == candidate).count() > 1).then(|| trial(Some(1.0)))
    }
    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
        candidates.iter().map(|_| vec![1.0; rounds]).collect()
    }
}

/// What a trial takes is known from all that were begun: looks that are no trials yet are short, and do not make the next one look long.
#[test]
fn looks_do_not_make_trials_look_long() {
    let (mut twice, budget) = (Twice(Vec::new()), Budget { time: Some(Duration::from_millis(200)), trials: None });
    let known = vec![Some(trial(Some(2.0)))];
    search(&[0, 1, 2, 3], &listed(known, &[]), budget, &mut twice, &mut Log::default());
    assert!(twice.0.len() >= 3, "{:?}", twice.0);
}

#[test]
fn equals_go_to_the_simpler() {
    let mut r = recording(&[10.0, 10.0], &[10.0, 10.005]);
    let outcome = search(&[0, 1], &listed(vec![], &[7, 3]), FREE, &mut r, &mut Log::default());
    assert_eq!((outcome.best, outcome.equals), (Some((1, 10.005)), vec![0]));
}

#[test]
fn what_is_not_accepted_wins_only_where_nothing_is() {
    let spilled = |us| Some(Trial { flaw: Some("48 bytes spilled per thread".into()), ..trial(Some(us)) });
    let elected = |times: [f64; 3]| {
        let known = vec![spilled(times[0]), Some(trial(Some(times[1]))), Some(trial(Some(times[2])))];
        let mut r = recording(&times, &times);
        search(&[0, 1, 2], &listed(known, &[0, 2, 1]), FREE, &mut r, &mut Log::default()).best
    };
    assert_eq!(elected([9.9, 10.0, 10.1]), Some((1, 10.0)));
    assert_eq!(elected([9.9, 10.0, 10.005]), Some((2, 10.005)), "ties among the accepted go to the simpler one");
    assert_eq!(elected([1.0, 10.0, 10.1]), Some((1, 10.0)), "however much faster it is");
    let known = vec![spilled(9.0), spilled(8.0)];
    let mut r = recording(&[9.0, 8.0], &[9.0, 8.0]);
    assert_eq!(search(&[0, 1], &listed(known, &[]), FREE, &mut r, &mut Log::default()).best, Some((1, 8.0)));
}

#[test]
fn what_there_was_no_time_for_is_left() {
    struct Late;
    impl Measure for Late {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            let late = Trial { status: Status::Untried, ..trial(None) };
            Some(if candidate == 0 { late } else { trial(Some(3.0)) })
        }
        fn interleaved(&mut self, candidates: &[usize], _rounds: usize) -> Vec<Vec<f64>> {
            vec![Vec::new(); candidates.len()]
        }
    }
    let outcome = search(&[0, 1], &listed(vec![], &[]), FREE, &mut Late, &mut Log::default());
    assert_eq!(outcome, Outcome { best: Some((1, 3.0)), equals: vec![], tried: 1, left: 1 });
}

#[test]
fn what_is_compiled_goes_before_what_is_not() {
    /// The first is compiled after two trials, the second never.
    struct Compiled(Vec<usize>);
    impl Measure for Compiled {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            self.0.push(candidate);
            Some(trial(Some(3.0)))
        }
        fn ready(&self, candidate: usize) -> bool {
            candidate > 1 || candidate == 0 && self.0.len() >= 2
        }
        fn patience(&self) -> Duration {
            Duration::from_millis(50)
        }
        fn interleaved(&mut self, candidates: &[usize], _rounds: usize) -> Vec<Vec<f64>> {
            vec![Vec::new(); candidates.len()]
        }
    }
    let (mut measure, begun) = (Compiled(Vec::new()), Instant::now());
    let outcome = search(&[0, 1, 2, 3, 4], &listed(vec![], &[]), FREE, &mut measure, &mut Log::default());
    assert_eq!((measure.0, outcome.tried), (vec![2, 3, 0, 4, 1], 5));
    assert!(begun.elapsed() >= Duration::from_millis(50), "one trial has to wait");
    // Nothing waits once the time is over.
    let mut measure = Compiled(Vec::new());
    let budget = Budget { trials: Some(2), ..FREE };
    let outcome = search(&[0, 1, 2, 3], &listed(vec![], &[]), budget, &mut measure, &mut Log::default());
    assert_eq!((measure.0, outcome.tried, outcome.left), (vec![2, 3], 2, 2));
}

/// Others are tried while what a check launches is compiled.
#[test]
fn what_waits_for_its_check_comes_again() {
    /// The first was looked at, and may be checked after two other trials.
    struct Checks(Vec<usize>);
    impl Measure for Checks {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            self.0.push(candidate);
            (candidate > 0 || self.0.len() > 1).then(|| trial(Some([2.0, 3.0, 4.0, 5.0][candidate])))
        }
        fn ready(&self, candidate: usize) -> bool {
            candidate > 0 || [0, 3].contains(&self.0.len())
        }
        fn interleaved(&mut self, candidates: &[usize], _rounds: usize) -> Vec<Vec<f64>> {
            vec![Vec::new(); candidates.len()]
        }
    }
    let mut measure = Checks(Vec::new());
    let outcome = search(&[0, 1, 2, 3], &listed(vec![], &[]), FREE, &mut measure, &mut Log::default());
    assert_eq!((measure.0, outcome), (vec![0, 1, 2, 0, 3], Outcome { best: Some((0, 2.0)), equals: vec![], tried: 4, left: 0 }));
    // What was not checked when the time was over is left.
    let mut measure = Checks(Vec::new());
    let outcome = search(&[0, 1, 2], &listed(vec![], &[]), Budget { trials: Some(1), ..FREE }, &mut measure, &mut Log::default());
    assert_eq!((measure.0, outcome), (vec![0, 1], Outcome { best: Some((1, 3.0)), equals: vec![], tried: 1, left: 2 }));
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
    assert_eq!(outcome, Outcome { best: Some((1, 2.0)), equals: vec![], tried: 2, left: 1 });
    let mut log = Log { stop_after: Some(1), ..Log::default() };
    let outcome = search(&[0, 1, 2], &listed(vec![], &[]), FREE, &mut r, &mut log);
    assert_eq!(outcome, Outcome { best: Some((0, 3.0)), equals: vec![], tried: 1, left: 2 });
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
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            Some((self.0)(candidate))
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

/// Candidates on a line: the time falls towards the middle.
fn valley(strategy: Strategy, trials: usize) -> f64 {
    let times: Vec<f64> = (0..200).map(|c| 100.0 + (c as f64 - 130.0).abs()).collect();
    let near = |c: usize| [1usize, 2, 5].iter().flat_map(|d| [c.checked_sub(*d), Some(c + d)]).flatten().filter(|c| *c < 200).collect();
    let order = strategy.order(200, &times.iter().map(|t| t + 40.0 * (t * 7.0).sin()).collect::<Vec<f64>>());
    let budget = Budget { trials: Some(trials), ..FREE };
    let candidates = Listed { near: &near, ..listed(vec![], &[]) };
    let mut measure = recording(&times, &times);
    super::search(&order, &mut *strategy.walk(), &candidates, budget, &mut measure, &mut Log::default()).best.expect("a time").1
}

#[test]
fn strategies_that_walk_find_what_order_alone_does_not() {
    let [climb, evolve] = [Strategy::Model, Strategy::Evolve { seed: 1 }].map(|strategy| valley(strategy, 40));
    assert!(climb <= 101.0 && evolve <= 103.0, "{climb} {evolve}");
    assert_eq!(valley(Strategy::Exhaustive, 40), 191.0, "the first 40 in the space's order");
    assert!(valley(Strategy::Exhaustive, 200) == 100.0 && valley(Strategy::Random { seed: 3 }, 200) == 100.0);
}

#[test]
fn the_race_gives_samples_to_those_that_need_them() {
    /// Noise that is the same for all in a round, and grows: only who is sampled in turn can be compared.
    struct Drifting {
        truth: Vec<f64>,
        taken: Vec<usize>,
        round: usize,
    }
    impl Measure for Drifting {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            Some(trial(Some(self.truth[candidate])))
        }
        fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
            candidates.iter().for_each(|c| self.taken[*c] += rounds);
            self.round += 1;
            let drift = 1.0 + 0.1 * self.round as f64;
            candidates.iter().map(|c| vec![self.truth[*c] * drift; rounds]).collect()
        }
    }
    let truth: Vec<f64> = (0..8).map(|c| 10.0 + 0.05 * ((c * 5) % 8) as f64).collect();
    let mut measure = Drifting { truth: truth.clone(), taken: vec![0; 8], round: 0 };
    let order: Vec<usize> = (0..8).collect();
    let outcome = search(&order, &listed(vec![], &[]), FREE, &mut measure, &mut Log::default());
    assert_eq!(outcome.best.map(|(c, _)| c), Some(0), "{outcome:?}");
    let all: usize = measure.taken.iter().sum();
    assert!(measure.taken[0] == 31 && *measure.taken.iter().min().expect("eight") == 5 && all < 5 * 31, "{:?}", measure.taken);
}

/// Two schedules, of which the simpler one takes half a thousandth or three thousandths longer, under noise that all of a round have in common, and noise
/// of each sample.
#[test]
fn finalists_that_rounds_cannot_tell_apart_are_equals() {
    struct Noisy {
        truth: [f64; 2],
        own: f64,
        rng: Rng,
    }
    impl Measure for Noisy {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            Some(trial(Some(self.truth[candidate])))
        }
        fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
            let mut all = vec![Vec::new(); candidates.len()];
            for _ in 0..rounds {
                let common = 1.0 + 0.2 * self.rng.unit();
                for (samples, c) in all.iter_mut().zip(candidates) {
                    samples.push(self.truth[*c] * common * (1.0 + self.own * (self.rng.unit() - 0.5)));
                }
            }
            all
        }
    }
    let elected = |slower: f64, own: f64, seed: u64| {
        let mut measure = Noisy { truth: [10.0, 10.0 * slower], own, rng: Rng::new(seed) };
        let outcome = search(&[0, 1], &listed(vec![], &[5, 1]), FREE, &mut measure, &mut Log::default());
        (outcome.best.expect("both are timed").0, outcome.equals)
    };
    for seed in 0..20 {
        assert_eq!(elected(1.003, 1e-4, seed), (0, vec![]), "rounds tell them apart, though each takes up to a fifth longer than another");
        assert_eq!(elected(1.0005, 1e-4, seed), (1, vec![0]));
        assert_eq!(elected(1.02, 0.02, seed), (0, vec![]), "farther apart than noise is an excuse for");
    }
    let told_apart = (0..20).filter(|seed| elected(1.001, 0.05, *seed) == (0, vec![])).count();
    assert!(told_apart <= 6, "noise of five per cent hides a thousandth: {told_apart} of 20 were told apart");
}

#[test]
fn a_race_that_fails_leaves_the_first_times() {
    struct Failing;
    impl Measure for Failing {
        fn trial(&mut self, candidate: usize) -> Option<Trial> {
            Some(trial(Some([3.0, 2.9][candidate])))
        }
        fn interleaved(&mut self, candidates: &[usize], _: usize) -> Vec<Vec<f64>> {
            vec![Vec::new(); candidates.len()]
        }
    }
    assert_eq!(search(&[0, 1], &listed(vec![], &[]), FREE, &mut Failing, &mut Log::default()).best, Some((1, 2.9)));
}

#[test]
fn medians_have_an_interval() {
    let samples = |n: usize| -> Vec<f64> { (1..=n).rev().map(|i| i as f64).collect() };
    assert_eq!(interval(&samples(5)), None, "the median of five lies outside of them in 1 of 16 cases");
    assert_eq!(interval(&samples(6)), Some((1.0, 6.0)));
    assert_eq!(interval(&samples(11)), Some((2.0, 10.0)));
    assert_eq!(interval(&samples(31)), Some((10.0, 22.0)));
    // Of many draws of a uniform number the interval holds the true median about as often as it says.
    let mut rng = Rng::new(7);
    let held = (0..2000).filter(|_| {
        let drawn: Vec<f64> = (0..31).map(|_| rng.unit()).collect();
        interval(&drawn).is_some_and(|(low, high)| low <= 0.5 && 0.5 <= high)
    });
    let share = held.count() as f64 / 2000.0;
    assert!((0.945..0.99).contains(&share), "{share}");
}

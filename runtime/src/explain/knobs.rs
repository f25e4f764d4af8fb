//! What knobs do to the time, read off trials: each knob by itself, and the two that depend on each other the most.
//!
//! A search does not try all combinations, and tries many near the best. So beside the best and the median time of each choice stands what the
//! choice does *alone*: over all pairs of trials that differ in this knob and in nothing else. Two knobs depend on each other where a step of
//! the one pays at one choice of the other and not at another one; that is read off fours of trials that differ in these two knobs alone.

use crate::error::headline;
use crate::store::{Status, Trial};
use crate::tune::search::median;
use girih_core::schedule::Choice;
use girih_core::schedule::parse::parse_schedule;
use girih_core::tile::Kernel;
use std::collections::{BTreeMap, HashMap};

/// A schedule that was tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Its number among the trials.
    pub trial: usize,
    /// Its choices, one per knob.
    pub choices: Vec<Choice>,
    /// How it ended.
    pub status: Status,
    /// Why, where it did not end well.
    pub reason: String,
    /// Its time in microseconds, where it was timed: that of one that was so slow that nobody looked at its result, too.
    pub us: Option<f64>,
    /// What is amiss with its cubin.
    pub flaw: Option<String>,
}

impl Point {
    /// A trial of a kernel; nothing where its schedule is not one of the kernel's knobs.
    pub fn of(kernel: &Kernel, number: usize, trial: &Trial) -> Option<Point> {
        let choices = parse_schedule(kernel, &trial.schedule).ok()?.choices;
        let Trial { status, reason, median_us: us, flaw, .. } = trial.clone();
        Some(Point { trial: number, choices, status, reason, us, flaw })
    }
}

/// What trials say of the knobs of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Effects {
    /// Schedules that were tried.
    pub tried: usize,
    /// Those of them that were timed.
    pub timed: usize,
    /// The fastest one and its time; nothing where none was timed.
    pub best: Option<(Vec<Choice>, f64)>,
    /// A knob each that was tried at several choices, the one that matters most first.
    pub knobs: Vec<Effect>,
    /// Knobs that all timed trials have at one choice.
    pub fixed: Vec<(usize, Choice)>,
    /// The two knobs that depend on each other the most; nothing where no four trials differ in two knobs alone, or no two knobs do.
    pub interaction: Option<Interaction>,
    /// Fours of trials that differ in two knobs alone.
    pub fours: usize,
    /// Trials without a time, by why.
    pub rejected: Vec<Rejected>,
    /// Timed trials whose cubin is not what was meant (spills, mostly).
    pub flawed: usize,
}

/// What a knob does.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// Its number.
    pub knob: usize,
    /// Its choices in their order.
    pub choices: Vec<OfChoice>,
    /// The choice of the fastest trial, and those whose best time is about the same.
    pub best: Vec<Choice>,
    /// The slowest choice's best time ÷ the fastest one's: what a wrong choice costs, with all other knobs as they suit it.
    pub cost: f64,
}

/// The trials with one choice of a knob.
#[derive(Clone, PartialEq, Debug)]
pub struct OfChoice {
    /// The choice.
    pub choice: Choice,
    /// The numbers of those that were timed, the fastest first.
    pub trials: Vec<usize>,
    /// The best and the median time, microseconds.
    pub best_us: f64,
    pub median_us: f64,
    /// The time ÷ that with the knob's best choice, all other knobs the same: the geometric mean, and of how many pairs. Nothing for the best
    /// choice itself, and where there is no such pair.
    pub alone: Option<(f64, usize)>,
}

/// Two knobs that depend on each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Interaction {
    /// The two knobs, the earlier one first.
    pub knobs: [usize; 2],
    /// A step of the first, from this choice to that.
    pub step: [Choice; 2],
    /// Two choices of the second.
    pub at: [Choice; 2],
    /// The time after the step ÷ before it, at each of those: geometric means.
    pub ratios: [f64; 2],
    /// Fours of trials that say so.
    pub fours: usize,
}

/// A reason why trials have no time.
#[derive(Clone, PartialEq, Debug)]
pub struct Rejected {
    /// How they ended.
    pub status: Status,
    /// The first line of why; of reasons that differ in numbers alone the first one.
    pub reason: String,
    /// How many.
    pub count: usize,
}

/// Times that differ by less are the same.
const SAME: f64 = 1.01;
/// Two steps that differ by less do not depend on each other.
const INDEPENDENT: f64 = 1.02;

/// A timed trial.
type Timed<'a> = (&'a [Choice], f64);

/// What trials say.
pub fn effects(points: &[Point]) -> Effects {
    let timed: Vec<Timed> = points.iter().filter_map(|p| Some((&p.choices[..], p.us?))).collect();
    let best = timed.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let count = timed.first().map_or(0, |(choices, _)| choices.len());
    let (mut knobs, mut fixed) = (Vec::new(), Vec::new());
    for knob in 0..count {
        let effect = effect(knob, points, &timed, best.map(|(choices, _)| &choices[knob]));
        match &effect.choices[..] {
            [only] => fixed.push((knob, only.choice.clone())),
            _ => knobs.push(effect),
        }
    }
    knobs.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    let (interaction, fours) = interaction(&timed, count);
    Effects {
        tried: points.len(),
        timed: timed.len(),
        best: best.map(|(choices, us)| (choices.to_vec(), *us)),
        knobs,
        fixed,
        interaction,
        fours,
        rejected: rejected(points),
        flawed: points.iter().filter(|p| p.us.is_some() && p.flaw.is_some()).count(),
    }
}

fn effect(knob: usize, points: &[Point], timed: &[Timed], chosen: Option<&Choice>) -> Effect {
    let mut by_choice: BTreeMap<&Choice, Vec<f64>> = BTreeMap::new();
    timed.iter().for_each(|(choices, us)| by_choice.entry(&choices[knob]).or_default().push(*us));
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = by_choice.values().map(|times| least(times)).fold(f64::INFINITY, f64::min);
    let slowest = by_choice.values().map(|times| least(times)).fold(0.0, f64::max);
    let as_good = by_choice.iter().filter(|(choice, times)| Some(**choice) != chosen && least(times) <= fastest * SAME);
    let best: Vec<Choice> = chosen.into_iter().chain(as_good.map(|(choice, _)| *choice)).cloned().collect();
    let alone = alone(knob, timed, chosen);
    let choices = by_choice.iter().map(|(choice, times)| OfChoice {
        choice: (*choice).clone(),
        trials: fastest_first(points, knob, choice),
        best_us: least(times),
        median_us: median(times).unwrap_or(f64::NAN),
        alone: alone.get(choice).map(|logs| (mean(logs).exp(), logs.len())),
    });
    Effect { knob, choices: choices.collect(), best, cost: slowest / fastest }
}

/// The numbers of the timed trials with a choice.
fn fastest_first(points: &[Point], knob: usize, choice: &Choice) -> Vec<usize> {
    let mut all: Vec<(f64, usize)> =
        points.iter().filter(|p| p.us.is_some() && p.choices[knob] == *choice).filter_map(|p| Some((p.us?, p.trial))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|(_, trial)| trial).collect()
}

/// For each other choice of a knob the logarithms of its times ÷ those of the best choice, all other knobs the same.
fn alone<'a>(knob: usize, timed: &[Timed<'a>], chosen: Option<&Choice>) -> BTreeMap<&'a Choice, Vec<f64>> {
    let mut groups: HashMap<Vec<&Choice>, Vec<(&Choice, f64)>> = HashMap::new();
    for (choices, us) in timed {
        groups.entry(without(choices, &[knob])).or_default().push((&choices[knob], *us));
    }
    let mut logs: BTreeMap<&Choice, Vec<f64>> = BTreeMap::new();
    for group in groups.values() {
        let Some((_, base)) = group.iter().find(|(choice, _)| Some(*choice) == chosen) else { continue };
        for (choice, us) in group.iter().filter(|(choice, _)| Some(*choice) != chosen) {
            logs.entry(choice).or_default().push((us / base).ln());
        }
    }
    logs
}

fn without<'a>(choices: &'a [Choice], knobs: &[usize]) -> Vec<&'a Choice> {
    choices.iter().enumerate().filter(|(k, _)| !knobs.contains(k)).map(|(_, c)| c).collect()
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

/// Two choices of a first knob and two of a second.
type Corners<'a> = [&'a Choice; 4];

/// The two knobs that depend on each other the most, and how many fours of trials there are of any two.
fn interaction(timed: &[Timed], knobs: usize) -> (Option<Interaction>, usize) {
    let (mut strongest, mut all): (Option<(f64, Interaction)>, usize) = (None, 0);
    for (first, second) in (0..knobs).flat_map(|a| (a + 1..knobs).map(move |b| (a, b))) {
        for (corners, steps) in fours(timed, first, second) {
            all += steps.len();
            let ratios = [0, 1].map(|side| mean(&steps.iter().map(|s| s[side]).collect::<Vec<f64>>()));
            let strength = (ratios[0] - ratios[1]).abs();
            if strength >= INDEPENDENT.ln() && strongest.as_ref().is_none_or(|(s, _)| strength > *s * (1.0 + 1e-9)) {
                let [from, to, one, other] = corners.map(Clone::clone);
                let (knobs, ratios) = ([first, second], ratios.map(f64::exp));
                strongest = Some((strength, Interaction { knobs, step: [from, to], at: [one, other], ratios, fours: steps.len() }));
            }
        }
    }
    (strongest.map(|(_, interaction)| interaction), all)
}

/// Of each two choices of one knob and two of another: the logarithms of what the first knob's step does at each of the second's choices, for
/// every four of trials that are the same in all other knobs.
fn fours<'a>(timed: &[Timed<'a>], first: usize, second: usize) -> BTreeMap<Corners<'a>, Vec<[f64; 2]>> {
    let mut groups: HashMap<Vec<&Choice>, BTreeMap<[&'a Choice; 2], f64>> = HashMap::new();
    for (choices, us) in timed {
        groups.entry(without(choices, &[first, second])).or_default().insert([&choices[first], &choices[second]], *us);
    }
    let mut found: BTreeMap<Corners, Vec<[f64; 2]>> = BTreeMap::new();
    for cells in groups.values().filter(|cells| cells.len() >= 4) {
        for ([from, one], before) in cells {
            for ([to, other], after) in cells.range([*from, *one]..).filter(|([to, other], _)| to > from && other > one) {
                let (Some(step_at_one), Some(base_at_other)) = (cells.get(&[*to, *one]), cells.get(&[*from, *other])) else { continue };
                found.entry([*from, *to, *one, *other]).or_default().push([(step_at_one / before).ln(), (after / base_at_other).ln()]);
            }
        }
    }
    found
}

/// Trials without a time by why, the most frequent first.
fn rejected(points: &[Point]) -> Vec<Rejected> {
    let mut found: Vec<(String, Rejected)> = Vec::new();
    for point in points.iter().filter(|p| p.us.is_none()) {
        let reason = headline(&point.reason);
        // Reasons name the numbers of their own schedule.
        let words = reason.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty());
        let kind = format!("{} {}", point.status.name(), words.collect::<Vec<_>>().join("#"));
        match found.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, rejected)) => rejected.count += 1,
            None => found.push((kind, Rejected { status: point.status, reason: reason.clone(), count: 1 })),
        }
    }
    let mut found: Vec<Rejected> = found.into_iter().map(|(_, rejected)| rejected).collect();
    found.sort_by_key(|r| std::cmp::Reverse(r.count));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(choices: &[i64], us: f64) -> Point {
        let choices = choices.iter().map(|c| Choice::Int(*c)).collect();
        Point { trial: 0, choices, status: Status::Measured, reason: String::new(), us: Some(us), flaw: None }
    }

    fn ended(status: Status, reason: &str) -> Point {
        Point { status, reason: reason.into(), us: None, ..point(&[1, 1], 0.0) }
    }

    /// All combinations of two knobs with a time for each.
    fn grid(first: &[i64], second: &[i64], us: impl Fn(i64, i64) -> f64) -> Vec<Point> {
        first.iter().flat_map(|a| second.iter().map(|b| point(&[*a, *b], us(*a, *b))).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn effects_of_independent_knobs_are_found() {
        // The first knob takes a third of the time at 4, the second doubles it at 8.
        let found = effects(&grid(&[1, 4], &[2, 8], |a, b| 30.0 / if a == 4 { 3.0 } else { 1.0 } * if b == 8 { 2.0 } else { 1.0 }));
        assert_eq!((found.tried, found.timed, found.best), (4, 4, Some((vec![Choice::Int(4), Choice::Int(2)], 10.0))));
        assert_eq!(found.knobs.iter().map(|e| e.knob).collect::<Vec<_>>(), [0, 1], "the one that costs more comes first");
        let [first, second] = &found.knobs[..] else { panic!("two knobs: {:?}", found.knobs) };
        assert_eq!((&first.best[..], first.cost.round()), (&[Choice::Int(4)][..], 3.0));
        let (one, four) = (&first.choices[0], &first.choices[1]);
        assert_eq!((one.best_us, one.median_us, one.trials.len()), (30.0, 45.0, 2));
        let (ratio, pairs) = one.alone.expect("two pairs differ in the first knob alone");
        assert!((ratio - 3.0).abs() < 1e-9 && pairs == 2 && four.alone.is_none(), "{first:?}");
        assert_eq!((&second.best[..], second.cost), (&[Choice::Int(2)][..], 2.0));
        assert_eq!((found.interaction, found.fours), (None, 1), "each step does the same at both choices of the other knob");
    }

    #[test]
    fn choices_name_their_trials() {
        let mut tried = grid(&[1, 4], &[2, 8], |a, b| 30.0 / if a == 4 { 3.0 } else { 1.0 } * if b == 8 { 2.0 } else { 1.0 });
        tried.insert(0, ended(Status::TimedOut, ""));
        tried.iter_mut().zip(10..).for_each(|(point, number)| point.trial = number);
        let found = effects(&tried);
        let of = |knob: usize| found.knobs.iter().find(|e| e.knob == knob).expect("it varies").choices.iter().map(|c| &c.trials[..]);
        assert_eq!(of(0).collect::<Vec<_>>(), [[11, 12], [13, 14]]);
        assert_eq!(of(1).collect::<Vec<_>>(), [[13, 11], [14, 12]]);
    }

    #[test]
    fn medians_may_mislead_where_pairs_do_not() {
        // Choice 2 is a tenth faster than choice 1 whatever the other knob; it was tried where that one is bad more often.
        let tried = [(1, 0), (2, 0), (2, 9), (2, 8)].map(|(a, b)| point(&[a, b], if a == 2 { 9.0 } else { 10.0 } * (1 + b) as f64));
        let found = effects(&tried);
        let first = found.knobs.iter().find(|e| e.knob == 0).expect("the first knob has two choices");
        assert!(first.choices[1].median_us > first.choices[0].median_us);
        let (ratio, pairs) = first.choices[0].alone.expect("one pair");
        assert!((ratio - 10.0 / 9.0).abs() < 1e-9 && pairs == 1, "{first:?}");
        assert_eq!(first.best, [Choice::Int(2)]);
    }

    #[test]
    fn the_strongest_interaction_is_found() {
        // A wider vector halves the time with coarsening and does nothing without; a third knob does its own.
        let time = |v: i64, c: i64, g: i64| 40.0 / if v == 4 && c == 8 { 2.0 } else { 1.0 } + g as f64 * 0.001;
        let mut tried = Vec::new();
        for g in [0, 1] {
            tried.extend(grid(&[1, 4], &[1, 8], |v, c| time(v, c, g)).into_iter().map(|mut p| {
                p.choices.push(Choice::Int(g));
                p
            }));
        }
        let found = effects(&tried).interaction.expect("the first two knobs depend on each other");
        assert_eq!((found.knobs, found.fours), ([0, 1], 2));
        assert_eq!((&found.step, &found.at), (&[Choice::Int(1), Choice::Int(4)], &[Choice::Int(1), Choice::Int(8)]));
        assert!((found.ratios[0] - 1.0).abs() < 1e-3 && (found.ratios[1] - 0.5).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn three_corners_are_no_interaction() {
        let mut tried = grid(&[1, 4], &[1, 8], |a, b| (a * b) as f64 + if a == b { 9.0 } else { 0.0 });
        assert!(effects(&tried).interaction.is_some());
        tried.pop();
        let found = effects(&tried);
        assert_eq!((found.interaction, found.fours), (None, 0));
    }

    #[test]
    fn ties_and_single_choices_are_told() {
        let time = |a: i64, _| HashMap::from([(1, 10.0), (2, 10.05), (4, 12.5)])[&a];
        let found = effects(&grid(&[1, 2, 4], &[7], time));
        assert_eq!(found.fixed, [(1, Choice::Int(7))]);
        let [first] = &found.knobs[..] else { panic!("one knob varies: {:?}", found.knobs) };
        assert_eq!((&first.best[..], first.cost), (&[Choice::Int(1), Choice::Int(2)][..], 1.25), "half a percent is no difference");
    }

    #[test]
    fn reasons_are_counted_by_kind() {
        let spills = Point { flaw: Some("48 bytes spilled per thread".into()), ..point(&[1, 1], 5.0) };
        let tried = [
            ended(Status::Rejected, "threads per block are 2048; a block has at most 1024\nmore"),
            ended(Status::Rejected, "threads per block are 4096; a block has at most 1024"),
            ended(Status::TimedOut, ""),
            ended(Status::Rejected, "NVRTC was given up"),
            spills,
        ];
        let found = effects(&tried);
        assert_eq!((found.tried, found.timed, found.flawed, found.rejected.len()), (5, 1, 1, 3));
        assert_eq!(
            (found.rejected[0].count, found.rejected[0].reason.as_str()),
            (2, "threads per block are 2048; a block has at most 1024")
        );
        assert_eq!(found.rejected.iter().map(|r| r.status).collect::<Vec<_>>(), [Status::Rejected, Status::TimedOut, Status::Rejected]);
    }

    #[test]
    fn nothing_is_made_of_no_trials() {
        let found = effects(&[]);
        assert_eq!((found.tried, found.timed, found.best, found.interaction), (0, 0, None, None));
        assert!(found.knobs.is_empty() && found.fixed.is_empty() && found.rejected.is_empty());
        let wrong = effects(&[ended(Status::Wrong, "element 3 differs")]);
        assert!(wrong.best.is_none() && wrong.knobs.is_empty() && wrong.rejected.len() == 1);
    }
}

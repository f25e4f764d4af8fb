//! Which of the store's trials of a kernel speak of the launch at hand: those of one device at these sizes, beside the same other launches.

use crate::launch::schedule_lookup::{is_predicted, predicted_device};
use crate::store::{Trial, Tried};
use crate::tune::search::median;
use girih_core::target::Target;
use std::collections::{BTreeMap, HashMap};

/// What is asked for.
pub struct Asked<'a> {
    /// The sizes' text.
    pub sizes: &'a str,
    /// What the sizes of a program's launch site begin with; empty where the program is one launch.
    pub beside: &'a str,
    /// The target of the page.
    pub target: &'a Target,
    /// The GPU at hand, if there is one.
    pub here: Option<&'a str>,
}

/// Trials that can be compared with each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// The device that they were measured on, or predicted for.
    pub device: String,
    /// The model made their times.
    pub predicted: bool,
    /// Of a launch site in a program: what the other sites ran under. Times are then those of the whole program.
    pub beside: Option<String>,
    /// One for each schedule, the oldest first.
    pub trials: Vec<Trial>,
    /// How many rows of the store they come from, by where these were made ([`Tried::made`]), the latest last.
    pub made: Vec<(String, usize)>,
}

/// The trials to read, of all that a store has of a kernel: measured ones before predicted ones, those of the GPU at hand and of GPUs called
/// like the target before others, and then the most.
pub fn choose(rows: Vec<Tried>, asked: &Asked) -> Option<Stored> {
    let mut groups: BTreeMap<(String, Option<String>), Vec<Tried>> = BTreeMap::new();
    let predicted_here = predicted_device(asked.target);
    for row in rows.into_iter().filter(|row| !is_predicted(&row.device) || row.device == predicted_here) {
        let beside = match row.sizes.strip_prefix(asked.beside).filter(|_| !asked.beside.is_empty()) {
            Some(beside) => Some(beside.to_string()),
            None if row.sizes == asked.sizes => None,
            None => continue,
        };
        groups.entry((row.device.clone(), beside)).or_default().push(row);
    }
    let rank = |device: &str, rows: &[Tried]| {
        let timed = rows.iter().filter(|row| row.trial.median_us.is_some()).count();
        let named = device.to_lowercase().contains(asked.target.name);
        (!is_predicted(device), asked.here == Some(device), named, timed, rows.len())
    };
    let best = groups.into_iter().max_by_key(|((device, _), rows)| rank(device, rows));
    best.map(|((device, beside), rows)| {
        let mut made: Vec<(String, usize)> = Vec::new();
        for row in &rows {
            match made.iter_mut().find(|(text, _)| *text == row.made) {
                Some((_, count)) => *count += 1,
                None => made.push((row.made.clone(), 1)),
            }
        }
        let trials = each_once(rows.into_iter().map(|row| row.trial).collect());
        Stored { predicted: is_predicted(&device), device, beside, trials, made }
    })
}

/// Trials of which each stands for all of its schedule and code: one that was timed several times has the median of these times, and names
/// them. Where one of them was timed while the GPU ran free, others do not count. Each has the place of its schedule's first one.
pub(super) fn each_once(trials: Vec<Trial>) -> Vec<Trial> {
    let mut places: HashMap<(String, Option<u64>), usize> = HashMap::new();
    let mut groups: Vec<Vec<Trial>> = Vec::new();
    for trial in trials {
        let place = *places.entry((trial.schedule.clone(), trial.code)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(trial);
    }
    groups.into_iter().filter_map(one_of).collect()
}

/// One trial in the place of several of one schedule; the latest where none was timed.
fn one_of(mut trials: Vec<Trial>) -> Option<Trial> {
    let latest = trials.pop()?;
    if trials.is_empty() {
        return Some(latest);
    }
    trials.push(latest.clone());
    let timed = |clean: bool| trials.iter().filter(move |t| t.median_us.is_some() && (!clean || t.throttled().is_none()));
    let counted: Vec<&Trial> = if timed(true).next().is_some() { timed(true).collect() } else { timed(false).collect() };
    let times: Vec<f64> = counted.iter().filter_map(|t| t.median_us).collect();
    let Some(last) = counted.last() else { return Some(latest) };
    let texts: Vec<String> = times.iter().map(|us| format!("{us:.2}")).collect();
    let samples_us = counted.iter().flat_map(|t| t.samples_us.iter().copied()).collect();
    let reason = match times.len() {
        1 => last.reason.clone(),
        n => format!("{}median of {n} measurements: {} us", throttled_words(last), texts.join(", ")),
    };
    Some(Trial { median_us: median(&times), samples_us, reason, ..(*last).clone() })
}

/// That the times are those of a throttled GPU stays in front.
fn throttled_words(trial: &Trial) -> String {
    trial.throttled().map_or(String::new(), |words| format!("{words}; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Status;

    fn row(device: &str, sizes: &str, schedule: &str) -> Tried {
        let trial = Trial {
            schedule: schedule.into(),
            status: Status::Measured,
            reason: String::new(),
            median_us: Some(1.0),
            samples_us: Vec::new(),
            registers: None,
            flaw: None,
            code: None,
        };
        Tried { device: device.into(), sizes: sizes.into(), made: format!("girih, {device}"), trial }
    }

    fn asked<'a>(beside: &'a str, here: Option<&'a str>) -> Asked<'a> {
        Asked { sizes: "N=8", beside, target: Target::h200(), here }
    }

    #[test]
    fn what_was_measured_comes_before_predictions() {
        let rows = [row("simulated h200", "N=8", "T=1"), row("simulated h200", "N=8", "T=2"), row("NVIDIA H200", "N=8", "T=4")];
        let found = choose(rows.to_vec(), &asked("", None)).expect("trials of this size");
        assert_eq!((found.device.as_str(), found.predicted, found.trials.len()), ("NVIDIA H200", false, 1));
        assert_eq!(found.made, [("girih, NVIDIA H200".to_string(), 1)]);
        let found = choose(rows[..2].to_vec(), &asked("", None)).expect("predictions of this size");
        assert_eq!((found.predicted, found.trials.len()), (true, 2));
        assert_eq!(choose(vec![row("simulated t4", "N=8", "T=1"), row("NVIDIA H200", "N=9", "T=1")], &asked("", None)), None);
    }

    #[test]
    fn what_was_measured_again_counts_once() {
        let timed = |schedule: &str, us: f64| Tried {
            trial: Trial { median_us: Some(us), samples_us: vec![us], ..row("", "", schedule).trial },
            ..row("NVIDIA H200", "N=8", schedule)
        };
        let rows = vec![timed("T=1", 9.0), timed("T=2", 5.0), timed("T=1", 7.0), timed("T=1", 7.5)];
        let found = choose(rows, &asked("", None)).expect("trials of this size").trials;
        assert_eq!(found.iter().map(|t| (t.schedule.as_str(), t.median_us)).collect::<Vec<_>>(), [("T=1", Some(7.5)), ("T=2", Some(5.0))]);
        assert_eq!((found[0].reason.as_str(), found[1].reason.as_str()), ("median of 3 measurements: 9.00, 7.00, 7.50 us", ""));
        assert_eq!(found[0].samples_us, [9.0, 7.0, 7.5]);
        // What failed once and was timed then has that time; what was throttled does not count beside what was not; other code is another trial.
        let failed = Trial { status: Status::TimedOut, median_us: None, ..timed("T=1", 0.0).trial };
        let throttled = Trial { reason: format!("{}heat", crate::store::THROTTLED), ..timed("T=1", 90.0).trial };
        let of = |trials: &[&Trial]| each_once(trials.iter().map(|t| (*t).clone()).collect());
        let clean = timed("T=1", 9.0).trial;
        assert_eq!(of(&[&clean, &throttled, &failed]), std::slice::from_ref(&clean));
        assert_eq!(of(&[&clean, &Trial { code: Some(1), ..clean.clone() }]).len(), 2);
        assert_eq!(of(&[&failed, &failed]), [failed]);
        let twice = &of(&[&throttled, &throttled])[0];
        assert!(twice.throttled().is_some() && twice.reason.ends_with("; median of 2 measurements: 90.00, 90.00 us"), "{}", twice.reason);
    }

    #[test]
    fn the_gpu_at_hand_comes_first() {
        let rows = [row("NVIDIA H100", "N=8", "T=1"), row("NVIDIA H100", "N=8", "T=2"), row("NVIDIA H200", "N=8", "T=1")];
        let device = |here| choose(rows.to_vec(), &asked("", here)).map(|s| s.device);
        assert_eq!((device(None).as_deref(), device(Some("NVIDIA H100")).as_deref()), (Some("NVIDIA H200"), Some("NVIDIA H100")));
    }

    #[test]
    fn trials_beside_other_schedules_are_kept_apart() {
        let of = |beside: &str, schedule: &str| row("NVIDIA H200", &format!("N=8 in p.s beside {beside}"), schedule);
        let rows =
            vec![of("t: T=1", "T=1"), of("t: T=2", "T=1"), of("t: T=2", "T=2"), row("NVIDIA H200", "N=8 in p.other beside x", "T=3")];
        let found = choose(rows, &asked("N=8 in p.s beside ", None)).expect("trials of this site");
        assert_eq!((found.beside.as_deref(), found.trials.len()), (Some("t: T=2"), 2));
    }
}

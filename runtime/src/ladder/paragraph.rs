//! What changed from a rung to the next one, told by the counters: one paragraph, every number of it computed.

use super::totals::{Counter, Totals};
use crate::explain::difference::Side;
use crate::explain::text::in_words;
use crate::explain::units::plain;
use girih_core::model::Bottleneck;

/// A rung's numbers.
pub struct Told<'a> {
    /// Its launch sites.
    pub sides: &'a [Side],
    /// Microseconds of a call as the model has it.
    pub predicted_us: f64,
    /// As a GPU has it, if there is one.
    pub measured_us: Option<f64>,
}

impl Told<'_> {
    fn us(&self) -> f64 {
        self.measured_us.unwrap_or(self.predicted_us)
    }
}

/// From which ratio on a counter has changed, and a time.
const CHANGED: f64 = 1.05;
const FASTER: f64 = 1.02;
/// From which ratio on a counter is worth a word that does not say why the time changed.
const NOTABLE: f64 = 1.5;
/// What is told where it does not say why the time changed.
const OTHERS: [Counter; 11] = [
    Counter::Launches,
    Counter::Instructions,
    Counter::SectorsLoaded,
    Counter::SectorsStored,
    Counter::LoadWidth,
    Counter::StoreWidth,
    Counter::Wavefronts,
    Counter::Conflicts,
    Counter::Atomics,
    Counter::InFlight,
    Counter::Registers,
];
/// Counters of one sentence, at most.
const MOST: usize = 3;

/// The paragraph of a rung; of the lowest one, which has none before it, what bounds it.
pub fn paragraph(before: Option<&Told>, now: &Told, floor_us: f64) -> String {
    let totals = Totals::of(now.sides);
    let mut sentences = match before {
        None => vec![format!("{:.2} us.", now.us())],
        Some(before) => compared(before, now, &totals),
    };
    sentences.extend(bounded(&totals, now, floor_us, before.is_some()));
    if totals.value(Counter::Instructions).is_none() {
        sentences.push("What threads do follows from the data, so it is not counted.".into());
    }
    sentences.join(" ")
}

fn compared(before: &Told, now: &Told, totals: &Totals) -> Vec<String> {
    let former = Totals::of(before.sides);
    let mut sentences = vec![speed(before.us(), now.us())];
    if let (Some(_), Some(_)) = (before.measured_us, now.measured_us) {
        let expected = plain(before.predicted_us / now.predicted_us);
        sentences.push(format!("The model expected {expected} times the speed."));
    }
    let mut told: Vec<Counter> = Vec::new();
    if let Some(bound) = former.bottleneck() {
        let (reasons, sentence) = cause(bound, &former, totals, changed(before.us(), now.us(), FASTER));
        told.extend(reasons);
        sentences.push(sentence);
    }
    let untold: Vec<Counter> = OTHERS.into_iter().filter(|counter| !told.contains(counter)).collect();
    let others = changes(&former, totals, &untold, NOTABLE, MOST);
    if !others.is_empty() {
        sentences.push(format!("Besides, {}.", listed(&others)));
    }
    sentences
}

/// How the time changed.
fn speed(before: f64, now: f64) -> String {
    let ratio = before / now;
    let times = if ratio > FASTER {
        format!("{} times as fast as the rung before", plain(ratio))
    } else if ratio < 1.0 / FASTER {
        format!("{} times as slow as the rung before", plain(1.0 / ratio))
    } else {
        "As fast as the rung before".to_string()
    };
    format!("{times}: {now:.2} us instead of {before:.2} us.")
}

/// What became of the resource that bounded the rung before, and the counters behind that; where it takes as long as it did, what became of
/// the resource beside it whose time changed the most.
fn cause(bound: Bottleneck, former: &Totals, now: &Totals, time_changed: bool) -> (Vec<Counter>, String) {
    let (was, is) = (former.bound_us(bound), now.bound_us(bound));
    let mut sentence = format!("What bounded that, {}, takes {}", short(bound), outcome(was, is));
    let mut reasons = reasons(bound, former, now);
    let beside = now.most_changed(former).filter(|beside| *beside != bound);
    if let Some(beside) = beside.filter(|_| time_changed && !changed(was, is, CHANGED)) {
        let (was, is) = (former.bound_us(beside), now.bound_us(beside));
        if changed(was, is, CHANGED) {
            sentence += &format!("; beside it {} takes {}", short(beside), outcome(was, is));
            reasons = self::reasons(beside, former, now);
        }
    }
    let because = if reasons.is_empty() { String::new() } else { format!(": {}", listed(&reasons)) };
    (reasons.into_iter().map(|(c, ..)| c).collect(), format!("{sentence}{because}."))
}

fn outcome(was: f64, is: f64) -> String {
    match (was, is) {
        (was, is) if !changed(was, is, CHANGED) => format!("as long as it did ({is:.2} us)"),
        (was, is) if is <= 0.0 => format!("nothing any more instead of {was:.2} us"),
        (was, is) => format!("{is:.2} us instead of {was:.2} us"),
    }
}

/// Counters that say why a resource takes another time. What got worse while the time got better is no reason for it.
fn reasons(bound: Bottleneck, former: &Totals, now: &Totals) -> Vec<Change> {
    let (was, is) = (former.bound_us(bound), now.bound_us(bound));
    if !changed(was, is, CHANGED) {
        return Vec::new();
    }
    let explains = |(counter, a, b): &Change| ((b < a) == counter.less_is_better()) == (is < was);
    let changes = changes(former, now, Counter::of_bound(bound), CHANGED, usize::MAX);
    changes.into_iter().filter(explains).take(MOST).collect()
}

/// What bounds the rung itself, and how far it is from the floor.
fn bounded(totals: &Totals, now: &Told, floor_us: f64, is_later: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(bound) = totals.bottleneck() {
        let us = totals.bound_us(bound);
        let why = in_words(bound).split_once(':').map_or(String::new(), |(_, why)| format!(" ({})", why.trim()));
        let now = if is_later { "Now what takes the longest" } else { "What takes the longest" };
        sentences.push(match bound {
            Bottleneck::Launch => format!("{now} is the launch itself."),
            _ => format!("{now} is {}{why}: {us:.2} us.", short(bound)),
        });
    }
    if floor_us > 0.0 {
        sentences.push(format!("The whole is {} times the floor of {floor_us:.2} us.", plain(now.us() / floor_us)));
    }
    sentences
}

/// A bound without its explanation.
fn short(bound: Bottleneck) -> &'static str {
    match bound {
        Bottleneck::Launch => "the launch itself",
        _ => in_words(bound).split(':').next().unwrap_or_default(),
    }
}

/// A counter with what it was and what it is.
type Change = (Counter, f64, f64);

/// Those of some counters that changed by a ratio, in their order; no more than so many.
fn changes(former: &Totals, now: &Totals, counters: &[Counter], ratio: f64, most: usize) -> Vec<Change> {
    let values = counters.iter().filter_map(|c| Some((*c, former.value(*c)?, now.value(*c)?)));
    let matters = |(counter, a, b): &Change| former.matters(*counter, *a) || now.matters(*counter, *b);
    values.filter(|(_, a, b)| changed(*a, *b, ratio)).filter(matters).take(most).collect()
}

/// Whether a number changed by a ratio; from nothing and to nothing it always has.
fn changed(a: f64, b: f64, ratio: f64) -> bool {
    match (a > 0.0, b > 0.0) {
        (false, false) => false,
        (true, true) if a.is_infinite() || b.is_infinite() => a.is_infinite() != b.is_infinite(),
        (true, true) => b / a >= ratio || a / b >= ratio,
        (true, false) | (false, true) => true,
    }
}

/// `the instructions of warps fall from 12.5 M to 4.7 M (/ 2.66), ..`.
fn listed(changes: &[Change]) -> String {
    let one = |(counter, was, is): &Change| {
        let (name, from, to) = (counter.name(), counter.text(*was), counter.text(*is));
        let verb = if is < was { "fall" } else { "rise" };
        let times = match (was, is) {
            (a, b) if *a <= 0.0 || *b <= 0.0 || a.is_infinite() || b.is_infinite() => String::new(),
            (a, b) if b < a => format!(" (/ {})", plain(a / b)),
            (a, b) => format!(" (x {})", plain(b / a)),
        };
        format!("the {name} {verb} from {from} to {to}{times}")
    };
    let all: Vec<String> = changes.iter().map(one).collect();
    match &all[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_both_ways() {
        assert_eq!(speed(10.0, 4.0), "2.5 times as fast as the rung before: 4.00 us instead of 10.00 us.");
        assert_eq!(speed(4.0, 10.0), "2.5 times as slow as the rung before: 10.00 us instead of 4.00 us.");
        assert_eq!(speed(10.0, 9.9), "As fast as the rung before: 9.90 us instead of 10.00 us.");
    }

    #[test]
    fn counters_are_told_with_their_ratio() {
        let changes = [(Counter::Instructions, 12.5e6, 4.7e6), (Counter::Conflicts, 0.0, 64.0), (Counter::Occupancy, 0.5, 1.0)];
        assert_eq!(
            listed(&changes),
            "the instructions of warps fall from 12.5 M to 4.7 M (/ 2.66), the bank conflicts rise from 0 to 64 and the threads of a \
             multiprocessor that are there rise from 50 % to 100 % (x 2)"
        );
    }

    #[test]
    fn small_changes_are_none() {
        assert!(!changed(100.0, 104.0, CHANGED) && changed(100.0, 106.0, CHANGED) && changed(106.0, 100.0, CHANGED));
        assert!(changed(0.0, 1.0, NOTABLE) && changed(1.0, 0.0, NOTABLE) && !changed(0.0, 0.0, NOTABLE));
        assert!(!changed(f64::INFINITY, f64::INFINITY, NOTABLE) && changed(f64::INFINITY, 1.0, NOTABLE));
    }

    #[test]
    fn every_bound_has_counters_that_explain_it() {
        let bounds = [Bottleneck::Memory, Bottleneck::L2, Bottleneck::Latency, Bottleneck::Shared, Bottleneck::Atomics, Bottleneck::Launch];
        assert!(bounds.iter().all(|bound| !Counter::of_bound(*bound).is_empty()));
    }
}

//! The model's first look at a space: a time for every candidate, as far as the time for it reaches. In a large space, of which the pool has a
//! sample, it goes downhill from the best ones and brings what it finds into the pool.

use super::pool::Pool;
use super::predict::Prediction;
use super::search::median;
use girih_core::schedule::Permutation;
use girih_core::schedule::Schedule;
use girih_core::schedule::space::Space;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Schedules whose neighbours are looked at together.
const FRONT: usize = 16;
/// The best schedules that are brought into the pool.
const PROMISING: usize = 64;

/// Microseconds by candidate; infinite where it fails. What the limit leaves no time for is taken for average.
pub fn forecast(prediction: &Prediction, pool: &Pool, limit: Duration) -> Vec<f64> {
    let start = Instant::now();
    let mut known = HashMap::new();
    let first = if pool.is_open() { start + limit / 2 } else { start + limit };
    // One schedule takes a small part of the time, or is left out.
    let each = limit.as_secs_f64() / 8.0;
    // Rungs are steps that no change of a single knob makes.
    let mut rungs = pool.schedules();
    let sample = rungs.split_off(pool.steps());
    look((prediction, each), rungs, first, &mut known);
    look((prediction, each), sample, first, &mut known);
    if pool.is_open() {
        descend((prediction, each), pool, start + limit, &mut known);
        bring(pool, start + limit + limit / 4, &mut known);
    }
    let times: Vec<Option<f64>> = pool.schedules().iter().map(|s| known.get(s).copied()).collect();
    let finite: Vec<f64> = times.iter().flatten().copied().filter(|t| t.is_finite()).collect();
    let average = median(&finite).unwrap_or(1.0);
    times.into_iter().map(|t| t.unwrap_or(average)).collect()
}

/// Looks at what is one step away from the best, and from the best of that, and so on.
fn descend(prediction: (&Prediction, f64), pool: &Pool, end: Instant, known: &mut HashMap<Schedule, f64>) {
    let mut left = HashSet::new();
    while Instant::now() < end {
        let front: Vec<Schedule> = best(known).into_iter().filter(|s| !left.contains(s)).take(FRONT).collect();
        if front.is_empty() {
            return;
        }
        let mut around: Vec<Schedule> = front.iter().flat_map(|s| pool.space().steps(s)).filter(|s| !known.contains_key(s)).collect();
        let mut seen = HashSet::new();
        around.retain(|s| seen.insert(s.clone()));
        left.extend(front);
        look(prediction, around, end, known);
    }
}

/// Makes the best schedules candidates, as far as they are canonical at the end; the best of all is one in any case.
fn bring(pool: &Pool, end: Instant, known: &mut HashMap<Schedule, f64>) {
    // What lies beside the schedule that is known best may be outside of the space, as that is.
    let best: Vec<Schedule> = best(known).into_iter().filter(|s| pool.takes(s)).take(PROMISING).collect();
    for (at, canonical) in canonical(pool.space(), &best, end) {
        known.insert(canonical.clone(), known[&best[at]]);
        if pool.takes(&canonical) {
            pool.add(canonical);
        }
    }
}

/// The canonical forms of some schedules, by place, as far as they are there at the end; that of the first in any case. Each takes about ten
/// lowerings.
fn canonical(space: &Space, schedules: &[Schedule], end: Instant) -> Vec<(usize, Schedule)> {
    let mut found = until(end, schedules.len(), || {
        let space = space.clone();
        move |i| Some(space.canonical(&schedules[i]))
    });
    if let Some(first) = schedules.first().filter(|_| found.first().is_none_or(|(i, _)| *i > 0)) {
        found.insert(0, (0, space.canonical(first)));
    }
    found
}

/// What workers, one on each core, make of numbers below `count` that they come to before the end, by number.
fn until<T: Send, W: Fn(usize) -> Option<T> + Send>(end: Instant, count: usize, worker: impl Fn() -> W) -> Vec<(usize, T)> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (next, found_by_all) = (&next, &found);
    let work = |one: W| {
        while let i = next.fetch_add(1, Ordering::Relaxed)
            && i < count
            && Instant::now() < end
        {
            if let Some(made) = one(i) {
                found_by_all.lock().expect("no panic while adding").push((i, made));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..crate::cores::cores() {
            let one = worker();
            scope.spawn(move || work(one));
        }
    });
    let mut found = found.into_inner().expect("no panic while adding");
    found.sort_by_key(|(i, _)| *i);
    found
}

/// Those with a time, the fastest first; equals in a fixed order.
fn best(known: &HashMap<Schedule, f64>) -> Vec<Schedule> {
    let mut all: Vec<(&Schedule, f64)> = known.iter().filter(|(_, t)| t.is_finite()).map(|(s, t)| (s, *t)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.choices.cmp(&b.0.choices)));
    all.into_iter().map(|(s, _)| s.clone()).collect()
}

/// Asks the model on all cores, for about `each` seconds a schedule, in an order that mixes neighbours, until the end.
fn look((prediction, each): (&Prediction, f64), schedules: Vec<Schedule>, end: Instant, known: &mut HashMap<Schedule, f64>) {
    let order = Permutation::new(schedules.len() as u64, 1);
    let (order, schedules) = (&order, &schedules);
    let at = |i: usize| order.at(i as u64) as usize;
    let found = until(end, schedules.len(), || move |i| prediction.rough_us_within(&schedules[at(i)], (each, Some(end))));
    known.extend(found.into_iter().map(|(i, time)| (schedules[at(i)].clone(), time)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::facts::Facts;
    use girih_core::target::Target;
    use girih_core::tile::by_hand::four_knobs;

    #[test]
    fn canonical_forms_are_those_of_the_space_as_far_as_time_allows() {
        let kernel = four_knobs();
        let facts = Facts::best(&kernel);
        let space = Space::new(&kernel, &facts, Target::h200());
        let schedules: Vec<Schedule> = (0..space.points()).map(|i| space.point(i)).filter(|s| space.check(s).is_ok()).collect();
        let all: Vec<(usize, Schedule)> = schedules.iter().map(|s| space.canonical(s)).enumerate().collect();
        assert!(all.len() > 4 && all.iter().any(|(i, s)| schedules[*i] != *s), "some differ: {}", all.len());
        let now = Instant::now();
        assert_eq!(canonical(&space, &schedules, now + Duration::from_secs(60)), all);
        assert_eq!(canonical(&space, &schedules, now), all[..1]);
    }
}

//! What the model promises of a program's choices of variants before any is tuned: in which order they are searched, how their time is shared, and
//! with which schedules each begins.

use super::launches::{Launch, at};
use super::predict::Prediction;
use crate::cores;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::schedule::Schedule;
use girih_core::schedule::ladder::Ladder;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What the search of the choice that promises least is worth, beside that of the one that promises most.
const LEAST: f64 = 0.1;
/// A rung is begun with instead of what the author lists first where it is predicted to take at most this part of the time, or that takes too long
/// to predict.
const CLEARLY: f64 = 0.8;
/// The highest rungs of each ladder that are looked at.
const HIGHEST: usize = 4;

/// What is promised of one choice.
#[derive(Clone, Default, Debug)]
pub(super) struct Promise {
    /// Microseconds of its launches, each by its best schedule; nothing where one is not known.
    pub us: Option<f64>,
    /// By launch site: a rung of its kernel's ladder that promises clearly more than what its author lists first.
    pub first: Vec<Option<Schedule>>,
}

/// A choice, its kernels and its launches.
struct Way<'a> {
    subject: &'a Subject,
    kernels: Vec<Kernel>,
    launches: Vec<Launch>,
}

/// A launch of a choice under a schedule: the one that its author lists first, or a rung of its kernel's ladder.
struct Asked {
    way: usize,
    launch: usize,
    /// Its place among those of the launch: the author's first, and then from the highest rung down.
    rank: usize,
    schedule: Schedule,
}

/// What the model promises of each choice, as far as it is known after `limit`, about.
pub(super) fn promises(ways: &[Subject], sizes: &Sizes, target: &Target, limit: Duration) -> Vec<Promise> {
    let end = Instant::now() + limit;
    let ways: Vec<Way> = ways.iter().map(|subject| Way::of(subject, sizes)).collect();
    let mut asked: Vec<Asked> = ways.iter().enumerate().flat_map(|(number, way)| way.asked(number, target, end)).collect();
    asked.sort_by_key(|a| a.rank);
    let next = AtomicUsize::new(0);
    let one = |_| {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Asked { way, launch, schedule, .. } = &asked[i];
        let us = || ways[*way].us(&ways[*way].launches[*launch], schedule, sizes, target, (limit / 4, end));
        (i, if Instant::now() < end { us() } else { None })
    };
    let found: Vec<(usize, Option<f64>)> = cores::each_of(asked.len(), one);
    let of_launch = |way: usize, launch: usize| -> Vec<(&Schedule, f64)> {
        let own = found.iter().map(|(i, us)| (&asked[*i], us)).filter(|(a, _)| (a.way, a.launch) == (way, launch));
        own.filter_map(|(a, us)| Some((&a.schedule, (*us)?))).collect()
    };
    ways.iter().enumerate().map(|(number, way)| way.promise(&|launch| of_launch(number, launch))).collect()
}

impl<'a> Way<'a> {
    fn of(subject: &'a Subject, sizes: &Sizes) -> Way<'a> {
        let kernels: Vec<Kernel> = subject.program.sites().iter().filter_map(|site| (site.build)().ok()).collect();
        let complete = kernels.len() == subject.program.sites().len();
        let launches = if complete { at(subject, sizes).unwrap_or_default() } else { Vec::new() };
        Way { subject, kernels, launches }
    }

    /// The schedules of each launch that are predicted; without rungs where the time is over.
    fn asked(&self, way: usize, target: &Target, end: Instant) -> Vec<Asked> {
        let of_launch = |(launch, l): (usize, &Launch)| {
            let kernel = &self.kernels[l.site];
            let there_is_time = Instant::now() < end;
            let ladder = there_is_time.then(|| Ladder::new(&Space::new(kernel, &l.facts, target)).ok().flatten()).flatten();
            let rungs = ladder.map_or(Vec::new(), |ladder| ladder.rungs).into_iter().rev().take(HIGHEST).map(|rung| rung.schedule);
            let all = std::iter::once(Schedule::default_of(kernel)).chain(rungs).enumerate();
            all.map(move |(rank, schedule)| Asked { way, launch, rank, schedule }).collect::<Vec<_>>()
        };
        self.launches.iter().enumerate().flat_map(of_launch).collect()
    }

    /// Microseconds of a launch site under a schedule, known so soon and before the end.
    fn us(&self, launch: &Launch, schedule: &Schedule, sizes: &Sizes, target: &Target, (limit, end): (Duration, Instant)) -> Option<f64> {
        let mut schedules: Vec<Schedule> = self.kernels.iter().map(Schedule::default_of).collect();
        schedules[launch.site] = schedule.clone();
        let prediction = Prediction::new(self.subject, sizes, (&self.kernels[launch.site], launch), target, schedules).rehearsing(false);
        let us = prediction.rough_us_within(schedule, (limit.as_secs_f64(), Some(end)))? * launch.count as f64;
        Some(us).filter(|us| us.is_finite() && *us > 0.0)
    }

    /// What comes of the times of its launches.
    fn promise<'s>(&self, of_launch: &dyn Fn(usize) -> Vec<(&'s Schedule, f64)>) -> Promise {
        let (mut us, mut first) = (Some(0.0), vec![None; self.kernels.len()]);
        for (number, launch) in self.launches.iter().enumerate() {
            let times = of_launch(number);
            us = us.zip(least(&times)).map(|(us, (_, best))| us + best);
            first[launch.site] = rung_to_begin_with(&times, &Schedule::default_of(&self.kernels[launch.site])).cloned();
        }
        Promise { us: us.filter(|us| *us > 0.0), first }
    }
}

/// The schedule that is predicted to take the least time.
fn least<'s>(times: &[(&'s Schedule, f64)]) -> Option<(&'s Schedule, f64)> {
    times.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied()
}

/// A rung that promises clearly more than what the author lists first.
fn rung_to_begin_with<'s>(times: &[(&'s Schedule, f64)], author: &Schedule) -> Option<&'s Schedule> {
    let of_author = times.iter().find(|(schedule, _)| *schedule == author).map(|(_, us)| *us);
    let (schedule, best) = least(times)?;
    of_author.is_none_or(|of_author| best <= CLEARLY * of_author).then_some(schedule)
}

/// What the searches of choices are worth that promise so many microseconds each: 1 for the one that promises most, and as the square of their
/// ratio for others. One of which nothing is known may be the best.
pub(super) fn worth(promises: &[Promise]) -> Vec<f64> {
    let best = promises.iter().filter_map(|p| p.us).fold(f64::INFINITY, f64::min);
    promises.iter().map(|p| p.us.map_or(1.0, |us| (best / us).powi(2).max(LEAST))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_is_begun_with_where_it_promises_clearly_more() {
        let of = |number| Schedule { choices: vec![girih_core::schedule::Choice::Int(number)] };
        let (author, near, far) = (of(1), of(2), of(3));
        assert_eq!(rung_to_begin_with(&[(&author, 10.0), (&near, 9.0)], &author), None);
        assert_eq!(rung_to_begin_with(&[(&author, 10.0), (&near, 9.0), (&far, 7.0)], &author), Some(&far));
        // The author's takes too long to predict.
        assert_eq!(rung_to_begin_with(&[(&near, 9.0), (&far, 7.0)], &author), Some(&far));
        assert_eq!(rung_to_begin_with(&[], &author), None);
    }

    #[test]
    fn who_promises_more_has_more_time() {
        let of = |times: &[Option<f64>]| worth(&times.iter().map(|us| Promise { us: *us, first: Vec::new() }).collect::<Vec<_>>());
        assert_eq!(of(&[Some(200.0), None, Some(100.0), Some(1000.0)]), [0.25, 1.0, 1.0, 0.1]);
        assert_eq!(of(&[None, None]), [1.0, 1.0]);
    }
}

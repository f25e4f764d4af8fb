//! How the trials of a launch site are made, and where they go.

use super::Progress;
use super::ahead::Ahead;
use super::client::WorkerMeasure;
use super::pool::Pool;
use super::predict::Prediction;
use super::search::{Measure, Observer};
use super::site::Site;
use crate::store::{Status, Trial, TrialKey};
use girih_core::schedule::Schedule;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What takes this much longer than the best so far is not checked: it can't win.
const SLOW: f64 = 1.25;

/// What gives the times of a site's candidates.
pub(super) enum Inner<'a> {
    Worker(&'a mut WorkerMeasure),
    Model(&'a Prediction<'a>),
}

/// Makes trials by number: the pool knows what they are of.
pub(super) struct Trials<'a> {
    pub inner: Inner<'a>,
    pub pool: &'a Pool<'a>,
    pub ahead: &'a Ahead<'a>,
    pub site: &'a Site<'a>,
    /// The least time of a candidate that was right and may win: not of one that spills.
    pub best_us: Option<f64>,
    /// What was known best before, until it has been tried.
    pub first: Option<First>,
}

/// The schedule that was known best, which may be long in the compiler: the result shall be no worse than it, however little time there is.
pub(super) struct First {
    schedule: Schedule,
    /// From then on nothing else is tried before it.
    alone: Instant,
}

impl First {
    /// Of a search that has so much time: others that are compiled go before it in the first half. Where nobody is in a hurry it is the first.
    pub fn among(schedule: Schedule, time: Option<Duration>) -> First {
        First { schedule, alone: Instant::now() + time.unwrap_or_default() / 2 }
    }

    /// Whether another candidate may be tried before it.
    fn lets(&self, other: &Schedule) -> bool {
        self.schedule == *other || Instant::now() < self.alone
    }
}

impl Measure for Trials<'_> {
    fn trial(&mut self, candidate: usize) -> Trial {
        let candidate = self.pool.get(candidate);
        let mut trial = match &mut self.inner {
            Inner::Worker(worker) => worker.trial(&candidate.name, self.best_us.map(|us| us * SLOW)),
            Inner::Model(prediction) => prediction.trial(&candidate.schedule),
        };
        self.ahead.tried();
        self.first.take_if(|first| first.schedule == candidate.schedule);
        self.site.describe(&candidate.schedule, &mut trial);
        self.best_us = [self.best_us, eligible_us(&trial)].into_iter().flatten().reduce(f64::min);
        if let Inner::Model(prediction) = &self.inner
            && let Some(mistake) = prediction.mistake()
        {
            *self.site.mistake.borrow_mut() = Some(mistake);
        }
        trial
    }

    fn settled(&self) -> bool {
        self.first.is_none() || self.site.end.is_none_or(|end| Instant::now() >= end)
    }

    fn ready(&self, candidate: usize) -> bool {
        match self.inner {
            Inner::Worker(_) => {
                let schedule = self.pool.get(candidate).schedule;
                self.first.as_ref().is_none_or(|first| first.lets(&schedule)) && self.ahead.is_done(&schedule)
            }
            Inner::Model(_) => true,
        }
    }

    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
        let names: Vec<String> = candidates.iter().map(|c| self.pool.get(*c).name).collect();
        match &mut self.inner {
            Inner::Worker(worker) => worker.interleaved(&names.iter().map(String::as_str).collect::<Vec<_>>(), rounds),
            // A prediction does not change when it is made again.
            Inner::Model(_) => vec![Vec::new(); candidates.len()],
        }
    }
}

/// A trial's time, if it was right and its cubin is accepted.
pub(super) fn eligible_us(trial: &Trial) -> Option<f64> {
    trial.right_us().filter(|_| trial.flaw.is_none())
}

/// Stores trials as they come and passes them on.
pub(super) struct Log<'a> {
    pub site: &'a Site<'a>,
    pub key: &'a TrialKey,
    pub progress: &'a mut dyn Progress,
    pub trials: Vec<Trial>,
    pub error: Option<String>,
}

impl Observer for Log<'_> {
    fn tried(&mut self, _candidate: usize, trial: &Trial) {
        // The author's own mistake says nothing of a schedule.
        if self.site.mistake.borrow().is_some() {
            return;
        }
        if trial.status != Status::Untried
            && let Err(e) = self.site.store.record(self.key, trial)
        {
            self.error.get_or_insert(e.to_string());
        }
        self.progress.tried(trial);
        self.trials.retain(|t| t.schedule != trial.schedule);
        self.trials.push(trial.clone());
        if trial.status == Status::Wrong {
            let name = &self.site.subject.name;
            self.progress.note(&format!("{name} at {} is wrong: {}", trial.schedule, trial.reason));
        }
    }

    fn stopped(&self) -> bool {
        self.site.stop.load(Ordering::Relaxed) || self.error.is_some() || self.site.mistake.borrow().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::schedule::Choice;

    #[test]
    fn what_was_known_best_is_not_left_for_last() {
        let schedule = |i| Schedule { choices: vec![Choice::Int(i)] };
        let first = First::among(schedule(1), Some(Duration::from_millis(200)));
        assert!(first.lets(&schedule(1)) && first.lets(&schedule(2)));
        std::thread::sleep(Duration::from_millis(120));
        assert!(first.lets(&schedule(1)) && !first.lets(&schedule(2)), "half of the time is over");
        let patient = First::among(schedule(1), None);
        assert!(patient.lets(&schedule(1)) && !patient.lets(&schedule(2)));
    }
}

//! How the trials of a launch site are made, and where they go.

use super::Progress;
use super::ahead::Ahead;
use super::client::WorkerMeasure;
use super::demands::Compiling;
use super::glances::{Glances, Next};
use super::pool::{Candidate, Pool};
use super::predict::Prediction;
use super::search::{Measure, Observer};
use super::site::Site;
use crate::store::{Status, Trial, TrialKey};
use girih_core::schedule::Schedule;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
    /// What trials launch beside the candidate, where that is compiled yet.
    pub beside: Option<&'a Compiling>,
    pub site: &'a Site<'a>,
    /// The least time of a candidate that was right and may win: not of one that spills.
    pub best_us: Option<f64>,
    /// What was known best before, until it has been tried.
    pub first: Option<First>,
    /// What was tried, by its machine code.
    pub twins: Twins,
    /// What is worth a trial that was not made yet.
    pub glances: Glances,
    /// The samples of the final comparison.
    pub raced: HashMap<usize, Vec<f64>>,
    /// That some of these do not count, and why.
    pub throttled: Option<String>,
}

/// Trials by what is launched: candidates whose machine code and launches are the same are measured once.
#[derive(Default)]
pub(super) struct Twins(HashMap<u64, Trial>);

impl Twins {
    /// The trial of another candidate that launches the same, as this one's.
    fn of(&self, code: u64, schedule: &str) -> Option<Trial> {
        let twin = self.0.get(&code)?;
        let reason = if twin.reason.is_empty() { format!("the same machine code as {}", twin.schedule) } else { twin.reason.clone() };
        Some(Trial { schedule: schedule.to_string(), reason, ..twin.clone() })
    }

    /// Remembers a trial that says something of its code.
    fn add(&mut self, code: u64, trial: &Trial) {
        if matches!(trial.status, Status::Measured | Status::Slow | Status::Wrong) && trial.throttled().is_none() {
            self.0.entry(code).or_insert_with(|| trial.clone());
        }
    }
}

/// The schedule that was known best, which may be long in the compiler: the result shall be no worse than it, however little time there is.
/// The author's first choice, where nobody has measured anything, is tried early and not waited for.
pub(super) struct First {
    schedule: Schedule,
    /// Somebody has measured or predicted it.
    measured: bool,
    /// From then on nothing else is tried before it.
    alone: Instant,
}

impl First {
    /// Of a search that has so much time: others that are compiled go before it in the first half. Where nobody is in a hurry it is the first.
    pub fn among(schedule: Schedule, time: Option<Duration>, measured: bool) -> First {
        First { schedule, measured, alone: Instant::now() + time.unwrap_or_default() / 2 }
    }

    /// Whether nothing may be elected while it is untried: what is known best is not given up for what is perhaps slower, nor the author's choice
    /// for the `plainest`.
    pub fn is_missed(&self, plainest: bool) -> bool {
        self.measured || plainest
    }

    /// Whether another candidate may be tried before it.
    fn lets(&self, other: &Schedule) -> bool {
        !self.measured || self.schedule == *other || Instant::now() < self.alone
    }
}

impl Measure for Trials<'_> {
    fn trial(&mut self, candidate: usize) -> Option<Trial> {
        let candidate = self.pool.get(candidate);
        let mut trial = match &mut self.inner {
            Inner::Worker(worker) => {
                let code = self.site.machine_code(&candidate.schedule);
                let twin = code.and_then(|code| self.twins.of(code, &candidate.name));
                let trial = match twin {
                    Some(twin) => twin,
                    None => checked(worker, &mut self.glances, self.ahead, &candidate, self.best_us)?,
                };
                code.into_iter().for_each(|code| self.twins.add(code, &trial));
                trial
            }
            Inner::Model(prediction) => prediction.trial(&candidate.schedule),
        };
        self.glances.remove(&candidate.schedule);
        self.ahead.tried();
        self.first.take_if(|first| first.schedule == candidate.schedule && trial.status != Status::Untried);
        self.site.describe(&candidate.schedule, &mut trial);
        self.best_us = [self.best_us, eligible_us(&trial)].into_iter().flatten().reduce(f64::min);
        if let Inner::Model(prediction) = &self.inner
            && let Some(mistake) = prediction.mistake()
        {
            *self.site.mistake.borrow_mut() = Some(mistake);
        }
        Some(trial)
    }

    fn settled(&self) -> bool {
        self.first.as_ref().is_none_or(|first| !first.measured) || self.site.end.is_none_or(|end| Instant::now() >= end)
    }

    fn ended(&self) -> bool {
        matches!(self.inner, Inner::Worker(_)) && self.site.end.is_some_and(|end| Instant::now() >= end)
    }

    fn ready(&self, candidate: usize) -> bool {
        match self.inner {
            Inner::Worker(_) => {
                let schedule = self.pool.get(candidate).schedule;
                match self.glances.next(&schedule, self.best_us) {
                    Some(Next::Slow) => true,
                    Some(Next::Wait) => false,
                    Some(Next::Check) if self.ahead.is_asked_for(&schedule) => {
                        self.ahead.is_checkable(&schedule) && self.beside.is_none_or(|b| b.is_done_beside(self.site.launch.site))
                    }
                    Some(Next::Check) => true,
                    None => self.first.as_ref().is_none_or(|first| first.lets(&schedule)) && self.ahead.is_done(&schedule),
                }
            }
            Inner::Model(_) => true,
        }
    }

    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
        let names: Vec<String> = candidates.iter().map(|c| self.pool.get(*c).name).collect();
        match &mut self.inner {
            Inner::Worker(worker) => {
                let samples = worker.interleaved(&names.iter().map(String::as_str).collect::<Vec<_>>(), rounds);
                self.throttled = self.throttled.take().or(worker.throttled());
                for (candidate, samples) in candidates.iter().zip(&samples) {
                    self.raced.entry(*candidate).or_default().extend(samples);
                }
                samples
            }
            // A prediction does not change when it is made again.
            Inner::Model(_) => vec![Vec::new(); candidates.len()],
        }
    }
}

/// The trial of a candidate; `None` where it is worth one, and what its check launches is not compiled yet. Who comes again before that waits
/// for the compiler.
fn checked(
    worker: &mut WorkerMeasure,
    glances: &mut Glances,
    ahead: &Ahead,
    Candidate { schedule, name }: &Candidate,
    best_us: Option<f64>,
) -> Option<Trial> {
    let limit_us = best_us.map(Glances::limit);
    let at_once = ahead.is_checkable(schedule) || ahead.is_asked_for(schedule);
    if !at_once && glances.us(schedule).is_none() {
        match worker.glance(name, limit_us.unwrap_or(f64::MAX)) {
            Ok(samples_us) => glances.add(schedule, samples_us),
            Err(trial) => return Some(*trial),
        }
    }
    match glances.next(schedule, best_us) {
        Some(Next::Slow) => Some(glances.slow(schedule, name)),
        Some(Next::Check) if !at_once => {
            ahead.ask_for_check(schedule, glances.us(schedule).unwrap_or_default());
            None
        }
        Some(Next::Wait) if !at_once => None,
        _ => Some(worker.trial(name, limit_us)),
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
mod tests;

//! What is timed before candidates are listed and predicted: the schedule that is known best, or the plainest one while that is being compiled.

use super::Progress;
use super::client::WorkerMeasure;
use super::demands::Compiling;
use super::launches::promised;
use super::site::Site;
use crate::store::{Status, Trial, TrialKey};
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use std::sync::atomic::Ordering;

/// The first trials of a site's search.
pub(super) struct Early<'a> {
    pub site: &'a Site<'a>,
    pub key: &'a TrialKey,
    pub progress: &'a mut dyn Progress,
}

impl Early<'_> {
    /// Trials of candidates that were not tried before, none where that says nothing new. Where time is short what is known best comes behind the
    /// plainest, if it is compiled by then: the order of the others takes a while. The worker goes on with these schedules.
    pub fn timed(
        &mut self,
        schedules: &[String],
        former: &[Trial],
        (worker, compiling): (&mut WorkerMeasure, &Compiling),
    ) -> Result<Vec<Trial>, String> {
        let (at, kernel) = (self.site.launch.site, self.site.kernel);
        let known = former.iter().any(|t| t.schedule == schedules[at]) || self.site.budget.trials == Some(0);
        let mut made = Vec::new();
        if let Some(first) = parse_schedule(kernel, &schedules[at]).ok().filter(|_| !known) {
            if !compiling.is_done() {
                made.extend(self.plainest(former, worker)?);
            }
            let is_another = made.iter().all(|trial: &Trial| trial.schedule != schedules[at]);
            if is_another && compiling.is_done() && (made.is_empty() || self.site.budget.time.is_some()) {
                made.extend(self.trial(schedules, &first, self.key, worker)?);
            }
        }
        worker.take(at, schedules.to_vec());
        Ok(made)
    }

    /// A trial of the naive schedules: the worker has compiled them to compare results with.
    fn plainest(&mut self, former: &[Trial], worker: &mut WorkerMeasure) -> Result<Option<Trial>, String> {
        let Some(plain) = self.plain() else { return Ok(None) };
        let (at, kernels) = (self.site.launch.site, &self.site.program.kernels);
        let texts: Vec<String> = plain.iter().zip(kernels).map(|(s, k)| s.short(k)).collect();
        let key = self.site.key(&texts);
        let before = self.site.store.trials(&key).map_err(|e| e.to_string())?;
        if former.iter().chain(&before).any(|t| t.schedule == texts[at]) {
            return Ok(None);
        }
        let trial = self.trial(&texts, &plain[at], &key, worker)?;
        // Beside other schedules of the other sites it is another candidate.
        Ok(trial.filter(|_| key == *self.key))
    }

    /// The naive schedule of each launch site.
    fn plain(&self) -> Option<Vec<Schedule>> {
        let program = self.site.program;
        let of = |(site, kernel)| Space::new(kernel, &promised(&program.launches, site, kernel).0, self.site.target).naive().ok();
        program.kernels.iter().enumerate().map(of).collect()
    }

    fn trial(&mut self, way: &[String], schedule: &Schedule, key: &TrialKey, worker: &mut WorkerMeasure) -> Result<Option<Trial>, String> {
        let at = self.site.launch.site;
        worker.take(at, way.to_vec());
        let mut trial = worker.trial(&way[at], None);
        self.site.describe(schedule, &mut trial);
        if trial.status == Status::Untried || self.site.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.site.store.record(key, &trial).map_err(|e| e.to_string())?;
        self.progress.tried(&trial);
        Ok(Some(trial))
    }
}

#[cfg(test)]
mod tests;

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
    /// Trials of candidates that were not tried before: one, or none where that says nothing new. The worker goes on with these schedules.
    pub fn timed(
        &mut self,
        schedules: &[String],
        former: &[Trial],
        (worker, compiling): (&mut WorkerMeasure, &Compiling),
    ) -> Result<Vec<Trial>, String> {
        let (at, kernel) = (self.site.launch.site, self.site.kernel);
        let known = former.iter().any(|t| t.schedule == schedules[at]) || self.site.budget.trials == Some(0);
        let made = match parse_schedule(kernel, &schedules[at]) {
            Ok(first) if !known && compiling.is_done() => self.trial(schedules, &first, self.key, worker)?,
            Ok(_) if !known => self.plainest(former, worker)?,
            _ => None,
        };
        worker.take(at, schedules.to_vec());
        Ok(made.into_iter().collect())
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

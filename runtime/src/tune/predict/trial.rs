//! A candidate that is checked on the simulator and timed by the model: what a trial is where there is no GPU.

use super::super::floor::{Predicted, floor_us};
use super::Prediction;
use crate::check::{Checks, Report};
use crate::store::{Status, Trial};
use girih_core::schedule::Schedule;
use std::time::Instant;

impl Prediction<'_> {
    /// A schedule checked on the simulator, with the model's time.
    pub fn trial(&self, schedule: &Schedule) -> Trial {
        let mut trial = Trial {
            schedule: schedule.short(self.kernel),
            status: Status::Predicted,
            reason: String::new(),
            median_us: None,
            samples_us: Vec::new(),
            registers: None,
            flaw: None,
            code: None,
        };
        let checked = self.check(schedule);
        if let Some(failure) = checked.failures.first() {
            (trial.status, trial.reason) = (Status::Wrong, failure.to_string());
            return trial;
        }
        if checked.runs == 0 && checked.rejected.is_empty() {
            let why = "there was no time to check it at any size";
            let more = "a longer --budget has more, and smaller sizes to check at (`.check_at`) need less";
            (trial.status, trial.reason) = (Status::Untried, format!("{why}: {more}"));
            return trial;
        }
        let resources = self.resources(schedule);
        trial.registers = resources.as_ref().ok().and_then(|r| r.map(|r| r.registers));
        match resources.and_then(|r| self.predict(schedule, r)) {
            Ok((p, basis)) if p.seconds.is_finite() => {
                let us = self.others_us + self.us(&p);
                let predicted = Predicted::at_least(us, basis, floor_us(self.subject, self.sizes, self.target).unwrap_or(0.0));
                trial.median_us = Some(predicted.us);
                let remark = predicted.remark().map_or(String::new(), |r| format!(" ({r})"));
                trial.reason = format!("bound by {}{remark}", p.bottleneck.name());
            }
            Ok((p, _)) => (trial.status, trial.reason) = (Status::Rejected, format!("bound by {}", p.bottleneck.name())),
            Err(e) => (trial.status, trial.reason) = (Status::Rejected, e),
        }
        trial
    }

    /// Checks a candidate on the simulator at small awkward sizes, the small ones first, as far as there is time.
    fn check(&self, schedule: &Schedule) -> Report {
        let mut way = self.schedules.clone();
        way[self.launch.site] = schedule.clone();
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        self.checks.get_or_init(|| Checks::new(self.subject, 1)).check(way, self.target, left)
    }

    /// What the checks found that is the author's to mend, whatever the schedule.
    pub(in crate::tune) fn mistake(&self) -> Option<String> {
        self.checks.get()?.mistake()
    }
}

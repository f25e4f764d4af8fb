//! Checks within a time limit, of schedules that come one after the other: what the tuner asks of a candidate on a machine without a GPU.

use super::plan::{Expected, Plan};
use super::report::Report;
use crate::device::Device;
use crate::subject::Subject;
use crate::subject::differences::Mismatch;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Warp instructions that a launch may take for each second that is left, and statements of the evaluator.
const STEPS_PER_SECOND: f64 = 1e6;
const STATEMENTS_PER_SECOND: f64 = 1e5;
/// Statements that the smallest size may take in any case: what was checked at no size is no result.
const LEAST_STATEMENTS: u64 = 10_000_000;

/// What the evaluator says of a size.
enum Said {
    /// Nobody has asked.
    Nothing,
    /// It would take more than so many statements.
    MoreThan(u64),
    /// What it computes, or what is wrong with it.
    Known(Arc<Result<Expected, Mismatch>>),
}

/// Checks of one way after the other to run a subject, on the simulator: what the evaluator and the references say is asked for once.
pub struct Checks<'a> {
    plan: Plan<'a>,
    seed: u64,
    /// The numbers of its sizes, those with the smallest tensors first.
    order: Vec<usize>,
    expected: Vec<Mutex<Said>>,
}

impl<'a> Checks<'a> {
    /// At the subject's check sizes, with data drawn by `seed`.
    pub fn new(subject: &'a Subject, seed: u64) -> Checks<'a> {
        let mut plan = Plan::of_sizes(subject, Ok(Vec::new()), seed);
        plan.may_be_unfinished = true;
        let mut order: Vec<usize> = (0..plan.calls()).collect();
        let bytes = |number: &usize| subject.largest_bytes(&plan.sizes[*number]).unwrap_or(0.0) as u64;
        order.sort_by_key(bytes);
        let expected = (0..plan.calls()).map(|_| Mutex::new(Said::Nothing)).collect();
        Checks { plan, seed, order, expected }
    }

    /// Checks a way (one schedule per launch site) from the smallest size on, until the first that fails or is not finished in the time
    /// that is left.
    pub fn check(&self, way: Vec<Schedule>, target: &Target, left: Option<Duration>) -> Report {
        let (begun, ways, mut report) = (Instant::now(), [way], self.plan.report());
        for (place, number) in self.order.iter().copied().enumerate() {
            let now = left.map(|t| t.saturating_sub(begun.elapsed()));
            if !report.failures.is_empty() || report.unfinished > 0 || (report.runs > 0 && now.is_some_and(|t| t.is_zero())) {
                break;
            }
            let all = girih_core::sim::Options::default().fuel;
            let fuel = now.map_or(all, |t| ((t.as_secs_f64() * STEPS_PER_SECOND) as u64).clamp(STEPS_PER_SECOND as u64, all));
            let least = if place == 0 { LEAST_STATEMENTS } else { 0 };
            let statements = now.map(|t| ((t.as_secs_f64().max(1.0) * STATEMENTS_PER_SECOND) as u64).max(least));
            let part = self.check_size(number, &ways, &Device::sim_within(target, fuel, false), statements);
            report.merge(part);
        }
        report
    }

    /// What the author got wrong, whatever the schedule: the evaluator fails or differs from the references, at a size that was tried.
    pub fn mistake(&self) -> Option<String> {
        let wrong = |number: usize| match &*self.said(number) {
            Said::Known(known) => known.as_ref().as_ref().err().map(|e| self.plan.failure(number, self.seed, e.clone()).to_string()),
            Said::Nothing | Said::MoreThan(_) => None,
        };
        self.order.iter().find_map(|number| wrong(*number))
    }

    fn said(&self, number: usize) -> MutexGuard<'_, Said> {
        self.expected[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the evaluator says of a size, if that takes no more than so many statements; asked again where it may take more than before.
    fn expected(&self, number: usize, statements: Option<u64>) -> Option<Arc<Result<Expected, Mismatch>>> {
        let mut said = self.said(number);
        match &*said {
            Said::Known(known) => return Some(known.clone()),
            Said::MoreThan(known) if statements.is_some_and(|n| n <= *known) => return None,
            Said::MoreThan(_) | Said::Nothing => {}
        }
        let found = self.plan.expected_within(number, self.seed, statements).transpose().map(Arc::new);
        *said = found.clone().map_or(Said::MoreThan(statements.unwrap_or(u64::MAX)), Said::Known);
        found
    }

    fn check_size(&self, number: usize, ways: &[Vec<Schedule>], device: &Device, statements: Option<u64>) -> Report {
        let mut report = Report { sizes: 1, ..Report::default() };
        let tried = match self.expected(number, statements).as_deref() {
            Some(Ok(expected)) => self.plan.try_ways(number, self.seed, device, ways, expected, &mut report),
            None => {
                report.unfinished += 1;
                Ok(())
            }
            Some(Err(e)) => Err(e.clone()),
        };
        if let Err(e) = tried {
            report.fail(self.plan.failure(number, self.seed, e));
        }
        report
    }
}

//! Candidates that were timed too few times for more than whether they are worth a trial. What a check of one launches has to be compiled for its
//! small calls, which may take a compiler seconds: the GPU goes on with others meanwhile.

use crate::store::{Status, Trial};
use crate::tune::search::median;
use girih_core::schedule::Schedule;
use std::collections::HashMap;

/// What takes this much longer than the best so far is not checked: it can't win.
const SLOW: f64 = 1.25;

/// What is to be done with a candidate that was glanced at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// It is too slow: that is its trial.
    Slow,
    /// It may win, by what is known so far.
    Check,
    /// Others are much faster, but have not been checked yet.
    Wait,
}

/// Those that had no trial yet, with their samples in microseconds.
#[derive(Default)]
pub(super) struct Glances(HashMap<Schedule, Vec<f64>>);

impl Glances {
    /// How long a candidate may take beside the best time of all trials.
    pub fn limit(best_us: f64) -> f64 {
        best_us * SLOW
    }

    /// Remembers samples.
    pub fn add(&mut self, schedule: &Schedule, samples_us: Vec<f64>) {
        self.0.insert(schedule.clone(), samples_us);
    }

    /// The candidate has its trial.
    pub fn remove(&mut self, schedule: &Schedule) {
        self.0.remove(schedule);
    }

    /// The least sample of a candidate in microseconds.
    pub fn us(&self, schedule: &Schedule) -> Option<f64> {
        self.0.get(schedule).map(|samples| least(samples))
    }

    /// What is to be done with a candidate, whose trial has to be no slower than `best_us` allows; `None` where it was not glanced at.
    pub fn next(&self, schedule: &Schedule, best_us: Option<f64>) -> Option<Next> {
        let own = self.us(schedule)?;
        let least = self.0.values().map(|samples| least(samples)).fold(f64::INFINITY, f64::min);
        Some(match best_us {
            Some(best) if own > Glances::limit(best) => Next::Slow,
            _ if own > Glances::limit(least) => Next::Wait,
            _ => Next::Check,
        })
    }

    /// The trial of a candidate that is too slow for more.
    pub fn slow(&self, schedule: &Schedule, name: &str) -> Trial {
        let samples_us = self.0.get(schedule).cloned().unwrap_or_default();
        let (status, median_us) = (Status::Slow, median(&samples_us));
        Trial { schedule: name.into(), status, reason: String::new(), median_us, samples_us, registers: None, flaw: None, code: None }
    }
}

fn least(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::schedule::Choice;

    #[test]
    fn only_what_may_win_is_checked() {
        let schedule = |i| Schedule { choices: vec![Choice::Int(i)] };
        let mut glances = Glances::default();
        let next = |glances: &Glances, i, best| glances.next(&schedule(i), best);
        assert_eq!(next(&glances, 1, Some(900.0)), None);
        glances.add(&schedule(1), vec![110.0, 100.0]);
        glances.add(&schedule(2), vec![124.0]);
        glances.add(&schedule(3), vec![126.0, 127.0]);
        let of_all = |glances: &Glances, best| [1, 2, 3].map(|i| next(glances, i, best).expect("it was glanced at"));
        // Trials say little yet: the fastest, and what is about as fast.
        assert_eq!(of_all(&glances, Some(900.0)), [Next::Check, Next::Check, Next::Wait]);
        assert_eq!(of_all(&glances, None), [Next::Check, Next::Check, Next::Wait]);
        assert_eq!(of_all(&glances, Some(100.0)), [Next::Check, Next::Check, Next::Slow]);
        // The fastest was wrong.
        glances.remove(&schedule(1));
        assert_eq!((next(&glances, 2, Some(900.0)), next(&glances, 3, Some(900.0))), (Some(Next::Check), Some(Next::Check)));
        let trial = glances.slow(&schedule(3), "T=3");
        assert_eq!((trial.status, trial.median_us, trial.schedule.as_str()), (Status::Slow, Some(126.5), "T=3"));
    }
}

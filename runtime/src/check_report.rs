//! What a check found.

use crate::deviation::Deviation;
use std::collections::BTreeMap;

/// What came out for one subject.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The subject's name.
    pub name: String,
    /// Sizes that were checked.
    pub sizes: usize,
    /// Schedules that were tried at each size.
    pub schedules: usize,
    /// Runs that were compared.
    pub runs: usize,
    /// The worst error against the references in double precision, of a subject that multiplies matrices.
    pub deviation: Option<Deviation>,
    /// Illegal schedules by reason.
    pub rejected: BTreeMap<String, usize>,
    /// Runs that were given up, where time is limited.
    pub unfinished: usize,
    /// Unusual lengths that a kernel's requirements exclude, or that are too much work.
    pub left_out: usize,
    /// Everything that was wrong: schedule, size and difference.
    pub failures: Vec<String>,
}

impl Report {
    /// One size, at which something failed before anything could be compared.
    pub(crate) fn failed(failure: String) -> Report {
        Report { sizes: 1, failures: vec![failure], ..Report::default() }
    }

    /// Adds a failure, unless one with the same first line is there: the same mistake, seen again.
    pub(crate) fn fail(&mut self, failure: String) {
        let headline = |f: &str| f.lines().next().unwrap_or_default().to_string();
        if !self.failures.iter().any(|f| headline(f) == headline(&failure)) {
            self.failures.push(failure);
        }
    }

    /// Keeps the worst error.
    pub(crate) fn deviate(&mut self, deviation: Deviation) {
        self.deviation = Some(self.deviation.map_or(deviation, |d| d.or_worse(deviation)));
    }

    /// Adds what came out for other sizes.
    pub(crate) fn merge(&mut self, part: Report) {
        part.deviation.into_iter().for_each(|d| self.deviate(d));
        self.sizes += part.sizes;
        self.runs += part.runs;
        self.unfinished += part.unfinished;
        part.failures.into_iter().for_each(|f| self.fail(f));
        for (reason, count) in part.rejected {
            *self.rejected.entry(reason).or_default() += count;
        }
    }
}

//! What a check found.

use crate::error::headline;
use crate::subject::challenge::Sizes;
use crate::subject::deviation::Deviation;
use crate::subject::differences::{Difference, Mismatch};
use std::collections::BTreeMap;
use std::fmt;

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
    /// Everything that was wrong.
    pub failures: Vec<Failure>,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// What is wrong, and at which size, in a line; lines behind it say more, and what to do.
    pub message: String,
    /// The first few elements that are not as expected.
    pub elements: Vec<Difference>,
    /// The run that shows it; `None` where nothing could be run.
    pub run: Option<Run>,
    /// It is the same under every schedule, or at every size, and is said once.
    pub said_once: bool,
}

/// What makes a run of a check the same again.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The subject's name.
    pub subject: String,
    /// Sizes of the call.
    pub sizes: Sizes,
    /// Of the call's data.
    pub seed: u64,
    /// Tensors lie one element off alignment.
    pub misaligned: bool,
    /// The schedule of the kernel, or of each launch site behind the program's variants, as `--set` takes it; `None` where it is wrong
    /// before anything is launched.
    pub schedule: Option<String>,
}

impl Failure {
    /// What a run showed.
    pub(crate) fn of_run(run: Run, message: impl fmt::Display) -> Failure {
        Failure { message: format!("at {}: {message}", run.sizes), elements: Vec::new(), run: Some(run), said_once: false }
    }

    /// What a schedule showed, whatever the size.
    pub(crate) fn at_any_size(run: Run, message: impl fmt::Display) -> Failure {
        Failure { message: message.to_string().replace('\n', "\n    "), ..Failure::of_run(run, "") }
    }

    /// A run whose tensors are not as expected; `what` says by whose word.
    pub(crate) fn of_elements(run: Run, what: &str, mismatch: Mismatch) -> Failure {
        match mismatch {
            Mismatch::Elements(elements) => Failure { elements, ..Failure::of_run(run, what) },
            Mismatch::Other(message) => Failure::of_run(run, message),
        }
    }

    /// The same under every schedule, or at every size: a mistake of the author's, whose message has its own first line.
    pub(crate) fn once(run: Option<Run>, message: String) -> Failure {
        Failure { message, elements: Vec::new(), run, said_once: true }
    }

    /// Whether another failure is the same mistake, seen again.
    fn is(&self, other: &Failure) -> bool {
        let schedule = |f: &Failure| f.run.as_ref().and_then(|r| r.schedule.clone());
        headline(&self.message) == headline(&other.message) && (self.said_once || schedule(self) == schedule(other))
    }
}

/// Without a run.
impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::once(None, message)
    }
}

/// ``at N=5: differs from eval: `y[3]` is 1.0, expected 2.0``
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)?;
        self.elements.first().map_or(Ok(()), |first| write!(f, ": {first}"))
    }
}

impl Run {
    /// Arguments of `autotune` that make this run alone, but for the device.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["check".to_string(), self.subject.clone(), "--seed".into(), self.seed.to_string()];
        let sizes: Vec<String> = self.sizes.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        arguments.extend(["--size".into(), sizes.join(",")]);
        if self.misaligned {
            arguments.push("--misaligned".into());
        }
        if let Some(schedule) = &self.schedule {
            arguments.extend(["--set".into(), schedule.clone()]);
        }
        arguments
    }
}

impl Report {
    /// One size, at which something failed before anything could be compared.
    pub(crate) fn failed(failure: Failure) -> Report {
        Report { sizes: 1, failures: vec![failure], ..Report::default() }
    }

    /// Adds a failure, unless the same mistake is there.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|f| failure.is(f)) {
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

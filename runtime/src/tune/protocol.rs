//! What the tuner and its worker process say to each other: one JSON object a line, requests on stdin, replies on stdout.

use crate::measure::timing::L2;
use serde::{Deserialize, Serialize};

/// What the tuner asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Open the GPU, place a subject's arguments, run its naive schedule and check that. The first request, once.
    Setup(Setup),
    /// Time and check one way to run the program.
    Trial {
        /// A schedule per launch site, as `T=1024 C=4`.
        schedules: Vec<String>,
        /// Microseconds that it may take; what is slower need not be checked.
        limit_us: Option<f64>,
    },
    /// Time one way to run the program, too few times for more than whether it is worth a trial.
    Glance {
        /// A schedule per launch site.
        schedules: Vec<String>,
        /// Microseconds that it may take.
        limit_us: f64,
    },
    /// Time several ways to run the program in turn.
    Interleaved {
        /// Ways, each a schedule per launch site.
        ways: Vec<Vec<String>>,
        /// Samples of each.
        rounds: usize,
        /// Milliseconds after which no other round begins.
        limit_ms: u64,
    },
}

/// What a worker works on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The subject's name.
    pub name: String,
    /// Its program's variants.
    pub variants: Vec<bool>,
    /// Its sizes: `N=1000`.
    pub sizes: String,
    /// Of random data.
    pub seed: u64,
    /// Which GPU.
    pub ordinal: usize,
    /// Milliseconds from the beginning of the set-up that references and evaluator have before the first trial; what takes them longer goes on
    /// beside the trials.
    #[serde(default = "patience")]
    pub patience_ms: u64,
    /// What samples find in the L2 cache.
    #[serde(default)]
    pub l2: L2,
}

/// Patience where nobody says.
pub const PATIENCE_MS: u64 = 60_000;

fn patience() -> u64 {
    PATIENCE_MS
}

/// What the worker answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// Ready for trials.
    Ready,
    /// Ready for trials, with something that the user should read.
    Noted {
        /// What could not be checked in time.
        note: String,
    },
    /// Right, and timed: samples in microseconds.
    Measured {
        /// In the order in which they were taken.
        samples_us: Vec<f64>,
        /// That none of them counts, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        throttled: Option<String>,
    },
    /// Fast enough for a trial, and not checked yet.
    Promising {
        /// In the order in which they were taken.
        samples_us: Vec<f64>,
    },
    /// Slower than the limit, and not checked.
    Slow {
        /// In the order in which they were taken.
        samples_us: Vec<f64>,
    },
    /// Could not be lowered, compiled or launched.
    Rejected {
        /// Why.
        reason: String,
    },
    /// A wrong result, or a write outside of the tensors.
    Wrong {
        /// What differs.
        reason: String,
    },
    /// Samples of each way in microseconds; empty where one failed.
    Interleaved {
        /// One list per way.
        samples_us: Vec<Vec<f64>>,
        /// That none of them counts, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        throttled: Option<String>,
    },
    /// The worker can't go on: the GPU's context is lost, or set-up failed.
    Lost {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_single_lines() {
        let request = Request::Trial { schedules: vec!["T=1 C=2".into()], limit_us: Some(2.5) };
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(line, r#"{"trial":{"schedules":["T=1 C=2"],"limit_us":2.5}}"#);
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        let reply = Reply::Wrong { reason: "a\nb".into() };
        assert!(!serde_json::to_string(&reply).unwrap().contains('\n'));
        let reply = Reply::Measured { samples_us: vec![1.5], throttled: None };
        assert_eq!(serde_json::to_string(&reply).unwrap(), r#"{"measured":{"samples_us":[1.5]}}"#);
    }
}

//! Where the tuned size fits in the L2 cache, launches take most of the time, and what is fastest there need not stream. So the candidates
//! that are about as fast as the winner are measured on large tensors, too: the best of them is elected for those lengths.

use super::client::WorkerMeasure;
use super::clock::patience_ms;
use super::protocol::Setup;
use super::{By, Options, SEED};
use crate::measure::bench::scaled_sizes;
use crate::measure::timing::L2;
use crate::store::Trial;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use std::time::Instant;

/// The largest tensor of the second measurement, bytes: well beyond any L2.
const LARGE: f64 = (128 << 20) as f64;
/// Candidates that go into the second measurement at most.
const MOST: usize = 40;
/// As fast as the winner: within 2 %, or within this many microseconds, a few ticks of the events' clock.
const SLACK_US: f64 = 0.15;

/// What streams large tensors best.
#[derive(Clone, Debug)]
pub struct Streaming {
    /// The larger sizes.
    pub sizes: Sizes,
    /// The schedule.
    pub schedule: String,
    /// Its median at the tuned size, in microseconds.
    pub tuned_us: f64,
    /// And at the larger one.
    pub median_us: f64,
}

/// The candidate among those about as fast as the winner at the tuned size, and it, that is fastest on large tensors; `None` where the
/// tuned size is large itself, or the subject has no sizes to scale.
pub(super) fn streaming(
    subject: &Subject,
    sizes: &Sizes,
    l2_bytes: f64,
    options: &Options,
    (site, schedules): (usize, &[String]),
    (winner, winner_us): (&str, f64),
    trials: &[Trial],
    end: Option<Instant>,
) -> Option<Streaming> {
    let By::Measurement(workers) = &options.by else { return None };
    // Large tensors find none of themselves in the cache.
    if workers.l2 == L2::Warm {
        return None;
    }
    if subject.largest_bytes(sizes).ok()? > l2_bytes / 2.0 {
        return None;
    }
    let large = scaled_sizes(subject, sizes, LARGE).ok()?;
    let near = near(winner, winner_us, trials);
    let (name, variants, sizes) = (subject.name.clone(), subject.variants.clone(), large.to_string());
    let setup = Setup {
        name,
        variants,
        sizes,
        seed: SEED,
        ordinal: workers.gpu.ordinal,
        patience_ms: patience_ms(&options.budget),
        l2: workers.l2,
    };
    let mut worker = WorkerMeasure::until(workers.launcher.clone(), setup, options.limit, schedules.to_vec(), end).ok()?;
    worker.take(site, schedules.to_vec());
    let mut large_us = |name: &str| Some(worker.trial(name, None)).filter(|t| t.throttled().is_none())?.median_us;
    let timed = near.into_iter().filter_map(|(name, us)| Some((large_us(&name)?, name, us)));
    let (median_us, schedule, tuned_us) = timed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Streaming { sizes: large, schedule, tuned_us, median_us })
}

/// The winner, and what is about as fast, with their times.
fn near(winner: &str, winner_us: f64, trials: &[Trial]) -> Vec<(String, f64)> {
    let limit = f64::max(winner_us * 1.02, winner_us + SLACK_US);
    let mut near: Vec<(String, f64)> = Vec::new();
    for t in trials {
        // What is not accepted has lost to the winner for that.
        if let Some(us) = t.right_us().filter(|us| *us <= limit && t.schedule != winner && t.flaw.is_none()) {
            near.push((t.schedule.clone(), us));
        }
    }
    near.sort_by(|a, b| a.1.total_cmp(&b.1));
    near.dedup_by(|a, b| a.0 == b.0);
    near.truncate(MOST - 1);
    near.insert(0, (winner.to_string(), winner_us));
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Status;

    fn trial(schedule: &str, us: f64) -> Trial {
        let (status, reason, samples_us, median_us) = (Status::Measured, String::new(), vec![us], Some(us));
        Trial { schedule: schedule.into(), status, reason, median_us, samples_us, registers: None, flaw: None, code: None }
    }

    #[test]
    fn what_is_about_as_fast_is_asked_again() {
        let spills = Trial { flaw: Some("spills".into()), ..trial("T=5", 3.8) };
        let trials = [trial("T=1", 3.8), trial("T=2", 3.9), trial("T=3", 4.0), spills, trial("T=4", 3.85), trial("T=2", 3.9)];
        let names: Vec<String> = near("T=1", 3.8, &trials).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["T=1", "T=4", "T=2"]);
    }
}

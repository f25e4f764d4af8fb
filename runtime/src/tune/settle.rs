//! A schedule serves every size with its facts. Where the tuned size fits in the L2 cache, launches take most of the time and dozens
//! of candidates are as fast as the winner; among them the one that also streams large tensors best is elected.

use super::client::{WORKER, WorkerMeasure};
use super::protocol::Setup;
use super::{Options, SEED};
use crate::bench::scaled_sizes;
use crate::challenge::Sizes;
use crate::child::Launcher;
use crate::store::Trial;
use crate::subject::Subject;

/// The largest tensor of the second measurement, bytes: well beyond any L2.
const LARGE: f64 = (128 << 20) as f64;
/// Candidates that go into the second measurement at most.
const MOST: usize = 40;
/// As fast as the winner: within 2 %, or within this many microseconds, a few ticks of the events' clock.
const SLACK_US: f64 = 0.15;

/// The candidate among those as fast as the winner at the tuned size that is fastest on large tensors, with its time at the tuned
/// size; `None` where the tuned size is large itself, the subject has no sizes to scale, or nothing else is as fast.
pub(super) fn settle(
    subject: &Subject,
    sizes: &Sizes,
    l2_bytes: f64,
    options: &Options,
    (site, schedules): (usize, &[String]),
    (winner, winner_us): (&str, f64),
    trials: &[Trial],
) -> Option<(String, f64)> {
    if subject.largest_bytes(sizes).ok()? > l2_bytes / 2.0 {
        return None;
    }
    let large = scaled_sizes(subject, sizes, LARGE).ok()?;
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
    if near.len() == 1 {
        return None;
    }
    let setup = Setup { name: subject.name.clone(), variants: subject.variants.clone(), sizes: large.to_string(), seed: SEED, ordinal: 0 };
    let mut worker = WorkerMeasure::new(Launcher::this_program(WORKER).ok()?, setup, options.limit, schedules.to_vec()).ok()?;
    worker.take(site, schedules.to_vec());
    let times: Vec<f64> = near.iter().map(|(name, _)| worker.trial(name, None).median_us.unwrap_or(f64::MAX)).collect();
    let best = (0..near.len()).min_by(|a, b| times[*a].total_cmp(&times[*b]))?;
    (times[best] < f64::MAX).then(|| near.swap_remove(best))
}

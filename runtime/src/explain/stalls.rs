//! What the warps of a launch waited for, by NVIDIA's profiler: the stall reasons of its warp scheduler.

use super::units::percent;
use crate::measure::ncu::Launched;

/// Shares below this are not told.
const TOLD_FROM: f64 = 0.05;

/// Metrics of warps per issued instruction, and what a warp in that state waits for; the words are after Nsight Compute's guide
/// ("Warp Stall Reasons").
const REASONS: [(&str, &str); 19] = [
    ("long_scoreboard", "global or local memory"),
    ("short_scoreboard", "shared memory or special functions"),
    ("lg_throttle", "room in the queue of global memory"),
    ("mio_throttle", "room in the queue of shared memory"),
    ("tex_throttle", "room in the queue of textures"),
    ("barrier", "a barrier"),
    ("membar", "a memory fence"),
    ("math_pipe_throttle", "a busy arithmetic unit"),
    ("gmma", "a warp group's product"),
    ("warpgroup_arrive", "the other warps of its group"),
    ("wait", "a fixed latency"),
    ("imc_miss", "constant memory"),
    ("no_instruction", "instructions"),
    ("branch_resolving", "a branch"),
    ("dispatch_stall", "the dispatcher"),
    ("drain", "stores at its end"),
    ("sleeping", "its own sleep"),
    ("not_selected", "its turn, though ready"),
    ("misc", "something else"),
];

/// The profiler's name of a reason's metric.
fn metric(reason: &str) -> String {
    format!("smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio")
}

/// All metrics.
pub(super) fn metrics() -> Vec<String> {
    REASONS.iter().map(|(reason, _)| metric(reason)).collect()
}

/// `global or local memory (long_scoreboard) 61 %, a barrier (barrier) 12 %`: the largest first, as shares of all waiting; nothing where
/// nothing was measured.
pub(super) fn told(launched: &Launched) -> Option<String> {
    let mut all: Vec<(f64, &str, &str)> = REASONS
        .iter()
        .filter_map(|(reason, words)| launched.values.get(&metric(reason)).map(|warps| (*warps, *reason, *words)))
        .filter(|(warps, ..)| *warps > 0.0)
        .collect();
    let total: f64 = all.iter().map(|(warps, ..)| warps).sum();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shares = all.iter().map(|(warps, reason, words)| (warps / total, reason, words)).filter(|(share, ..)| *share >= TOLD_FROM);
    let parts: Vec<String> = shares.map(|(share, reason, words)| format!("{words} ({reason}) {}", percent(share))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

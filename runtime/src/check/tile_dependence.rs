//! Results that depend on a tile size by the author's doing: the evaluator itself computes another one under other tiles.
//!
//! A body may say what each tile holds (a sum per tile, elements beyond the tensor's end that no load makes absent), and then its schedule
//! decides what it computes. A difference from the evaluator is then no fault of the compiler.

use super::evaluated::evaluate_under;
use crate::subject::inputs::HostTensor;
use crate::subject::{Call, Subject};
use girih_core::schedule::{KnobKind, Schedule};
use girih_core::tile::Kernel;

/// The tensors after a call, as the evaluator leaves them; `None` for scalars.
type After = Vec<Option<HostTensor>>;

/// What the evaluator says under a schedule whose tiles change the result.
pub(super) struct Dependence {
    /// Which tile it is, what both evaluations leave, and what to do. The first line is the same at every size.
    pub message: String,
    /// What the evaluator leaves under the schedule.
    pub after: After,
}

/// Whether the evaluator leaves something else under a schedule (one per launch site) than `smallest`, which it leaves under the smallest
/// tiles.
pub(super) fn dependence(subject: &Subject, call: &Call, schedules: &[Schedule], smallest: &After) -> Option<Dependence> {
    let sites = subject.program.sites();
    let kernels: Vec<Kernel> = sites.iter().map(|def| (def.build)().ok()).collect::<Option<_>>()?;
    let least: Vec<Schedule> = kernels.iter().map(Schedule::smallest_of).collect();
    let after = evaluate_under(subject, call, schedules).ok()?;
    let difference = subject.compare(call, &after, smallest).err()?;
    let differs = |(site, knob): &(usize, usize)| {
        let mut one = least.clone();
        one[*site].choices[*knob] = schedules[*site].choices[*knob].clone();
        evaluate_under(subject, call, &one).is_ok_and(|other| subject.compare(call, &other, smallest).is_err())
    };
    let changed: Vec<(usize, usize)> = changed_tiles(&kernels, &least, schedules);
    // Where only several of them together show it, all that differ are named.
    let alone: Vec<(usize, usize)> = changed.iter().copied().filter(differs).take(1).collect();
    let named = if alone.is_empty() { &changed } else { &alone };
    let list = |f: &dyn Fn(usize, usize) -> String| named.iter().map(|(s, k)| f(*s, *k)).collect::<Vec<_>>().join(", ");
    let names = list(&|s, k| format!("`{}` of {}", kernels[s].knobs[k].name, kernels[s].full_name()));
    let with = |of: &[Schedule]| list(&|s, k| format!("{}={}", kernels[s].knobs[k].name, of[s].choices[k]));
    let pinned = list(&|s, k| format!("`tile({} = {})`", kernels[s].knobs[k].name, schedules[s].choices[k]));
    let message = format!(
        "the result depends on the tile {names}, and a schedule must not change what is computed\n      \
         with {} eval itself leaves other elements than with {}: {difference}\n      \
         help: pin the tile ({pinned}), or store nothing that each tile has one of (its sum, its `start`), and count no elements beyond \
         the tensor's end: what comes from no load (`full`, `coords`, `like`) is present there",
        with(schedules),
        with(&least),
    );
    Some(Dependence { message, after })
}

/// The tile knobs, as site and knob, in which two schedules differ.
fn changed_tiles(kernels: &[Kernel], a: &[Schedule], b: &[Schedule]) -> Vec<(usize, usize)> {
    let knobs = |(site, kernel): (usize, &Kernel)| {
        let tiles = (0..kernel.knobs.len()).filter(|k| kernel.knobs[*k].kind == KnobKind::Tile).collect::<Vec<_>>();
        tiles.into_iter().map(move |k| (site, k)).collect::<Vec<_>>()
    };
    let all = kernels.iter().enumerate().flat_map(knobs);
    all.filter(|(s, k)| a[*s].choices[*k] != b[*s].choices[*k]).collect()
}

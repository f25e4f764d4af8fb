//! The shared memory that a lowered kernel takes: what a block may have, and what the blocks of a multiprocessor may.

use super::legality::Rule;
use super::{illegal, knob_of_kind};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::simt;
use girih_ir::target::Target;
use girih_ir::tile::{Kernel, KnobId};

/// What the schedule makes of a kernel fits the target.
///
/// # Errors
/// With the knobs that ask for as much.
pub(crate) fn check(kernel: &Kernel, schedule: &Schedule, lowered: &simt::Kernel, target: &Target) -> Result<(), ScheduleError> {
    check_block(kernel, schedule, lowered, target)?;
    check_blocks(kernel, schedule, lowered, target)
}

/// Bytes of shared memory that a block may take: what the target has for one, and for as many as the schedule wants on a multiprocessor.
pub(super) fn most(kernel: &Kernel, schedule: &Schedule, target: &Target) -> i64 {
    let blocks = schedule.int_of_kind(kernel, KnobKind::MinBlocks, 1);
    let of_several = if blocks > 1 { target.shared_per_multiprocessor as i64 / blocks - target.shared_reserved as i64 } else { i64::MAX };
    of_several.min(target.shared_per_block as i64)
}

/// The kernel takes no more shared memory than a block has.
fn check_block(kernel: &Kernel, schedule: &Schedule, lowered: &simt::Kernel, target: &Target) -> Result<(), ScheduleError> {
    let bytes = lowered.launches().map(|k| k.shared_bytes()).max().unwrap_or(0);
    let most = target.shared_per_block;
    if bytes <= most {
        return Ok(());
    }
    let is_involved = |i: &usize| matches!(kernel.knobs[*i].kind, KnobKind::Tile | KnobKind::Stages);
    let involved: Vec<KnobId> = (0..kernel.knobs.len()).filter(is_involved).map(|i| KnobId(i as u32)).collect();
    let found: Vec<String> = involved.iter().map(|id| schedule.choices[id.0 as usize].to_string()).collect();
    Err(illegal(kernel, &involved, found.join(" / "), Rule::BlockShared.with(&[&bytes, &target.arch, &most])))
}

/// The blocks that registers are kept low for find shared memory, too.
fn check_blocks(kernel: &Kernel, schedule: &Schedule, lowered: &simt::Kernel, target: &Target) -> Result<(), ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::MinBlocks) else { return Ok(()) };
    let (blocks, each) = (schedule.int(id), (lowered.shared_bytes() + target.shared_reserved) as i64);
    let most = target.shared_per_multiprocessor as i64;
    if blocks == 1 || blocks * each <= most {
        return Ok(());
    }
    let rule = Rule::BlocksShared.with(&[&(blocks * each), &each, &target.arch, &most, &(most / each)]);
    Err(illegal(kernel, &[id], blocks.to_string(), rule))
}

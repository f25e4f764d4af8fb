//! The shared memory that a lowered kernel takes: what a block may have, and what the blocks of a multiprocessor may.

use super::{illegal, knob_of_kind};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::simt;
use girih_ir::target::Target;
use girih_ir::tile::Kernel;

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
    let involved: Vec<(&str, String)> = kernel
        .knobs
        .iter()
        .zip(&schedule.choices)
        .filter(|(k, _)| matches!(k.kind, KnobKind::Tile | KnobKind::Stages))
        .map(|(k, c)| (k.name.as_str(), c.to_string()))
        .collect();
    Err(ScheduleError {
        knob: involved.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(" / "),
        found: involved.iter().map(|(_, c)| c.clone()).collect::<Vec<_>>().join(" / "),
        rule: format!("takes {bytes} bytes of shared memory per block; {} has {most}", target.arch),
        loc: kernel.knobs.first().map(|k| k.loc),
    })
}

/// The blocks that registers are kept low for find shared memory, too.
fn check_blocks(kernel: &Kernel, schedule: &Schedule, lowered: &simt::Kernel, target: &Target) -> Result<(), ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::MinBlocks) else { return Ok(()) };
    let (blocks, each) = (schedule.int(id), (lowered.shared_bytes() + target.shared_reserved) as i64);
    let most = target.shared_per_multiprocessor as i64;
    if blocks == 1 || blocks * each <= most {
        return Ok(());
    }
    let rule = format!(
        "as many blocks take {} bytes of shared memory, {each} each; a multiprocessor of {} has {most}, room for {}",
        blocks * each,
        target.arch,
        most / each
    );
    Err(illegal(kernel, &[id], blocks.to_string(), rule))
}

//! The rules that choices of single knobs obey.

use super::legality::{Broken, Rule};
use super::{Fill, illegal, knob_of_kind};
use crate::analyses::dots::Dots;
use crate::analyses::uses;
use girih_ir::facts::INDEX32_OVERHANG;
use girih_ir::schedule::words::{CacheHint as Hint, CopyPath, Words};
use girih_ir::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use girih_ir::simt::{CacheHint, OPT_LEVEL};
use girih_ir::target::{Target, max_vector_bytes};
use girih_ir::tile::{Kernel, KnobId, ParamKind};

/// Every choice is of the knob's kind and sensible in itself; it need not be among those that the author listed, unless that is one tile size.
pub(super) fn check_choices(kernel: &Kernel, schedule: &Schedule) -> Result<(), ScheduleError> {
    assert_eq!(schedule.choices.len(), kernel.knobs.len(), "plan: a schedule of another kernel was given to {}", kernel.path);
    for (i, (knob, choice)) in kernel.knobs.iter().zip(&schedule.choices).enumerate() {
        let id = [KnobId(i as u32)];
        let words = knob.kind.words();
        match choice {
            Choice::Word(w) if !words.contains(&w.as_str()) => {
                let rule = if words.is_empty() { Rule::Number.into() } else { Rule::Word.with(&[&words.join(", ")]) };
                return Err(illegal(kernel, &id, w.clone(), rule));
            }
            Choice::Int(n) if !words.is_empty() => {
                return Err(illegal(kernel, &id, n.to_string(), Rule::Word.with(&[&words.join(", ")])));
            }
            Choice::Int(n) if *n < 0 || (*n == 0 && !matches!(knob.kind, KnobKind::Grid | KnobKind::Split)) => {
                return Err(illegal(kernel, &id, n.to_string(), Rule::Positive));
            }
            Choice::Int(_) if knob.kind == KnobKind::Tile && knob.choices.len() == 1 && *choice != knob.choices[0] => {
                return Err(illegal(kernel, &id, choice.to_string(), Rule::TilePinned.with(&[&knob.choices[0]])));
            }
            Choice::Int(n) if knob.kind == KnobKind::Tile && *n > 1 << 16 => {
                return Err(illegal(kernel, &id, n.to_string(), Rule::TileLength));
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn check_vector(kernel: &Kernel, target: &Target, vector: i64, anchor: &[i64], threads: &[i64]) -> Result<(), ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::Vector) else { return Ok(()) };
    if !(vector as u64).is_power_of_two() {
        return Err(illegal(kernel, &[id], vector.to_string(), Rule::VectorPower));
    }
    if let (Some(tile), Some(along)) = (anchor.last(), threads.last()) {
        let own = tile / along;
        if own % vector != 0 {
            return Err(illegal(kernel, &[id], vector.to_string(), Rule::VectorDivides.with(&[&own])));
        }
    }
    let narrowest = kernel.views.iter().map(|v| v.dtype.size()).chain(kernel.params.iter().filter_map(|p| match p.kind {
        ParamKind::Tensor { dtype, .. } if kernel.views.is_empty() => Some(dtype.size()),
        _ => None,
    }));
    let narrowest = narrowest.min().unwrap_or(4) as i64;
    let widest = max_vector_bytes(target.capability) as i64;
    if vector * narrowest > widest {
        let rule = Rule::VectorBytes.with(&[&vector, &narrowest, &(vector * narrowest), &widest, &target.arch]);
        return Err(illegal(kernel, &[id], vector.to_string(), rule));
    }
    Ok(())
}

/// Blocks that a multiprocessor holds at least. The threads it can hold have 32 registers each on every target, so none has fewer.
pub(super) fn check_min_blocks(kernel: &Kernel, schedule: &Schedule, target: &Target, threads: i64) -> Result<i64, ScheduleError> {
    let Some(id) = knob_of_kind(kernel, KnobKind::MinBlocks) else { return Ok(1) };
    let (blocks, most) = (schedule.int(id), target.threads_per_multiprocessor as i64);
    let refused = |broken: Broken| Err(illegal(kernel, &[id], blocks.to_string(), broken));
    if blocks > target.blocks_per_multiprocessor as i64 {
        return refused(Rule::BlocksResident.with(&[&target.arch, &target.blocks_per_multiprocessor]));
    }
    let per_warp = (threads + 31) / 32 * 32;
    if blocks > 1 && blocks * per_warp > most {
        return refused(Rule::BlocksThreads.with(&[&(blocks * per_warp), &target.arch, &most]));
    }
    Ok(blocks)
}

/// What ptxas is asked for.
pub(super) fn check_opt_level(kernel: &Kernel, schedule: &Schedule) -> Result<u32, ScheduleError> {
    let level = schedule.int_of_kind(kernel, KnobKind::OptLevel, i64::from(OPT_LEVEL));
    let id = knob_of_kind(kernel, KnobKind::OptLevel);
    match u32::try_from(level) {
        Ok(level @ 1..=OPT_LEVEL) => Ok(level),
        _ => Err(illegal(kernel, &id.into_iter().collect::<Vec<_>>(), level.to_string(), Rule::OptLevel.with(&[&OPT_LEVEL]))),
    }
}

/// A pipeline's loads run ahead of the last tile: their indices must stay within what 32-bit facts leave free.
pub(super) fn check_ahead(kernel: &Kernel, target: &Target, stages: i64, per_stage: i64) -> Result<(), ScheduleError> {
    let ahead = stages * per_stage * target.multiprocessors as i64;
    match knob_of_kind(kernel, KnobKind::Stages) {
        Some(id) if ahead > INDEX32_OVERHANG => {
            Err(illegal(kernel, &[id], stages.to_string(), Rule::StagesAhead.with(&[&ahead, &INDEX32_OVERHANG])))
        }
        _ => Ok(()),
    }
}

/// The hints of loads and of stores.
pub(super) fn cache_hints(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<(CacheHint, CacheHint), ScheduleError> {
    let (load, store) = match Hint::of(kernel, schedule).unwrap_or(Hint::Default) {
        Hint::Default => (CacheHint::Default, CacheHint::Default),
        Hint::Streaming => (CacheHint::Streaming, CacheHint::Streaming),
        Hint::Loads => (CacheHint::Streaming, CacheHint::Default),
        Hint::Stores => (CacheHint::Default, CacheHint::Streaming),
        Hint::Kept if !target.has_cache_policies() => {
            let rule = Rule::CacheTarget.with(&[&target.arch]);
            return Err(illegal(kernel, Hint::knob(kernel).as_slice(), Hint::Kept.to_string(), rule));
        }
        Hint::Kept => (CacheHint::Kept, CacheHint::Default),
    };
    Ok((load, store))
}

/// How the stages of a pipeline over tiles are filled.
pub(super) fn check_fill(kernel: &Kernel, schedule: &Schedule, target: &Target, grid: i64, stages: i64) -> Result<Fill, ScheduleError> {
    let (Some(id), Some(copy)) = (CopyPath::knob(kernel), CopyPath::of(kernel, schedule)) else { return Ok(Fill::Registers) };
    let refused = |broken: Broken| Err(illegal(kernel, &[id], copy.to_string(), broken));
    match copy {
        _ if grid == 0 || stages <= 1 => Ok(Fill::Registers),
        CopyPath::Registers => Ok(Fill::Registers),
        CopyPath::Async | CopyPath::Overlap | CopyPath::Mbarriers if !target.has_async_copy() => {
            refused(Rule::CopyTarget.with(&[&target.arch]))
        }
        CopyPath::Async | CopyPath::Overlap | CopyPath::Mbarriers => Ok(Fill::Async),
        CopyPath::Bulk | CopyPath::Tensor => refused(Rule::CopyNotYet.with(&[&"the tiles dealt to a block"])),
    }
}

/// Knobs of tiles that are walked element by element have no effect.
pub(super) fn walk_one_by_one(kernel: &Kernel, schedule: &Schedule, one_by_one: &[KnobId], knobs: &mut [i64]) -> Result<(), ScheduleError> {
    for &id in one_by_one {
        let (knob, choice) = (kernel.knob(id), &schedule.choices[id.0 as usize]);
        if *choice != knob.choices[0] {
            return Err(illegal(kernel, &[id], choice.to_string(), Rule::OperandsTile.with(&[&knob.choices[0]])));
        }
        knobs[id.0 as usize] = 1;
    }
    Ok(())
}

/// Whether windows are copied by `cp.async`.
pub(super) fn check_async_windows(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<bool, ScheduleError> {
    let (Some(id), Some(copy)) = (CopyPath::knob(kernel), CopyPath::of(kernel, schedule)) else { return Ok(false) };
    let refused = |broken: Broken| Err(illegal(kernel, &[id], copy.to_string(), broken));
    match copy {
        CopyPath::Async | CopyPath::Overlap | CopyPath::Mbarriers if !target.has_async_copy() => {
            refused(Rule::CopyTarget.with(&[&target.arch]))
        }
        CopyPath::Bulk | CopyPath::Tensor => refused(Rule::CopyNotYet.with(&[&"windows"])),
        CopyPath::Registers | CopyPath::Async | CopyPath::Overlap | CopyPath::Mbarriers => Ok(copy.is_async()),
    }
}

/// Whether the schedule overlaps turns: matrix instructions that take an even number of steps per turn, from a ring of copies.
pub(super) fn check_fragment_prefetch(
    kernel: &Kernel,
    schedule: &Schedule,
    steps: Option<i64>,
    stages: i64,
    slices: i64,
) -> Result<bool, ScheduleError> {
    let (Some(id), Some(word)) = (CopyPath::knob(kernel), CopyPath::of(kernel, schedule)) else { return Ok(false) };
    if !word.prefetches_fragments() {
        return Ok(false);
    }
    let refuse = |rule: Rule| Err(illegal(kernel, &[id], word.to_string(), rule));
    let dots = Dots::new(kernel, &uses::count(kernel), &uses::written_params(kernel));
    match steps {
        None => refuse(Rule::OverlapUnit),
        _ if dots.groups() != 1 => refuse(Rule::OverlapDots),
        _ if word == CopyPath::Mbarriers && slices > 1 => refuse(Rule::MbarriersSlices),
        _ if stages < 2 => refuse(Rule::OverlapStages),
        Some(n) if n % 2 != 0 => refuse(Rule::OverlapSteps),
        Some(_) => Ok(true),
    }
}

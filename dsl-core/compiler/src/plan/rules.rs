//! The rules that choices of single knobs obey.

use super::legality::{Broken, Rule};
use super::reads::ReadPlan;
use super::{illegal, knob_of_kind};
use crate::analyses::dots::Dots;
use girih_ir::facts::INDEX32_OVERHANG;
use girih_ir::schedule::words::{CacheHint as Hint, CopyPath, TileOrder, Words};
use girih_ir::schedule::{Choice, KnobKind, Schedule, ScheduleError, Site};
use girih_ir::simt::{CacheHint, OPT_LEVEL};
use girih_ir::target::{Target, max_vector_bytes};
use girih_ir::tile::access::{operations, visit};
use girih_ir::tile::{Kernel, KnobId, Op, ParamKind, Stmt, ValueId};
use std::collections::{HashMap, HashSet};

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

/// A pipeline's loads run ahead of the last tile: their indices must stay within what 32-bit facts leave free. Each stage goes so many
/// elements ahead on every multiprocessor.
pub(super) fn check_ahead(kernel: &Kernel, schedule: &Schedule, target: &Target, each: i64) -> Result<(), ScheduleError> {
    for id in kernel.knobs_of(KnobKind::Stages).filter(|id| schedule.int(*id) > 1) {
        let ahead = each * schedule.int(id) * target.multiprocessors as i64;
        if ahead > INDEX32_OVERHANG {
            let broken = Rule::StagesAhead.with(&[&ahead, &INDEX32_OVERHANG]);
            return Err(illegal(kernel, &[id], schedule.int(id).to_string(), broken));
        }
    }
    Ok(())
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
        Hint::Once => (CacheHint::Once, CacheHint::Default),
    };
    Ok((load, store))
}

/// Blocks that meet over the grid, or begin in an order, have one tile each.
pub(super) fn check_tile_of_its_own(kernel: &Kernel, schedule: &Schedule, grid: i64, split: bool) -> Result<(), ScheduleError> {
    let rule = match girih_ir::tile::meetings::meets_over_grid(kernel) {
        _ if grid == 0 && !split => return Ok(()),
        true => Rule::GridMeets,
        false if kernel.grid_loop().is_some_and(|l| l.in_order) => Rule::TilesInOrder,
        false => return Ok(()),
    };
    let kind = if split { KnobKind::Split } else { KnobKind::Grid };
    let id = knob_of_kind(kernel, kind).into_iter().collect::<Vec<_>>();
    Err(illegal(kernel, &id, schedule.int_of_kind(kernel, kind, 0).to_string(), rule))
}

/// Blocks that begin in the order of the tiles have no other way through them.
pub(super) fn check_way(kernel: &Kernel, schedule: &Schedule) -> Result<(), ScheduleError> {
    if !kernel.grid_loop().is_some_and(|l| l.in_order) {
        return Ok(());
    }
    let raster = knob_of_kind(kernel, KnobKind::Raster).filter(|id| schedule.int(*id) != 1);
    let order = TileOrder::knob(kernel).filter(|_| TileOrder::of(kernel, schedule) != Some(TileOrder::Rising));
    match raster.or(order) {
        Some(id) => Err(illegal(kernel, &[id], schedule.choices[id.0 as usize].to_string(), Rule::TilesAsTheyCome)),
        None => Ok(()),
    }
}

/// The stages of a pipeline over the tiles dealt to a block can be filled as the schedule says.
pub(super) fn check_fill(kernel: &Kernel, schedule: &Schedule, target: &Target, grid: i64) -> Result<(), ScheduleError> {
    let site = kernel.grid_loop().map(Site::of_loop).unwrap_or_default();
    if grid == 0 || schedule.int_at(kernel, KnobKind::Stages, &site, 1) <= 1 {
        return Ok(());
    }
    check_copy_words(kernel, schedule, target, "the tiles dealt to a block")
}

/// Windows and operands of dots can be copied as the schedule says.
pub(super) fn check_copies(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<(), ScheduleError> {
    check_copy_words(kernel, schedule, target, "windows")
}

fn check_copy_words(kernel: &Kernel, schedule: &Schedule, target: &Target, what: &str) -> Result<(), ScheduleError> {
    for id in kernel.knobs_of(KnobKind::Copy) {
        let Some(copy) = CopyPath::chosen(schedule, id) else { continue };
        let refused = |broken: Broken| Err(illegal(kernel, &[id], copy.to_string(), broken));
        match copy {
            CopyPath::Bulk => return refused(Rule::CopyNotYet.with(&[&what])),
            CopyPath::Tensor if !target.has_bulk_copy() => return refused(Rule::CopyTarget.with(&[&target.arch])),
            _ if copy.is_async() && !target.has_async_copy() => return refused(Rule::CopyTarget.with(&[&target.arch])),
            _ => {}
        }
    }
    Ok(())
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

/// Turns overlap only where all is there for it: matrix instructions that take an even number of steps per turn, from a ring of copies.
pub(super) fn check_fragment_prefetch(
    kernel: &Kernel,
    schedule: &Schedule,
    dots: &Dots,
    reads: &HashMap<ValueId, ReadPlan>,
    steps: Option<i64>,
    slices: i64,
) -> Result<(), ScheduleError> {
    for id in kernel.knobs_of(KnobKind::Copy) {
        let Some(word) = CopyPath::chosen(schedule, id).filter(|word| word.prefetches_fragments()) else { continue };
        let refuse = |rule: Rule| Err(illegal(kernel, &[id], word.to_string(), rule));
        let own = reads.iter().filter(|(v, read)| dots.is_load(**v) && read.copied_by == Some(id)).map(|(_, read)| read.stages);
        let stages = own.min().unwrap_or_else(|| schedule.int_of_kind(kernel, KnobKind::Stages, 1));
        match steps {
            None => refuse(Rule::OverlapUnit),
            _ if groups_by(kernel, dots, reads, id) != 1 || !only_loads_by(kernel, dots, reads, id) => refuse(Rule::OverlapDots),
            _ if word == CopyPath::Mbarriers && slices > 1 => refuse(Rule::MbarriersSlices),
            _ if stages < 2 => refuse(Rule::OverlapStages),
            Some(n) if n % 2 != 0 => refuse(Rule::OverlapSteps),
            Some(_) => Ok(()),
        }?;
    }
    Ok(())
}

/// How many groups of dots a loop has at most whose copies a knob is for; those of the kernel, where the knob is for all.
fn groups_by(kernel: &Kernel, dots: &Dots, reads: &HashMap<ValueId, ReadPlan>, id: KnobId) -> usize {
    if kernel.knob(id).of.is_none() {
        return dots.groups();
    }
    let groups = |found: &Vec<[ValueId; 3]>| found.iter().map(|[dot, ..]| dots.group(*dot)[0]).collect::<HashSet<_>>().len();
    dots_by(kernel, reads, id).iter().map(groups).max().unwrap_or(0)
}

/// Whether these dots' operands are nothing but loads that are read as they lie: what another statement reads, too, is brought to shared memory
/// in its own turn, and nothing of the next turn is there ahead.
fn only_loads_by(kernel: &Kernel, dots: &Dots, reads: &HashMap<ValueId, ReadPlan>, id: KnobId) -> bool {
    let loaded = |operands: [ValueId; 2]| operands.iter().all(|operand| dots.operand(*operand).is_some());
    if kernel.knob(id).of.is_none() {
        return operations(kernel).values().all(|op| !matches!(op, Op::Dot { a, b, .. } if !loaded([*a, *b])));
    }
    dots_by(kernel, reads, id).iter().flatten().all(|[_, a, b]| loaded([*a, *b]))
}

/// The dots and their operands of each loop whose copies a knob is for.
fn dots_by(kernel: &Kernel, reads: &HashMap<ValueId, ReadPlan>, id: KnobId) -> Vec<Vec<[ValueId; 3]>> {
    let mut all = Vec::new();
    visit(&kernel.body, &mut |stmt| {
        let Stmt::Tiles(l) = stmt else { return };
        let (mut copies, mut found) = (false, Vec::new());
        for stmt in &l.body {
            match stmt {
                Stmt::Let(v, Op::Load(..)) => copies |= reads[v].copied_by == Some(id),
                Stmt::Let(v, Op::Dot { a, b, .. }) => found.push([*v, *a, *b]),
                _ => {}
            }
        }
        if copies {
            all.push(found);
        }
    });
    all
}

//! Dots by matrix instructions of warp groups (`unit = Wgmma`): which one, how the groups of a block share the result, and what their operands
//! must be like.

use super::legality::Rule;
use super::matrix_units::{Multiplied, Warps, contiguous};
use super::reads::ReadPlan;
use super::results::{self, Shape};
use super::{Handover, Pipeline, Plan, illegal};
use crate::analyses::converted::{self, Converted};
use crate::analyses::dots::{Dots, Loaded};
use crate::analyses::uses::Uses;
use girih_ir::fragments::{Form, GroupAtom, Order};
use girih_ir::schedule::words::{DotUnit, Words};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::tile::access::operations;
use girih_ir::tile::{Index, Kernel, KnobId, Op, ValueId};
use girih_ir::types::DType;
use std::collections::{HashMap, HashSet};

/// The instructions of warp groups for operands of a format, sums of a type and so many positions along their tile, and how the groups share
/// the results, of these shapes, of which one is the anchor's.
pub(super) fn groups(
    kernel: &Kernel,
    schedule: &Schedule,
    unit: KnobId,
    (([left, right], accumulator, inner), anchor, shapes): (Multiplied, &[i64], &[Shape]),
) -> Result<Warps, ScheduleError> {
    let refuse = |rule: super::legality::Broken| Err(illegal(kernel, &[unit], DotUnit::Wgmma.to_string(), rule));
    let any = GroupAtom::widest(left, right, accumulator, 8);
    let any = any.unwrap_or_else(|| panic!("plan: no instruction of groups multiplies {} into {accumulator}", left.name()));
    if inner % i64::from(any.k()) != 0 {
        return refuse(Rule::UnitDepth.with(&[&any.k(), &inner]));
    }
    let count = schedule.int_of_kind(kernel, KnobKind::Warps, 4);
    let [.., rows, columns] = *anchor else { return refuse(Rule::UnitAxes.into()) };
    let groups = count / i64::from(GroupAtom::WARPS);
    let widest = |columns: i64| GroupAtom::widest(left, right, accumulator, columns);
    match results::share_by_groups(widest, groups, shapes) {
        Ok(along) if count % i64::from(GroupAtom::WARPS) == 0 && count <= 32 => {
            let (own, others) = results::of_anchor([rows, columns], shapes, along);
            let form = Form { atom: any.part(), order: Order::Plain };
            let group = widest(columns / own[1]);
            Ok(Warps { form, group, along: own, others, leading: anchor.len() - 2, steps: None })
        }
        shared => {
            let [rows, columns] = shared.err().unwrap_or([rows, columns]);
            let warps = (0..kernel.knobs.len()).filter(|k| kernel.knobs[*k].kind == KnobKind::Warps).map(|k| KnobId(k as u32));
            let ids: Vec<KnobId> = warps.chain([unit]).collect();
            let found = format!("{count} / {}", DotUnit::Wgmma);
            Err(illegal(kernel, &ids, found, Rule::UnitGroups.with(&[&count, &rows, &columns])))
        }
    }
}

/// The unit of a kernel's dots: the schedule's. Where tensor maps were to round what warp groups multiply, and a launch's facts or lengths leave
/// no map for one of them, it is that of warps, which round what they have read.
pub(super) fn unit(
    kernel: &Kernel,
    schedule: &Schedule,
    dots: &Dots,
    (reads, fitting, mapped): (&HashMap<ValueId, ReadPlan>, &HashSet<ValueId>, &HashSet<ValueId>),
) -> Result<Option<DotUnit>, ScheduleError> {
    let (Some(id), Some(chosen)) = (DotUnit::knob(kernel), DotUnit::of(kernel, schedule)) else { return Ok(None) };
    let ops = operations(kernel);
    let rounded = |(operand, loaded): (ValueId, &Loaded)| loaded.only_rounds(&ops).then_some((operand, loaded.load));
    let rounded: Vec<(ValueId, ValueId)> = dots.operands().filter_map(rounded).collect();
    if chosen != DotUnit::Wgmma || rounded.is_empty() {
        return Ok(Some(chosen));
    }
    if let Some((operand, _)) = rounded.iter().find(|(_, load)| !(reads[load].is_tensor() && reads[load].stages > 1)) {
        return Err(illegal(kernel, &[id], chosen.to_string(), Rule::UnitGroupRounded.with(&[&name_of(kernel, *operand)])));
    }
    let of_grid = |v: &ValueId| kernel.grid_loop().is_some_and(|l| l.vars.contains(v));
    let in_turns = |load: &ValueId| match ops.get(load) {
        Some(Op::Load(_, index)) => !index.iter().any(|i| matches!(i, Index::Tile(v) if fitting.contains(v) && !of_grid(v))),
        _ => false,
    };
    let served = rounded.iter().all(|(_, load)| mapped.contains(load) && in_turns(load));
    Ok(Some(if served { chosen } else { DotUnit::Mma }))
}

/// The dots of warp groups whose left operand is computed in registers from what is copied to shared memory: 16 bits, of which every group has
/// whole rows.
pub(super) fn converted(kernel: &Kernel, (dots, uses): (&Dots, &[Uses]), mma: Option<&Warps>, knobs: &[i64]) -> Vec<Converted> {
    let Some(warps) = mma.filter(|warps| warps.group.is_some()) else { return vec![] };
    let extents = |v: ValueId| {
        let shape = kernel.ty(v).shape()?.iter().map(|s| s.value(|k| knobs[k.0 as usize])).collect::<Vec<i64>>();
        <[i64; 2]>::try_from(shape).ok()
    };
    let feeds =
        |c: &Converted| extents(c.link.operand).zip(extents(c.link.acc)).is_some_and(|(operand, result)| warps.feeds(operand, result));
    let all = converted::converted(kernel, dots, uses);
    // Loads that some dots find in registers are there for all.
    if all.iter().all(feeds) { all } else { vec![] }
}

fn name_of(kernel: &Kernel, operand: ValueId) -> String {
    kernel.value(operand).name.clone().unwrap_or_else(|| "an operand".into())
}

/// Groups multiply what lies in shared memory as it was loaded, f32 as tensor maps have rounded it, and across the sum 16 bits only.
pub(super) fn check_operands(
    kernel: &Kernel,
    dots: &Dots,
    reads: &mut HashMap<ValueId, ReadPlan>,
    unit: KnobId,
) -> Result<(), ScheduleError> {
    let ops = operations(kernel);
    let refuse = |rule: super::legality::Broken| Err(illegal(kernel, &[unit], DotUnit::Wgmma.to_string(), rule));
    for op in ops.values() {
        let Op::Dot { a, b, .. } = op else { continue };
        for (operand, along_sum) in [(*a, 1), (*b, 0)] {
            if let Some(loaded) = dots.operand(operand).filter(|loaded| !loaded.chain.is_empty()) {
                if !loaded.only_rounds(&ops) {
                    return refuse(Rule::UnitGroupChain.with(&[&name_of(kernel, operand)]));
                }
                reads.entry(loaded.load).and_modify(|read| read.rounded = true);
            }
            let bytes = kernel.ty(operand).dtype().map_or(0, DType::size);
            if bytes != 2 && contiguous(kernel, &ops, operand).is_some_and(|fast| fast != along_sum) {
                return refuse(Rule::UnitGroupAcross.with(&[&name_of(kernel, operand)]));
            }
        }
    }
    Ok(())
}

/// What a tensor map rounds is copied by one: in a loop that has a ring of such copies, and not in one whose tile is all there is.
pub(super) fn check_rounded(kernel: &Kernel, plan: &Plan) -> Result<(), ScheduleError> {
    let mapped = |load: &ValueId| {
        plan.loops.values().any(|l| match &l.pipeline {
            Pipeline::Multistage { ring, copies } => ring.handover == Handover::Transactions && copies.windows.contains(load),
            _ => false,
        })
    };
    match plan.reads.iter().find(|(load, read)| read.rounded && !mapped(load)) {
        Some((load, read)) => {
            let knobs: Vec<KnobId> = read.copied_by.into_iter().collect();
            Err(illegal(kernel, &knobs, read.copy.to_string(), Rule::UnitGroupRounded.with(&[&name_of(kernel, *load)])))
        }
        None => Ok(()),
    }
}

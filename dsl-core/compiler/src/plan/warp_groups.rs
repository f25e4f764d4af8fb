//! Dots by matrix instructions of warp groups (`unit = Wgmma`): which one, how the groups of a block share the result, and what their operands
//! must be like.

use super::illegal;
use super::legality::Rule;
use super::matrix_units::{Warps, contiguous};
use super::results::{self, Shape};
use crate::analyses::dots::Dots;
use girih_ir::fragments::{Form, GroupAtom, Number, Order};
use girih_ir::schedule::words::DotUnit;
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::tile::access::operations;
use girih_ir::tile::{Kernel, KnobId, Op};
use girih_ir::types::DType;

/// The instructions of warp groups for operands of a format, sums of a type and so many positions along their tile, and how the groups share
/// the results, of these shapes, of which one is the anchor's.
pub(super) fn groups(
    kernel: &Kernel,
    schedule: &Schedule,
    unit: KnobId,
    ((number, accumulator, inner), anchor, shapes): ((Number, DType, i64), &[i64], &[Shape]),
) -> Result<Warps, ScheduleError> {
    let refuse = |rule: super::legality::Broken| Err(illegal(kernel, &[unit], DotUnit::Wgmma.to_string(), rule));
    // Words of f32 are rounded on their way, which an operand in shared memory is not.
    let any = GroupAtom::widest(number, number, accumulator, 8).filter(|_| number != Number::Tf32);
    let Some(any) = any else { return refuse(Rule::UnitGroupNumbers.into()) };
    if inner % i64::from(any.k()) != 0 {
        return refuse(Rule::UnitDepth.with(&[&any.k(), &inner]));
    }
    let count = schedule.int_of_kind(kernel, KnobKind::Warps, 4);
    let [.., rows, columns] = *anchor else { return refuse(Rule::UnitAxes.into()) };
    let groups = count / i64::from(GroupAtom::WARPS);
    let widest = |columns: i64| GroupAtom::widest(number, number, accumulator, columns);
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

/// Groups multiply what lies in shared memory as it was loaded, and of one byte along the sum only.
pub(super) fn check_operands(kernel: &Kernel, dots: &Dots, unit: KnobId) -> Result<(), ScheduleError> {
    let ops = operations(kernel);
    let refuse = |rule: super::legality::Broken| Err(illegal(kernel, &[unit], DotUnit::Wgmma.to_string(), rule));
    for op in ops.values() {
        let Op::Dot { a, b, .. } = op else { continue };
        for (operand, along_sum) in [(*a, 1), (*b, 0)] {
            let name = kernel.value(operand).name.clone().unwrap_or_else(|| "an operand".into());
            if dots.operand(operand).is_some_and(|loaded| !loaded.chain.is_empty()) {
                return refuse(Rule::UnitGroupChain.with(&[&name]));
            }
            let bytes = kernel.ty(operand).dtype().map_or(0, DType::size);
            if bytes == 1 && contiguous(kernel, &ops, operand).is_some_and(|fast| fast != along_sum) {
                return refuse(Rule::UnitGroupAcross.with(&[&name]));
            }
        }
    }
    Ok(())
}

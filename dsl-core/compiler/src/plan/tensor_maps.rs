//! Copies by tensor maps (`copy = Tensor`): which loads a map may serve, and in which loops a warp of its own fills the ring.

use super::legality::{Broken, Rule};
use super::reads::ReadPlan;
use super::{Plan, illegal};
use girih_ir::facts::Facts;
use girih_ir::schedule::ScheduleError;
use girih_ir::schedule::words::CopyPath;
use girih_ir::simt::TensorMap;
use girih_ir::tile::access::{operations, visit};
use girih_ir::tile::{Index, Kernel, KnobId, Op, ParamKind, Stmt, ValueId};
use girih_ir::types::Literal;
use std::collections::{HashMap, HashSet};

/// Bytes of which a map's address and strides are multiples (CUDA driver API, `cuTensorMapEncodeTiled`).
const ALIGN: u32 = 16;
/// Threads of the warp that fills a ring.
pub(crate) const PRODUCER: i64 = 32;

/// The loads of whole tensors whose address and strides every launch promises to be as a map wants them, along whose last axis a tile lies.
pub(crate) fn mapped(kernel: &Kernel, facts: &Facts) -> HashSet<ValueId> {
    let ops = operations(kernel);
    let mut all = HashSet::new();
    visit(&kernel.body, &mut |stmt| {
        let Stmt::Let(value, Op::Load(view, index)) = stmt else { return };
        let view = kernel.view(*view);
        let (ParamKind::Tensor { rank, .. }, Some(known)) = (kernel.params[view.param].kind, &facts.tensors[view.param]) else { return };
        let whole =
            view.axes.len() == rank && rank <= TensorMap::AXES && matches!(ops.get(&view.offset), Some(Op::Literal(l)) if is_zero(l));
        let own = |k: usize| {
            let (len, stride) = (ops.get(&view.axes[k].len), ops.get(&view.axes[k].stride));
            matches!(len, Some(Op::Dim(_, axis)) if *axis == k) && matches!(stride, Some(Op::Stride(_, axis)) if *axis == k)
        };
        let apart = |k: usize| match known.packed {
            true => known.lens[k + 1..].iter().map(|n| u64::from(*n)).product(),
            false => u64::from(known.strides[k]),
        };
        let bytes = |k: usize| apart(k) * view.dtype.size() as u64;
        let strides = (0..rank.saturating_sub(1)).all(|k| bytes(k).is_multiple_of(ALIGN.into()));
        let straight = known.rows && known.align.is_multiple_of(ALIGN) && strides;
        let along = matches!(index.last(), Some(Index::Tile(_))) && index.iter().all(|i| !matches!(i, Index::All(_)));
        if whole && (0..rank).all(own) && straight && along {
            all.insert(*value);
        }
    });
    all
}

fn is_zero(l: &Literal) -> bool {
    l.to_i64() == 0
}

/// Where a map may not serve all that a schedule wants one for, `cp.async` does.
pub(super) fn fall_back(reads: &mut HashMap<ValueId, ReadPlan>, wanted: impl Fn(ValueId) -> bool, mapped: &HashSet<ValueId>) {
    let by_tensor = |(v, read): &(&ValueId, &ReadPlan)| read.shared && read.copy == CopyPath::Tensor && wanted(**v);
    if reads.iter().filter(by_tensor).any(|(v, _)| !mapped.contains(v)) {
        reads.values_mut().filter(|read| read.copy == CopyPath::Tensor).for_each(|read| read.copy = CopyPath::Async);
    }
}

/// What a loop must be like whose copies go by tensor maps.
pub(super) fn check(kernel: &Kernel, plan: &Plan, read: &ReadPlan, alone: bool) -> Result<(), ScheduleError> {
    let knobs: Vec<KnobId> = read.copied_by.into_iter().collect();
    let refuse = |broken: Broken| Err(illegal(kernel, &knobs, CopyPath::Tensor.to_string(), broken));
    if plan.mma.as_ref().is_none_or(|m| m.group.is_none()) {
        return refuse(Rule::TensorUnit.into());
    }
    if plan.split.is_some() || plan.slices > 1 || !alone {
        return refuse(Rule::TensorLoop.into());
    }
    Ok(())
}

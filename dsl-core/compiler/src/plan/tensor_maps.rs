//! Copies by tensor maps (`copy = Tensor`): which loads a map may serve, and in which loops a warp of its own fills the ring.

use super::legality::{Broken, Rule};
use super::reads::ReadPlan;
use super::{Plan, illegal};
use girih_ir::facts::Facts;
use girih_ir::fragments::GroupAtom;
use girih_ir::schedule::ScheduleError;
use girih_ir::schedule::words::CopyPath;
use girih_ir::simt::TensorMap;
use girih_ir::target::REGISTERS_PER_MULTIPROCESSOR;
use girih_ir::tile::access::{operations, tile_size, visit};
use girih_ir::tile::{Index, Kernel, KnobId, Op, ParamKind, Stmt, TileLoop, ValueId};
use girih_ir::types::{BinaryOp, Literal};
use std::collections::{HashMap, HashSet};

/// Bytes of which a map's address and strides are multiples (CUDA driver API, `cuTensorMapEncodeTiled`).
const ALIGN: u32 = 16;
/// Threads of the warp that fills a ring.
const PRODUCER: i64 = 32;
/// Registers of a multiprocessor for each thread of a warp group that it could have.
const REGISTERS: i64 = REGISTERS_PER_MULTIPROCESSOR as i64 / GroupAtom::THREADS as i64;
/// The least and the most registers of a thread that a warp group may ask for, and of what they are a multiple.
const LEAST_REGISTERS: i64 = 24;
const MOST_REGISTERS: i64 = 240;
const REGISTER_UNIT: i64 = 8;

/// Who fills the rings of a block beside its consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Producer {
    /// Threads, of which one works.
    pub threads: i64,
    /// Registers of each consumer's thread and of each of these, where they are not the same for all.
    pub registers: Option<[u32; 2]>,
}

/// The producer beside so many consumers. Those that hold the sums of two products and the operand between them need more registers than all
/// threads can have, from two groups on: a group of warps then stands beside them which gives its own back, and one thread of it works.
pub(super) fn producer(consumers: i64, holds_operands: bool, min_blocks: i64) -> Producer {
    let group = i64::from(GroupAtom::THREADS);
    let groups = consumers / group;
    if !holds_operands || groups < 2 || min_blocks > 1 {
        return Producer { threads: PRODUCER, registers: None };
    }
    // What ptxas gives every thread at first is what there is to share.
    let all = REGISTERS / (groups + 1) / REGISTER_UNIT * REGISTER_UNIT * (groups + 1);
    let own = ((all - LEAST_REGISTERS) / groups / REGISTER_UNIT * REGISTER_UNIT).min(MOST_REGISTERS);
    Producer { threads: group, registers: Some([own as u32, (all - groups * own) as u32]) }
}

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

/// Whether a loop's tiles are whole, but for the axis's end: it keeps to no positions, or to those between multiples of its tile. What a
/// box holds besides would not be zeros.
pub(super) fn takes_whole_tiles(kernel: &Kernel, plan: &Plan, l: &TileLoop) -> bool {
    let Some(span) = l.span else { return true };
    let size = plan.size(tile_size(kernel, l.vars[0]));
    let ops = operations(kernel);
    let len = kernel.view(l.view).axes[l.axes[0]].len;
    let whole = |v: ValueId| is_multiple((kernel, plan, &ops), v, size);
    let same = |v: ValueId| {
        v == len
            || ops.get(&v).zip(ops.get(&len)).is_some_and(|(a, b)| matches!((a, b), (Op::Dim(p, k), Op::Dim(q, j)) if (p, k) == (q, j)))
    };
    let cut = |v: ValueId| match ops.get(&v) {
        Some(Op::Binary(BinaryOp::Min, a, b)) => [(*a, *b), (*b, *a)].into_iter().any(|(a, b)| whole(a) && same(b)),
        _ => false,
    };
    whole(span.first) && (whole(span.end) || same(span.end) || cut(span.end))
}

/// Whether a scalar is surely a multiple of a tile's size: arithmetic on where tiles of multiples of it begin and end.
fn is_multiple(at: (&Kernel, &Plan, &HashMap<ValueId, &Op>), v: ValueId, size: i64) -> bool {
    let (kernel, plan, ops) = at;
    let of = |v: &ValueId| is_multiple(at, *v, size);
    match ops.get(&v) {
        Some(Op::Literal(l)) => l.to_i64() % size == 0,
        Some(Op::Start(t) | Op::End(t)) => plan.size(tile_size(kernel, *t)) % size == 0,
        Some(Op::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Min | BinaryOp::Max, a, b)) => of(a) && of(b),
        Some(Op::Binary(BinaryOp::Mul, a, b)) => of(a) || of(b),
        Some(Op::Select(_, a, b)) => of(a) && of(b),
        Some(Op::Cast(a)) => of(a),
        _ => false,
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

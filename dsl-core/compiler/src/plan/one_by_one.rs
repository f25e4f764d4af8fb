//! Axes of dots' sums that are walked element by element, where operands are read directly (`operands = Direct`).
//!
//! Such an axis has no tiles, so nothing may depend on them: a loop over it does nothing but add dots of what it loads to what it carries.
//! Any other statement would run once per element instead of once per tile, and any other value would have another extent. Axes of loops
//! that do more keep the tiles that the schedule gives them, and their operands are read where they are all the same.

use super::anchor;
use super::reads::operand_path;
use crate::analyses::uses::operands;
use girih_ir::schedule::words::{OperandPath, Words};
use girih_ir::schedule::{KnobKind, Schedule, Site};
use girih_ir::tile::access::{tile_size, visit};
use girih_ir::tile::print::definitions;
use girih_ir::tile::{Index, Kernel, KnobId, Op, Stmt, TileLoop, Ty, ValueId};
use std::collections::{HashMap, HashSet};

/// The tile knobs of axes that are walked element by element under a schedule.
pub(crate) fn one_by_one(kernel: &Kernel, schedule: &Schedule) -> Vec<KnobId> {
    let mut direct = kernel.knobs_of(KnobKind::Operands).filter(|id| OperandPath::chosen(schedule, *id) == Some(OperandPath::Direct));
    if direct.next().is_some() { without_tiles(kernel, schedule) } else { vec![] }
}

/// Tile knobs that cut nothing but the axes of sums, in loops that do nothing but add up dots of what is read directly.
fn without_tiles(kernel: &Kernel, schedule: &Schedule) -> Vec<KnobId> {
    let (mut found, mut only_added) = (Vec::new(), HashSet::new());
    visit(&kernel.body, &mut |stmt| {
        let Stmt::Tiles(l) = stmt else { return };
        let ([var], Some(values), true) = (&l.vars[..], added_by(kernel, l), reads_directly(kernel, schedule, l)) else { return };
        found.extend(tile_size(kernel, *var).as_knob().filter(|_| !l.carries.is_empty()));
        only_added.extend(values);
    });
    let mut made = Vec::new();
    definitions(&kernel.body, &mut made);
    found.sort_unstable();
    found.dedup();
    found.retain(|knob| {
        let shared = kernel.shared.iter().flat_map(|s| &s.shape);
        made.iter().all(|(v, _)| only_added.contains(v) || !depends(kernel.ty(*v), *knob))
            && shared.chain(&anchor::sizes(kernel)).all(|size| !size.knobs().contains(knob))
    });
    found
}

/// Whether all that a loop's body loads is read from global memory.
fn reads_directly(kernel: &Kernel, schedule: &Schedule, l: &TileLoop) -> bool {
    l.body.iter().all(|stmt| match stmt {
        Stmt::Let(_, Op::Load(view, _)) => {
            let site = Site { tensor: Some(kernel.view(*view).param), ..Site::of_loop(l) };
            operand_path(kernel, schedule, &site) == Some(OperandPath::Direct)
        }
        _ => true,
    })
}

/// The tile index, the loads and the transpositions of a loop that does nothing but add dots of these to what it carries; `None` where it
/// does more.
fn added_by(kernel: &Kernel, l: &TileLoop) -> Option<HashSet<ValueId>> {
    let turn = Turn::new(l)?;
    let mut values: HashSet<ValueId> = l.vars.iter().copied().collect();
    for carry in &l.carries {
        let mut at = carry.next;
        while at != carry.inner {
            let Some(Op::Dot { a, b, acc, .. }) = turn.ops.get(&at) else { return None };
            for operand in [a, b] {
                values.extend(turn.loaded(kernel, *operand)?);
            }
            at = *acc;
        }
    }
    Some(values)
}

/// The operations of a turn that consists of these alone.
struct Turn<'k> {
    vars: &'k [ValueId],
    ops: HashMap<ValueId, &'k Op>,
    /// Values that are not the same in every turn.
    changing: HashSet<ValueId>,
}

impl<'k> Turn<'k> {
    fn new(l: &'k TileLoop) -> Option<Turn<'k>> {
        let mut ops = HashMap::new();
        let mut changing: HashSet<ValueId> = l.vars.iter().copied().chain(l.carries.iter().map(|c| c.inner)).collect();
        for stmt in &l.body {
            let Stmt::Let(value, op) = stmt else { return None };
            ops.insert(*value, op);
            if operands(op).iter().any(|o| changing.contains(o)) {
                changing.insert(*value);
            }
        }
        Some(Turn { vars: &l.vars, ops, changing })
    }

    /// An operand and the values that it is made of, from a load of this turn's tile on: of nothing else that changes with the turn.
    fn loaded(&self, kernel: &Kernel, operand: ValueId) -> Option<Vec<ValueId>> {
        let mut values = vec![operand];
        loop {
            match self.ops.get(&values[values.len() - 1])? {
                Op::Transpose(from, _) => values.push(*from),
                Op::Load(view, index) => {
                    let view = kernel.view(*view);
                    let places = view.axes.iter().flat_map(|axis| [axis.len, axis.stride]).chain([view.offset]);
                    let at = index.iter().filter_map(|i| if let Index::At(v) = i { Some(*v) } else { None });
                    let fixed = places.chain(at).all(|v| !self.changing.contains(&v));
                    let own = self.vars.iter().all(|v| index.contains(&Index::Tile(*v)));
                    return (fixed && own).then_some(values);
                }
                _ => return None,
            }
        }
    }
}

/// Whether an extent of a type depends on a knob.
fn depends(ty: &Ty, knob: KnobId) -> bool {
    match ty {
        Ty::Scalar(_) => false,
        Ty::Tile(_, shape) => shape.iter().any(|size| size.knobs().contains(&knob)),
        Ty::TileIdx(size) => size.knobs().contains(&knob),
        Ty::Window(_, reach) => reach.iter().any(|r| [&r.size, &r.before, &r.after].iter().any(|s| s.knobs().contains(&knob))),
    }
}

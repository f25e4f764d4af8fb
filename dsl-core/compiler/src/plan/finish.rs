//! Combinations over the grid: whether there are some, whether their order counts, and how they end.

use super::legality::{Broken, Rule};
use super::{illegal, second_launch};
use crate::analyses::totals::Total;
use crate::analyses::uses::{defined, operands};
use girih_ir::schedule::words::{FinishPath, Words};
use girih_ir::schedule::{Schedule, ScheduleError};
use girih_ir::tile::{self, Combine, Form, Kernel, KnobId, Operator, Stmt, ValueId};
use girih_ir::types::DType;
use std::collections::HashSet;

/// Whether the body combines something over the grid: it then runs in at least one block, however few tiles there are.
pub(crate) fn combines_grid(kernel: &Kernel) -> bool {
    kernel.body.iter().any(is_over_grid)
}

/// Whether what blocks have must be combined in the order of the tiles.
pub(crate) fn keeps_order(kernel: &Kernel) -> bool {
    kernel.body.iter().any(|s| matches!(s, Stmt::Combine(c) if c.form == Form::Grid && !c.operator.commutative()))
}

/// Whether a statement combines over the grid.
pub(crate) fn is_over_grid(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Combine(c) if c.form == Form::Grid)
}

/// How the schedule has a combination over the grid end.
pub(super) fn finish(kernel: &Kernel, schedule: &Schedule) -> Result<FinishPath, ScheduleError> {
    let (Some(id), Some(finish)) = (FinishPath::knob(kernel), FinishPath::of(kernel, schedule)) else { return Ok(FinishPath::LastBlock) };
    match finish {
        FinishPath::LastBlock => {}
        FinishPath::Atomics => {
            let over_grid = kernel.body.iter().filter_map(|s| match s {
                Stmt::Combine(c) if c.form == Form::Grid => Some(c),
                _ => None,
            });
            check_totals(kernel, over_grid, id)?;
        }
        FinishPath::SecondLaunch => second_launch::check(kernel, id)?,
    }
    Ok(finish)
}

/// The end of a body: what can be done before any block is known to be the last, the combinations over the grid, what follows them.
pub(crate) struct Split<'k> {
    pub(crate) before: Vec<&'k tile::Stmt>,
    pub(crate) combines: Vec<&'k Combine>,
    pub(crate) after: Vec<&'k tile::Stmt>,
}

/// What can be done before any block is known to be the last, the combinations over the grid, and what follows them; or a combination of
/// what was combined over the grid.
pub(crate) fn split<'k>(rest: &'k [tile::Stmt]) -> Result<Split<'k>, &'k Combine> {
    let mut late: HashSet<ValueId> = HashSet::new();
    let (mut before, mut combines, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for stmt in rest {
        match stmt {
            tile::Stmt::Combine(c) if c.form == Form::Grid => {
                if c.inputs.iter().any(|v| late.contains(v)) {
                    return Err(c);
                }
                late.extend(&c.results);
                combines.push(c);
            }
            tile::Stmt::Combine(c) if !c.inputs.iter().any(|v| late.contains(v)) => before.push(stmt),
            tile::Stmt::Let(_, op) if !operands(op).iter().any(|v| late.contains(v)) => before.push(stmt),
            other => {
                late.extend(defined(std::iter::once(other)));
                after.push(other);
            }
        }
    }
    Ok(Split { before, combines, after })
}

/// Why what a kernel's blocks have can't be combined by atomics.
fn check_totals<'k>(kernel: &Kernel, combines: impl Iterator<Item = &'k Combine>, knob: KnobId) -> Result<(), ScheduleError> {
    let refused = |broken: Broken| Err(illegal(kernel, &[knob], "Atomics".into(), broken));
    for c in combines {
        let dtype = kernel.ty(c.inputs[0]).dtype().unwrap_or(DType::I64).compute();
        let name = kernel.value(c.results[0]).name.as_ref().map_or("a value".to_string(), |n| format!("`{n}`"));
        let by = match &c.operator {
            Operator::User { .. } => "an operator of the author's",
            Operator::Product => "a product",
            _ => "an operator on bool",
        };
        match Total::of(&c.operator, dtype) {
            None => return refused(Rule::AtomicsOperator.with(&[&name, &by])),
            Some(total) if kernel.deterministic && total.kept == DType::F32 => {
                return refused(Rule::AtomicsOrder.with(&[&name]));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

//! Combinations over the grid: whether there are some, whether their order counts, and how they end.

use crate::lower::{atomic_totals, second_launch};
use girih_ir::schedule::words::{FinishPath, Words};
use girih_ir::schedule::{Schedule, ScheduleError};
use girih_ir::tile::{Form, Kernel, Stmt};

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
            atomic_totals::check(kernel, over_grid, id)?;
        }
        FinishPath::SecondLaunch => second_launch::check(kernel, id)?,
    }
    Ok(finish)
}

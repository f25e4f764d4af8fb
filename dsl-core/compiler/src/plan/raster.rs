//! Rows of tiles of the grid that blocks walk together.

use super::finish::keeps_order;
use girih_ir::tile::access::{operands, operations, visit};
use girih_ir::tile::{Kernel, Op, Span, Stmt, ValueId};
use std::collections::HashSet;

/// Blocks walk so many rows of the grid's tiles together: down each column of them, then on to the next column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Raster {
    /// More than one.
    pub rows: i64,
    /// Which tile index numbers the columns; the others, the last one fastest, number the rows.
    pub column: usize,
}

/// The raster of a schedule that asks for so many rows; `None` for row after row.
///
/// Columns lie along the tile index that says where the turns of a loop begin or end, if there is one: neighbouring blocks then have as many
/// turns, and those with the most come first or last (Shah and others, FlashAttention-3, 2024, walk the heads of an attention so). Else they
/// lie along the last one.
pub(super) fn raster(kernel: &Kernel, rows: i64) -> Option<Raster> {
    let grid = kernel.grid_loop().filter(|l| l.vars.len() > 1 && rows > 1 && !keeps_order(kernel))?;
    let ends = ends_of_turns(kernel);
    let column = grid.vars.iter().rposition(|v| ends.contains(v)).unwrap_or(grid.vars.len() - 1);
    Some(Raster { rows, column })
}

/// The values by which the ends of loops' turns are computed. What is loaded tells nothing of the place where it was.
fn ends_of_turns(kernel: &Kernel) -> HashSet<ValueId> {
    let made = operations(kernel);
    let (mut left, mut seen) = (Vec::new(), HashSet::new());
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Tiles(l) => left.extend(l.span.iter().flat_map(|Span { first, end, .. }| [*first, *end])),
        Stmt::Range { start, end, .. } => left.extend([*start, *end]),
        _ => {}
    });
    while let Some(value) = left.pop() {
        if seen.insert(value)
            && let Some(op) = made.get(&value).filter(|op| !matches!(op, Op::Load(..) | Op::Gather(..) | Op::GatherInside(..)))
        {
            left.extend(operands(op));
        }
    }
    seen
}

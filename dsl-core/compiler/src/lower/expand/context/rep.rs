//! What became of a value: an expression, or registers in some layout with a mask.

use crate::block::{Op, ValueId};
use crate::lower::expand::mask::Mask;
use crate::lower::expand::window::WindowRep;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, VarId};

/// Where the elements of a tile are.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// One register per thread: an expression over variables that stay as they are.
    One(Expr),
    /// An array of registers, in the layout's order.
    Array(VarId),
    /// Every element is this expression; fits every layout.
    Splat(Expr),
    /// The coordinates of a tile index' elements; fits every layout.
    Coordinates(ValueId),
    /// A part of the registers that a window's reads filled: the first one's index, and for each register digit of the layout (axis and
    /// place) the registers from one to the next.
    Moved { var: VarId, at: i64, digits: Vec<(usize, i64, i64)> },
    /// The positions of its elements; fits every layout.
    Iota,
    /// Computed where it is used, from its operands.
    Pending(Op),
}

/// A tile value during lowering.
#[derive(Clone, Debug)]
pub(crate) struct TileRep {
    /// `None`: any layout will do.
    pub layout: Option<Layout>,
    pub mask: Mask,
    pub data: Data,
    /// Where it lies in other layouts, too: it was brought there for an expression that wanted it so.
    pub elsewhere: Vec<(Layout, Data)>,
}

impl TileRep {
    /// Whether its elements lie in a layout.
    pub fn lies_in(&self, layout: &Layout) -> bool {
        self.layout.as_ref() == Some(layout) || self.elsewhere.iter().any(|(l, _)| l == layout)
    }

    /// Looks at its elements in this layout, if they lie there, too.
    pub fn lie_in(&mut self, layout: &Layout) {
        if self.layout.as_ref() != Some(layout)
            && let Some((l, data)) = self.elsewhere.iter().find(|(l, _)| l == layout).cloned()
        {
            (self.layout, self.data) = (Some(l), data);
        }
    }
}

/// A value during lowering.
#[derive(Clone, Debug)]
pub(crate) enum Rep {
    Scalar(Expr),
    Tile(TileRep),
    /// The number of the tile along its axis.
    TileIndex(Expr),
    Window(Box<WindowRep>),
}

//! Statements of tile IR: stores, loops and choices, and the values that come out of them.

use super::{Combine, Index, Op, SharedAccess, Update, ValueId, ViewId};
use crate::loc::SourceLoc;
use crate::types::{MemoryOrder, Scope};

/// A value that changes over the turns of a loop.
#[derive(Clone, Copy, Debug)]
pub struct Carry {
    /// Before the first turn.
    pub init: ValueId,
    /// At the start of a turn.
    pub inner: ValueId,
    /// At the end of a turn.
    pub next: ValueId,
    /// After the loop.
    pub result: ValueId,
}

/// A value that an `if` makes.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Its value where the condition holds.
    pub then: ValueId,
    /// Its value otherwise.
    pub otherwise: ValueId,
    /// The result.
    pub result: ValueId,
}

/// A list of statements.
pub type Block = Vec<Stmt>;

/// The positions `first..end` of an axis, both scalars of type i64; what of them lies outside of the axis is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first position.
    pub first: ValueId,
    /// One past the last position.
    pub end: ValueId,
    /// It is one tile, of a number that is computed. The author asserts that blocks that store to it have different numbers, or meet in between.
    pub drawn: bool,
}

/// A loop over the tiles of a view's axes, in row-major order.
#[derive(Clone, Debug)]
pub struct TileLoop {
    /// The view whose extents bound the loop.
    pub view: ViewId,
    /// Which of its axes, one per variable.
    pub axes: Vec<usize>,
    /// The tile indices, one per axis ([`Ty::TileIdx`](super::Ty::TileIdx)).
    pub vars: Vec<ValueId>,
    /// Only the tiles that hold some of these positions, where there is one axis; never on a grid loop. Tiles lie where they lie without
    /// it, at multiples of their size, and elements at other positions are absent.
    pub span: Option<Span>,
    /// The author asked for turns dealt out to blocks as the schedule likes (`strided`), so that values may be carried.
    pub strided: bool,
    /// The grid's blocks begin in the order of the tiles: where a tile's has begun, those of all tiles before it have.
    pub in_order: bool,
    /// Values that change over the turns. Empty on a grid loop that is not `strided`.
    pub carries: Vec<Carry>,
    /// One turn.
    pub body: Block,
    /// The author's `for`.
    pub loc: SourceLoc,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Makes a value.
    Let(ValueId, Op),
    /// Stores a tile (or scalar) to a view; absent elements and those outside of the view are not stored.
    Store {
        /// Where to.
        view: ViewId,
        /// Which elements.
        index: Vec<Index>,
        /// What.
        value: ValueId,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Stores to computed positions; the author asserts that no two elements of the launch meet.
    Scatter {
        /// Where to.
        view: ViewId,
        /// One integer tile (or scalar) per axis of the view.
        indices: Vec<ValueId>,
        /// What.
        value: ValueId,
        /// Runs of so many neighbours along the view's last axis: the positions are those of their first elements, multiples of the length,
        /// and the value has the position in the run as one axis more in front, every element present. A scalar position must lie inside.
        run: Option<i64>,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Read-modify-write at computed positions.
    Atomic {
        /// Positions, operation, operands and result.
        update: Update,
        /// Where to.
        view: ViewId,
        /// Among whom.
        scope: Scope,
        /// What else it orders.
        order: MemoryOrder,
        /// The author's line.
        loc: SourceLoc,
    },
    /// Combines elements with an operator: a reduction, a scan, or the combination of what all blocks have.
    Combine(Combine),
    /// Accesses a shared array.
    Shared(SharedAccess),
    /// Elements of the block, of each warp, or of all blocks of the device that the grid has meet: what was done to shared arrays that are
    /// kept by hand is done before anything that follows, and on the device whatever was done to tensors, too.
    Barrier {
        /// Block or warp.
        scope: Scope,
        /// The author's line.
        loc: SourceLoc,
    },
    /// What each thread has started to copy ([`SharedKind::Copy`](super::SharedKind::Copy)) since the last of these becomes a group; or
    /// waits for groups.
    Copies {
        /// Waits until at most so many of the thread's newest groups are on their way; `None` closes a group.
        pending: Option<u32>,
        /// The author's line.
        loc: SourceLoc,
    },
    /// A loop over tiles: the grid if outermost, sequential otherwise.
    Tiles(TileLoop),
    /// `for var in start..end` over scalars.
    Range {
        /// The counter, of `start`'s and `end`'s type.
        var: ValueId,
        /// First value.
        start: ValueId,
        /// One past the last.
        end: ValueId,
        /// Values that change.
        carries: Vec<Carry>,
        /// One turn.
        body: Block,
        /// The author's `for`.
        loc: SourceLoc,
    },
    /// Repeats while `condition`, computed by `header` from the carries' `inner` values, holds. On a tile each element repeats while its own
    /// holds, and keeps what it has from then on; nothing in such a loop needs the others ([`by_element`](super::by_element)).
    While {
        /// At most one turn: an `if` on a tile that warps take or pass by themselves. Its condition is a bool tile.
        once: bool,
        /// Values that change.
        carries: Vec<Carry>,
        /// Computes the condition.
        header: Block,
        /// Scalar bool, or a bool tile of the shape of all that is carried.
        condition: ValueId,
        /// One turn.
        body: Block,
        /// The author's `while`.
        loc: SourceLoc,
    },
    /// A choice by a scalar: one side runs.
    If {
        /// Scalar bool.
        condition: ValueId,
        /// Where it holds.
        then: Block,
        /// Otherwise.
        otherwise: Block,
        /// Values that come out.
        results: Vec<Branch>,
        /// The author's `if`.
        loc: SourceLoc,
    },
    /// One side of a per-element choice: loads inside of tiles of the mask's shape are absent where the mask (negated if `negate`) is false
    /// or absent; those of loops over tiles inside are not. No stores inside.
    Where {
        /// Bool tile.
        mask: ValueId,
        /// This is the `else` side.
        negate: bool,
        /// The side.
        body: Block,
        /// The author's `if`.
        loc: SourceLoc,
    },
}

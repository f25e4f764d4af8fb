//! Operations of tile IR: how one value is made of others, and the indices by which memory is read.

use super::{Fold, ParamId, ValueId, ViewId};
use crate::types::{BinaryOp, CompareOp, Literal, ShuffleKind, TernaryOp, UnaryOp, VoteKind};

/// What a window holds outside of its view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Boundary {
    /// Nothing: such elements are absent, and a launch promises that no element of the loop needs one.
    Valid,
    /// Zero (`false`).
    Zero,
    /// The nearest element of the view. Zero where the view is empty.
    Clamp,
}

/// One index of a load or store, per axis of its view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// The elements of a tile along this axis: contributes an axis to the result.
    Tile(ValueId),
    /// One coordinate (scalar integer): contributes no axis.
    At(ValueId),
    /// The whole axis, whose length is this constant: contributes an axis of that extent. A requirement of the kernel.
    All(i64),
}

/// A pure operation that makes one value (loads read memory; they are pure between stores).
#[derive(Clone, Debug)]
pub enum Op {
    /// A constant scalar.
    Literal(Literal),
    /// A scalar parameter.
    Param(ParamId),
    /// The length of a tensor parameter's axis (i64).
    Dim(ParamId, usize),
    /// The stride of a tensor parameter's axis, in elements (i64).
    Stride(ParamId, usize),
    /// Elementwise; scalar → scalar, tile → tile.
    Unary(UnaryOp, ValueId),
    /// Elementwise on operands of one type.
    Binary(BinaryOp, ValueId, ValueId),
    /// Elementwise on operands of one type.
    Ternary(TernaryOp, ValueId, ValueId, ValueId),
    /// Elementwise on operands of one type; bool result.
    Compare(CompareOp, ValueId, ValueId),
    /// `condition ? a : b`, elementwise; condition bool of the same shape.
    Select(ValueId, ValueId, ValueId),
    /// Conversion to the result's element type (see the numeric contract).
    Cast(ValueId),
    /// The same bits as another type of the same size.
    Bitcast(ValueId),
    /// A scalar as a tile of the result's shape.
    Splat(ValueId),
    /// A scalar as a tile that exists where another of the result's shape does.
    Like {
        /// What every element is.
        value: ValueId,
        /// Where elements exist.
        model: ValueId,
    },
    /// A tile with a scalar in the place of elements that are absent: all of its elements are present.
    Or {
        /// The tile.
        tile: ValueId,
        /// What stands where it has nothing.
        absent: ValueId,
    },
    /// What a scan comes to: all of its elements along the axis, which vanishes, combined. The elements are present.
    Total {
        /// A result of the scan, which is of the total's component.
        scan: ValueId,
        /// The axis along which it is a scan.
        axis: usize,
    },
    /// A tile whose elements exist only inside of the grid's tensor: along each axis that names one of the grid's tile indices, where the
    /// coordinate lies below the length that the loop walks. The builder puts it where tiles are looked at that have no end of their own.
    Within(ValueId, Vec<Option<ValueId>>),
    /// A tile with extra axes: result axis `k` is the operand's axis `from[k]`, or new (every element the same) where `None`.
    Broadcast(ValueId, Vec<Option<usize>>),
    /// Axes permuted: result axis `k` is the operand's axis `perm[k]`.
    Transpose(ValueId, Vec<usize>),
    /// The elements at a constant position of one axis (of constant extent); that axis vanishes.
    Pick {
        /// The tile.
        tile: ValueId,
        /// The axis that vanishes.
        axis: usize,
        /// The position.
        at: i64,
    },
    /// Tiles of one shape put side by side along a new last axis, whose extent is their number.
    Stack(Vec<ValueId>),
    /// The coordinates of a tile's elements along its axis: i64 tile `[size]` of `index*size + 0, 1, ..`.
    Coordinates(ValueId),
    /// The first coordinate of a tile: `index*size` (i64).
    Start(ValueId),
    /// The coordinate behind the last one of a tile: `(index + 1)*size` (i64), which may lie behind the end of the axis.
    End(ValueId),
    /// 0, 1, .. along a tile of one axis, of an integer type.
    Iota,
    /// The number of a tile along its axis, from 0 (i64 scalar). The tile's size is a constant or a knob with one choice, so that no
    /// schedule can change it.
    Number(ValueId),
    /// The elements of a view at a tile (result: tile), or one element (all indices `At`; result: scalar).
    Load(ViewId, Vec<Index>),
    /// Elements of a view at computed positions: one integer tile (or scalar) per axis of the view, all of the result's shape.
    Gather(ViewId, Vec<ValueId>),
    /// As [`Op::Gather`], where the author asserts that positions of elements that exist lie inside.
    GatherInside(ViewId, Vec<ValueId>),
    /// A tile of a view with the elements around it.
    Window {
        /// The tensor.
        view: ViewId,
        /// A tile index per axis of the view.
        index: Vec<ValueId>,
        /// Elements (scalar i64) by which the window lies further on, per axis.
        shift: Vec<Option<ValueId>>,
        /// What lies outside of the view.
        boundary: Boundary,
    },
    /// A window at an offset (scalar i64) per axis: the moved tile (result: tile of the window's size), or the element there, counted
    /// from the tile's first (result: scalar).
    Near(ValueId, Vec<ValueId>),
    /// Each element of a tile takes that of another lane of its warp.
    Shuffle {
        /// What each lane gives.
        value: ValueId,
        /// How a lane finds the one it reads.
        kind: ShuffleKind,
        /// Distance or lane, i32: a scalar, or one per element.
        lane: ValueId,
    },
    /// What the lanes of each warp find out about a bool tile, the same in each of them: bool, or u32 for a ballot.
    Vote(VoteKind, ValueId),
    /// `acc + a · b`: `[M, K] · [K, N]` into `[M, N]`. See the page's section on dots.
    Dot {
        /// Left operand.
        a: ValueId,
        /// Right operand, of the same element type.
        b: ValueId,
        /// What the products are added to; gives the result's type.
        acc: ValueId,
        /// What is done with a pair of elements instead of a multiply-add.
        fold: Option<Box<Fold>>,
    },
}

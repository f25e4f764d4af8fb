//! Indices of loads and stores: one per axis of the tensor, alone or in a tuple.

use super::builder::KernelBuilder;
use super::elem::Int;
use super::ops;
use super::scalar::Scalar;
use super::session::Handle;
use super::tile::{Tile, TileIdx};
use crate::error::Diagnostic;
use crate::loc::SourceLoc;
use crate::tile::{Index, Op, RequirementKind, Size, Ty, ValueId, ViewId};
use crate::types::{BinaryOp, DType, Literal};

/// One index, before it is looked at in a build.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Part {
    /// The elements of a tile.
    Tile(Handle),
    /// One coordinate (a scalar), or a tile of coordinates.
    At(Handle),
    /// One constant coordinate.
    Constant(i64),
    /// The whole axis, of this length if the author said it.
    All(Option<i64>),
}

/// The index of one axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no index of an axis",
    label = "not an index",
    note = "an axis is indexed by a tile index of a loop, an integer scalar, `..`, or `..3` for a whole axis of 3 elements"
)]
pub trait AxisIndex {
    /// The part.
    #[doc(hidden)]
    fn part(self) -> Part;
}

impl AxisIndex for TileIdx {
    fn part(self) -> Part {
        Part::Tile(self.0)
    }
}
impl<T: Int> AxisIndex for Scalar<T> {
    fn part(self) -> Part {
        Part::At(self.handle())
    }
}
impl AxisIndex for i32 {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}
impl AxisIndex for usize {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}
impl AxisIndex for std::ops::RangeFull {
    fn part(self) -> Part {
        Part::All(None)
    }
}
impl AxisIndex for std::ops::RangeTo<i32> {
    fn part(self) -> Part {
        Part::All(Some(self.end as i64))
    }
}

/// The index of a whole tensor of `N` axes: one [`AxisIndex`] per axis, in a tuple where there are several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index a tensor of {N} axes",
    label = "wrong number or kind of indices",
    note = "give one tile index per axis: `t` for one axis, `(m, n)` for two"
)]
pub trait TileIndex<const N: usize> {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> [Part; N];
}

/// One coordinate: an integer scalar or number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no coordinate",
    label = "not an integer scalar",
    note = "write an integer or a `Scalar` of an integer type"
)]
pub trait Coordinate {
    /// The part.
    #[doc(hidden)]
    fn part(self) -> Part;
}
impl<T: Int> Coordinate for Scalar<T> {
    fn part(self) -> Part {
        Part::At(self.handle())
    }
}
impl Coordinate for i32 {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}
impl Coordinate for i64 {
    fn part(self) -> Part {
        Part::Constant(self)
    }
}
impl Coordinate for usize {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}

/// The coordinates of one element of a tensor of `N` axes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where an element of a tensor of {N} axes is",
    label = "wrong number or kind of coordinates",
    note = "give one integer per axis: `i` for one axis, `(i, j)` for two"
)]
pub trait Coordinates<const N: usize> {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> [Part; N];
}

/// The lengths of a tensor of `N` axes: an array, or a tuple where numbers stand beside scalars.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no lengths of a tensor of {N} axes",
    label = "wrong number or kind of lengths",
    note = "give one integer per axis: `[n]`, `[rows, cols]`, or `(16, cols)` where numbers stand beside scalars"
)]
pub trait Lengths<const N: usize> {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> [Part; N];
}
impl<A: Coordinate, const N: usize> Lengths<N> for [A; N] {
    fn parts(self) -> [Part; N] {
        self.map(Coordinate::part)
    }
}

/// One computed coordinate per element: a tile of integers, or an integer scalar for all of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tile of coordinates",
    label = "not a tile of integers",
    note = "write a tile or scalar of an integer type"
)]
pub trait Computed {
    /// The part.
    #[doc(hidden)]
    fn part(self) -> Part;
}
impl<T: Int> Computed for Tile<T> {
    fn part(self) -> Part {
        Part::At(self.handle())
    }
}
impl<T: Int> Computed for Scalar<T> {
    fn part(self) -> Part {
        Part::At(self.handle())
    }
}
impl Computed for i32 {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}
impl Computed for usize {
    fn part(self) -> Part {
        Part::Constant(self as i64)
    }
}

/// Computed coordinates in a tensor of `N` axes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where elements of a tensor of {N} axes are",
    label = "wrong number or kind of coordinates",
    note = "give one tile of integers per axis, in a tuple where there are several"
)]
pub trait ComputedIndex<const N: usize> {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> [Part; N];
}

macro_rules! tuples {
    ($($trait:ident of $axis:ident;)*) => {$(
        impl<A: $axis> $trait<1> for A {
            fn parts(self) -> [Part; 1] {
                [self.part()]
            }
        }
        impl<A: $axis> $trait<1> for (A,) {
            fn parts(self) -> [Part; 1] {
                [self.0.part()]
            }
        }
        impl<A: $axis, B: $axis> $trait<2> for (A, B) {
            fn parts(self) -> [Part; 2] {
                [self.0.part(), self.1.part()]
            }
        }
        impl<A: $axis, B: $axis, C: $axis> $trait<3> for (A, B, C) {
            fn parts(self) -> [Part; 3] {
                [self.0.part(), self.1.part(), self.2.part()]
            }
        }
        impl<A: $axis, B: $axis, C: $axis, D: $axis> $trait<4> for (A, B, C, D) {
            fn parts(self) -> [Part; 4] {
                [self.0.part(), self.1.part(), self.2.part(), self.3.part()]
            }
        }
    )*};
}

tuples! {
    TileIndex of AxisIndex;
    Coordinates of Coordinate;
    Lengths of Coordinate;
    ComputedIndex of Computed;
}

/// Computed coordinates, one per axis of a tensor or shared array: alone, or in a tuple where there are several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where elements are",
    label = "not a tile of integers, nor a tuple of them",
    note = "give one tile of integers (or one integer) per axis, in a tuple where there are several"
)]
pub trait Positions {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> Vec<Part>;
}

/// Tile indices, whole axes and coordinates of a shared array, one per axis: alone, or in a tuple where there are several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no index of a shared array",
    label = "not an index",
    note = "an axis is indexed by a tile index of a loop, an integer, or `..`"
)]
pub trait AxisParts {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> Vec<Part>;
}

macro_rules! lists {
    ($($trait:ident of $axis:ident;)*) => {$(
        impl<A: $axis> $trait for A {
            fn parts(self) -> Vec<Part> {
                vec![self.part()]
            }
        }
        impl<A: $axis, B: $axis> $trait for (A, B) {
            fn parts(self) -> Vec<Part> {
                vec![self.0.part(), self.1.part()]
            }
        }
        impl<A: $axis, B: $axis, C: $axis> $trait for (A, B, C) {
            fn parts(self) -> Vec<Part> {
                vec![self.0.part(), self.1.part(), self.2.part()]
            }
        }
        impl<A: $axis, B: $axis, C: $axis, D: $axis> $trait for (A, B, C, D) {
            fn parts(self) -> Vec<Part> {
                vec![self.0.part(), self.1.part(), self.2.part(), self.3.part()]
            }
        }
    )*};
}

lists! {
    Positions of Computed;
    AxisParts of AxisIndex;
}

/// One index per axis; a mistake if not.
pub(crate) fn check_rank(k: &mut KernelBuilder, parts: &[Part], rank: usize, loc: SourceLoc) -> Option<()> {
    if parts.len() == rank {
        return Some(());
    }
    let message = format!("{} indices where there are {rank} axes", parts.len());
    k.error(Diagnostic::new(loc, message).help("give one index per axis, in a tuple where there are several"));
    None
}

/// Tile indices and whole axes (of these extents) as computed coordinates of one shape.
pub(crate) fn spread(k: &mut KernelBuilder, parts: &[Part], extents: &[Size], loc: SourceLoc) -> Option<(Vec<ValueId>, Vec<Size>)> {
    let mut shape = Vec::new();
    let mut along = Vec::new();
    for (part, extent) in parts.iter().zip(extents) {
        let axis = shape.len();
        along.push(match part {
            Part::Tile(h) => {
                let v = k.operand(*h, loc)?;
                let Ty::TileIdx(size) = k.kernel.ty(v).clone() else { panic!("language: a tile index has another type") };
                shape.push(size.clone());
                (k.emit(Op::Coordinates(v), Ty::Tile(DType::I64, vec![size]), loc), Some(axis))
            }
            Part::All(length) => {
                let size = length.map_or_else(|| extent.clone(), Size::constant);
                shape.push(size.clone());
                (k.emit(Op::Iota, Ty::Tile(DType::I32, vec![size]), loc), Some(axis))
            }
            Part::At(h) => (k.operand(*h, loc)?, None),
            Part::Constant(c) => (k.index(*c, loc), None),
        });
    }
    if shape.is_empty() {
        k.error(Diagnostic::new(loc, "one element is no tile").help("use `.at(..)` or `.store_at(..)`, which take and give a `Scalar`"));
        return None;
    }
    let whole = |k: &mut KernelBuilder, (v, axis): (ValueId, Option<usize>)| match axis {
        None => ops::splat_to(k, v, &shape, loc),
        Some(_) if shape.len() == 1 => v,
        Some(axis) => {
            let from = (0..shape.len()).map(|a| (a == axis).then_some(0)).collect();
            let ty = Ty::Tile(k.kernel.ty(v).dtype().unwrap_or(DType::I64), shape.clone());
            k.emit(Op::Broadcast(v, from), ty, loc)
        }
    };
    let values = along.into_iter().map(|a| whole(k, a)).collect();
    Some((values, shape))
}

/// The indices of an access and the shape that they span; `None` after a mistake.
pub(crate) fn resolve(k: &mut KernelBuilder, view: ViewId, parts: &[Part], loc: SourceLoc) -> Option<(Vec<Index>, Vec<Size>)> {
    let mut shape = Vec::new();
    let mut index = Vec::new();
    for (axis, part) in parts.iter().enumerate() {
        index.push(match part {
            Part::Tile(h) => {
                let v = k.operand(*h, loc)?;
                let Ty::TileIdx(size) = k.kernel.ty(v) else { panic!("language: a tile index has another type") };
                shape.push(size.clone());
                Index::Tile(v)
            }
            Part::At(h) => {
                let v = super::elementwise::uniform(k, *h, "one coordinate", loc)?;
                Index::At(wide(k, v, loc))
            }
            Part::Constant(c) => Index::At(k.index(*c, loc)),
            Part::All(length) => {
                let length = whole_axis(k, view, axis, *length, loc)?;
                shape.push(Size::constant(length));
                Index::All(length)
            }
        });
    }
    Some((index, shape))
}

fn whole_axis(k: &mut KernelBuilder, view: ViewId, axis: usize, length: Option<i64>, loc: SourceLoc) -> Option<i64> {
    let len = k.kernel.view(view).axes[axis].len;
    if let Some(length) = length {
        if length < 1 {
            k.error(Diagnostic::new(loc, format!("a whole axis of {length} elements")).help("write its length, at least 1"));
            return None;
        }
        let constant = k.index(length, loc);
        k.require(RequirementKind::Equal(len, constant), loc);
        return Some(length);
    }
    let required = k.kernel.requirements.iter().find_map(|r| match r.kind {
        RequirementKind::Equal(a, b) if a == len => k.constant(b),
        _ => None,
    });
    let Some(known) = k.constant(len).or(required) else {
        let message = format!("`..` takes a whole axis, but the length of axis {axis} of `{}` is not known", k.kernel.view(view).text);
        k.error(Diagnostic::new(loc, message).help("write its length: `..3`"));
        return None;
    };
    Some(known.to_i64())
}

/// An integer scalar or tile as i64.
pub(crate) fn wide(k: &mut KernelBuilder, v: ValueId, loc: SourceLoc) -> ValueId {
    let ty = ops::with_dtype(k.kernel.ty(v), DType::I64);
    if *k.kernel.ty(v) == ty { v } else { k.emit(crate::tile::Op::Cast(v), ty, loc) }
}

/// Computed coordinates and their common shape (empty if all are scalars); scalars beside tiles are spread.
pub(crate) fn computed(k: &mut KernelBuilder, parts: &[Part], loc: SourceLoc) -> Option<(Vec<ValueId>, Vec<Size>)> {
    let mut values = Vec::new();
    for part in parts {
        values.push(match part {
            Part::At(h) => k.operand(*h, loc)?,
            Part::Constant(c) => k.literal(Literal::index(*c), loc),
            Part::Tile(_) | Part::All(_) => panic!("language: a tile index among computed coordinates"),
        });
    }
    let shape = values.iter().find_map(|v| k.kernel.ty(*v).shape()).map(<[Size]>::to_vec).unwrap_or_default();
    for v in &mut values {
        if k.kernel.ty(*v).shape().is_some_and(|s| s != shape) {
            let message = format!("coordinates of different shapes: {} and {}", k.shape_text(&shape), k.describe(*v));
            k.error(Diagnostic::new(loc, message).help("bring them to one shape with `.expand(axis, size)`"));
            return None;
        }
        if !shape.is_empty() {
            *v = ops::splat_to(k, *v, &shape, loc);
        }
    }
    Some((values, shape))
}

/// A launch must have the elements at coordinates that the host knows.
pub(crate) fn require_inside(k: &mut KernelBuilder, view: ViewId, index: &[Index], loc: SourceLoc) {
    for (at, axis) in index.iter().zip(k.kernel.view(view).axes.clone()) {
        let Index::At(coordinate) = at else { continue };
        let wide = *k.kernel.ty(*coordinate) == Ty::Scalar(DType::I64);
        if wide && k.host_known(*coordinate) && k.host_known(axis.len) {
            let one = k.index(1, loc);
            let end = k.index_op(BinaryOp::Add, *coordinate, one, loc);
            k.require(RequirementKind::AtMost(end, axis.len), loc);
        }
    }
}

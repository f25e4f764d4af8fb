//! Indices of loads and stores: one per axis of the tensor, alone or in a tuple.

mod resolve;

pub(crate) use resolve::{check_rank, computed, require_inside, resolve, spread, wide};

use super::elem::Int;
use super::scalar::Scalar;
use super::session::Handle;
use super::tile::{Tile, TileIdx};

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

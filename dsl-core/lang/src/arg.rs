//! Where the smallest and the largest elements are. Ties go to the lowest index; a NaN is smaller and larger than any number, so that the
//! first NaN is found, as `min` and `max` propagate it.

use super::components::{self, Components};
use super::elem::{Elem, Int, Num};
use super::grid::ReduceGrid;
use super::ops;
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::tile::{Tile, TileIdx};
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Op, Ty};
use girih_ir::types::{BinaryOp, CompareOp, Literal};

/// Where the elements of a tile are: a [`TileIdx`] for its coordinates, or a tile of integers of the same shape, or along the axis alone.
pub trait Position {
    /// The integer type of the indices.
    type Index: Int;
    /// The indices as a tile.
    #[doc(hidden)]
    fn indices(self) -> Tile<Self::Index>;
}
impl Position for TileIdx {
    type Index = i64;
    #[track_caller]
    fn indices(self) -> Tile<i64> {
        self.coords()
    }
}
impl<I: Int> Position for Tile<I> {
    type Index = I;
    fn indices(self) -> Tile<I> {
        self
    }
}

/// A value and its index: a pair of scalars, or of tiles, which are compared elementwise.
pub trait ArgPair: Components {
    /// The pair with the larger value; of equal ones that with the lower index. NaN is the largest.
    #[track_caller]
    fn arg_max(self, other: Self) -> Self {
        better(CompareOp::Gt, self, other, SourceLoc::caller())
    }
    /// The pair with the smaller value; of equal ones that with the lower index. NaN is the smallest.
    #[track_caller]
    fn arg_min(self, other: Self) -> Self {
        better(CompareOp::Lt, self, other, SourceLoc::caller())
    }
    /// The largest value that any block has, and its index. Stands behind a strided grid loop.
    fn arg_max_grid(self) -> Self;
    /// The smallest value that any block has, and its index. Stands behind a strided grid loop.
    fn arg_min_grid(self) -> Self;
}

macro_rules! pairs {
    ($($of:ident)*) => {$(
        impl<T: Num, I: Int> ArgPair for ($of<T>, $of<I>) {
            #[track_caller]
            fn arg_max_grid(self) -> Self {
                let loc = SourceLoc::caller();
                self.commutative().reduce_grid(worst(false), |a, b| better(CompareOp::Gt, a, b, loc))
            }
            #[track_caller]
            fn arg_min_grid(self) -> Self {
                let loc = SourceLoc::caller();
                self.commutative().reduce_grid(worst(true), |a, b| better(CompareOp::Lt, a, b, loc))
            }
        }
    )*};
}
pairs!(Scalar Tile);

/// The better of two pairs.
fn better<P: Components>(op: CompareOp, a: P, b: P, loc: SourceLoc) -> P {
    let (a, b) = (components::handles(&a), components::handles(&b));
    let ([x, i], [y, j]) = ([a[0], a[1]], [b[0], b[1]]);
    let compare = |op, a, b| ops::compare(op, a, b, loc);
    let and = |a, b| ops::binary(BinaryOp::And, a, b, loc);
    let or = |a, b| ops::binary(BinaryOp::Or, a, b, loc);
    let (mut wins, mut ties) = (compare(op, y, x), compare(CompareOp::Eq, y, x));
    if float(x) {
        let (old, new) = (compare(CompareOp::Ne, x, x), compare(CompareOp::Ne, y, y));
        wins = or(wins, and(new, compare(CompareOp::Eq, x, x)));
        ties = or(ties, and(old, new));
    }
    let second = or(wins, and(ties, compare(CompareOp::Lt, j, i)));
    P::of_handles(&mut [ops::select(second, y, x, loc), ops::select(second, j, i, loc)].into_iter())
}

fn float(value: Handle) -> bool {
    session::with(|s| match s {
        session::Session::Kernel(k) => value.value(k.build).is_some_and(|v| k.kernel.ty(v).dtype().is_some_and(|d| d.is_float())),
        session::Session::Program(_) => false,
    })
}

/// The pair that loses against any other.
fn worst<T: Elem, I: Elem>(largest: bool) -> (T, I) {
    (T::of_literal(Literal::extreme(T::DTYPE, largest)), I::of_literal(Literal::extreme(I::DTYPE, true)))
}

/// A tile of indices along one axis, repeated along the other axes of `like`; any other tile as it is.
fn spread<I: Int>(indices: Tile<I>, like: Handle, axis: usize, loc: SourceLoc) -> Tile<I> {
    indices.map_value(loc, |k, v| {
        let like = k.operand(like, loc)?;
        let (Ty::Tile(dtype, own), Ty::Tile(_, shape)) = (k.kernel.ty(v).clone(), k.kernel.ty(like).clone()) else { return None };
        if own.len() != 1 || shape.len() == 1 || shape.get(axis) != Some(&own[0]) {
            return Some(v);
        }
        let from = (0..shape.len()).map(|k| (k == axis).then_some(0)).collect();
        Some(k.emit(Op::Broadcast(v, from), Ty::Tile(dtype, shape), loc))
    })
}

/// Numbers of which none is NaN, by the author's word: [`Tile::without_nan`].
#[derive(Clone, Copy)]
pub struct WithoutNan<T: Elem>(Tile<T>);

impl<T: Num> Tile<T> {
    /// Your word that no element is NaN, for `arg_max` and its like, which then compare without looking for one. Where there is one all the
    /// same, any element may come out.
    pub fn without_nan(self) -> WithoutNan<T> {
        WithoutNan(self)
    }
}

/// The better of two pairs of numbers.
fn better_number<P: Components>(op: CompareOp, a: P, b: P, loc: SourceLoc) -> P {
    let (a, b) = (components::handles(&a), components::handles(&b));
    let ([x, i], [y, j]) = ([a[0], a[1]], [b[0], b[1]]);
    let compare = |op, a, b| ops::compare(op, a, b, loc);
    let tie = ops::binary(BinaryOp::And, compare(CompareOp::Eq, y, x), compare(CompareOp::Lt, j, i), loc);
    let second = ops::binary(BinaryOp::Or, compare(op, y, x), tie, loc);
    P::of_handles(&mut [ops::select(second, y, x, loc), ops::select(second, j, i, loc)].into_iter())
}

macro_rules! args {
    ($($axis:ident $all:ident $op:ident $largest:literal, $what:literal;)*) => {
        impl<T: Num> Tile<T> {$(
            #[doc = concat!("The ", $what, " element along an axis, which vanishes, and its index. Ties go to the lowest index, the first NaN")]
            /// wins. Where no element is present, the index is the largest of its type.
            #[track_caller]
            pub fn $axis<P: Position>(self, axis: usize, at: P) -> (Tile<T>, Tile<P::Index>) {
                let loc = SourceLoc::caller();
                let indices = spread(at.indices(), self.handle(), axis, loc);
                (self, indices).commutative().reduce_axis(axis, worst($largest), |a, b| better(CompareOp::$op, a, b, loc))
            }
            #[doc = concat!("The ", $what, " of all elements, and its index. Ties go to the lowest index, the first NaN wins.")]
            #[track_caller]
            pub fn $all<P: Position>(self, at: P) -> (Scalar<T>, Scalar<P::Index>) {
                let loc = SourceLoc::caller();
                (self, at.indices()).commutative().reduce_all(worst($largest), |a, b| better(CompareOp::$op, a, b, loc))
            }
        )*}
        impl<T: Num> WithoutNan<T> {$(
            #[doc = concat!("The ", $what, " element along an axis, which vanishes, and its index. Ties go to the lowest index.")]
            #[track_caller]
            pub fn $axis<P: Position>(self, axis: usize, at: P) -> (Tile<T>, Tile<P::Index>) {
                let loc = SourceLoc::caller();
                let indices = spread(at.indices(), self.0.handle(), axis, loc);
                (self.0, indices).commutative().reduce_axis(axis, worst($largest), |a, b| better_number(CompareOp::$op, a, b, loc))
            }
            #[doc = concat!("The ", $what, " of all elements, and its index. Ties go to the lowest index.")]
            #[track_caller]
            pub fn $all<P: Position>(self, at: P) -> (Scalar<T>, Scalar<P::Index>) {
                let loc = SourceLoc::caller();
                (self.0, at.indices()).commutative().reduce_all(worst($largest), |a, b| better_number(CompareOp::$op, a, b, loc))
            }
        )*}
    };
}
args! {
    arg_min_axis arg_min_all Lt true, "smallest";
    arg_max_axis arg_max_all Gt false, "largest";
}

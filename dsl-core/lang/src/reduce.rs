//! Reductions: combining the elements of a tile along axes, in order.

use super::combine::{rank, record, trace};
use super::components::{self, Components, TileLike};
use super::elem::Num;
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Form, Operator};

const WHAT: &str = "a reduction";

/// The reduction along all axes.
fn whole<R: Components>(operator: Option<Operator>, inputs: &[Handle], loc: SourceLoc) -> R {
    record(operator, Form::Reduce { axes: (0..rank(inputs[0])).collect() }, inputs, WHAT, loc)
}

/// The reduction along one axis, which must leave another: of a tile of one axis the result is a scalar, which `instead` gives.
fn along<R: Components>(operator: Option<Operator>, inputs: &[Handle], axis: usize, instead: &str, loc: SourceLoc) -> R {
    if rank(inputs[0]) == 1 && axis == 0 {
        let message = "this reduction leaves no axis of the tile";
        session::with(|s| s.error(Diagnostic::new(loc, message).help(format!("use {instead}, which gives a `Scalar`"))));
        return components::poisoned();
    }
    record(operator, Form::Reduce { axes: vec![axis] }, inputs, WHAT, loc)
}

macro_rules! reductions {
    ($($whole:ident $axis:ident $op:ident, $what:literal;)*) => {
        impl<T: Num> Tile<T> {$(
            #[doc = concat!("The ", $what, " of all elements.")]
            #[track_caller]
            pub fn $whole(self) -> Scalar<T> {
                whole(Some(Operator::$op), &[self.handle()], SourceLoc::caller())
            }
            #[doc = concat!("The ", $what, " along one axis, which vanishes.")]
            #[track_caller]
            pub fn $axis(self, axis: usize) -> Tile<T> {
                along(Some(Operator::$op), &[self.handle()], axis, concat!("`.", stringify!($whole), "()`"), SourceLoc::caller())
            }
        )*}
    };
}

reductions! {
    sum sum_axis Sum, "sum";
    product product_axis Product, "product";
    min_all min_axis Min, "smallest";
    max_all max_axis Max, "largest";
}

impl Tile<bool> {
    /// Whether all elements are true.
    #[track_caller]
    pub fn all(self) -> Scalar<bool> {
        whole(Some(Operator::All), &[self.handle()], SourceLoc::caller())
    }
    /// Whether any element is true.
    #[track_caller]
    pub fn any(self) -> Scalar<bool> {
        whole(Some(Operator::Any), &[self.handle()], SourceLoc::caller())
    }
    /// Whether all elements along one axis are true; the axis vanishes.
    #[track_caller]
    pub fn all_axis(self, axis: usize) -> Tile<bool> {
        along(Some(Operator::All), &[self.handle()], axis, "`.all()`", SourceLoc::caller())
    }
    /// Whether any element along one axis is true; the axis vanishes.
    #[track_caller]
    pub fn any_axis(self, axis: usize) -> Tile<bool> {
        along(Some(Operator::Any), &[self.handle()], axis, "`.any()`", SourceLoc::caller())
    }
}

/// Reductions by the author's operator. It is associative and `identity` is its neutral element: neither is checked.
/// The order of operands is kept, unless the operator is declared commutative: `v.commutative().reduce_all(..)`.
pub trait Reduce: TileLike {
    /// Combines the elements along `axis`, which vanishes.
    #[track_caller]
    fn reduce_axis(self, axis: usize, identity: Self::Value, operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element) -> Self {
        axis_by(self, axis, identity, operator, false, SourceLoc::caller())
    }
    /// Combines all elements, in row-major order.
    #[track_caller]
    fn reduce_all(self, identity: Self::Value, operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element) -> Self::Element {
        all_by(self, identity, operator, false, SourceLoc::caller())
    }
}
impl<C: TileLike> Reduce for C {}

/// Elements whose operator may exchange its operands.
#[derive(Clone, Copy)]
pub struct Commutative<C>(pub(crate) C);

impl<C: TileLike> Commutative<C> {
    /// As [`Reduce::reduce_axis`].
    #[track_caller]
    pub fn reduce_axis(self, axis: usize, identity: C::Value, operator: impl FnOnce(C::Element, C::Element) -> C::Element) -> C {
        axis_by(self.0, axis, identity, operator, true, SourceLoc::caller())
    }
    /// As [`Reduce::reduce_all`].
    #[track_caller]
    pub fn reduce_all(self, identity: C::Value, operator: impl FnOnce(C::Element, C::Element) -> C::Element) -> C::Element {
        all_by(self.0, identity, operator, true, SourceLoc::caller())
    }
}

fn axis_by<C: Components>(
    tiles: C,
    axis: usize,
    identity: C::Value,
    operator: impl FnOnce(C::Element, C::Element) -> C::Element,
    commutative: bool,
    loc: SourceLoc,
) -> C {
    let operator = trace::<C>(identity, operator, commutative, WHAT, loc);
    along(operator, &components::handles(&tiles), axis, "`.reduce_all(..)`", loc)
}

fn all_by<C: Components>(
    tiles: C,
    identity: C::Value,
    operator: impl FnOnce(C::Element, C::Element) -> C::Element,
    commutative: bool,
    loc: SourceLoc,
) -> C::Element {
    let operator = trace::<C>(identity, operator, commutative, WHAT, loc);
    whole(operator, &components::handles(&tiles), loc)
}

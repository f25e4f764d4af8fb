//! Combinations over the grid: what each block has after a strided grid loop, joined in the order of their tiles, where what follows runs once;
//! and what the tiles before a block's own come to, where tiles are taken in order.

use super::combine::{record, trace};
use super::components::{self, Components};
use super::elem::Num;
use super::reduce::Commutative;
use super::scalar::Scalar;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Form, Operator};

const WHAT: &str = "a combination over the grid";
const BEFORE: &str = "a prefix";

macro_rules! over_the_grid {
    ($self_:ident, $of:literal: $($name:ident $op:ident, $what:literal;)*) => {
        impl<T: Num> $self_<T> {$(
            #[doc = concat!("The ", $what, " of what all blocks have", $of, ". Stands behind a strided grid loop; what follows runs once.")]
            #[track_caller]
            pub fn $name(self) -> $self_<T> {
                record(Some(Operator::$op), Form::Grid, &[self.handle()], WHAT, SourceLoc::caller())
            }
        )*}
    };
}

over_the_grid! { Scalar, "":
    sum_grid Sum, "sum";
    product_grid Product, "product";
    min_grid Min, "smallest";
    max_grid Max, "largest";
}
over_the_grid! { Tile, " at each position":
    sum_grid Sum, "sum";
    product_grid Product, "product";
    min_grid Min, "smallest";
    max_grid Max, "largest";
}

macro_rules! before_the_tile {
    ($($name:ident $op:ident, $what:literal;)*) => {
        impl<T: Num> Scalar<T> {$(
            #[doc = concat!("The ", $what, " of what all tiles before a block's own have here: see [`PrefixGrid::prefix_grid`].")]
            #[track_caller]
            pub fn $name(self) -> Scalar<T> {
                record(Some(Operator::$op), Form::Before, &[self.handle()], BEFORE, SourceLoc::caller())
            }
        )*}
    };
}

before_the_tile! {
    prefix_sum_grid Sum, "sum";
    prefix_product_grid Product, "product";
    prefix_min_grid Min, "smallest";
    prefix_max_grid Max, "largest";
}

/// What tiles pass on to those behind them, by the author's operator.
pub trait PrefixGrid: Components {
    /// What all tiles before a block's own have here, combined in their order; `identity` for the first. An exclusive scan over tiles, for which
    /// they look back at those before them (Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016).
    ///
    /// `self` is a `Scalar`, or a tuple of such: what the tile comes to. It stands in the body of a grid loop that is `.in_order()`, and not in a
    /// loop or branch inside of it. Of a loop over several axes, tiles before are those of the same row, along the last axis. The operator is
    /// associative, and gets what lies in front as its left operand.
    #[track_caller]
    fn prefix_grid(self, identity: Self::Value, operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element) -> Self::Element {
        let loc = SourceLoc::caller();
        let operator = trace::<Self>(identity, operator, false, BEFORE, loc);
        record(operator, Form::Before, &components::handles(&self), BEFORE, loc)
    }
}
impl<C: Components<Element = C>> PrefixGrid for C {}

/// Combinations over the grid by the author's operator: see [`super::reduce::Reduce`] for what it must be.
pub trait ReduceGrid: Components {
    /// Combines what all blocks have, in the order of their tiles, which are neighbours then. Stands behind a strided grid loop; what follows runs once.
    #[track_caller]
    fn reduce_grid(self, identity: Self::Value, operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element) -> Self {
        grid_by(self, identity, operator, false, SourceLoc::caller())
    }
    /// The same elements, of which the next combination may exchange operands: `a ∘ b` is `b ∘ a`.
    fn commutative(self) -> Commutative<Self> {
        Commutative(self)
    }
}
impl<C: Components> ReduceGrid for C {}

impl<C: Components> Commutative<C> {
    /// As [`ReduceGrid::reduce_grid`].
    #[track_caller]
    pub fn reduce_grid(self, identity: C::Value, operator: impl FnOnce(C::Element, C::Element) -> C::Element) -> C {
        grid_by(self.0, identity, operator, true, SourceLoc::caller())
    }
}

fn grid_by<C: Components>(
    value: C,
    identity: C::Value,
    operator: impl FnOnce(C::Element, C::Element) -> C::Element,
    commutative: bool,
    loc: SourceLoc,
) -> C {
    let operator = trace::<C>(identity, operator, commutative, WHAT, loc);
    record(operator, Form::Grid, &components::handles(&value), WHAT, loc)
}

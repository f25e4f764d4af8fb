//! Combinations over the grid: what each block has after a strided grid loop, joined in the order of their tiles. What follows runs once.

use super::combine::{record, trace};
use super::components::{self, Components};
use super::elem::Num;
use super::reduce::Commutative;
use super::scalar::Scalar;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Form, Operator};

const WHAT: &str = "a combination over the grid";

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

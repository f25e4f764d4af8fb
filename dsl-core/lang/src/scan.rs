//! Scans: every element of a tile combined with all before it along an axis.

use super::combine::{record, trace};
use super::components::{self, Components, TileLike};
use super::elem::Num;
use super::ops;
use super::session::Handle;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Form, Operator};

const WHAT: &str = "a scan";

/// Which axis is scanned and how. A number alone is an inclusive scan from the first element to the last.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    axis: usize,
    exclusive: bool,
    reversed: bool,
}

/// The axis of a scan: `along(0).exclusive()`, `along(1).reversed()`.
pub fn along(axis: usize) -> Along {
    Along { axis, exclusive: false, reversed: false }
}

impl Along {
    /// Without the element itself: the first result is the identity.
    pub fn exclusive(self) -> Along {
        Along { exclusive: true, ..self }
    }
    /// From the last element to the first. The operator's left operand is what was scanned before.
    pub fn reversed(self) -> Along {
        Along { reversed: true, ..self }
    }
    fn form(self) -> Form {
        Form::Scan { axis: self.axis, exclusive: self.exclusive, reversed: self.reversed }
    }
}

impl From<usize> for Along {
    fn from(axis: usize) -> Along {
        along(axis)
    }
}
impl From<i32> for Along {
    fn from(axis: i32) -> Along {
        along(usize::try_from(axis).unwrap_or(usize::MAX))
    }
}

macro_rules! scans {
    ($($name:ident $op:ident, $what:literal;)*) => {
        impl<T: Num> Tile<T> {$(
            #[doc = concat!("The ", $what, " of each element and all before it along an axis: `1`, or `along(1).exclusive().reversed()`.")]
            #[track_caller]
            pub fn $name(self, axis: impl Into<Along>) -> Tile<T> {
                record(Some(Operator::$op), axis.into().form(), &[self.handle()], WHAT, SourceLoc::caller())
            }
        )*}
    };
}
scans! {
    scan_sum Sum, "sum";
    scan_product Product, "product";
    scan_min Min, "smallest";
    scan_max Max, "largest";
}

/// Scans by the author's operator. It is associative and `identity` is its neutral element: neither is checked. The order of operands is
/// the order of the scan.
pub trait Scan: TileLike {
    /// Each element combined with all before it along an axis.
    #[track_caller]
    fn scan(
        self,
        axis: impl Into<Along>,
        identity: Self::Value,
        operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element,
    ) -> Self {
        let loc = SourceLoc::caller();
        let operator = trace::<Self>(identity, operator, false, WHAT, loc);
        record(operator, axis.into().form(), &components::handles(&self), WHAT, loc)
    }

    /// As [`Scan::scan`], but starting anew at each element whose flag is true: there the inclusive result is the element itself, the
    /// exclusive one the identity. In a reversed scan a flag marks the last element of its segment.
    #[track_caller]
    fn scan_segmented(
        self,
        flags: Tile<bool>,
        axis: impl Into<Along>,
        identity: Self::Value,
        operator: impl FnOnce(Self::Element, Self::Element) -> Self::Element,
    ) -> Self {
        let (loc, axis) = (SourceLoc::caller(), axis.into());
        let segmented = |(started, a): Segment<Self>, (starts, b): Segment<Self>| {
            let joined = operator(a, b);
            let any = ops::binary(girih_ir::types::BinaryOp::Or, started.handle(), starts.handle(), loc);
            (super::scalar::Scalar::of(any), choose(starts.handle(), &b, &joined, loc))
        };
        let operator = trace::<(Tile<bool>, Self)>((false, identity), segmented, false, "a segmented scan", loc);
        let inputs: Vec<Handle> = std::iter::once(flags.handle()).chain(components::handles(&self)).collect();
        let (_, values): (Tile<bool>, Self) = record(operator, axis.form(), &inputs, "a segmented scan", loc);
        if !axis.exclusive {
            return values;
        }
        let mut start = Vec::new();
        Self::literals(identity, &mut |l| start.push(l));
        let start = Self::Element::of_handles(&mut start.into_iter().map(|l| ops::literal(l, loc)));
        choose(flags.handle(), &start, &values, loc)
    }
}
impl<C: TileLike> Scan for C {}

type Segment<C> = (super::scalar::Scalar<bool>, <C as Components>::Element);

/// `a` where the condition holds and `b` elsewhere, of the form of `b`.
fn choose<C: Components>(condition: Handle, a: &impl Components, b: &C, loc: SourceLoc) -> C {
    let pairs = components::handles(a).into_iter().zip(components::handles(b));
    C::of_handles(&mut pairs.map(|(a, b)| ops::select(condition, a, b, loc)))
}

//! Scans: every element of a tile combined with all before it along an axis.

use super::combine::{record, trace};
use super::components::{self, Components, TileLike};
use super::elem::{Elem, Num};
use super::ops;
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Form, Op, Operator, Ty};

const WHAT: &str = "a scan";

/// Which axis is scanned and how. A number alone is an inclusive scan from the first element to the last.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    axis: usize,
    exclusive: bool,
    reversed: bool,
    over_grid: bool,
}

/// The axis of a scan: `along(0).exclusive()`, `along(1).reversed()`, `along(0).over_grid()`.
pub fn along(axis: usize) -> Along {
    Along { axis, exclusive: false, reversed: false, over_grid: false }
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
    /// On top of all tiles before: one scan of what the grid's loop walks, in one pass over memory. Stands in the body of a grid loop that is
    /// `.in_order()`, and not in a loop or branch inside of it. The tile has one axis, or one element along all axes but the last one; then a
    /// new scan begins with each row of tiles. Its `.total()` is what all elements up to the tile's last one come to.
    ///
    /// ```text
    /// #[kernel(tile(T = [4096, 8192]), coarsen(C of T = [8, 16]), vector(V = [4, 1]))]
    /// fn sums(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    ///     for t in y.tiles([T]).in_order() {
    ///         y.store(t, x.load(t).scan_sum(along(0).over_grid()));
    ///     }
    /// }
    /// ```
    pub fn over_grid(self) -> Along {
        Along { over_grid: true, ..self }
    }
    fn form(self) -> Form {
        Form::Scan { axis: self.axis, exclusive: self.exclusive, reversed: self.reversed, over_grid: self.over_grid }
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

impl<T: Elem> Tile<T> {
    /// What a scan comes to: of what a scan of a tile of one axis made, inclusive or exclusive, all elements combined. The scan has
    /// computed it, so it costs less than a reduction of the same elements.
    #[track_caller]
    pub fn total(self) -> Scalar<T> {
        Scalar::of(total(self.handle(), None, SourceLoc::caller()))
    }

    /// What a scan along `axis` comes to for each position of the other axes.
    #[track_caller]
    pub fn total_axis(self, axis: usize) -> Tile<T> {
        Tile::of(total(self.handle(), Some(axis), SourceLoc::caller()))
    }
}

/// The total of a scan; `axis` is the one that it is along, where the tile has others.
fn total(scan: Handle, axis: Option<usize>, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(k) = s.kernel("a scan's total", loc) else { return Handle::POISON };
        let Some(value) = k.operand(scan, loc) else { return Handle::POISON };
        let Ty::Tile(dtype, mut shape) = k.kernel.ty(value).clone() else { return Handle::POISON };
        let mistake = match (k.scanned_along(value), axis) {
            (None, _) => Some(("the total of what is no scan", "call it on what `.scan_sum(..)` and its like give, before anything else")),
            (Some(_), None) if shape.len() > 1 => {
                Some(("this total leaves axes of the tile", "use `.total_axis(axis)`, which gives a `Tile`"))
            }
            (Some(_), Some(_)) if shape.len() == 1 => {
                Some(("this total leaves no axis of the tile", "use `.total()`, which gives a `Scalar`"))
            }
            (Some(along), Some(axis)) if along != axis => Some(("the scan is along another axis", "name the axis of the scan")),
            _ => None,
        };
        if let Some((message, help)) = mistake {
            k.error(Diagnostic::new(loc, message).help(help));
            return Handle::POISON;
        }
        let axis = axis.unwrap_or(0);
        shape.remove(axis);
        let ty = if shape.is_empty() { Ty::Scalar(dtype) } else { Ty::Tile(dtype, shape) };
        let v = k.emit(Op::Total { scan: value, axis }, ty, loc);
        k.handle(v)
    })
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

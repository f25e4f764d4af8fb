//! Loops over the tiles that hold some positions of their axis: `x.axis(0).tiles(T).within(first..end)`.

use super::builder::KernelBuilder;
use super::control::{ScalarRange, Tiles};
use super::elem::Int;
use super::elementwise::uniform;
use super::index::{Coordinate, Part, wide};
use super::session;
use super::tensor::{Axes, Tensor};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::schedule::Choice;
use girih_ir::tile::{RequirementKind, Size, Span, ValueId, ViewId};
use girih_ir::types::BinaryOp;
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};

/// The ends of a range of positions, before they are looked at in a build.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Ends {
    /// The first position; none for the start of the axis.
    first: Option<Part>,
    /// The last position or, unless `inclusive`, one past it; none for the end of the axis.
    end: Option<Part>,
    inclusive: bool,
}

/// A range of positions along an axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of positions",
    label = "not a range of integers or integer scalars",
    note = "write `first..end`, `first..` or `..end`, both of one type"
)]
pub trait PositionRange {
    /// Its ends.
    #[doc(hidden)]
    fn ends(self) -> Ends;
}

impl<C: Coordinate> PositionRange for Range<C> {
    fn ends(self) -> Ends {
        Ends { first: Some(self.start.part()), end: Some(self.end.part()), inclusive: false }
    }
}
impl<C: Coordinate> PositionRange for RangeInclusive<C> {
    fn ends(self) -> Ends {
        let (first, end) = self.into_inner();
        Ends { first: Some(first.part()), end: Some(end.part()), inclusive: true }
    }
}
impl<C: Coordinate> PositionRange for RangeFrom<C> {
    fn ends(self) -> Ends {
        Ends { first: Some(self.start.part()), end: None, inclusive: false }
    }
}
impl<C: Coordinate> PositionRange for RangeTo<C> {
    fn ends(self) -> Ends {
        Ends { first: None, end: Some(self.end.part()), inclusive: false }
    }
}
impl<C: Coordinate> PositionRange for RangeToInclusive<C> {
    fn ends(self) -> Ends {
        Ends { first: None, end: Some(self.end.part()), inclusive: true }
    }
}
/// What the attribute makes of `first..end` with a scalar: its end is excluded already.
impl<T> PositionRange for ScalarRange<T> {
    fn ends(self) -> Ends {
        let (first, end) = self.handles();
        Ends { first: Some(Part::At(first)), end: Some(Part::At(end)), inclusive: false }
    }
}

/// Tiles along one axis.
#[diagnostic::on_unimplemented(
    message = "`.within(..)` of tiles along several axes",
    label = "positions are those of one axis",
    note = "nest one loop per axis: `for r in x.axis(0).tiles(R)`, and in it `for c in x.axis(1).tiles(C).within(first..end)`"
)]
pub trait OneAxis {}
impl OneAxis for Axes<1> {}

impl<A> Tiles<A> {
    /// Only the tiles that hold some of these positions: none where there is none. Tiles lie at multiples of their size as ever; at other
    /// positions of the first and the last of them elements are absent. Positions outside of the axis are none. For loops inside of the
    /// grid's.
    pub fn within(mut self, positions: impl PositionRange) -> Tiles<A>
    where
        A: OneAxis,
    {
        self.spans.push(positions.ends());
        self
    }

    /// The tile of this number alone, from 0 on; none where there is no such tile. For loops inside of the grid's, whose blocks draw what they
    /// work on: a store at its tile index needs none of the grid's. Your word that no two blocks store to one tile, unless all meet in between;
    /// the simulator looks. The tile's size is a constant or a knob with one choice.
    ///
    /// ```text
    /// #[kernel(tile(B = 1, T = 1024), coarsen(C of T = [4, 8]), vector(V = [4, 1]))]
    /// fn squares(x: &Tensor<f32, 1>, workers: &Tensor<i32, 1>, drawn: &mut Tensor<u32, 1>, y: &mut Tensor<f32, 1>) {
    ///     for _w in workers.tiles([B]) {
    ///         let mut n = drawn.fetch_add_at(0, 1).cast::<i64>();
    ///         while n * 1024 < x.len(0) {
    ///             for t in y.axis(0).tiles(T).only(n) {
    ///                 y.store(t, x.load(t) * x.load(t));
    ///             }
    ///             n = drawn.fetch_add_at(0, 1).cast::<i64>();
    ///         }
    ///     }
    /// }
    /// ```
    pub fn only(mut self, number: impl Coordinate) -> Tiles<A>
    where
        A: OneAxis,
    {
        self.drawn = Some(number.part());
        self
    }
}

impl<T: Int, const N: usize> Tensor<T, N> {
    /// Your word that every element is one of these numbers, whose ends are computed of lengths and parameters: indices into another tensor,
    /// labels, counts. Code does not look. The evaluator does, and so does `check`, whose random inputs are drawn so.
    #[track_caller]
    pub fn within(&self, numbers: impl PositionRange) {
        let (loc, ends) = (SourceLoc::caller(), numbers.ends());
        session::with(|s| {
            let Some(k) = s.kernel("a demand on a tensor's elements", loc) else { return };
            let Some(view) = self.handle().get(k.build).map(ViewId) else { return };
            let param = k.kernel.view(view).param;
            let bound = |part: Option<Part>, k: &mut KernelBuilder| match part {
                Some(part) => super::views::bound(k, part, "an end of the numbers", loc).map(|(v, _)| v),
                None => {
                    let help = "write `first..end`, as in `ids.within(0..table.len(0))`";
                    k.error(Diagnostic::new(loc, "a demand on elements without a first number or an end").help(help));
                    None
                }
            };
            let (Some(first), Some(mut end)) = (bound(ends.first, k), bound(ends.end, k)) else { return };
            if ends.inclusive {
                let one = k.index(1, loc);
                end = k.index_op(BinaryOp::Add, end, one, loc);
            }
            if k.param_views[param] != Some(view) {
                let help = "say it of the parameter, before views are taken of it";
                k.error(Diagnostic::new(loc, "a demand on the elements of a view").help(help));
                return;
            }
            k.require(RequirementKind::Values(param, first, end), loc);
        });
    }
}

/// The positions that lie in all of these ranges, and in the tile of this size that is drawn, if one is; `None` after a mistake.
pub(crate) fn common(
    k: &mut KernelBuilder,
    ranges: &[Ends],
    (drawn, size): (Option<Part>, &Size),
    (view, axis): (ViewId, usize),
    loc: SourceLoc,
) -> Option<Span> {
    let mut common: Option<Span> = None;
    let mut all = Vec::new();
    if let Some(number) = drawn {
        all.push(drawn_tile(k, number, size, loc)?);
    }
    for ends in ranges {
        all.push(recorded(k, ends, view, axis, loc)?);
    }
    for span in all {
        common = Some(match common {
            None => span,
            Some(other) => Span {
                drawn: other.drawn || span.drawn,
                first: k.index_op(BinaryOp::Max, other.first, span.first, loc),
                end: k.index_op(BinaryOp::Min, other.end, span.end, loc),
            },
        });
    }
    common
}

/// The positions of the tile of a number.
fn drawn_tile(k: &mut KernelBuilder, number: Part, size: &Size, loc: SourceLoc) -> Option<Span> {
    if !size.is_pinned(&k.kernel.knobs) {
        let message = format!("which elements the tile of a number has depends on the schedule: it has {}", size.display(&k.kernel.knobs));
        k.error(Diagnostic::new(loc, message).help("give the knob one choice, `tile(T = 1024)`"));
        return None;
    }
    let number = position(k, number, "a tile's number", loc)?;
    let elements = size.value(|knob| if let Choice::Int(n) = k.kernel.knob(knob).choices[0] { n } else { 0 });
    let (elements, one) = (k.index(elements, loc), k.index(1, loc));
    let next = k.index_op(BinaryOp::Add, number, one, loc);
    let [first, end] = [number, next].map(|n| k.index_op(BinaryOp::Mul, n, elements, loc));
    Some(Span { first, end, drawn: true })
}

fn recorded(k: &mut KernelBuilder, ends: &Ends, view: ViewId, axis: usize, loc: SourceLoc) -> Option<Span> {
    let first = match ends.first {
        Some(part) => position(k, part, "the first position of a loop", loc)?,
        None => k.index(0, loc),
    };
    let mut end = match ends.end {
        Some(part) => position(k, part, "the end of a loop's positions", loc)?,
        None => k.kernel.view(view).axes[axis].len,
    };
    if ends.inclusive {
        let one = k.index(1, loc);
        end = k.index_op(BinaryOp::Add, end, one, loc);
    }
    Some(Span { first, end, drawn: false })
}

fn position(k: &mut KernelBuilder, part: Part, what: &str, loc: SourceLoc) -> Option<ValueId> {
    match part {
        Part::Constant(c) => Some(k.index(c, loc)),
        Part::At(scalar) => {
            let value = uniform(k, scalar, what, loc)?;
            Some(wide(k, value, loc))
        }
        Part::Tile(_) | Part::All(_) => panic!("language: a tile index as a position"),
    }
}

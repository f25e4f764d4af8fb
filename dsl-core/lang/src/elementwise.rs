//! Functions of one element on whole tiles: a function that is written on scalars is recorded once, with tiles in their place.
//!
//! While such a function runs, its `Scalar`s stand for one element each of a tile. Operations take either; an `if` becomes a choice per
//! element; what must be the same for the whole block (a coordinate, the end of a loop) refuses them.

use super::builder::KernelBuilder;
use super::components::{self, Components, TileLike};
use super::ops;
use super::session::{self, Handle, Session};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::ValueId;

/// Applies functions of one element to every element.
pub trait Elementwise: TileLike {
    /// The tile of `f`'s results: `f` sees one element as scalars.
    #[track_caller]
    fn map<R: Components>(self, f: impl FnOnce(Self::Element) -> R) -> R::Tile {
        let element = Self::Element::of_handles(&mut components::handles(&self).into_iter());
        spread(f(element), components::handles(&self)[0], SourceLoc::caller())
    }
    /// The tile of `f`'s results on the elements of two tiles of one shape.
    #[track_caller]
    fn zip<O: TileLike, R: Components>(self, other: O, f: impl FnOnce(Self::Element, O::Element) -> R) -> R::Tile {
        let a = Self::Element::of_handles(&mut components::handles(&self).into_iter());
        let b = O::Element::of_handles(&mut components::handles(&other).into_iter());
        spread(f(a, b), components::handles(&self)[0], SourceLoc::caller())
    }
}
impl<C: TileLike> Elementwise for C {}

/// The results of a function as tiles of the shape of `like`: those that are the same for all elements are spread.
fn spread<R: Components>(results: R, like: Handle, loc: SourceLoc) -> R::Tile {
    let tiles: Vec<Handle> = session::with(|s| {
        let k = s.kernel("a function on elements", loc)?;
        let like = k.operand(like, loc)?;
        let shape = k.kernel.ty(like).shape()?.to_vec();
        let spread = |h: Handle| {
            let v = k.operand(h, loc)?;
            let tile = ops::splat_to(k, v, &shape, loc);
            Some(k.handle(tile))
        };
        components::handles(&results).into_iter().map(spread).collect::<Option<Vec<Handle>>>()
    })
    .unwrap_or_default();
    if tiles.is_empty() { components::poisoned() } else { R::Tile::of_handles(&mut tiles.into_iter()) }
}

/// Whether a `Scalar` stands for the elements of a tile.
pub(crate) fn is_lifted(scalar: Handle) -> bool {
    session::with(|s| match s {
        Session::Kernel(k) => scalar.value(k.build).is_some_and(|v| k.kernel.ty(v).shape().is_some()),
        Session::Program(_) => false,
    })
}

/// The value of a scalar that must be the same for the whole block.
pub(crate) fn uniform(k: &mut KernelBuilder, scalar: Handle, what: &str, loc: SourceLoc) -> Option<ValueId> {
    let value = k.operand(scalar, loc)?;
    if k.kernel.ty(value).shape().is_none() {
        return Some(value);
    }
    let message = format!("{what} cannot differ from element to element");
    let help = "a function that `map` and `zip` apply to elements computes with numbers alone: gather before it, and loop around it";
    k.error(Diagnostic::new(loc, message).note("computed here, per element", k.kernel.value(value).loc).help(help));
    None
}

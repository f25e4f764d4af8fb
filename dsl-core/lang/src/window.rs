//! Windows: tiles that are read with the elements around them.

use super::elem::{Elem, Int};
use super::index::{Coordinates, Part, wide};
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::size::Size;
use super::tensor::Tensor;
use super::tile::{Tile, TileIdx};
use crate::builder::KernelBuilder;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{self, Op, Reach, RequirementKind, Ty, ValueId};
use girih_ir::types::{BinaryOp, DType};
use std::marker::PhantomData;

pub use girih_ir::tile::Boundary;

/// A tile of a tensor of `N` axes with the elements around it, to be read at offsets. Blocks keep it in shared memory, or read what
/// they need of it from global memory: the `halo` knob says which.
pub struct Window<T, const N: usize> {
    handle: Handle,
    elem: PhantomData<fn() -> T>,
}

impl<T, const N: usize> Clone for Window<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const N: usize> Copy for Window<T, N> {}

impl<T, const N: usize> Window<T, N> {
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

/// A tile index moved on by some elements: `t + k.start()`.
#[derive(Clone, Copy)]
pub struct Moved {
    index: Handle,
    by: Handle,
}

impl<I: Int> std::ops::Add<Scalar<I>> for TileIdx {
    type Output = Moved;
    fn add(self, by: Scalar<I>) -> Moved {
        Moved { index: self.0, by: by.handle() }
    }
}

impl TileIdx {
    /// The first coordinate of the tile.
    #[track_caller]
    pub fn start(self) -> Scalar<i64> {
        self.coordinate(Op::Start, SourceLoc::caller())
    }
    /// The coordinate behind the last one of the tile. Of a tail it lies behind the end of the tensor.
    #[track_caller]
    pub fn end(self) -> Scalar<i64> {
        self.coordinate(Op::End, SourceLoc::caller())
    }

    fn coordinate(self, op: fn(ValueId) -> Op, loc: SourceLoc) -> Scalar<i64> {
        Scalar::of(session::with(|s| {
            let Some(k) = s.kernel("a tile index", loc) else { return Handle::POISON };
            let Some(index) = k.operand(self.0, loc) else { return Handle::POISON };
            let v = k.emit(op(index), Ty::Scalar(DType::I64), loc);
            k.handle(v)
        }))
    }
}

/// Where a window lies along one axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where a window lies along an axis",
    label = "not a tile index",
    note = "write a tile index, or one moved on by a scalar: `t + k.start()`"
)]
pub trait WindowAxis {
    /// The tile index, and what is added to it.
    #[doc(hidden)]
    fn part(self) -> (Handle, Option<Handle>);
}
impl WindowAxis for TileIdx {
    fn part(self) -> (Handle, Option<Handle>) {
        (self.0, None)
    }
}
impl WindowAxis for Moved {
    fn part(self) -> (Handle, Option<Handle>) {
        (self.index, Some(self.by))
    }
}

/// Where a window of a tensor of `N` axes lies: one [`WindowAxis`] per axis, in a tuple where there are several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where a window of a tensor of {N} axes lies",
    label = "wrong number or kind of indices",
    note = "give one tile index per axis: `t` for one axis, `(r, c)` for two"
)]
pub trait WindowIndex<const N: usize> {
    /// The parts.
    #[doc(hidden)]
    fn parts(self) -> [(Handle, Option<Handle>); N];
}
impl<A: WindowAxis> WindowIndex<1> for A {
    fn parts(self) -> [(Handle, Option<Handle>); 1] {
        [self.part()]
    }
}
macro_rules! tuples {
    ($($n:literal: $($a:ident $i:tt),*;)*) => {$(
        impl<$($a: WindowAxis),*> WindowIndex<$n> for ($($a,)*) {
            fn parts(self) -> [(Handle, Option<Handle>); $n] {
                [$(self.$i.part()),*]
            }
        }
    )*};
}
tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// The tile at `index` with `halo` elements before and after it along each axis, and what lies outside of the tensor as `boundary`
    /// says. The tile indices may come from a loop over axes of another length.
    #[track_caller]
    pub fn window<B: Into<Size>, A: Into<Size>>(&self, index: impl WindowIndex<N>, halo: [(B, A); N], boundary: Boundary) -> Window<T, N> {
        let loc = SourceLoc::caller();
        let halo: Vec<(tile::Size, tile::Size)> = halo.into_iter().map(|(b, a)| (b.into().to_ir(), a.into().to_ir())).collect();
        let parts = index.parts();
        let handle = self.record(loc, |k, view| {
            let (mut index, mut shift, mut reach) = (Vec::new(), Vec::new(), Vec::new());
            for ((at, by), (before, after)) in parts.iter().zip(&halo) {
                let at = k.operand(*at, loc)?;
                let Ty::TileIdx(size) = k.kernel.ty(at).clone() else { panic!("language: a tile index has another type") };
                shift.push(match by {
                    Some(by) => {
                        let by = k.operand(*by, loc)?;
                        Some(wide(k, by, loc))
                    }
                    None => None,
                });
                reach.push(Reach { size, before: before.clone(), after: after.clone() });
                index.push(at);
            }
            check_halo(k, &reach, loc)?;
            if boundary == Boundary::Valid {
                require_valid(k, view, &index, &shift, &reach, loc)?;
            }
            let op = Op::Window { view, index, shift, boundary };
            Some(k.emit(op, Ty::Window(T::DTYPE, reach), loc))
        });
        Window { handle, elem: PhantomData }
    }
}

/// A halo has no negative extent.
fn check_halo(k: &mut KernelBuilder, reach: &[Reach], loc: SourceLoc) -> Option<()> {
    for side in reach.iter().flat_map(|r| [&r.before, &r.after]) {
        if side.as_constant().is_some_and(|c| c < 0) {
            let message = format!("a halo of {} elements", side.display(&k.kernel.knobs));
            k.error(Diagnostic::new(loc, message).help("write how many elements lie before and after the tile: `[(1, 1)]`"));
            return None;
        }
    }
    Some(())
}

/// Every element that the loop walks has all of its neighbours: a promise of the launch.
fn require_valid(
    k: &mut KernelBuilder,
    view: tile::ViewId,
    index: &[ValueId],
    shift: &[Option<ValueId>],
    reach: &[Reach],
    loc: SourceLoc,
) -> Option<()> {
    for (axis, ((index, shift), r)) in index.iter().zip(shift).zip(reach).enumerate() {
        let (Some(0), Some(after), None) = (r.before.as_constant(), r.after.as_constant(), shift) else {
            let message = "a valid window reaches forward only, by a constant";
            let help = "begin the halo at the tile, `(0, 2)`, or let the boundary be `Boundary::Zero` or `Boundary::Clamp`";
            k.error(Diagnostic::new(loc, message).help(help));
            return None;
        };
        let walked = k.walked.get(index).copied()?;
        let len = k.kernel.view(view).axes[axis].len;
        if !k.host_known(walked) || !k.host_known(len) {
            let message = "the lengths that a valid window depends on are not known before the launch";
            k.error(Diagnostic::new(loc, message).help("let the boundary be `Boundary::Zero` or `Boundary::Clamp`"));
            return None;
        }
        let after = k.index(after, loc);
        let end = k.index_op(BinaryOp::Add, walked, after, loc);
        k.require(RequirementKind::AtMost(end, len), loc);
    }
    Some(())
}

impl<T: Elem, const N: usize> Window<T, N> {
    /// The tile moved by an offset per axis: element `e` is the tensor's element at `e`'s coordinates plus the offsets.
    #[track_caller]
    pub fn at(&self, offsets: impl Coordinates<N>) -> Tile<T> {
        Tile::of(self.near(offsets.parts(), false, SourceLoc::caller()))
    }

    /// One element of the window, counted from the tile's first: offset 0 is that one, negative offsets lie in the halo.
    #[track_caller]
    pub fn get(&self, offsets: impl Coordinates<N>) -> Scalar<T> {
        Scalar::of(self.near(offsets.parts(), true, SourceLoc::caller()))
    }

    fn near(&self, parts: [Part; N], scalar: bool, loc: SourceLoc) -> Handle {
        session::with(|s| {
            let Some(k) = s.kernel("a window", loc) else { return Handle::POISON };
            match near(k, self.handle, &parts, scalar, loc) {
                Some(v) => k.handle(v),
                None => Handle::POISON,
            }
        })
    }
}

fn near(k: &mut KernelBuilder, window: Handle, parts: &[Part], scalar: bool, loc: SourceLoc) -> Option<ValueId> {
    let window = k.operand(window, loc)?;
    let Ty::Window(dtype, reach) = k.kernel.ty(window).clone() else { panic!("language: a window has another type") };
    let mut offsets = Vec::new();
    for (part, r) in parts.iter().zip(&reach) {
        offsets.push(match part {
            Part::At(h) => {
                let v = k.operand(*h, loc)?;
                wide(k, v, loc)
            }
            Part::Constant(c) => {
                check_offset(k, *c, r, scalar, loc)?;
                k.index(*c, loc)
            }
            Part::Tile(_) | Part::All(_) => panic!("language: a tile index as an offset"),
        });
    }
    let sizes = reach.iter().map(|r| r.size.clone()).collect();
    let ty = if scalar { Ty::Scalar(dtype) } else { Ty::Tile(dtype, sizes) };
    Some(k.emit(Op::Near(window, offsets), ty, loc))
}

/// Whether a constant offset lies in a constant halo; other halos are looked at when the schedule is known.
fn check_offset(k: &mut KernelBuilder, offset: i64, r: &Reach, scalar: bool, loc: SourceLoc) -> Option<()> {
    let minus_one = tile::Size::constant(-1);
    let last = if scalar { r.after.plus(&r.size).plus(&minus_one) } else { r.after.clone() };
    let low = r.before.as_constant().is_some_and(|b| offset < -b);
    let high = last.as_constant().is_some_and(|a| offset > a);
    if low || high {
        let (before, after) = (r.before.display(&k.kernel.knobs), last.display(&k.kernel.knobs));
        let message = format!("a window that reaches {before} elements back and {after} on is read at {offset}");
        k.error(Diagnostic::new(loc, message).help("widen its halo: `x.window(t, [(before, after)], ..)`"));
        return None;
    }
    Some(())
}

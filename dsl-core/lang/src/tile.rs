//! `Tile<T>`: a value of the whole block, one element per position of its shape; and `TileIdx`, which says which tile.

use super::elem::Elem;
use super::operand::{Operand, ScalarRhs};
use super::ops;
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::size::{Shape, Size};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{self, Op, Ty};
use girih_ir::types::DType;
use std::marker::PhantomData;

/// A tile of elements of type `T`. It is a value: copying it costs nothing, assigning it makes a new one.
pub struct Tile<T> {
    handle: Handle,
    elem: PhantomData<fn() -> T>,
}

impl<T> Clone for Tile<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Tile<T> {}

/// Which tile along one axis: what a loop over tiles counts.
#[derive(Clone, Copy)]
pub struct TileIdx(pub(crate) Handle);

impl TileIdx {
    /// The coordinates of the tile's elements along its axis.
    #[track_caller]
    pub fn coords(self) -> Tile<i64> {
        let loc = SourceLoc::caller();
        Tile::of(session::with(|s| {
            let Some(k) = s.kernel("a tile", loc) else { return Handle::POISON };
            let Some(index) = k.operand(self.0, loc) else { return Handle::POISON };
            let Ty::TileIdx(size) = k.kernel.ty(index).clone() else { panic!("language: a tile index has another type") };
            let v = k.emit(Op::Coordinates(index), Ty::Tile(DType::I64, vec![size]), loc);
            k.handle(v)
        }))
    }
}

impl TileIdx {
    /// The number of the tile along its axis, from 0: where the results of a tile are kept, one per tile. Its size must be a constant
    /// or a knob with one choice: else the number would depend on the schedule.
    #[track_caller]
    pub fn number(self) -> Scalar<i64> {
        let loc = SourceLoc::caller();
        Scalar::of(session::with(|s| {
            let Some(k) = s.kernel("a tile's number", loc) else { return Handle::POISON };
            let Some(index) = k.operand(self.0, loc) else { return Handle::POISON };
            let Ty::TileIdx(size) = k.kernel.ty(index).clone() else { panic!("language: a tile index has another type") };
            if !size.is_pinned(&k.kernel.knobs) {
                let message = format!("the number of a tile of {} elements depends on the schedule", size.display(&k.kernel.knobs));
                k.error(Diagnostic::new(loc, message).help("give the knob one choice, `tile(T = 1024)`, or use `.coords()`"));
                return Handle::POISON;
            }
            let v = k.emit(Op::Number(index), Ty::Scalar(DType::I64), loc);
            k.handle(v)
        }))
    }
}

/// A tile of zeros (`false` for bool).
#[track_caller]
pub fn zeros<T: Elem>(shape: impl Shape) -> Tile<T> {
    let loc = SourceLoc::caller();
    let zero = ops::literal(girih_ir::types::Literal { dtype: T::DTYPE, bits: 0 }, loc);
    Tile::of(ops::splat(zero, shape.to_ir(), loc))
}

/// A tile whose elements are all `value`.
#[track_caller]
pub fn full<T: Elem>(shape: impl Shape, value: impl Operand<T> + ScalarRhs) -> Tile<T> {
    let loc = SourceLoc::caller();
    Tile::of(ops::splat(value.operand(loc), shape.to_ir(), loc))
}

/// Tiles of one shape put side by side along a new last axis, whose extent is their number.
#[track_caller]
pub fn stack<T: Elem, const N: usize>(tiles: [Tile<T>; N]) -> Tile<T> {
    let loc = SourceLoc::caller();
    Tile::of(session::with(|s| {
        let Some(k) = s.kernel("a tile", loc) else { return Handle::POISON };
        let Some(values) = tiles.iter().map(|t| k.operand(t.handle, loc)).collect::<Option<Vec<_>>>() else { return Handle::POISON };
        let Some(first) = values.first() else {
            k.error(Diagnostic::new(loc, "`stack` of no tiles").help("give it at least one tile"));
            return Handle::POISON;
        };
        let Ty::Tile(dtype, mut shape) = k.kernel.ty(*first).clone() else { return Handle::POISON };
        if let Some(other) = values.iter().find(|v| k.kernel.ty(**v).shape() != Some(&shape)) {
            let message = format!("`stack` of tiles of different shapes: {} and {}", k.shape_text(&shape), k.describe(*other));
            k.error(Diagnostic::new(loc, message).help("stack tiles of one shape"));
            return Handle::POISON;
        }
        shape.push(tile::Size::constant(N as i64));
        let v = k.emit(Op::Stack(values), Ty::Tile(dtype, shape), loc);
        k.handle(v)
    }))
}

/// `condition ? a : b`, elementwise; the function behind a per-element `if`, without its masks. A condition that is the same for the whole
/// block is spread over the tiles.
#[track_caller]
pub fn select<T: Elem, A: Operand<T>, B: Operand<T>, C: Chooses<T, A, B>>(condition: C, a: A, b: B) -> C::Chosen {
    let loc = SourceLoc::caller();
    C::chosen(ops::select(condition.operand(loc), a.operand(loc), b.operand(loc), loc))
}

/// What may choose between `A` and `B`: a tile where one of the three is a tile, a scalar where none is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose between `{A}` and `{B}`",
    label = "no condition of this choice",
    note = "the condition of `select` is a `Tile<bool>`, `Scalar<bool>` or `bool`: compare with `==`, `<`, .."
)]
pub trait Chooses<T: Elem, A, B>: Operand<bool> {
    /// `Tile<T>` or `Scalar<T>`.
    type Chosen;
    /// The result, of its handle.
    #[doc(hidden)]
    fn chosen(handle: Handle) -> Self::Chosen;
}

impl<T: Elem, A, B> Chooses<T, A, B> for Tile<bool> {
    type Chosen = Tile<T>;
    fn chosen(handle: Handle) -> Tile<T> {
        Tile::of(handle)
    }
}

macro_rules! one_condition {
    ($($condition:ty),*) => {$(
        impl<T: Elem, B> Chooses<T, Tile<T>, B> for $condition {
            type Chosen = Tile<T>;
            fn chosen(handle: Handle) -> Tile<T> {
                Tile::of(handle)
            }
        }
        impl<T: Elem, A: ScalarRhs> Chooses<T, A, Tile<T>> for $condition {
            type Chosen = Tile<T>;
            fn chosen(handle: Handle) -> Tile<T> {
                Tile::of(handle)
            }
        }
        impl<T: Elem, A: ScalarRhs, B: ScalarRhs> Chooses<T, A, B> for $condition {
            type Chosen = Scalar<T>;
            fn chosen(handle: Handle) -> Scalar<T> {
                Scalar::of(handle)
            }
        }
    )*};
}
one_condition!(bool, Scalar<bool>);

impl<T: Elem> Tile<T> {
    pub(crate) fn of(handle: Handle) -> Tile<T> {
        Tile { handle, elem: PhantomData }
    }
    pub(crate) fn handle(self) -> Handle {
        self.handle
    }
    pub(crate) fn handle_mut(&mut self) -> &mut Handle {
        &mut self.handle
    }

    /// A tile of this shape whose elements are all `value`. They exist where this tile's do.
    #[track_caller]
    pub fn like(self, value: impl Operand<T> + ScalarRhs) -> Tile<T> {
        let loc = SourceLoc::caller();
        let value = value.operand(loc);
        self.map_value(loc, |k, v| {
            let value = k.operand(value, loc)?;
            let ty = k.kernel.ty(v).clone();
            match k.kernel.ty(value) {
                Ty::Scalar(_) => Some(k.emit(Op::Like { value, model: v }, ty, loc)),
                _ => Some(value),
            }
        })
    }

    /// The tile with `value` where its elements are absent: all elements of the result are present.
    #[track_caller]
    pub fn or(self, value: impl Operand<T> + ScalarRhs) -> Tile<T> {
        let loc = SourceLoc::caller();
        let value = value.operand(loc);
        self.map_value(loc, |k, v| {
            let absent = k.operand(value, loc)?;
            let ty = k.kernel.ty(v).clone();
            Some(k.emit(Op::Or { tile: v, absent }, ty, loc))
        })
    }

    /// The two axes exchanged.
    #[track_caller]
    pub fn t(self) -> Tile<T> {
        self.permute(&[1, 0], "`.t()`", SourceLoc::caller())
    }

    /// The axes in another order: result axis `k` is axis `order[k]` of this tile.
    #[track_caller]
    pub fn permuted<const N: usize>(self, order: [usize; N]) -> Tile<T> {
        self.permute(&order, "`.permuted(..)`", SourceLoc::caller())
    }

    fn permute(self, order: &[usize], what: &str, loc: SourceLoc) -> Tile<T> {
        self.map_value(loc, |k, v| {
            let Ty::Tile(dtype, shape) = k.kernel.ty(v).clone() else { return None };
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            if sorted != (0..shape.len()).collect::<Vec<_>>() {
                let message = format!("{what} of {} with axes {order:?}: name each axis of the tile once", k.shape_text(&shape));
                k.error(Diagnostic::new(loc, message).help("`.t()` exchanges the axes of a tile of two"));
                return None;
            }
            let permuted = order.iter().map(|a| shape[*a].clone()).collect();
            Some(k.emit(Op::Transpose(v, order.to_vec()), Ty::Tile(dtype, permuted), loc))
        })
    }

    /// The tile with a new axis before axis `axis`, of extent `size`: every element along it is the same.
    #[track_caller]
    pub fn expand(self, axis: usize, size: impl Into<Size>) -> Tile<T> {
        let loc = SourceLoc::caller();
        let size = size.into().to_ir();
        self.map_value(loc, |k, v| {
            let Ty::Tile(dtype, mut shape) = k.kernel.ty(v).clone() else { return None };
            if axis > shape.len() {
                let message = format!("no axis {axis} can be added to {}", k.shape_text(&shape));
                k.error(Diagnostic::new(loc, message).help(format!("the new axis is one of 0 to {}", shape.len())));
                return None;
            }
            let mut from: Vec<Option<usize>> = (0..shape.len()).map(Some).collect();
            from.insert(axis, None);
            shape.insert(axis, size);
            Some(k.emit(Op::Broadcast(v, from), Ty::Tile(dtype, shape), loc))
        })
    }

    /// The elements at position `at` of axis `axis`, whose extent is a constant; the axis vanishes.
    #[track_caller]
    pub fn pick(self, axis: usize, at: usize) -> Tile<T> {
        let loc = SourceLoc::caller();
        self.map_value(loc, |k, v| {
            let Ty::Tile(dtype, mut shape) = k.kernel.ty(v).clone() else { return None };
            let extent = shape.get(axis).and_then(tile::Size::as_constant);
            if extent.is_none_or(|e| at as i64 >= e) || shape.len() == 1 {
                let message = format!("`pick({axis}, {at})` of {}: the axis needs a constant extent above {at}", k.shape_text(&shape));
                k.error(Diagnostic::new(loc, message).help("load a whole short axis with `..3` as its index, and keep another axis"));
                return None;
            }
            shape.remove(axis);
            Some(k.emit(Op::Pick { tile: v, axis, at: at as i64 }, Ty::Tile(dtype, shape), loc))
        })
    }

    /// The tiles along the last axis, whose extent is the constant `N`: what [`stack`] puts together.
    #[track_caller]
    pub fn unstack<const N: usize>(self) -> [Tile<T>; N] {
        let loc = SourceLoc::caller();
        let extent = session::with(|s| {
            let k = s.kernel("a tile", loc)?;
            let v = k.operand(self.handle, loc)?;
            let shape = k.kernel.ty(v).shape()?.to_vec();
            if shape.last().and_then(tile::Size::as_constant) != Some(N as i64) || shape.len() == 1 {
                let message = format!("`unstack` of {} into {N} tiles", k.shape_text(&shape));
                k.error(
                    Diagnostic::new(loc, message).help(format!("load a whole last axis with `..{N}` as its index, and keep another axis")),
                );
                return None;
            }
            Some(shape.len() - 1)
        });
        std::array::from_fn(|i| extent.map_or(Tile::of(Handle::POISON), |last| self.pick(last, i)))
    }

    pub(crate) fn map_value(
        self,
        loc: SourceLoc,
        f: impl FnOnce(&mut super::builder::KernelBuilder, tile::ValueId) -> Option<tile::ValueId>,
    ) -> Tile<T> {
        Tile::of(session::with(|s| {
            let Some(k) = s.kernel("a tile", loc) else { return Handle::POISON };
            match k.operand(self.handle, loc).and_then(|v| f(k, v)) {
                Some(v) => k.handle(v),
                None => Handle::POISON,
            }
        }))
    }
}

impl<T: Elem> Scalar<T> {
    /// A tile whose elements are all this scalar.
    #[track_caller]
    pub fn splat(self, shape: impl Shape) -> Tile<T> {
        Tile::of(ops::splat(self.handle(), shape.to_ir(), SourceLoc::caller()))
    }
}

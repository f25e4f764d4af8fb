//! `Shared<T>`: an array of the block in shared memory; and `iota`, whose elements are their own positions.

use super::atomics::{Fetch, Request, Updatable, fitting, resolve};
use super::builder::KernelBuilder;
use super::carry::{NameIt, Named};
use super::elem::{Elem, Int};
use super::index::{self, AxisParts, Part, Positions};
use super::operand::{Operand, ScalarRhs};
use super::ops;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::size::{Shape, Size};
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{self, Op, SharedAccess, SharedArray, SharedId, SharedKind, Ty, ValueId};
use std::marker::PhantomData;

/// An array in the block's shared memory. Accesses happen in the order of the text; the compiler puts barriers where they need them.
/// Positions outside of the array are left alone, as they are by scatters to tensors.
pub struct Shared<T> {
    handle: Handle,
    elem: PhantomData<fn() -> T>,
}

/// A shared array of this shape, every element `value`. Made in a loop, it is filled anew at every turn.
#[track_caller]
pub fn shared<T: Elem>(shape: impl Shape, value: impl Operand<T> + ScalarRhs) -> Shared<T> {
    let loc = SourceLoc::caller();
    let value = value.operand(loc);
    let made = declared(shape.to_ir(), loc);
    made.put(value, loc);
    made
}

/// A shared array of this shape whose elements hold nothing until they are written: evaluator and simulator report a read of one that was
/// not. It spares the fill of arrays that are written as a whole, by copies for instance.
#[track_caller]
pub fn shared_uninit<T: Elem>(shape: impl Shape) -> Shared<T> {
    let loc = SourceLoc::caller();
    let made = declared(shape.to_ir(), loc);
    made.record(loc, |k, array| {
        k.push_shared(array, SharedKind::Empty, loc);
        None
    });
    made
}

fn declared<T: Elem>(shape: Vec<tile::Size>, loc: SourceLoc) -> Shared<T> {
    let handle = session::with(|s| {
        let Some(k) = s.kernel("a shared array", loc) else { return Handle::POISON };
        if shape.is_empty() {
            k.error(Diagnostic::new(loc, "a shared array without axes").help("give it at least one: `shared([N], 0)`"));
            return Handle::POISON;
        }
        k.kernel.shared.push(SharedArray { name: None, dtype: T::DTYPE, shape, by_hand: false, loc });
        Handle::new(k.kernel.shared.len() as u32 - 1, k.build)
    });
    Shared::of(handle)
}

/// The positions 0, 1, .. of a tile of one axis.
#[track_caller]
pub fn iota<T: Int>(size: impl Into<Size>) -> Tile<T> {
    let loc = SourceLoc::caller();
    let size = size.into().to_ir();
    Tile::of(session::with(|s| {
        let Some(k) = s.kernel("a tile", loc) else { return Handle::POISON };
        let v = k.emit(Op::Iota, Ty::Tile(T::DTYPE, vec![size]), loc);
        k.handle(v)
    }))
}

impl<T: Elem> Shared<T> {
    pub(super) fn of(handle: Handle) -> Shared<T> {
        Shared { handle, elem: PhantomData }
    }

    /// The array without the compiler's barriers: accesses are ordered by [`barrier`](super::warp::barrier) and
    /// [`warp_barrier`](super::warp::warp_barrier) where you write them. The evaluator and the simulator report an access that needs a
    /// barrier which is not there. One tile of the grid loop still follows the other in order.
    pub fn by_hand(self) -> Shared<T> {
        session::with(|s| {
            if let Session::Kernel(k) = s
                && let Some(array) = self.handle.get(k.build)
            {
                k.kernel.shared[array as usize].by_hand = true;
            }
        });
        self
    }

    /// Sets every element.
    #[track_caller]
    pub fn fill(&mut self, value: impl Operand<T> + ScalarRhs) {
        let loc = SourceLoc::caller();
        self.put(value.operand(loc), loc);
    }

    fn put(&self, value: Handle, loc: SourceLoc) {
        self.record(loc, |k, array| {
            let value = k.operand(value, loc)?;
            if k.in_where() {
                let help = "fill it before the `if`; gathers, scatters and atomics may depend on the condition";
                k.error(Diagnostic::new(loc, "a shared array is filled as a whole: not under a per-element condition").help(help));
                return None;
            }
            k.push_shared(array, SharedKind::Fill(value), loc);
            None
        });
    }

    /// The elements at computed positions.
    #[track_caller]
    pub fn gather(&self, at: impl Positions) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.read(&at.parts(), true, false, loc))
    }

    /// As [`Shared::gather`], where the author asserts that all positions lie inside of the array: nothing is compared. The evaluator says
    /// which one does not, and the simulator traps there.
    #[track_caller]
    pub fn gather_in_bounds(&self, at: impl Positions) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.read(&at.parts(), true, true, loc))
    }

    /// One element.
    #[track_caller]
    pub fn at(&self, at: impl Positions) -> Scalar<T> {
        let loc = SourceLoc::caller();
        Scalar::of(self.read(&at.parts(), false, false, loc))
    }

    fn read(&self, parts: &[Part], tile: bool, inside: bool, loc: SourceLoc) -> Handle {
        self.record(loc, |k, array| {
            let (indices, shape) = self.resolve(k, array, parts, loc)?;
            if shape.is_empty() == tile {
                let (message, help) = match tile {
                    true => ("a gather of one element is no tile", "use `.at(..)`, which gives a `Scalar`"),
                    false => ("`.at(..)` reads one element", "use `.gather(..)`, which gives a `Tile`"),
                };
                k.error(Diagnostic::new(loc, message).help(help));
                return None;
            }
            let ty = if tile { Ty::Tile(T::DTYPE, shape) } else { Ty::Scalar(T::DTYPE) };
            let result = k.new_value(ty, None, loc, 0);
            k.push_shared(array, SharedKind::Gather { indices, result, inside }, loc);
            Some(result)
        })
    }

    /// The elements at a tile: a tile index, `..` for a whole axis, or one coordinate per axis.
    #[track_caller]
    pub fn load(&self, index: impl AxisParts) -> Tile<T> {
        let loc = SourceLoc::caller();
        let parts = index.parts();
        Tile::of(self.record(loc, |k, array| {
            let (indices, shape) = self.spread(k, array, &parts, loc)?;
            let result = k.new_value(Ty::Tile(T::DTYPE, shape), None, loc, 0);
            k.push_shared(array, SharedKind::Gather { indices, result, inside: false }, loc);
            Some(result)
        }))
    }

    /// Sets the elements at a tile.
    #[track_caller]
    pub fn store(&mut self, index: impl AxisParts, value: Tile<T>) {
        let loc = SourceLoc::caller();
        let parts = index.parts();
        self.record(loc, |k, array| {
            let (indices, shape) = self.spread(k, array, &parts, loc)?;
            let value = k.operand(value.handle(), loc)?;
            let value = fitting(k, value, &shape, loc)?;
            k.push_shared(array, SharedKind::Scatter { indices, value }, loc);
            None
        });
    }

    /// Sets elements at computed positions. No two elements may go to one position; evaluator and simulator check it.
    #[track_caller]
    pub fn scatter(&mut self, at: impl Positions, value: impl Operand<T>) {
        let loc = SourceLoc::caller();
        let (parts, value) = (at.parts(), value.operand(loc));
        self.record(loc, |k, array| {
            let value = k.operand(value, loc)?;
            let (mut indices, mut shape) = self.resolve(k, array, &parts, loc)?;
            if shape.is_empty()
                && let Some(spread) = k.kernel.ty(value).shape().map(<[_]>::to_vec)
            {
                shape = spread;
                indices.iter_mut().for_each(|i| *i = ops::splat_to(k, *i, &shape, loc));
            }
            let value = fitting(k, value, &shape, loc)?;
            k.push_shared(array, SharedKind::Scatter { indices, value }, loc);
            None
        });
    }

    /// Sets one element.
    #[track_caller]
    pub fn store_at(&mut self, at: impl Positions, value: impl Operand<T> + ScalarRhs) {
        self.scatter(at, value);
    }

    pub(super) fn resolve(
        &self,
        k: &mut KernelBuilder,
        array: SharedId,
        parts: &[Part],
        loc: SourceLoc,
    ) -> Option<(Vec<ValueId>, Vec<tile::Size>)> {
        index::check_rank(k, parts, k.kernel.shared_array(array).shape.len(), loc)?;
        index::computed(k, parts, loc)
    }

    /// Tile indices and whole axes as computed positions.
    fn spread(&self, k: &mut KernelBuilder, array: SharedId, parts: &[Part], loc: SourceLoc) -> Option<(Vec<ValueId>, Vec<tile::Size>)> {
        let extents = k.kernel.shared_array(array).shape.clone();
        index::check_rank(k, parts, extents.len(), loc)?;
        index::spread(k, parts, &extents, loc)
    }

    pub(super) fn record(&self, loc: SourceLoc, f: impl FnOnce(&mut KernelBuilder, SharedId) -> Option<ValueId>) -> Handle {
        session::with(|s| {
            let Some(k) = s.kernel("a shared array", loc) else { return Handle::POISON };
            let Some(array) = self.handle.get(k.build) else { return Handle::POISON };
            match f(k, SharedId(array)) {
                Some(v) => k.handle(v),
                None => Handle::POISON,
            }
        })
    }
}

impl<T: Elem> Updatable for Shared<T> {
    fn update(&self, request: Request, loc: SourceLoc) -> Handle {
        self.record(loc, |k, array| {
            let rank = k.kernel.shared_array(array).shape.len();
            let update = resolve(k, &request, T::DTYPE, rank, loc)?;
            let result = update.result;
            k.push_shared(array, SharedKind::Atomic(update), loc);
            debug_assert!(result.is_some() == (request.fetch != Fetch::Nothing));
            result
        })
    }
}

impl<T: Elem> NameIt for Named<'_, Shared<T>> {
    fn name(&self, name: &str) {
        session::with(|s| {
            if let Session::Kernel(k) = s
                && let Some(array) = self.0.handle.get(k.build)
            {
                k.kernel.shared[array as usize].name.get_or_insert_with(|| name.to_string());
            }
        });
    }
}

impl KernelBuilder {
    /// Appends an access of a shared array.
    pub(super) fn push_shared(&mut self, array: SharedId, kind: SharedKind, loc: SourceLoc) {
        let number = self.shared_accesses;
        self.shared_accesses += 1;
        self.push(tile::Stmt::Shared(SharedAccess { number, array, kind, loc }));
    }
}

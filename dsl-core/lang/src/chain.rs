//! `Chain<T>`: a value that goes from warp to warp, in order.

use super::builder::KernelBuilder;
use super::carry::{NameIt, Named};
use super::elem::Elem;
use super::session::{self, Handle};
use super::shared::Shared;
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{self, SharedArray, SharedId, SharedKind, Size, Ty, ValueId};

/// A value of each thread that goes from warp to warp: each lane takes what the same lane of the warp before has left, the first warp what
/// the last one left when it was taken before, or what the chain began with. Only what stands between [`take`](Chain::take) and
/// [`leave`](Chain::leave) is done by one warp after the other; nothing else waits, and the warps may be turns of a loop apart.
/// (The chained scan of a block whose warps own neighbouring pieces.)
pub struct Chain<T>(Shared<T>);

/// A chain that begins with a tile: the first warp takes its own elements of it. Along the last axis the tile has one element for each thread
/// of the block; others lie in the registers of each.
#[track_caller]
pub fn chain<T: Elem>(first: Tile<T>) -> Chain<T> {
    let loc = SourceLoc::caller();
    let handle = session::with(|s| {
        let Some(k) = s.kernel("a chain", loc) else { return Handle::POISON };
        let Some(value) = k.operand(first.handle(), loc) else { return Handle::POISON };
        let Some(shape) = in_warps(k, value, loc) else { return Handle::POISON };
        k.kernel.shared.push(SharedArray { name: None, dtype: T::DTYPE, shape, by_hand: true, loc });
        let array = SharedId(k.kernel.shared.len() as u32 - 1);
        k.push_shared(array, SharedKind::Start(value), loc);
        Handle::new(array.0, k.build)
    });
    Chain(Shared::of(handle))
}

fn in_warps(k: &mut KernelBuilder, value: ValueId, loc: SourceLoc) -> Option<Vec<Size>> {
    let shape = k.kernel.ty(value).shape()?.to_vec();
    if let Some(n) = shape.last().and_then(tile::Size::as_constant).filter(|n| n % 32 != 0) {
        let message = format!("a chain of {}: a warp is 32 elements along the last axis, which has {n}", k.shape_text(&shape));
        k.error(Diagnostic::new(loc, message).help("give the last axis one element for each thread"));
        return None;
    }
    if k.in_where() {
        k.error(Diagnostic::new(loc, "a chain cannot depend on a per-element condition").help("make it before the `if`"));
        return None;
    }
    Some(shape)
}

impl<T: Elem> Chain<T> {
    /// Waits for the warp before this one, and takes what it has left.
    #[track_caller]
    pub fn take(&self) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.record(loc, |k, array| {
            let shape = k.kernel.shared_array(array).shape.clone();
            let result = k.new_value(Ty::Tile(T::DTYPE, shape), None, loc, 0);
            k.push_shared(array, SharedKind::Take { result }, loc);
            Some(result)
        }))
    }

    /// Leaves a value for the next warp.
    #[track_caller]
    pub fn leave(&mut self, value: Tile<T>) {
        let loc = SourceLoc::caller();
        self.record(loc, |k, array| {
            let value = k.operand(value.handle(), loc)?;
            let shape = k.kernel.shared_array(array).shape.clone();
            if k.kernel.ty(value).shape() != Some(&shape[..]) {
                let message = format!("a chain of {} is left {}", k.shape_text(&shape), k.describe(value));
                k.error(Diagnostic::new(loc, message).help("leave a tile of the shape that is taken"));
                return None;
            }
            k.push_shared(array, SharedKind::Leave(value), loc);
            None
        });
    }

    fn record(&self, loc: SourceLoc, f: impl FnOnce(&mut KernelBuilder, SharedId) -> Option<ValueId>) -> Handle {
        self.0.record(loc, |k, array| {
            if k.in_where() {
                let help = "take and leave it outside of the `if`: all warps take part";
                k.error(Diagnostic::new(loc, "a chain cannot depend on a per-element condition").help(help));
                return None;
            }
            f(k, array)
        })
    }
}

impl<T: Elem> NameIt for Named<'_, Chain<T>> {
    fn name(&self, name: &str) {
        Named(&self.0.0).name(name);
    }
}

//! Runs of neighbours of shared arrays, and the groups of asynchronous copies that fill them.

use super::builder::KernelBuilder;
use super::elem::Elem;
use super::index::{ComputedIndex, Part, Positions};
use super::session;
use super::shared::Shared;
use super::tensor::Tensor;
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{SharedId, SharedKind, Size, Stmt, Ty, ValueId};
use girih_ir::types::DType;

impl<T: Elem> Shared<T> {
    /// Runs of `count` neighbours along the last axis, each read by one instruction: its elements are the first axis of the result.
    /// `count` is a power of two and at most 16 bytes. A run begins at a multiple of `count`, and lies inside of the array.
    #[track_caller]
    pub fn gather_run(&self, count: i64, at: impl Positions) -> Tile<T> {
        let loc = SourceLoc::caller();
        let parts = at.parts();
        Tile::of(self.record(loc, |k, array| {
            let (indices, mut shape) = self.resolve(k, array, &parts, loc)?;
            of_tiles(k, &shape, loc)?;
            length(k, count, T::DTYPE, loc)?;
            shape.insert(0, Size::constant(count));
            let result = k.new_value(Ty::Tile(T::DTYPE, shape), None, loc, 0);
            k.push_shared(array, SharedKind::GatherRun { indices, result }, loc);
            Some(result)
        }))
    }

    /// Writes runs of `count` neighbours along the last axis, each by one instruction: the first axis of the value is the position in the run,
    /// and all of its elements must be there. Runs lie as those of [`gather_run`](Shared::gather_run); no two elements may go to one place.
    #[track_caller]
    pub fn scatter_run(&mut self, count: i64, at: impl Positions, value: Tile<T>) {
        let loc = SourceLoc::caller();
        let parts = at.parts();
        self.record(loc, |k, array| {
            let value = k.operand(value.handle(), loc)?;
            let (indices, shape) = self.resolve(k, array, &parts, loc)?;
            of_tiles(k, &shape, loc)?;
            length(k, count, T::DTYPE, loc)?;
            fits(k, count, value, &shape, loc)?;
            k.push_shared(array, SharedKind::ScatterRun { indices, value }, loc);
            None
        });
    }

    /// Starts to copy runs of `count` neighbours along the last axis of a tensor to neighbours of an array that is kept
    /// [`by_hand`](Shared::by_hand), without a way through registers (`cp.async`). Runs lie as those of [`gather_run`](Shared::gather_run),
    /// in the tensor, too; what lies outside of it becomes zero, but a scalar coordinate must lie inside. They arrive when their group has
    /// been waited for: see [`close_copies`] and [`await_copies`].
    #[track_caller]
    pub fn copy_run<const N: usize>(&mut self, count: i64, at: impl Positions, x: &Tensor<T, N>, from: impl ComputedIndex<N>) {
        let loc = SourceLoc::caller();
        let (parts, from) = (at.parts(), from.parts());
        self.record(loc, |k, array| {
            let (indices, shape) = self.resolve(k, array, &parts, loc)?;
            let from = positions(k, &from, &shape, loc)?;
            of_tiles(k, &shape, loc)?;
            length(k, count, T::DTYPE, loc)?;
            kept_by_hand(k, array, loc)?;
            let view = x.view_id(k)?;
            k.push_shared(array, SharedKind::Copy { indices, view, from, run: count }, loc);
            None
        });
    }
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// Stores runs of `count` neighbours along the last axis, each by one access where the tensor's alignment allows it: the first axis of
    /// the value is the position in the run, and all of its elements must be there. A run begins at a multiple of `count` (a power of two,
    /// at most 16 bytes); what of it lies outside of the tensor is left out, but a scalar coordinate must lie inside. As for
    /// [`scatter`](Tensor::scatter), no two elements may go to one position.
    #[track_caller]
    pub fn scatter_run(&mut self, count: i64, at: impl ComputedIndex<N>, value: Tile<T>) {
        let loc = SourceLoc::caller();
        self.record(loc, |k, view| {
            let value = k.operand(value.handle(), loc)?;
            let shape = k.kernel.ty(value).shape()?.to_vec();
            length(k, count, T::DTYPE, loc)?;
            fits(k, count, value, &shape[1..], loc)?;
            of_tiles(k, &shape[1..], loc)?;
            let indices = positions(k, &at.parts(), &shape[1..], loc)?;
            self.check_writable(k, view, loc)?;
            k.push(Stmt::Scatter { view, indices, value, run: Some(count), loc });
            None
        });
    }
}

/// Makes a group of what each thread has started to copy ([`Shared::copy_run`](super::shared::Shared::copy_run)) since the last group.
#[track_caller]
pub fn close_copies() {
    groups(None, SourceLoc::caller());
}

/// Waits until at most `pending` of each thread's newest groups of copies are on their way. A thread then finds what it has copied itself;
/// others find it behind a [`warp_barrier`](super::warp::warp_barrier) or [`barrier`](super::warp::barrier) that follows.
#[track_caller]
pub fn await_copies(pending: u32) {
    groups(Some(pending), SourceLoc::caller());
}

fn groups(pending: Option<u32>, loc: SourceLoc) {
    session::with(|s| {
        if let Some(k) = s.kernel("a group of copies", loc) {
            k.push(Stmt::Copies { pending, loc });
        }
    });
}

/// One element of a tile stands for each run.
pub(super) fn of_tiles(k: &mut KernelBuilder, shape: &[Size], loc: SourceLoc) -> Option<()> {
    let (message, help) = if shape.is_empty() {
        ("a run at one position", "give a tile of positions: each of its elements, so each thread, has a run of its own")
    } else if k.in_where() {
        ("runs cannot depend on a per-element condition", "read before the `if`, and choose between what was read")
    } else {
        return Some(());
    };
    k.error(Diagnostic::new(loc, message).help(help));
    None
}

/// Where runs of a tensor begin: one tile of the shape, or one scalar, per axis.
pub(super) fn positions(k: &mut KernelBuilder, parts: &[Part], shape: &[Size], loc: SourceLoc) -> Option<Vec<ValueId>> {
    let mut values = Vec::new();
    for part in parts {
        let value = match part {
            Part::At(h) => k.operand(*h, loc)?,
            Part::Constant(c) => k.index(*c, loc),
            Part::Tile(_) | Part::All(_) => panic!("language: a tile index among computed coordinates"),
        };
        if let Some(other) = k.kernel.ty(value).shape().filter(|s| *s != shape) {
            let message = format!("copies from positions of {} to positions of {}", k.shape_text(other), k.shape_text(shape));
            k.error(Diagnostic::new(loc, message).help("bring them to one shape with `.expand(axis, size)`"));
            return None;
        }
        values.push(value);
    }
    Some(values)
}

/// A run is one access.
pub(super) fn length(k: &mut KernelBuilder, count: i64, dtype: DType, loc: SourceLoc) -> Option<()> {
    let most = 16 / dtype.size() as i64;
    if count > 0 && (count as u64).is_power_of_two() && count <= most {
        return Some(());
    }
    let message = format!("a run of {count} elements of {dtype}");
    k.error(Diagnostic::new(loc, message).help(format!("one access moves 1, 2, 4, .. elements and at most 16 bytes: {most} of {dtype}")));
    None
}

/// The value of runs has the position in the run in front of the positions' own axes.
pub(super) fn fits(k: &mut KernelBuilder, count: i64, value: ValueId, shape: &[Size], loc: SourceLoc) -> Option<()> {
    let expected = [&[Size::constant(count)], shape].concat();
    if k.kernel.ty(value).shape() == Some(&expected[..]) {
        return Some(());
    }
    let message = format!("runs of {count} elements at positions of {} are {}", k.shape_text(shape), k.describe(value));
    let help = format!("give a tile of {}: the first axis is the position in the run", k.shape_text(&expected));
    k.error(Diagnostic::new(loc, message).help(help));
    None
}

/// The author alone knows when a copy has arrived.
pub(super) fn kept_by_hand(k: &mut KernelBuilder, array: SharedId, loc: SourceLoc) -> Option<()> {
    let own = k.kernel.shared_array(array);
    if own.by_hand {
        return Some(());
    }
    let (name, made) = (own.name.clone().unwrap_or_else(|| "the array".into()), own.loc);
    let message = format!("a copy on its way to `{name}`, whose accesses the compiler orders");
    let help = "write `.by_hand()` behind the array, `close_copies()` and `await_copies(0)` behind the copy, and then a barrier";
    k.error(Diagnostic::new(loc, message).note("it is made here", made).help(help));
    None
}

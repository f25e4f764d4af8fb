//! `Tensor<T, N>`: a strided tensor in global memory, or a view of one.

use super::atomics::{self, Request, Updatable};
use super::control::Tiles;
use super::elem::Elem;
use super::index::{self, ComputedIndex, Coordinates, Part, TileIndex};
use super::operand::Operand;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::size::{OneSize, Size};
use super::tile::{Tile, TileIdx};
use super::{build, ops};
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Op, ParamKind, RequirementKind, Size as Extent, Stmt, Ty, ViewId};
use girih_ir::types::{CompareOp, DType};
use std::cmp::Ordering;
use std::marker::PhantomData;

/// A tensor of `N` axes with elements of type `T`: a parameter, a view of one, or a temporary of a program.
/// Parameters taken by `&mut` may be stored to, and so may their views.
pub struct Tensor<T, const N: usize> {
    handle: Handle,
    elem: PhantomData<fn() -> T>,
}

/// Says how many tile indices a loop over `N` axes has.
pub struct Axes<const N: usize>;

/// The variable of a loop over the tiles of `N` axes: a [`TileIdx`], or a tuple of them.
pub trait LoopVars {
    /// The variable.
    type Var;
    /// From one handle per axis.
    #[doc(hidden)]
    fn of(handles: &[Handle]) -> Self::Var;
}

macro_rules! loop_vars {
    ($($n:literal: $var:ty, |$h:ident| $of:expr;)*) => {$(
        impl LoopVars for Axes<$n> {
            type Var = $var;
            fn of($h: &[Handle]) -> $var {
                $of
            }
        }
    )*};
}
loop_vars! {
    1: TileIdx, |h| TileIdx(h[0]);
    2: (TileIdx, TileIdx), |h| (TileIdx(h[0]), TileIdx(h[1]));
    3: (TileIdx, TileIdx, TileIdx), |h| (TileIdx(h[0]), TileIdx(h[1]), TileIdx(h[2]));
    4: (TileIdx, TileIdx, TileIdx, TileIdx), |h| (TileIdx(h[0]), TileIdx(h[1]), TileIdx(h[2]), TileIdx(h[3]));
}

/// What to do about a tile that does not have the shape of the place that it is stored to.
fn misfit(found: &[Extent], place: &[Extent]) -> &'static str {
    let exchanged = found.len() == place.len() && place.iter().all(|s| found.contains(s));
    match found.len().cmp(&place.len()) {
        _ if exchanged => "exchange axes with `.t()`, or swap the tile indices of the store",
        Ordering::Equal => "the tile has other extents than the indices: make it with the sizes of the loop, or store it elsewhere",
        Ordering::Less => "the tile has too few axes: add one with `.expand(axis, size)`, or index the others by one coordinate",
        Ordering::Greater => "the tile has too many axes: reduce or `.pick(axis, i)` one, or index the tensor's whole axis with `..3`",
    }
}

/// One axis of a tensor, to loop over.
pub struct Axis {
    tensor: Handle,
    axis: usize,
}

impl Axis {
    /// The tiles of `size` elements along the axis.
    pub fn tiles(&self, size: impl OneSize) -> Tiles<Axes<1>> {
        Tiles::new(self.tensor, vec![self.axis], vec![size.one().to_ir()])
    }
}

/// Some axes of a tensor, to loop over: the others are left whole, or walked inside.
pub struct SomeAxes<const M: usize> {
    tensor: Handle,
    axes: [usize; M],
}

impl<const M: usize> SomeAxes<M> {
    /// The tiles along these axes, one size for each.
    pub fn tiles<S: Into<Size>>(&self, sizes: [S; M]) -> Tiles<Axes<M>>
    where
        Axes<M>: LoopVars,
    {
        Tiles::new(self.tensor, self.axes.to_vec(), sizes.into_iter().map(|s| s.into().to_ir()).collect())
    }
}

/// Holds for no type: brackets would have to give a place in memory.
#[diagnostic::on_unimplemented(
    message = "a tensor has no elements `[..]`: they are in the GPU's memory",
    label = "not an array",
    note = "a tile is `x.load(t)`, one element `x.at(i)`; they are written by `y.store(t, v)` and `y.store_at(i, s)`"
)]
pub trait Brackets {}

impl<T, I: Brackets, const N: usize> std::ops::Index<I> for Tensor<T, N> {
    type Output = Tile<T>;
    fn index(&self, _at: I) -> &Tile<T> {
        unreachable!("nothing has `Brackets`")
    }
}
impl<T, I: Brackets, const N: usize> std::ops::IndexMut<I> for Tensor<T, N> {
    fn index_mut(&mut self, _at: I) -> &mut Tile<T> {
        unreachable!("nothing has `Brackets`")
    }
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    pub(crate) fn of(handle: Handle) -> Tensor<T, N> {
        Tensor { handle, elem: PhantomData }
    }
    /// The handle of a tensor parameter.
    pub(crate) fn param(index: usize) -> Tensor<T, N> {
        Tensor::of(build::tensor_param(index))
    }
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
    pub(crate) fn handle_mut(&mut self) -> &mut Handle {
        &mut self.handle
    }

    /// The tiles of the tensor, one size per axis: what the grid loop goes over.
    pub fn tiles<S: Into<Size>>(&self, sizes: [S; N]) -> Tiles<Axes<N>>
    where
        Axes<N>: LoopVars,
    {
        Tiles::new(self.handle, (0..N).collect(), sizes.into_iter().map(|s| s.into().to_ir()).collect())
    }

    /// One axis, to loop over its tiles.
    #[track_caller]
    pub fn axis(&self, axis: usize) -> Axis {
        check_axis(axis, N, SourceLoc::caller());
        Axis { tensor: self.handle, axis: axis.min(N.saturating_sub(1)) }
    }

    /// Some axes, each once, to loop over their tiles: `y.axes([0, 2]).tiles([R, C])`.
    #[track_caller]
    pub fn axes<const M: usize>(&self, axes: [usize; M]) -> SomeAxes<M> {
        let loc = SourceLoc::caller();
        let there = axes.iter().all(|a| check_axis(*a, N, loc));
        let twice = axes.iter().enumerate().find(|(i, a)| axes[..*i].contains(a)).map(|(_, a)| *a);
        if let Some(axis) = twice.filter(|_| there) {
            let message = format!("`.axes({axes:?})` names axis {axis} twice");
            session::with(|s| s.error(Diagnostic::new(loc, message).help("name each axis that the loop walks once")));
        }
        let tensor = if there && twice.is_none() { self.handle } else { Handle::POISON };
        SomeAxes { tensor, axes }
    }

    /// The length of an axis.
    #[track_caller]
    pub fn len(&self, axis: usize) -> Scalar<i64> {
        let loc = SourceLoc::caller();
        if !check_axis(axis, N, loc) {
            return Scalar::of(Handle::POISON);
        }
        Scalar::of(session::with(|s| match s {
            Session::Kernel(k) => match self.handle.get(k.build) {
                Some(view) => {
                    let len = k.kernel.view(ViewId(view)).axes[axis].len;
                    k.handle(len)
                }
                None => Handle::POISON,
            },
            Session::Program(p) => match p.view(self.handle).map(|t| t.view.lens[axis].clone()) {
                Some(len) => p.expr(len, DType::I64, loc),
                None => Handle::POISON,
            },
        }))
    }

    /// Asks that the other tensor has the same lengths: checked at every launch.
    #[track_caller]
    pub fn same_shape<U: Elem>(&self, other: &Tensor<U, N>) {
        let loc = SourceLoc::caller();
        session::with(|s| match s {
            Session::Kernel(k) => {
                let (Some(a), Some(b)) = (self.handle.get(k.build), other.handle.get(k.build)) else { return };
                for axis in 0..N {
                    let (a, b) = (k.kernel.view(ViewId(a)).axes[axis].len, k.kernel.view(ViewId(b)).axes[axis].len);
                    k.require(RequirementKind::Equal(a, b), loc);
                }
            }
            Session::Program(p) => {
                let (Some(a), Some(b)) = (p.view(self.handle).cloned(), p.view(other.handle).cloned()) else { return };
                for (a, b) in a.view.lens.into_iter().zip(b.view.lens) {
                    p.require((CompareOp::Eq, a, b), "the two tensors have the same lengths", loc);
                }
            }
        });
    }

    /// The elements at a tile.
    #[track_caller]
    pub fn load(&self, index: impl TileIndex<N>) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.record(loc, |k, view| {
            let (index, shape) = index::resolve(k, view, &index.parts(), loc)?;
            if shape.is_empty() {
                k.error(Diagnostic::new(loc, "a load of one element is no tile").help("use `.at(..)`, which gives a `Scalar`"));
                return None;
            }
            Some(k.emit(Op::Load(view, index), Ty::Tile(T::DTYPE, shape), loc))
        }))
    }

    /// One element. In a program it is read back to the host, which waits for the device.
    #[track_caller]
    pub fn at(&self, coordinates: impl Coordinates<N>) -> Scalar<T> {
        let loc = SourceLoc::caller();
        if session::in_program() {
            return Scalar::of(super::plan::read_back(self.handle, &coordinates.parts(), T::DTYPE, loc));
        }
        Scalar::of(self.record(loc, |k, view| {
            let (index, _) = index::resolve(k, view, &coordinates.parts(), loc)?;
            index::require_inside(k, view, &index, loc);
            Some(k.emit(Op::Load(view, index), Ty::Scalar(T::DTYPE), loc))
        }))
    }

    /// The elements at computed positions. Positions outside of the tensor give absent elements.
    #[track_caller]
    pub fn gather(&self, positions: impl ComputedIndex<N>) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.record(loc, |k, view| {
            let (indices, shape) = index::computed(k, &positions.parts(), loc)?;
            if shape.is_empty() {
                k.error(Diagnostic::new(loc, "a gather of one element is no tile").help("use `.at(..)`, which gives a `Scalar`"));
                return None;
            }
            Some(k.emit(Op::Gather(view, indices), Ty::Tile(T::DTYPE, shape), loc))
        }))
    }

    /// As [`Tensor::gather`], where the author asserts that all positions lie inside of the tensor: nothing is compared. The evaluator
    /// says which one does not, the simulator traps where that is no place of the tensor's.
    #[track_caller]
    pub fn gather_in_bounds(&self, positions: impl ComputedIndex<N>) -> Tile<T> {
        let loc = SourceLoc::caller();
        Tile::of(self.record(loc, |k, view| {
            let (indices, shape) = index::computed(k, &positions.parts(), loc)?;
            if shape.is_empty() {
                k.error(Diagnostic::new(loc, "a gather of one element is no tile").help("use `.at(..)`, which gives a `Scalar`"));
                return None;
            }
            Some(k.emit(Op::GatherInside(view, indices), Ty::Tile(T::DTYPE, shape), loc))
        }))
    }

    /// Stores a tile. Elements outside of the tensor are left out.
    #[track_caller]
    pub fn store(&mut self, index: impl TileIndex<N>, value: Tile<T>) {
        let loc = SourceLoc::caller();
        self.put(&index.parts(), value.handle(), loc);
    }

    /// Stores one element.
    #[track_caller]
    pub fn store_at(&mut self, coordinates: impl Coordinates<N>, value: impl Operand<T> + super::operand::ScalarRhs) {
        let loc = SourceLoc::caller();
        self.put(&coordinates.parts(), value.operand(loc), loc);
    }

    fn put(&self, parts: &[Part], value: Handle, loc: SourceLoc) {
        self.record(loc, |k, view| {
            let value = k.operand(value, loc)?;
            let (index, shape) = index::resolve(k, view, parts, loc)?;
            let found = k.kernel.ty(value).shape().unwrap_or_default();
            if found != shape {
                let message = format!("store of {} at an index that spans {}", k.describe(value), k.shape_text(&shape));
                let made = k.kernel.value(value).loc;
                let help = misfit(found, &shape);
                k.error(Diagnostic::new(loc, message).note("the tile was made here", made).help(help));
                return None;
            }
            self.check_store(k, view, loc)?;
            index::require_inside(k, view, &index, loc);
            k.push(Stmt::Store { view, index, value, loc });
            None
        });
    }

    /// Stores a tile to computed positions. The author asserts that no two elements of the launch go to one position; the
    /// simulator checks it. Positions outside of the tensor are left out.
    #[track_caller]
    pub fn scatter(&mut self, positions: impl ComputedIndex<N>, value: impl Operand<T>) {
        let loc = SourceLoc::caller();
        let value = value.operand(loc);
        self.record(loc, |k, view| {
            let (indices, value) = computed_store(k, &positions.parts(), value, loc)?;
            self.check_writable(k, view, loc)?;
            k.push(Stmt::Scatter { view, indices, value, run: None, loc });
            None
        });
    }

    fn check_store(&self, k: &mut super::builder::KernelBuilder, view: ViewId, loc: SourceLoc) -> Option<()> {
        self.check_writable(k, view, loc)?;
        if k.in_where() {
            let help = "choose the value with `if` and store it once: `y.store(t, if m { a } else { b })`";
            k.error(Diagnostic::new(loc, "a store cannot depend on a per-element condition").help(help));
            return None;
        }
        Some(())
    }

    pub(super) fn check_writable(&self, k: &mut super::builder::KernelBuilder, view: ViewId, loc: SourceLoc) -> Option<()> {
        let v = k.kernel.view(view).clone();
        let param = k.kernel.params[v.param].clone();
        if !matches!(param.kind, ParamKind::Tensor { mutable: true, .. }) {
            let message = format!("store to `{}`, but `{}` is taken by `&`", v.text, param.name);
            k.error(Diagnostic::new(loc, message).help(format!("take it by `&mut`: `{}: &mut Tensor<..>`", param.name)));
            return None;
        }
        Some(())
    }

    /// The view that it stands for in a build; `None` for poison.
    pub(crate) fn view_id(&self, k: &super::builder::KernelBuilder) -> Option<ViewId> {
        self.handle.get(k.build).map(ViewId)
    }

    pub(crate) fn record(
        &self,
        loc: SourceLoc,
        f: impl FnOnce(&mut super::builder::KernelBuilder, ViewId) -> Option<girih_ir::tile::ValueId>,
    ) -> Handle {
        session::with(|s| {
            let Some(k) = s.kernel("an access to a tensor's elements", loc) else { return Handle::POISON };
            let Some(view) = self.handle.get(k.build) else { return Handle::POISON };
            match f(k, ViewId(view)) {
                Some(v) => k.handle(v),
                None => Handle::POISON,
            }
        })
    }
}

impl<T: Elem, const N: usize> Updatable for Tensor<T, N> {
    fn update(&self, request: Request, loc: SourceLoc) -> Handle {
        self.record(loc, |k, view| {
            let update = atomics::resolve(k, &request, T::DTYPE, N, loc)?;
            self.check_writable(k, view, loc)?;
            let result = update.result;
            k.push(Stmt::Atomic { update, view, scope: request.scope, order: request.order, loc });
            result
        })
    }
}

/// Computed coordinates and the value to store there, of one shape.
fn computed_store(
    k: &mut super::builder::KernelBuilder,
    parts: &[Part],
    value: Handle,
    loc: SourceLoc,
) -> Option<(Vec<girih_ir::tile::ValueId>, girih_ir::tile::ValueId)> {
    let value = k.operand(value, loc)?;
    let (mut indices, mut shape) = index::computed(k, parts, loc)?;
    if shape.is_empty()
        && let Some(spread) = k.kernel.ty(value).shape().map(<[_]>::to_vec)
    {
        shape = spread;
        for i in &mut indices {
            *i = ops::splat_to(k, *i, &shape, loc);
        }
    }
    let value = atomics::fitting(k, value, &shape, loc)?;
    Some((indices, value))
}

/// Whether the axis exists; a mistake if not.
pub(crate) fn check_axis(axis: usize, rank: usize, loc: SourceLoc) -> bool {
    if axis >= rank {
        let message = format!("no axis {axis} in a tensor of {rank} axes");
        session::with(|s| s.error(Diagnostic::new(loc, message).help(format!("axes are 0 to {}", rank.saturating_sub(1)))));
    }
    axis < rank
}

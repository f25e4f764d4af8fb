//! Read-modify-write of elements: the same methods on tensors and on shared arrays.

use super::builder::KernelBuilder;
use super::elem::{Elem, Int, Num};
use super::index::{self, Part, Positions};
use super::operand::{Operand, ScalarRhs};
use super::ops;
use super::scalar::Scalar;
use super::session::Handle;
use super::shared::Shared;
use super::tensor::Tensor;
use super::tile::Tile;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::tile::{Size, Ty, Update, ValueId};
use girih_ir::types::{AtomicOp, DType, MemoryOrder, Scope};

/// What an atomic does, before it is looked at in a build.
pub(crate) struct Request {
    pub(crate) op: AtomicOp,
    pub(crate) parts: Vec<Part>,
    pub(crate) value: Handle,
    pub(crate) expected: Option<Handle>,
    /// The old value is wanted.
    pub(crate) fetch: Fetch,
    pub(crate) scope: Scope,
    pub(crate) order: MemoryOrder,
}

/// What an atomic gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    Nothing,
    Tile,
    Scalar,
}

/// Memory whose elements can be updated.
pub(crate) trait Updatable {
    /// Records an update; the old value, or poison.
    fn update(&self, request: Request, loc: SourceLoc) -> Handle;
}

/// The operands of an update, checked; the type of an element is `dtype`, `rank` axes are to be indexed.
pub(crate) fn resolve(k: &mut KernelBuilder, request: &Request, dtype: DType, rank: usize, loc: SourceLoc) -> Option<Update> {
    if !matches!(dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::F32) {
        let message = format!("no atomics on elements of {dtype}");
        k.error(Diagnostic::new(loc, message).help("atomics work on i32, u32, i64, u64 and f32"));
        return None;
    }
    if k.kernel.deterministic && request.op == AtomicOp::Add && dtype.is_float() {
        let message = format!("an atomic sum of {dtype} in a kernel that demands `deterministic`: its terms come in any order");
        let help = "carry the sum over `for t in x.tiles(..).strided() { .. }` and combine it by `.sum_grid()`, or leave the demand out";
        k.error(Diagnostic::new(loc, message).help(help));
        return None;
    }
    if request.op == AtomicOp::Load && matches!(request.order, MemoryOrder::Release | MemoryOrder::AcquireRelease) {
        let message = "a fetch releases nothing: it stores nothing that another block could see";
        k.error(Diagnostic::new(loc, message).help("order it as `Acquire` or `Relaxed`, and release by what stores"));
        return None;
    }
    index::check_rank(k, &request.parts, rank, loc)?;
    let (mut indices, mut shape) = index::computed(k, &request.parts, loc)?;
    let mut operands = Vec::new();
    for h in [Some(request.value), request.expected].into_iter().flatten() {
        operands.push(k.operand(h, loc)?);
    }
    if shape.is_empty()
        && let Some(spread) = operands.iter().find_map(|v| k.kernel.ty(*v).shape()).map(<[Size]>::to_vec)
    {
        shape = spread;
        for i in &mut indices {
            *i = ops::splat_to(k, *i, &shape, loc);
        }
    }
    if shape.is_empty() && k.in_where() {
        let message = "an atomic stands under a per-element condition, but with no element of its own";
        k.error(Diagnostic::new(loc, message).help("give it one value per element: `v.like(1)` instead of `1`"));
        return None;
    }
    for v in &mut operands {
        *v = fitting(k, *v, &shape, loc)?;
    }
    let wrong = match request.fetch {
        Fetch::Tile if shape.is_empty() => {
            Some(("an atomic on one element gives no tile", "use the method that ends in `_at`, which gives a `Scalar`"))
        }
        Fetch::Scalar if !shape.is_empty() => {
            Some(("an atomic on many elements gives no scalar", "use the method without `_at`, which gives a `Tile`"))
        }
        _ => None,
    };
    if let Some((message, help)) = wrong {
        k.error(Diagnostic::new(loc, message).help(help));
        return None;
    }
    let ty = if shape.is_empty() { Ty::Scalar(dtype) } else { Ty::Tile(dtype, shape) };
    let result = (request.fetch != Fetch::Nothing).then(|| k.new_value(ty, None, loc, 0));
    let expected = request.expected.map(|_| operands[1]);
    Some(Update { op: request.op, indices, value: operands[0], expected, result })
}

/// A value of this shape, a scalar spread over it; one of another shape is a mistake.
pub(crate) fn fitting(k: &mut KernelBuilder, value: ValueId, shape: &[Size], loc: SourceLoc) -> Option<ValueId> {
    let value = if shape.is_empty() { value } else { ops::splat_to(k, value, shape, loc) };
    if k.kernel.ty(value).shape().unwrap_or_default() == shape {
        return Some(value);
    }
    let message = format!("{} stored to positions of shape {}", k.describe(value), k.shape_text(shape));
    k.error(Diagnostic::new(loc, message).help("one position per element: bring both to one shape"));
    None
}

/// A tensor whose atomics have a scope and a memory order of the author's choice: see [`Tensor::ordered`].
pub struct Ordered<'a, T, const N: usize> {
    tensor: &'a Tensor<T, N>,
    scope: Scope,
    order: MemoryOrder,
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// The tensor for atomics among `scope` that also order other accesses: `flag.ordered(Scope::Device, MemoryOrder::Release)`.
    /// Without it atomics are among the device and relaxed.
    pub fn ordered(&mut self, scope: Scope, order: MemoryOrder) -> Ordered<'_, T, N> {
        Ordered { tensor: self, scope, order }
    }
}

impl<T: Elem, const N: usize> Updatable for Ordered<'_, T, N> {
    fn update(&self, request: Request, loc: SourceLoc) -> Handle {
        self.tensor.update(Request { scope: self.scope, order: self.order, ..request }, loc)
    }
}

fn request(op: AtomicOp, at: impl Positions, value: Handle, expected: Option<Handle>, fetch: Fetch) -> Request {
    Request { op, parts: at.parts(), value, expected, fetch, scope: Scope::Device, order: MemoryOrder::Relaxed }
}

macro_rules! updates {
    ([$($generics:tt)*] $self_:ty, $bound:ident: $($(#[$doc:meta])* $name:ident $fetch:ident $fetch_at:ident $op:ident;)*) => {
        impl<T: $bound $($generics)*> $self_ {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&mut self, at: impl Positions, value: impl Operand<T>) {
                let loc = SourceLoc::caller();
                self.update(request(AtomicOp::$op, at, value.operand(loc), None, Fetch::Nothing), loc);
            }
            $(#[$doc])*
            /// Gives the old elements.
            #[track_caller]
            pub fn $fetch(&mut self, at: impl Positions, value: impl Operand<T>) -> Tile<T> {
                let loc = SourceLoc::caller();
                Tile::of(self.update(request(AtomicOp::$op, at, value.operand(loc), None, Fetch::Tile), loc))
            }
            $(#[$doc])*
            /// On one element, once for the block; gives the old element.
            #[track_caller]
            pub fn $fetch_at(&mut self, at: impl Positions, value: impl Operand<T> + ScalarRhs) -> Scalar<T> {
                let loc = SourceLoc::caller();
                Scalar::of(self.update(request(AtomicOp::$op, at, value.operand(loc), None, Fetch::Scalar), loc))
            }
        )*}
    };
}

macro_rules! all_updates {
    ([$($generics:tt)*] $self_:ty) => {
        updates! { [$($generics)*] $self_, Num:
            /// Adds to elements, one after the other, in any order.
            atomic_add fetch_add fetch_add_at Add;
            /// Lowers elements to the value where it is smaller.
            atomic_min fetch_min fetch_min_at Min;
            /// Raises elements to the value where it is larger.
            atomic_max fetch_max fetch_max_at Max;
            /// Sets elements.
            atomic_set exchange exchange_at Exchange;
        }
        updates! { [$($generics)*] $self_, Int:
            /// Keeps the bits that are set in the value, too.
            atomic_and fetch_and fetch_and_at And;
            /// Sets the bits that are set in the value.
            atomic_or fetch_or fetch_or_at Or;
            /// Flips the bits that are set in the value.
            atomic_xor fetch_xor fetch_xor_at Xor;
        }
        impl<T: Num $($generics)*> $self_ {
            /// Sets elements that are as expected; gives the old elements: where they are as expected, the exchange was made.
            #[track_caller]
            pub fn compare_swap(&mut self, at: impl Positions, expected: impl Operand<T>, value: impl Operand<T>) -> Tile<T> {
                let loc = SourceLoc::caller();
                let (value, expected) = (value.operand(loc), Some(expected.operand(loc)));
                Tile::of(self.update(request(AtomicOp::CompareSwap, at, value, expected, Fetch::Tile), loc))
            }
            /// As [`Self::compare_swap`] on one element, once for the block.
            #[track_caller]
            pub fn compare_swap_at(
                &mut self,
                at: impl Positions,
                expected: impl Operand<T> + ScalarRhs,
                value: impl Operand<T> + ScalarRhs,
            ) -> Scalar<T> {
                let loc = SourceLoc::caller();
                let (value, expected) = (value.operand(loc), Some(expected.operand(loc)));
                Scalar::of(self.update(request(AtomicOp::CompareSwap, at, value, expected, Fetch::Scalar), loc))
            }
        }
    };
}

macro_rules! fetches {
    ([$($generics:tt)*] $self_:ty) => {
        impl<T: Num $($generics)*> $self_ {
            /// The elements as other blocks have left them, which a `load` need not see; changes nothing.
            #[track_caller]
            pub fn fetch(&mut self, at: impl Positions) -> Tile<T> {
                let loc = SourceLoc::caller();
                Tile::of(self.update(request(AtomicOp::Load, at, zero::<T>(loc), None, Fetch::Tile), loc))
            }
            /// One element as other blocks have left it, once for the block; changes nothing.
            #[track_caller]
            pub fn fetch_at(&mut self, at: impl Positions) -> Scalar<T> {
                let loc = SourceLoc::caller();
                Scalar::of(self.update(request(AtomicOp::Load, at, zero::<T>(loc), None, Fetch::Scalar), loc))
            }
        }
    };
}

/// The operand of what has none.
fn zero<T: Elem>(loc: SourceLoc) -> Handle {
    ops::literal(girih_ir::types::Literal { dtype: T::DTYPE, bits: 0 }, loc)
}

fetches! { [, const N: usize] Tensor<T, N> }
fetches! { [, const N: usize] Ordered<'_, T, N> }
all_updates! { [, const N: usize] Tensor<T, N> }
all_updates! { [, const N: usize] Ordered<'_, T, N> }
all_updates! { [] Shared<T> }

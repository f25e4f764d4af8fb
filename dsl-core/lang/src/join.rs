//! The value of an `if`: two sides are joined to one type, be it that of the symbolic side or the one that the use asks for.

use super::elem::{Elem, Float, Int};
use super::operand::{Operand, ScalarRhs};
use super::scalar::Scalar;
use super::session::Handle;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;

/// Two sides of an `if` that may be joined; the result has the element type of the symbolic one.
#[diagnostic::on_unimplemented(
    message = "the sides of this `if` are `{Self}` and `{B}`, which have no common type",
    label = "the sides differ",
    note = "convert one side with `.cast()`, or give both the same type"
)]
pub trait Join<B>: Sized {
    /// The result.
    type Output;
    /// Joins each pair of handles.
    #[doc(hidden)]
    fn join(self, other: B, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Self::Output;
}

impl<T: Elem, R: Operand<T>> Join<R> for Tile<T> {
    type Output = Tile<T>;
    fn join(self, other: R, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Tile<T> {
        Tile::of(f(self.handle(), other.operand(loc)))
    }
}
impl<T: Elem, R: Operand<T> + ScalarRhs> Join<R> for Scalar<T> {
    type Output = Scalar<T>;
    fn join(self, other: R, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Scalar<T> {
        Scalar::of(f(self.handle(), other.operand(loc)))
    }
}
impl<T: Elem> Join<Tile<T>> for Scalar<T> {
    type Output = Tile<T>;
    fn join(self, other: Tile<T>, _loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Tile<T> {
        Tile::of(f(self.handle(), other.handle()))
    }
}
macro_rules! literal_first {
    ($($literal:ty, $($bound:ident)?;)*) => {$(
        impl<T: $($bound)?> Join<Tile<T>> for $literal where $literal: Operand<T>, T: Elem {
            type Output = Tile<T>;
            fn join(self, other: Tile<T>, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Tile<T> {
                Tile::of(f(Operand::<T>::operand(self, loc), other.handle()))
            }
        }
        impl<T: $($bound)?> Join<Scalar<T>> for $literal where $literal: Operand<T>, T: Elem {
            type Output = Scalar<T>;
            fn join(self, other: Scalar<T>, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Scalar<T> {
                Scalar::of(f(Operand::<T>::operand(self, loc), other.handle()))
            }
        }
    )*};
}
literal_first! {
    f64, Float;
    i32, Int;
}
impl Join<()> for () {
    type Output = ();
    fn join(self, _other: (), _loc: SourceLoc, _f: &mut dyn FnMut(Handle, Handle) -> Handle) {}
}
macro_rules! joined_tuples {
    ($(($($a:ident $b:ident $i:tt),*))*) => {$(
        impl<$($a: Join<$b>, $b),*> Join<($($b,)*)> for ($($a,)*) {
            type Output = ($($a::Output,)*);
            fn join(self, other: ($($b,)*), loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Self::Output {
                ($(self.$i.join(other.$i, loc, f),)*)
            }
        }
    )*};
}
joined_tuples! {
    (A X 0)
    (A X 0, B Y 1)
    (A X 0, B Y 1, C Z 2)
    (A X 0, B Y 1, C Z 2, D W 3)
}

/// The result of an `if` whose sides are both literals: its use decides the element type.
pub trait FromLiterals<L>: Sized {
    /// From the joined handle of two literals.
    #[doc(hidden)]
    fn from_literals(then: L, otherwise: L, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Self;
}
impl<T: Elem, L: Operand<T>> FromLiterals<L> for Scalar<T> {
    fn from_literals(then: L, otherwise: L, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Self {
        Scalar::of(f(then.operand(loc), otherwise.operand(loc)))
    }
}
impl<T: Elem, L: Operand<T>> FromLiterals<L> for Tile<T> {
    fn from_literals(then: L, otherwise: L, loc: SourceLoc, f: &mut dyn FnMut(Handle, Handle) -> Handle) -> Self {
        Tile::of(f(then.operand(loc), otherwise.operand(loc)))
    }
}

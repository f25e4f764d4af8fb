//! Comparisons, `&&` and `||`: on host values ordinary Rust, on symbolic ones IR.
//!
//! `PartialOrd` and `PartialEq` must never be implemented for `Tile`, `Scalar` and `Size`: the impls here rely on their absence.

use super::elem::{Elem, Float, Int, Num};
use super::operand::{Operand, ScalarRhs};
use super::ops;
use super::scalar::Scalar;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::types::{BinaryOp, CompareOp};

macro_rules! comparisons {
    ($(#[$doc:meta])* $trait:ident, $bound:ident, $host:ident: $($name:ident $op:ident $host_op:tt;)*) => {
        $(#[$doc])*
        #[diagnostic::on_unimplemented(
            message = "`{Self}` and `{B}` cannot be compared here",
            label = "no comparison of these types",
            note = "tiles and scalars compare with operands of their element type; sizes and knobs do not compare: a body cannot depend on its schedule"
        )]
        pub trait $trait<B: ?Sized> {
            /// bool, `Scalar<bool>` or `Tile<bool>`.
            type Output;
            /// The comparison.
            #[doc(hidden)]
            fn compare(&self, other: &B, op: CompareOp, loc: SourceLoc) -> Self::Output;
        }
        impl<A: $host + ?Sized> $trait<A> for A {
            type Output = bool;
            fn compare(&self, other: &A, op: CompareOp, _loc: SourceLoc) -> bool {
                match op {
                    $(CompareOp::$op => self $host_op other,)*
                    #[allow(unreachable_patterns)]
                    _ => panic!("language: a comparison of the other kind"),
                }
            }
        }
        impl<T: $bound, R: Operand<T>> $trait<R> for Tile<T> {
            type Output = Tile<bool>;
            fn compare(&self, other: &R, op: CompareOp, loc: SourceLoc) -> Tile<bool> {
                Tile::of(ops::compare(op, self.handle(), other.operand(loc), loc))
            }
        }
        impl<T: $bound, R: Operand<T> + ScalarRhs> $trait<R> for Scalar<T> {
            type Output = Scalar<bool>;
            fn compare(&self, other: &R, op: CompareOp, loc: SourceLoc) -> Scalar<bool> {
                Scalar::of(ops::compare(op, self.handle(), other.operand(loc), loc))
            }
        }
        impl<T: $bound> $trait<Tile<T>> for Scalar<T> {
            type Output = Tile<bool>;
            fn compare(&self, other: &Tile<T>, op: CompareOp, loc: SourceLoc) -> Tile<bool> {
                Tile::of(ops::compare(op, self.handle(), other.handle(), loc))
            }
        }
        comparisons! { left $trait, f64, Float }
        comparisons! { left $trait, i32, Int }
        $(
            /// The comparison that the attributes write for the operator.
            #[track_caller]
            pub fn $name<A: $trait<B> + ?Sized, B: ?Sized>(a: &A, b: &B) -> A::Output {
                a.compare(b, CompareOp::$op, SourceLoc::caller())
            }
        )*
    };
    (left $trait:ident, $literal:ty, $bound:ident) => {
        impl<T: $bound> $trait<Tile<T>> for $literal {
            type Output = Tile<bool>;
            fn compare(&self, other: &Tile<T>, op: CompareOp, loc: SourceLoc) -> Tile<bool> {
                Tile::of(ops::compare(op, Operand::<T>::operand(*self, loc), other.handle(), loc))
            }
        }
        impl<T: $bound> $trait<Scalar<T>> for $literal {
            type Output = Scalar<bool>;
            fn compare(&self, other: &Scalar<T>, op: CompareOp, loc: SourceLoc) -> Scalar<bool> {
                Scalar::of(ops::compare(op, Operand::<T>::operand(*self, loc), other.handle(), loc))
            }
        }
    };
}

comparisons! {
    /// Types that `<`, `<=`, `>` and `>=` order.
    Ordered, Num, PartialOrd:
    lt Lt <;
    le Le <=;
    gt Gt >;
    ge Ge >=;
}
comparisons! {
    /// Types that `==` and `!=` compare.
    Equals, Elem, PartialEq:
    eq Eq ==;
    ne Ne !=;
}

/// The left side of `&&` and `||`.
pub trait Truth {
    /// Whether the right side is evaluated.
    #[doc(hidden)]
    fn needs(&self, or: bool) -> bool;
}
impl Truth for bool {
    fn needs(&self, or: bool) -> bool {
        *self != or
    }
}
impl Truth for Scalar<bool> {
    fn needs(&self, _or: bool) -> bool {
        true
    }
}
impl Truth for Tile<bool> {
    fn needs(&self, _or: bool) -> bool {
        true
    }
}

/// Whether the right side of `&&` (`||` if `or`) is evaluated.
pub fn needs<L: Truth>(left: &L, or: bool) -> bool {
    left.needs(or)
}

/// Types that `&&` and `||` combine.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{R}` cannot be combined by `&&` or `||`",
    label = "not truth values",
    note = "both sides are `bool`, `Scalar<bool>` or `Tile<bool>`"
)]
pub trait Logic<R> {
    /// bool, `Scalar<bool>` or `Tile<bool>`.
    type Output;
    /// The combination; `right` is `None` where the left side decides.
    #[doc(hidden)]
    fn logic(self, right: Option<R>, or: bool, loc: SourceLoc) -> Self::Output;
}

/// `left && right`, or `left || right`.
#[track_caller]
pub fn logic<L: Logic<R>, R>(left: L, right: Option<R>, or: bool) -> L::Output {
    left.logic(right, or, SourceLoc::caller())
}

impl Logic<bool> for bool {
    type Output = bool;
    fn logic(self, right: Option<bool>, _or: bool, _loc: SourceLoc) -> bool {
        right.unwrap_or(self)
    }
}
impl Logic<Scalar<bool>> for bool {
    type Output = Scalar<bool>;
    fn logic(self, right: Option<Scalar<bool>>, _or: bool, loc: SourceLoc) -> Scalar<bool> {
        right.unwrap_or_else(|| Scalar::of(Operand::<bool>::operand(self, loc)))
    }
}

macro_rules! symbolic {
    ($($left:ident $right:ty => $out:ident;)*) => {$(
        impl Logic<$right> for $left<bool> {
            type Output = $out<bool>;
            fn logic(self, right: Option<$right>, or: bool, loc: SourceLoc) -> $out<bool> {
                let right = right.expect("both sides of symbolic logic are evaluated");
                let op = if or { BinaryOp::Or } else { BinaryOp::And };
                $out::of(ops::binary(op, self.handle(), Operand::<bool>::operand(right, loc), loc))
            }
        }
    )*};
}
symbolic! {
    Scalar bool => Scalar;
    Scalar Scalar<bool> => Scalar;
    Scalar Tile<bool> => Tile;
    Tile bool => Tile;
    Tile Scalar<bool> => Tile;
    Tile Tile<bool> => Tile;
}

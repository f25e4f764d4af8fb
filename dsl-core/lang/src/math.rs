//! Operators and functions on tiles and scalars. Both have the same ones.

use super::elem::{Bits, Elem, Float, Int, Num};
use super::operand::{Operand, ScalarOperand, ScalarRhs};
use super::ops;
use super::scalar::Scalar;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::types::{BinaryOp, TernaryOp, UnaryOp};

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $op:ident $bound:ident;)*) => {$(
        impl<T: $bound, R: Operand<T>> std::ops::$trait<R> for Tile<T> {
            type Output = Tile<T>;
            #[track_caller]
            fn $method(self, other: R) -> Tile<T> {
                let loc = SourceLoc::caller();
                Tile::of(ops::binary(BinaryOp::$op, self.handle(), other.operand(loc), loc))
            }
        }
        impl<T: $bound, R: Operand<T>> std::ops::$assign<R> for Tile<T> {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                let loc = SourceLoc::caller();
                *self = Tile::of(ops::binary(BinaryOp::$op, self.handle(), other.operand(loc), loc));
            }
        }
        impl<T: $bound, R: Operand<T> + ScalarRhs> std::ops::$trait<R> for Scalar<T> {
            type Output = Scalar<T>;
            #[track_caller]
            fn $method(self, other: R) -> Scalar<T> {
                let loc = SourceLoc::caller();
                Scalar::of(ops::binary(BinaryOp::$op, self.handle(), other.operand(loc), loc))
            }
        }
        impl<T: $bound, R: Operand<T> + ScalarRhs> std::ops::$assign<R> for Scalar<T> {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                let loc = SourceLoc::caller();
                *self = Scalar::of(ops::binary(BinaryOp::$op, self.handle(), other.operand(loc), loc));
            }
        }
        impl<T: $bound> std::ops::$trait<Tile<T>> for Scalar<T> {
            type Output = Tile<T>;
            #[track_caller]
            fn $method(self, other: Tile<T>) -> Tile<T> {
                Tile::of(ops::binary(BinaryOp::$op, self.handle(), other.handle(), SourceLoc::caller()))
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign Add Num;
    Sub sub SubAssign sub_assign Sub Num;
    Mul mul MulAssign mul_assign Mul Num;
    Div div DivAssign div_assign Div Num;
    Rem rem RemAssign rem_assign Rem Num;
    BitAnd bitand BitAndAssign bitand_assign And Bits;
    BitOr bitor BitOrAssign bitor_assign Or Bits;
    BitXor bitxor BitXorAssign bitxor_assign Xor Bits;
    Shl shl ShlAssign shl_assign Shl Int;
    Shr shr ShrAssign shr_assign Shr Int;
}

// A literal on the left: exactly one impl per kind of literal, else its type cannot be inferred.
macro_rules! literals_left {
    ($($literal:ty, $bound:ident: $($trait:ident $method:ident $op:ident),*;)*) => {$($(
        impl<T: $bound> std::ops::$trait<Tile<T>> for $literal {
            type Output = Tile<T>;
            #[track_caller]
            fn $method(self, other: Tile<T>) -> Tile<T> {
                let loc = SourceLoc::caller();
                Tile::of(ops::binary(BinaryOp::$op, Operand::<T>::operand(self, loc), other.handle(), loc))
            }
        }
        impl<T: $bound> std::ops::$trait<Scalar<T>> for $literal {
            type Output = Scalar<T>;
            #[track_caller]
            fn $method(self, other: Scalar<T>) -> Scalar<T> {
                let loc = SourceLoc::caller();
                Scalar::of(ops::binary(BinaryOp::$op, Operand::<T>::operand(self, loc), other.handle(), loc))
            }
        }
    )*)*};
}

literals_left! {
    f64, Float: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem;
    i32, Int: Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor,
        Shl shl Shl, Shr shr Shr;
}

macro_rules! unary_methods {
    ($self_:ident, $bound:ident: $($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: $bound> $self_<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self) -> $self_<T> {
                $self_::of(ops::unary(UnaryOp::$op, self.handle(), SourceLoc::caller()))
            }
        )*}
    };
}

macro_rules! binary_methods {
    ($self_:ident, $bound:ident, $rhs:ident: $($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: $bound> $self_<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, other: impl $rhs<T>) -> $self_<T> {
                let loc = SourceLoc::caller();
                $self_::of(ops::binary(BinaryOp::$op, self.handle(), other.operand(loc), loc))
            }
        )*}
    };
}

macro_rules! functions {
    ($self_:ident, $rhs:ident) => {
        unary_methods! { $self_, Num:
            /// |x|; the smallest integer stays.
            abs Abs;
        }
        unary_methods! { $self_, Float:
            /// eˣ.
            exp Exp;
            /// 2ˣ.
            exp2 Exp2;
            /// Natural logarithm.
            log Log;
            /// Logarithm to base 2.
            log2 Log2;
            /// IEEE square root.
            sqrt Sqrt;
            /// 1/√x, within 2 ulp.
            rsqrt Rsqrt;
            /// Sine of an angle in radians.
            sin Sin;
            /// Cosine of an angle in radians.
            cos Cos;
            /// Sine of the number times π: exact where that is 0 or ±1.
            sin_pi SinPi;
            /// Cosine of the number times π: exact where that is 0 or ±1.
            cos_pi CosPi;
            /// Hyperbolic tangent.
            tanh Tanh;
            /// Error function.
            erf Erf;
            /// Rounds towards −∞.
            floor Floor;
            /// Rounds towards +∞.
            ceil Ceil;
            /// Rounds to the nearest integer, ties to even.
            round Round;
            /// Rounds towards 0.
            trunc Trunc;
            /// eˣ by the fast unit, in two instructions; denormal results may be 0.
            exp_approx ExpApprox;
            /// 2ˣ by the fast unit, in one instruction; denormal results may be 0.
            exp2_approx Exp2Approx;
            /// Natural logarithm by the fast unit.
            log_approx LogApprox;
            /// 1/x by the fast unit.
            recip_approx RecipApprox;
            /// Hyperbolic tangent by the hardware's instruction.
            tanh_approx TanhApprox;
        }
        unary_methods! { $self_, Int:
            /// Number of one bits.
            count_ones Popcount;
            /// Number of leading zero bits.
            leading_zeros LeadingZeros;
        }
        binary_methods! { $self_, Num, $rhs:
            /// The smaller one; NaN if either is.
            min Min;
            /// The larger one; NaN if either is.
            max Max;
        }
        binary_methods! { $self_, Float, $rhs:
            /// x / y by the fast unit.
            div_approx DivApprox;
            /// xʸ.
            pow Pow;
        }
        binary_methods! { $self_, Int, $rhs:
            /// The upper half of the double-width product.
            mul_hi MulHi;
        }
        rest_of_functions! { $self_, $rhs }
    };
}

macro_rules! rest_of_functions {
    ($self_:ident, $rhs:ident) => {
        impl<T: Num> $self_<T> {
            /// At least `low` and at most `high`; NaN stays.
            #[track_caller]
            pub fn clamp(self, low: impl $rhs<T>, high: impl $rhs<T>) -> $self_<T> {
                let loc = SourceLoc::caller();
                let raised = ops::binary(BinaryOp::Max, self.handle(), low.operand(loc), loc);
                $self_::of(ops::binary(BinaryOp::Min, raised, high.operand(loc), loc))
            }
            /// `self * factor + addend` with one rounding (integers: wrapping).
            #[track_caller]
            pub fn fma(self, factor: impl $rhs<T>, addend: impl $rhs<T>) -> $self_<T> {
                let loc = SourceLoc::caller();
                $self_::of(ops::ternary(TernaryOp::Fma, [self.handle(), factor.operand(loc), addend.operand(loc)], loc))
            }
        }

        impl<T: Float> $self_<T> {
            /// 1 / (1 + e⁻ˣ).
            #[track_caller]
            pub fn sigmoid(self) -> $self_<T> {
                let loc = SourceLoc::caller();
                let one = Operand::<T>::operand(1.0f64, loc);
                let exp = ops::unary(UnaryOp::Exp, ops::unary(UnaryOp::Neg, self.handle(), loc), loc);
                $self_::of(ops::binary(BinaryOp::Div, one, ops::binary(BinaryOp::Add, one, exp, loc), loc))
            }
        }

        impl<T: Elem> $self_<T> {
            /// Converts the elements: floats to integers truncate and saturate, integers wrap, anything to bool is `!= 0`.
            #[track_caller]
            pub fn cast<U: Elem>(self) -> $self_<U> {
                $self_::of(ops::cast(U::DTYPE, self.handle(), SourceLoc::caller()))
            }
            /// The same bits as another element type of the same size.
            #[track_caller]
            pub fn bitcast<U: Elem>(self) -> $self_<U> {
                $self_::of(ops::bitcast(U::DTYPE, self.handle(), SourceLoc::caller()))
            }
        }

        impl<T: Num> std::ops::Neg for $self_<T> {
            type Output = $self_<T>;
            #[track_caller]
            fn neg(self) -> $self_<T> {
                $self_::of(ops::unary(UnaryOp::Neg, self.handle(), SourceLoc::caller()))
            }
        }

        impl<T: Bits> std::ops::Not for $self_<T> {
            type Output = $self_<T>;
            #[track_caller]
            fn not(self) -> $self_<T> {
                $self_::of(ops::unary(UnaryOp::Not, self.handle(), SourceLoc::caller()))
            }
        }
    };
}

functions!(Tile, Operand);
functions!(Scalar, ScalarOperand);

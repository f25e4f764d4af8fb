//! What may stand beside a tile or scalar in an expression: handles, literals and host constants of the same element type.

use super::elem::{Elem, Float, Int};
use super::ops;
use super::scalar::Scalar;
use super::session::Handle;
use super::tile::Tile;
use girih_ir::loc::SourceLoc;
use girih_ir::types::{f8e4m3, f8e5m2};
use half::{bf16, f16};

/// An operand beside elements of type `T`. Nothing is converted but literals: `f64` and `f32` constants for floats, `i32` and
/// `usize` constants for integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with elements of type `{T}`",
    label = "has another element type",
    note = "numbers are written `2.0` beside floats and `2` beside integers; a tile or scalar is converted by `.cast`, this one or the other"
)]
pub trait Operand<T: Elem>: Copy {
    /// The handle of the operand.
    #[doc(hidden)]
    fn operand(self, loc: SourceLoc) -> Handle;
}

/// An operand that is one value: anything but a tile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be combined with a scalar",
    label = "neither a scalar nor a number",
    note = "scalars combine with `Scalar<T>`, numbers, and tiles of the same element type"
)]
pub trait ScalarRhs: Copy {}

/// An [`Operand`] that is one value.
pub trait ScalarOperand<T: Elem>: Operand<T> + ScalarRhs {}
impl<T: Elem, R: Operand<T> + ScalarRhs> ScalarOperand<T> for R {}

macro_rules! hosts {
    ($($ty:ty),*) => {$(impl ScalarRhs for $ty {})*};
}
hosts!(f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, u32, i64, u64, usize, bool);
impl<T: Elem> ScalarRhs for Scalar<T> {}

impl<T: Elem> Operand<T> for Tile<T> {
    fn operand(self, _loc: SourceLoc) -> Handle {
        self.handle()
    }
}
impl<T: Elem> Operand<T> for Scalar<T> {
    fn operand(self, _loc: SourceLoc) -> Handle {
        self.handle()
    }
}

macro_rules! floats {
    ($($ty:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Float> Operand<T> for $ty {
            fn operand(self, loc: SourceLoc) -> Handle {
                ops::literal(girih_ir::types::Literal::from_f64(T::DTYPE, f64::from(self)), loc)
            }
        }
    )*};
}
floats!(f64, f32);

macro_rules! ints {
    ($($ty:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Int> Operand<T> for $ty {
            fn operand(self, loc: SourceLoc) -> Handle {
                ops::int_literal(T::DTYPE, self as i64, loc)
            }
        }
    )*};
}
ints!(i32, usize);

/// A literal integer beyond `i32`, of whatever integer type it stands beside.
#[derive(Clone, Copy, Debug)]
pub struct Integer(pub u64);

impl ScalarRhs for Integer {}
impl<T: Int> Operand<T> for Integer {
    fn operand(self, loc: SourceLoc) -> Handle {
        match i64::try_from(self.0) {
            Ok(value) => ops::int_literal(T::DTYPE, value, loc),
            Err(_) => ops::large_literal(T::DTYPE, self.0, loc),
        }
    }
}

macro_rules! exact {
    ($($ty:ty),*) => {$(
        impl Operand<$ty> for $ty {
            fn operand(self, loc: SourceLoc) -> Handle {
                ops::literal(self.literal(), loc)
            }
        }
    )*};
}
exact!(f16, bf16, f8e4m3, f8e5m2, i8, u8, u32, i64, u64, bool);

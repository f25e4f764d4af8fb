//! Element types as Rust types: what may stand for `T` in `Tensor<T, N>`, `Tile<T>` and `Scalar<T>`.

use girih_ir::types::{DType, Literal, f8e4m3, f8e5m2};
use half::{bf16, f16};

/// A type that tensors, tiles and scalars may have elements of.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element type",
    note = "element types are f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32, u32, i64, u64 and bool"
)]
pub trait Elem: Copy + Send + Sync + std::fmt::Debug + PartialEq + 'static {
    /// The element type in the IR.
    const DTYPE: DType;
    /// The value as a constant of the IR.
    fn literal(self) -> Literal;
    /// The value of a constant. Its bits are read as this type, whatever type the constant says.
    fn of_literal(literal: Literal) -> Self;
}

/// Element types with arithmetic and an order: all but bool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    label = "needs numbers",
    note = "bool tiles have `&`, `|`, `^` and `!`"
)]
pub trait Num: Elem {}

/// Types whose elements `mixed_dot` multiplies with those of another type: the same type, and of 8-bit floats either format.
#[diagnostic::on_unimplemented(message = "`{Self}` is not multiplied with `{U}`", note = "convert one operand with `.cast`")]
pub trait Factor<U>: Num {}
impl<T: Num> Factor<T> for T {}
impl Factor<f8e5m2> for f8e4m3 {}
impl Factor<f8e4m3> for f8e5m2 {}

/// f32, f16, bf16, f8e4m3 and f8e5m2.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no float",
    note = "floats are f32, f16, bf16, f8e4m3 and f8e5m2: convert with `.cast::<f32>()`"
)]
pub trait Float: Num {}

/// The integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no integer",
    note = "integers are i8, u8, i32, u32, i64 and u64: convert with `.cast::<i32>()`"
)]
pub trait Int: Num + Bits {}

/// Types with the operations on single bits: integers and bool.
#[diagnostic::on_unimplemented(message = "`{Self}` has no bit operations", note = "integers and bool have them: see `.bitcast()`")]
pub trait Bits: Elem {}

macro_rules! elements {
    ($($ty:ty, $dtype:ident, |$value:ident| $bits:expr, |$from:ident| $of:expr;)*) => {$(
        impl Elem for $ty {
            const DTYPE: DType = DType::$dtype;
            fn literal(self) -> Literal {
                let $value = self;
                Literal { dtype: DType::$dtype, bits: $bits }
            }
            fn of_literal(literal: Literal) -> Self {
                let $from = literal.bits;
                $of
            }
        }
    )*};
}

elements! {
    bool, Bool, |v| v as u64, |b| b & 1 != 0;
    i8, I8, |v| v as u8 as u64, |b| b as i8;
    u8, U8, |v| v as u64, |b| b as u8;
    i32, I32, |v| v as u32 as u64, |b| b as i32;
    u32, U32, |v| v as u64, |b| b as u32;
    i64, I64, |v| v as u64, |b| b as i64;
    u64, U64, |v| v, |b| b;
    f8e4m3, F8E4M3, |v| v.to_bits() as u64, |b| f8e4m3::from_bits(b as u8);
    f8e5m2, F8E5M2, |v| v.to_bits() as u64, |b| f8e5m2::from_bits(b as u8);
    f16, F16, |v| v.to_bits() as u64, |b| f16::from_bits(b as u16);
    bf16, BF16, |v| v.to_bits() as u64, |b| bf16::from_bits(b as u16);
    f32, F32, |v| v.to_bits() as u64, |b| f32::from_bits(b as u32);
}

macro_rules! mark {
    ($($mark:ident: $($ty:ty),*;)*) => {$($(impl $mark for $ty {})*)*};
}

mark! {
    Num: i8, u8, i32, u32, i64, u64, f8e4m3, f8e5m2, f16, bf16, f32;
    Float: f8e4m3, f8e5m2, f16, bf16, f32;
    Int: i8, u8, i32, u32, i64, u64;
    Bits: bool, i8, u8, i32, u32, i64, u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_keep_their_values() {
        assert_eq!((-3i8).literal().to_i64(), -3);
        assert_eq!(i8::of_literal((-3i8).literal()), -3);
        assert_eq!(f8e4m3::of_literal(f8e4m3::from_f32(0.3).literal()).to_f32(), 0.3125);
        assert_eq!(f16::from_f32(0.5).literal().to_f64(), 0.5);
        assert_eq!(f32::of_literal(1.5f32.literal()), 1.5);
        assert!(bool::of_literal(true.literal()));
        assert_eq!(u64::MAX.literal().bits, u64::MAX);
    }
}

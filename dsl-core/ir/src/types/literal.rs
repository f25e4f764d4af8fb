//! Constants with their types.

use super::{DType, f8e4m3, f8e5m2, round};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A constant with its type. `bits` holds the value's bit pattern, zero-extended (f16 in the low 16 bits, i8 in the low 8, ..).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Literal {
    /// Its type.
    pub dtype: DType,
    /// Its bit pattern, zero-extended to 64 bits.
    pub bits: u64,
}

impl Literal {
    /// A literal of type i64: lengths, coordinates.
    pub fn index(value: i64) -> Literal {
        Literal { dtype: DType::I64, bits: value as u64 }
    }
    /// A literal of type f32.
    pub fn f32(value: f32) -> Literal {
        Literal { dtype: DType::F32, bits: value.to_bits() as u64 }
    }
    /// A literal of type u32.
    pub fn u32(value: u32) -> Literal {
        Literal { dtype: DType::U32, bits: value as u64 }
    }
    /// A literal of type i32.
    pub fn i32(value: i32) -> Literal {
        Literal { dtype: DType::I32, bits: value as u32 as u64 }
    }
    /// A literal of type bool.
    pub fn bool(value: bool) -> Literal {
        Literal { dtype: DType::Bool, bits: value as u64 }
    }
    /// The value of `dtype` nearest to `value`: rounds for floats, saturates for integers and 8-bit floats.
    pub fn from_f64(dtype: DType, value: f64) -> Literal {
        let bits = match dtype {
            DType::Bool => (value != 0.0) as u64,
            DType::I8 => value as i8 as u8 as u64,
            DType::U8 => value as u8 as u64,
            DType::I32 => value as i32 as u32 as u64,
            DType::U32 => value as u32 as u64,
            DType::I64 => value as i64 as u64,
            DType::U64 => value as u64,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => round::double(dtype, value),
            DType::F32 => (value as f32).to_bits() as u64,
        };
        Literal { dtype, bits }
    }
    /// The value of `dtype` congruent to `value` (integers wrap); floats round.
    pub fn from_i64(dtype: DType, value: i64) -> Literal {
        let bits = match dtype {
            DType::Bool => (value != 0) as u64,
            DType::I8 | DType::U8 => value as u8 as u64,
            DType::I32 | DType::U32 => value as u32 as u64,
            DType::I64 | DType::U64 => value as u64,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => round::integer(dtype, value.into()),
        };
        Literal { dtype, bits }
    }
    /// The type's largest or smallest value; infinite for floats that have infinities.
    pub fn extreme(dtype: DType, largest: bool) -> Literal {
        let infinity = if largest { f64::INFINITY } else { f64::NEG_INFINITY };
        let bits = match (dtype, largest) {
            (DType::Bool, _) => largest as u64,
            (DType::I64, true) => i64::MAX as u64,
            (DType::I64, false) => i64::MIN as u64,
            (DType::U64, true) => u64::MAX,
            (DType::F8E5M2, true) => f8e5m2::INFINITY.to_bits() as u64,
            (DType::F8E5M2, false) => f8e5m2::NEG_INFINITY.to_bits() as u64,
            // Casts from infinity saturate to the type's bounds.
            _ => return Literal::from_f64(dtype, infinity),
        };
        Literal { dtype, bits }
    }
    /// The value as a float; exact but for 64-bit integers.
    pub fn to_f64(self) -> f64 {
        match self.dtype {
            DType::F8E4M3 => f8e4m3::from_bits(self.bits as u8).to_f64(),
            DType::F8E5M2 => f8e5m2::from_bits(self.bits as u8).to_f64(),
            DType::F16 => half::f16::from_bits(self.bits as u16).to_f64(),
            DType::BF16 => half::bf16::from_bits(self.bits as u16).to_f64(),
            DType::F32 => f32::from_bits(self.bits as u32) as f64,
            DType::U64 => self.bits as f64,
            _ => self.to_i64() as f64,
        }
    }
    /// The value as an integer: sign-extended, floats truncated and saturated. A u64 above `i64::MAX` wraps.
    pub fn to_i64(self) -> i64 {
        match self.dtype {
            DType::Bool | DType::U8 => self.bits as u8 as i64,
            DType::I8 => self.bits as i8 as i64,
            DType::I32 => self.bits as i32 as i64,
            DType::U32 => self.bits as u32 as i64,
            DType::I64 | DType::U64 => self.bits as i64,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => self.to_f64() as i64,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.dtype {
            DType::Bool => write!(f, "{}", self.bits != 0),
            DType::U64 => write!(f, "{}", self.bits),
            d if d.is_float() => write!(f, "{:?}", self.to_f64() as f32),
            _ => write!(f, "{}", self.to_i64()),
        }
    }
}

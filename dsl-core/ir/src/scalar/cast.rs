//! Values of one type as another: converted, or the same bits.

use super::{of_f32, to_f32};
use crate::types::{DType, f8e4m3, f8e5m2, round};

/// Converts a value. Integers wrap, floats round to nearest even, floats to integers truncate and saturate (NaN: 0),
/// 8-bit floats saturate to finite numbers, anything to bool is `!= 0`. Every conversion rounds once.
pub fn cast(from: DType, to: DType, a: u64) -> u64 {
    if from == to {
        return a;
    }
    match from {
        DType::F8E4M3 => cast_f32(f8e4m3::from_bits(a as u8).to_f32(), to),
        DType::F8E5M2 => cast_f32(f8e5m2::from_bits(a as u8).to_f32(), to),
        DType::F16 => cast_f32(half::f16::from_bits(a as u16).to_f32(), to),
        DType::BF16 => cast_f32(half::bf16::from_bits(a as u16).to_f32(), to),
        DType::F32 => cast_f32(of_f32(a), to),
        DType::I8 => cast_int(a as i8 as i128, to),
        DType::I32 => cast_int(a as i32 as i128, to),
        DType::I64 => cast_int(a as i64 as i128, to),
        DType::Bool | DType::U8 | DType::U32 | DType::U64 => cast_int(a as i128, to),
    }
}

fn cast_f32(x: f32, to: DType) -> u64 {
    match to {
        DType::Bool => (x != 0.0) as u64,
        DType::I8 => x as i8 as u8 as u64,
        DType::U8 => x as u8 as u64,
        DType::I32 => x as i32 as u32 as u64,
        DType::U32 => x as u32 as u64,
        DType::I64 => x as i64 as u64,
        DType::U64 => x as u64,
        DType::F8E4M3 => f8e4m3::from_f32(x).to_bits() as u64,
        DType::F8E5M2 => f8e5m2::from_f32(x).to_bits() as u64,
        DType::F16 => half::f16::from_f32(x).to_bits() as u64,
        DType::BF16 => half::bf16::from_f32(x).to_bits() as u64,
        DType::F32 => to_f32(x),
    }
}

fn cast_int(x: i128, to: DType) -> u64 {
    match to {
        DType::Bool => (x != 0) as u64,
        DType::I8 | DType::U8 => x as u8 as u64,
        DType::I32 | DType::U32 => x as u32 as u64,
        DType::I64 | DType::U64 => x as u64,
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => round::integer(to, x),
    }
}

/// The same bits as another type of the same size; a byte that becomes a bool is normalised. Panics where the sizes differ.
pub fn bitcast(from: DType, to: DType, a: u64) -> u64 {
    assert_eq!(from.size(), to.size(), "scalar: bitcast from {from} to {to}");
    if to == DType::Bool { (a != 0) as u64 } else { a }
}

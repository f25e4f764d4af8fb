//! Scalar arithmetic on bit patterns: the one definition that the folder, the evaluator and the simulator share.
//!
//! Operands and results are bit patterns zero-extended to 64 bits, as in [`crate::types::Literal`]; bools are 0 or 1. Floats of 8 and 16
//! bits occur in [`cast`] and [`bitcast`] only; arithmetic on them happens in f32 (see the numeric contract in [`crate::types`]).
//!
//! Transcendental functions of f32 are computed in double precision and rounded once, so that the reference is within a hair of the
//! correctly rounded value; a GPU's answer may differ by [`unary_ulps`]. The `*Approx` operations are their exact functions here.
//!
//! Each operation exists as a function pointer ([`unary_fn`], ..), which callers that run many values look up once, and as a direct call.

mod cast;
mod double;
mod lanes;

pub use cast::{bitcast, cast};
pub use double::{binary_f64, compare_f64, ternary_f64, unary_f64};
pub use lanes::{BinaryLanes, Lanes, TernaryLanes};

use crate::types::{BinaryOp, CompareOp, DType, TernaryOp, UnaryOp};
use double::{max_f64, min_f64};
use lanes::{Binary, Compare, Ternary, forms};

/// A unary operation on bit patterns.
pub type UnaryFn = fn(u64) -> u64;
/// A binary operation on bit patterns.
pub type BinaryFn = fn(u64, u64) -> u64;
/// A ternary operation on bit patterns.
pub type TernaryFn = fn(u64, u64, u64) -> u64;
/// A comparison of bit patterns.
pub type CompareFn = fn(u64, u64) -> bool;

/// FNV-1a, 64 bit (<http://www.isthe.com/chongo/tech/comp/fnv/>): stable hashes for identities and cache keys.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ *b as u64).wrapping_mul(0x0000_0100_0000_01b3))
}

/// `op a`. Panics where the operation is not defined on the type ([`unary_fn`] says so).
pub fn unary(op: UnaryOp, dtype: DType, a: u64) -> u64 {
    unary_fn(op, dtype).unwrap_or_else(|| panic!("scalar: {op:?} is not defined on {dtype}"))(a)
}

/// `a op b`. Panics where the operation is not defined on the type ([`binary_fn`] says so).
pub fn binary(op: BinaryOp, dtype: DType, a: u64, b: u64) -> u64 {
    binary_fn(op, dtype).unwrap_or_else(|| panic!("scalar: {op:?} is not defined on {dtype}"))(a, b)
}

/// `op(a, b, c)`. Panics where the operation is not defined on the type ([`ternary_fn`] says so).
pub fn ternary(op: TernaryOp, dtype: DType, a: u64, b: u64, c: u64) -> u64 {
    ternary_fn(op, dtype).unwrap_or_else(|| panic!("scalar: {op:?} is not defined on {dtype}"))(a, b, c)
}

/// `a op b`. Panics on floats narrower than f32, which are storage.
pub fn compare(op: CompareOp, dtype: DType, a: u64, b: u64) -> bool {
    compare_fn(op, dtype).unwrap_or_else(|| panic!("scalar: {op:?} is not defined on {dtype}"))(a, b)
}

macro_rules! integer {
    ($name:ident, $t:ty, $unsigned:ty, $wide:ty, $abs:expr) => {
        mod $name {
            use super::*;
            fn of(bits: u64) -> $t {
                bits as $t
            }
            fn to(value: $t) -> u64 {
                value as $unsigned as u64
            }
            pub fn unary(op: UnaryOp) -> Option<UnaryFn> {
                Some(match op {
                    UnaryOp::Neg => |a| to(of(a).wrapping_neg()),
                    UnaryOp::Not => |a| to(!of(a)),
                    UnaryOp::Abs => |a| to($abs(of(a))),
                    UnaryOp::Popcount => |a| of(a).count_ones() as u64,
                    UnaryOp::LeadingZeros => |a| of(a).leading_zeros() as u64,
                    _ => return None,
                })
            }
            pub fn binary(op: BinaryOp) -> Option<Binary> {
                Some(match op {
                    BinaryOp::Add => forms!(Binary, |a, b| to(of(a).wrapping_add(of(b)))),
                    BinaryOp::Sub => forms!(Binary, |a, b| to(of(a).wrapping_sub(of(b)))),
                    BinaryOp::Mul => forms!(Binary, |a, b| to(of(a).wrapping_mul(of(b)))),
                    BinaryOp::Div => forms!(Binary, |a, b| to(if of(b) == 0 { !0 } else { of(a).wrapping_div(of(b)) })),
                    BinaryOp::Rem => forms!(Binary, |a, b| to(if of(b) == 0 { of(a) } else { of(a).wrapping_rem(of(b)) })),
                    BinaryOp::Min => forms!(Binary, |a, b| to(of(a).min(of(b)))),
                    BinaryOp::Max => forms!(Binary, |a, b| to(of(a).max(of(b)))),
                    BinaryOp::And => forms!(Binary, |a, b| a & b),
                    BinaryOp::Or => forms!(Binary, |a, b| a | b),
                    BinaryOp::Xor => forms!(Binary, |a, b| a ^ b),
                    BinaryOp::Shl => forms!(Binary, |a, b| to(of(a).wrapping_shl(b as u32))),
                    BinaryOp::Shr => forms!(Binary, |a, b| to(of(a).wrapping_shr(b as u32))),
                    BinaryOp::MulHi => forms!(Binary, |a, b| to(((of(a) as $wide * of(b) as $wide) >> <$t>::BITS) as $t)),
                    BinaryOp::DivApprox | BinaryOp::Pow => return None,
                })
            }
            pub fn fma() -> Ternary {
                forms!(Ternary, |a, b, c| to(of(a).wrapping_mul(of(b)).wrapping_add(of(c))))
            }
            pub fn compare(op: CompareOp) -> Compare {
                match op {
                    CompareOp::Lt => forms!(Compare, |a, b| of(a) < of(b)),
                    CompareOp::Le => forms!(Compare, |a, b| of(a) <= of(b)),
                    CompareOp::Gt => forms!(Compare, |a, b| of(a) > of(b)),
                    CompareOp::Ge => forms!(Compare, |a, b| of(a) >= of(b)),
                    CompareOp::Eq => forms!(Compare, |a, b| of(a) == of(b)),
                    CompareOp::Ne => forms!(Compare, |a, b| of(a) != of(b)),
                }
            }
        }
    };
}

integer!(int8, i8, u8, i16, i8::wrapping_abs);
integer!(uint8, u8, u8, u16, std::convert::identity);
integer!(int32, i32, u32, i64, i32::wrapping_abs);
integer!(uint32, u32, u32, u64, std::convert::identity);
integer!(int64, i64, u64, i128, i64::wrapping_abs);
integer!(uint64, u64, u64, u128, std::convert::identity);

fn of_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn to_f32(value: f32) -> u64 {
    value.to_bits() as u64
}

/// A unary f32 operation by its double-precision definition, rounded once.
macro_rules! by_f64 {
    ($op:ident) => {
        |a| to_f32(unary_f64(UnaryOp::$op, of_f32(a) as f64) as f32)
    };
}

/// The function of a unary operation on a type; `None` where it is not defined.
pub fn unary_fn(op: UnaryOp, dtype: DType) -> Option<UnaryFn> {
    match dtype {
        DType::Bool => match op {
            UnaryOp::Not => Some(|a| a ^ 1),
            _ => None,
        },
        DType::I8 => int8::unary(op),
        DType::U8 => uint8::unary(op),
        DType::I32 => int32::unary(op),
        DType::U32 => uint32::unary(op),
        DType::I64 => int64::unary(op),
        DType::U64 => uint64::unary(op),
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => None,
        DType::F32 => Some(match op {
            UnaryOp::Neg => |a| a ^ 0x8000_0000,
            UnaryOp::Abs => |a| a & 0x7fff_ffff,
            UnaryOp::Sqrt => |a| to_f32(of_f32(a).sqrt()),
            UnaryOp::Floor => |a| to_f32(of_f32(a).floor()),
            UnaryOp::Ceil => |a| to_f32(of_f32(a).ceil()),
            UnaryOp::Round => |a| to_f32(of_f32(a).round_ties_even()),
            UnaryOp::Trunc => |a| to_f32(of_f32(a).trunc()),
            UnaryOp::RecipApprox => |a| to_f32(1.0 / of_f32(a)),
            UnaryOp::RoundTf32 => |a| to_f32(round_tf32(of_f32(a))),
            UnaryOp::Moved => |a| a,
            UnaryOp::Exp | UnaryOp::ExpApprox => by_f64!(Exp),
            UnaryOp::Exp2Approx => by_f64!(Exp2),
            UnaryOp::Exp2 => by_f64!(Exp2),
            UnaryOp::Log | UnaryOp::LogApprox => by_f64!(Log),
            UnaryOp::Log2 => by_f64!(Log2),
            UnaryOp::Rsqrt => by_f64!(Rsqrt),
            UnaryOp::Sin => by_f64!(Sin),
            UnaryOp::Cos => by_f64!(Cos),
            UnaryOp::SinPi => by_f64!(SinPi),
            UnaryOp::CosPi => by_f64!(CosPi),
            UnaryOp::Tanh | UnaryOp::TanhApprox => by_f64!(Tanh),
            UnaryOp::Erf => by_f64!(Erf),
            UnaryOp::Not | UnaryOp::Popcount | UnaryOp::LeadingZeros => return None,
        }),
    }
}

/// The function of a binary operation on a type; `None` where it is not defined.
pub fn binary_fn(op: BinaryOp, dtype: DType) -> Option<BinaryFn> {
    Some(binary_forms(op, dtype)?.one)
}

/// As [`binary_fn`], on the lanes of a warp.
pub fn binary_lanes(op: BinaryOp, dtype: DType) -> Option<BinaryLanes> {
    Some(binary_forms(op, dtype)?.lanes)
}

fn binary_forms(op: BinaryOp, dtype: DType) -> Option<Binary> {
    match dtype {
        DType::Bool => Some(match op {
            BinaryOp::And | BinaryOp::Min => forms!(Binary, |a, b| a & b),
            BinaryOp::Or | BinaryOp::Max => forms!(Binary, |a, b| a | b),
            BinaryOp::Xor => forms!(Binary, |a, b| a ^ b),
            _ => return None,
        }),
        DType::I8 => int8::binary(op),
        DType::U8 => uint8::binary(op),
        DType::I32 => int32::binary(op),
        DType::U32 => uint32::binary(op),
        DType::I64 => int64::binary(op),
        DType::U64 => uint64::binary(op),
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => None,
        DType::F32 => Some(match op {
            BinaryOp::Add => forms!(Binary, |a, b| to_f32(of_f32(a) + of_f32(b))),
            BinaryOp::Sub => forms!(Binary, |a, b| to_f32(of_f32(a) - of_f32(b))),
            BinaryOp::Mul => forms!(Binary, |a, b| to_f32(of_f32(a) * of_f32(b))),
            BinaryOp::Div | BinaryOp::DivApprox => forms!(Binary, |a, b| to_f32(of_f32(a) / of_f32(b))),
            BinaryOp::Rem => forms!(Binary, |a, b| to_f32(of_f32(a) % of_f32(b))),
            BinaryOp::Min => forms!(Binary, |a, b| to_f32(min_f64(of_f32(a) as f64, of_f32(b) as f64) as f32)),
            BinaryOp::Max => forms!(Binary, |a, b| to_f32(max_f64(of_f32(a) as f64, of_f32(b) as f64) as f32)),
            BinaryOp::Pow => forms!(Binary, |a, b| to_f32(libm::pow(of_f32(a) as f64, of_f32(b) as f64) as f32)),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr | BinaryOp::MulHi => return None,
        }),
    }
}

/// The function of a ternary operation on a type; `None` where it is not defined.
pub fn ternary_fn(op: TernaryOp, dtype: DType) -> Option<TernaryFn> {
    Some(ternary_forms(op, dtype)?.one)
}

/// As [`ternary_fn`], on the lanes of a warp.
pub fn ternary_lanes(op: TernaryOp, dtype: DType) -> Option<TernaryLanes> {
    Some(ternary_forms(op, dtype)?.lanes)
}

fn ternary_forms(op: TernaryOp, dtype: DType) -> Option<Ternary> {
    let TernaryOp::Fma = op;
    Some(match dtype {
        DType::Bool | DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => return None,
        DType::I8 => int8::fma(),
        DType::U8 => uint8::fma(),
        DType::I32 => int32::fma(),
        DType::U32 => uint32::fma(),
        DType::I64 => int64::fma(),
        DType::U64 => uint64::fma(),
        DType::F32 => forms!(Ternary, |a, b, c| to_f32(of_f32(a).mul_add(of_f32(b), of_f32(c)))),
    })
}

/// The function of a comparison on a type; `None` for floats narrower than f32.
pub fn compare_fn(op: CompareOp, dtype: DType) -> Option<CompareFn> {
    Some(compare_forms(op, dtype)?.one)
}

/// As [`compare_fn`], on the lanes of a warp: 0 or 1 for each.
pub fn compare_lanes(op: CompareOp, dtype: DType) -> Option<BinaryLanes> {
    Some(compare_forms(op, dtype)?.lanes)
}

fn compare_forms(op: CompareOp, dtype: DType) -> Option<Compare> {
    Some(match dtype {
        DType::Bool | DType::U8 => uint8::compare(op),
        DType::I8 => int8::compare(op),
        DType::I32 => int32::compare(op),
        DType::U32 => uint32::compare(op),
        DType::I64 => int64::compare(op),
        DType::U64 => uint64::compare(op),
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => return None,
        DType::F32 => match op {
            CompareOp::Lt => forms!(Compare, |a, b| of_f32(a) < of_f32(b)),
            CompareOp::Le => forms!(Compare, |a, b| of_f32(a) <= of_f32(b)),
            CompareOp::Gt => forms!(Compare, |a, b| of_f32(a) > of_f32(b)),
            CompareOp::Ge => forms!(Compare, |a, b| of_f32(a) >= of_f32(b)),
            CompareOp::Eq => forms!(Compare, |a, b| of_f32(a) == of_f32(b)),
            CompareOp::Ne => forms!(Compare, |a, b| of_f32(a) != of_f32(b)),
        },
    })
}

/// `cvt.rn.tf32.f32`: to the nearest, ties to even; what gets too large is infinite.
fn round_tf32(x: f32) -> f32 {
    let bits = x.to_bits();
    match x.is_finite() {
        true => f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff),
        false => x,
    }
}

/// How far CUDA's f32 result may be from the exact one, in units in the last place (CUDA C++ Programming Guide, mathematical
/// functions). 0 where results are exact or correctly rounded. The `*Approx` bounds hold for arguments of moderate size.
pub fn unary_ulps(op: UnaryOp) -> u32 {
    match op {
        UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Rsqrt | UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tanh | UnaryOp::Erf => 2,
        UnaryOp::Log | UnaryOp::Log2 | UnaryOp::SinPi | UnaryOp::CosPi => 1,
        UnaryOp::ExpApprox | UnaryOp::LogApprox => 16,
        UnaryOp::RecipApprox | UnaryOp::Exp2Approx => 2,
        UnaryOp::TanhApprox => 1 << 13,
        _ => 0,
    }
}

/// As [`unary_ulps`], for two operands.
pub fn binary_ulps(op: BinaryOp) -> u32 {
    match op {
        BinaryOp::Pow => 8,
        BinaryOp::DivApprox => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;

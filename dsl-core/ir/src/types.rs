//! Element types, literals, and the scalar operations that tile IR and SIMT IR share.
//!
//! # The numeric contract
//! - Nothing is promoted implicitly. Values of f16, bf16 and the 8-bit floats compute in f32 and round (to nearest, ties to even) after
//!   each operation's f32 result only at casts and stores: see [`DType::compute`].
//! - `a * b + c` may be contracted to one rounding, as nvcc does; [`TernaryOp::Fma`] always is.
//! - Division and square root are IEEE; the `*Approx` operations are asked for one by one.
//! - `Min` and `Max` propagate NaN (unlike C's `fminf`); `Min(-0, +0)` is −0.
//! - Integers wrap; shift amounts are masked to the width; dividing by zero gives all ones (0 for the remainder's
//!   quotient part: the remainder is the dividend); `MIN / -1` wraps.
//! - Float to integer truncates towards zero and saturates, NaN becomes 0. Integer to narrower integer wraps.
//! - A number that becomes a float of fewer bits is rounded once, to the nearest, ties to even: also an integer of 64 bits that becomes
//!   a 16-bit float.
//! - The 8-bit floats are those of the OCP specification (OFP8, revision 1.0), and numbers become them as by `cvt.rn.satfinite`: what rounds to
//!   more than the largest finite number (f8e4m3: 448, f8e5m2: 57344), infinities too, saturates to it; NaN becomes a NaN (0x7f but for its
//!   sign). f8e4m3 has no infinities; those of f8e5m2 come from memory alone, and one that a kernel moves without computing anything with it
//!   may be stored as it was or saturated.
//! - Comparisons with NaN are false, but `Ne` is true.

mod c_type;
mod eight;
mod literal;
mod op;
pub mod round;
mod threads;

pub use c_type::c_type;
pub use eight::{f8e4m3, f8e5m2};
pub use literal::Literal;
pub use op::{BinaryOp, CompareOp, TernaryOp, UnaryOp};
pub use threads::{AtomicOp, MemoryOrder, Scope, ShuffleKind, VoteKind};

use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Truth values; one byte in memory, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer; also the type of lengths, strides and coordinates.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// 8-bit float with 4 bits of exponent and 3 of fraction, without infinities: [`f8e4m3`].
    F8E4M3,
    /// 8-bit float with 5 bits of exponent and 2 of fraction: [`f8e5m2`].
    F8E5M2,
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    BF16,
    /// IEEE binary32.
    F32,
}

impl DType {
    /// All of them, in the order of the enum.
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
    ];

    /// Bytes in memory.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 => 8,
        }
    }

    /// The Rust name: `f32`, `u8`, ..
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
        }
    }

    /// The type of that Rust name.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// f32 or a narrower float.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32) || self.is_narrow_float()
    }

    /// A float of 8 or 16 bits: what memory holds, and matrix instructions read; computed in f32.
    pub const fn is_narrow_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16) || self.is_float8()
    }

    /// A float of 8 bits.
    pub const fn is_float8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// Any integer; not bool.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// A signed integer or a float.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I32 | DType::I64)
    }

    /// The type in which values of this type are computed and kept in registers: f32 for the narrower floats (rounded
    /// only at casts and stores), i32/u32 for the 8-bit integers (wrapped after every operation), itself otherwise.
    pub const fn compute(self) -> DType {
        match self {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// Whether a dot multiplies operands of this type and of another one: of the same, or both floats of 8 bits.
    pub fn multiplies(self, other: DType) -> bool {
        self == other || self.is_float8() && other.is_float8()
    }

    /// The types in which a dot may add up products of this type; products of narrower floats and 8-bit integers are exact in them.
    pub const fn dot_accumulators(self) -> &'static [DType] {
        match self {
            DType::F32 | DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => &[DType::F32],
            DType::I8 | DType::U8 | DType::I32 => &[DType::I32],
            DType::U32 => &[DType::U32],
            _ => &[],
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

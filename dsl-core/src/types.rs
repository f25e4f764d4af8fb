//! Element types, literals, and the scalar operations that tile IR and SIMT IR share.
//!
//! # The numeric contract
//! - Nothing is promoted implicitly. f16 and bf16 values compute in f32 and round (to nearest, ties to even) after each
//!   operation's f32 result only at casts and stores: see [`DType::compute`].
//! - `a * b + c` may be contracted to one rounding, as nvcc does; [`TernaryOp::Fma`] always is.
//! - Division and square root are IEEE; the `*Approx` operations are asked for one by one.
//! - `Min` and `Max` propagate NaN (unlike C's `fminf`); `Min(-0, +0)` is −0.
//! - Integers wrap; shift amounts are masked to the width; dividing by zero gives all ones (0 for the remainder's
//!   quotient part: the remainder is the dividend); `MIN / -1` wraps.
//! - Float to integer truncates towards zero and saturates, NaN becomes 0. Integer to narrower integer wraps.
//! - Comparisons with NaN are false, but `Ne` is true.

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
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    BF16,
    /// IEEE binary32.
    F32,
}

impl DType {
    /// All of them, in the order of the enum.
    pub const ALL: [DType; 10] =
        [DType::Bool, DType::I8, DType::U8, DType::I32, DType::U32, DType::I64, DType::U64, DType::F16, DType::BF16, DType::F32];

    /// Bytes in memory.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
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
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
        }
    }

    /// The type of that Rust name.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// f16, bf16 or f32.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32)
    }

    /// Any integer; not bool.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// A signed integer or a float.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I32 | DType::I64)
    }

    /// The type in which values of this type are computed and kept in registers: f32 for the 16-bit floats (rounded
    /// only at casts and stores), i32/u32 for the 8-bit integers (wrapped after every operation), itself otherwise.
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The types in which a dot may add up products of this type; products of 16-bit floats and 8-bit integers are exact in them.
    pub const fn dot_accumulators(self) -> &'static [DType] {
        match self {
            DType::F32 | DType::F16 | DType::BF16 => &[DType::F32],
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
    /// The value of `dtype` nearest to `value`: rounds for floats, saturates for integers.
    pub fn from_f64(dtype: DType, value: f64) -> Literal {
        let bits = match dtype {
            DType::Bool => (value != 0.0) as u64,
            DType::I8 => value as i8 as u8 as u64,
            DType::U8 => value as u8 as u64,
            DType::I32 => value as i32 as u32 as u64,
            DType::U32 => value as u32 as u64,
            DType::I64 => value as i64 as u64,
            DType::U64 => value as u64,
            DType::F16 => half::f16::from_f64(value).to_bits() as u64,
            DType::BF16 => half::bf16::from_f64(value).to_bits() as u64,
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
            DType::F16 | DType::BF16 | DType::F32 => return Literal::from_f64(dtype, value as f64),
        };
        Literal { dtype, bits }
    }
    /// The type's largest or smallest value; infinite for floats.
    pub fn extreme(dtype: DType, largest: bool) -> Literal {
        let infinity = if largest { f64::INFINITY } else { f64::NEG_INFINITY };
        let bits = match (dtype, largest) {
            (DType::Bool, _) => largest as u64,
            (DType::I64, true) => i64::MAX as u64,
            (DType::I64, false) => i64::MIN as u64,
            (DType::U64, true) => u64::MAX,
            // Casts from infinity saturate to the type's bounds.
            _ => return Literal::from_f64(dtype, infinity),
        };
        Literal { dtype, bits }
    }
    /// The value as a float; exact but for 64-bit integers.
    pub fn to_f64(self) -> f64 {
        match self.dtype {
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
            DType::F16 | DType::BF16 | DType::F32 => self.to_f64() as i64,
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

/// Operations on one operand. Result type = operand type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum UnaryOp {
    /// −x; integers wrap.
    Neg,
    /// Bitwise complement of integers, logical not of bool.
    Not,
    /// |x|; `i32::MIN` stays.
    Abs,
    /// eˣ.
    Exp,
    /// 2ˣ.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Logarithm to base 2.
    Log2,
    /// IEEE square root.
    Sqrt,
    /// 1/√x (2 ulp, as CUDA's `rsqrtf`).
    Rsqrt,
    /// Sine, argument in radians.
    Sin,
    /// Cosine, argument in radians.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// Round towards −∞.
    Floor,
    /// Round towards +∞.
    Ceil,
    /// Round to nearest, ties to even.
    Round,
    /// Round towards 0.
    Trunc,
    /// eˣ by the fast unit (as `__expf`, but two instructions); denormal results may be 0.
    ExpApprox,
    /// 2ˣ by the fast unit; denormal results may be 0.
    Exp2Approx,
    /// ln x by the fast unit (`__logf`).
    LogApprox,
    /// 1/x by the fast unit (`__frcp_rn` is IEEE; this is `__fdividef(1, x)`).
    RecipApprox,
    /// tanh by the hardware instruction (sm_75 on).
    TanhApprox,
    /// The nearest number with 10 bits of fraction, ties to even, as `tf32` operands of matrix instructions need it.
    RoundTf32,
    /// The same number, in a register of its own: compilers neither leave it out nor bind it to where the other one is. Of f32.
    Moved,
    /// Number of one bits.
    Popcount,
    /// Number of leading zero bits.
    LeadingZeros,
}

/// Operations on two operands of one type. Result type = operand type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum BinaryOp {
    /// x + y.
    Add,
    /// x − y.
    Sub,
    /// x · y.
    Mul,
    /// x / y; integers truncate.
    Div,
    /// Remainder with the dividend's sign (C's `%`; `fmodf` for floats).
    Rem,
    /// Smaller one; NaN if either is.
    Min,
    /// Larger one; NaN if either is.
    Max,
    /// Bitwise (bool: logical) and.
    And,
    /// Bitwise (bool: logical) or.
    Or,
    /// Bitwise (bool: logical) exclusive or.
    Xor,
    /// Shift left; the amount is masked to the width.
    Shl,
    /// Shift right, arithmetic for signed types; the amount is masked to the width.
    Shr,
    /// Upper half of the double-width product.
    MulHi,
    /// x / y by the fast unit (`__fdividef`).
    DivApprox,
    /// xʸ.
    Pow,
}

/// Operations on three operands of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum TernaryOp {
    /// a · b + c with one rounding (integers: wrapping).
    Fma,
}

/// Comparisons. Result type bool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum CompareOp {
    /// <
    Lt,
    /// ≤
    Le,
    /// >
    Gt,
    /// ≥
    Ge,
    /// =
    Eq,
    /// ≠
    Ne,
}

/// Read-modify-write operations on memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum AtomicOp {
    /// Add.
    Add,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// And.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
    /// Exchange.
    Exchange,
    /// Compare and swap.
    CompareSwap,
}

/// The threads among which an atomic, fence or barrier orders memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Scope {
    /// One warp.
    Warp,
    /// One block.
    Block,
    /// The blocks of a cluster.
    Cluster,
    /// The whole device.
    Device,
    /// The device and its host.
    System,
}

/// How a shuffle picks the lane that it reads from, given a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ShuffleKind {
    /// lane ^ number.
    Xor,
    /// lane − number; the lane itself where there is none.
    Up,
    /// lane + number; the lane itself where there is none.
    Down,
    /// number.
    Index,
}

/// What the lanes of a warp find out about their conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VoteKind {
    /// Whether any holds.
    Any,
    /// Whether all hold.
    All,
    /// Which hold: bit `l` of a u32 is lane `l`'s.
    Ballot,
}

/// What an atomic or fence orders around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum MemoryOrder {
    /// Nothing but the location itself.
    Relaxed,
    /// Later accesses stay after it.
    Acquire,
    /// Earlier accesses stay before it.
    Release,
    /// Both.
    AcquireRelease,
}

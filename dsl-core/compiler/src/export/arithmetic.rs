//! The language's arithmetic in C++: helper functions where C leaves something undefined, plain operators where nothing can go wrong.

use super::text::{Prec, Text};
use crate::cuda::c_type;
use girih_ir::types::{BinaryOp, DType};

/// Where an integer comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// Any number.
    Data,
    /// A variable that is only ever counted up and down by small constants: it stays far from the ends of 64 bits.
    Counter,
    /// Lengths of tensors that lie in memory, constants, and turns of loops: so do their products, in 64 bits.
    Lengths,
}

/// What is known of an integer: its origin and between which numbers it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Knowledge {
    pub origin: Origin,
    pub least: i128,
    pub most: i128,
}

impl Knowledge {
    /// Any number of a type.
    pub fn any(dtype: DType, origin: Origin) -> Knowledge {
        let bits = 8 * dtype.size() as u32 - u32::from(dtype.is_signed());
        let most = if dtype == DType::Bool { 1 } else { (1i128 << bits) - 1 };
        Knowledge { origin, least: if dtype.is_signed() { -most - 1 } else { 0 }, most }
    }

    pub fn constant(value: i64) -> Knowledge {
        Knowledge { origin: Origin::Lengths, least: value as i128, most: value as i128 }
    }

    /// The length of an axis.
    pub fn length(dtype: DType) -> Knowledge {
        Knowledge { least: 0, ..Knowledge::any(dtype, Origin::Lengths) }
    }

    pub fn within(self, other: Knowledge) -> bool {
        other.least <= self.least && self.most <= other.most
    }

    /// Of either.
    pub fn or(self, other: Knowledge) -> Knowledge {
        let origin = self.origin.min(other.origin);
        Knowledge { origin, least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Of `a op b`, and whether C's own operator computes it.
    fn of(op: BinaryOp, dtype: DType, a: Knowledge, b: Knowledge) -> (Knowledge, bool) {
        let origin = a.origin.min(b.origin);
        let any = Knowledge::any(dtype, origin);
        let corners = |f: fn(i128, i128) -> i128| {
            let all = [f(a.least, b.least), f(a.least, b.most), f(a.most, b.least), f(a.most, b.most)];
            let (least, most) = all.iter().fold((all[0], all[0]), |(l, m), x| (l.min(*x), m.max(*x)));
            Knowledge { origin, least, most }
        };
        let exact = match op {
            BinaryOp::Add => corners(|x, y| x + y),
            BinaryOp::Sub => corners(|x, y| x - y),
            BinaryOp::Mul => corners(i128::saturating_mul),
            BinaryOp::Min => Knowledge { origin, least: a.least.min(b.least), most: a.most.min(b.most) },
            BinaryOp::Max => Knowledge { origin, least: a.least.max(b.least), most: a.most.max(b.most) },
            BinaryOp::Div | BinaryOp::Rem => {
                let zero = b.least <= 0 && 0 <= b.most;
                let overflows = dtype.is_signed() && b.least <= -1 && -1 <= b.most && a.least <= any.least;
                let plain = !zero && !overflows;
                let known = match op {
                    BinaryOp::Div if b.least > 0 => corners(|x, y| x / y),
                    BinaryOp::Rem if b.least > 0 && a.least >= 0 => Knowledge { origin, least: 0, most: a.most.min(b.most - 1) },
                    _ => any,
                };
                return (known, plain);
            }
            BinaryOp::Shr => return (any, 0 <= b.least && b.most < 8 * dtype.size() as i128),
            BinaryOp::Shl => {
                let inside = 0 <= b.least && b.most < 8 * dtype.size() as i128;
                let shifted = Knowledge { origin, least: 0, most: if inside { a.most.saturating_mul(1 << b.most) } else { i128::MAX } };
                let plain = inside && a.least >= 0 && shifted.within(any) && dtype.size() >= 4;
                return (if plain { shifted } else { any }, plain);
            }
            _ => return (any, true),
        };
        let least_origin = if op == BinaryOp::Mul { Origin::Lengths } else { Origin::Counter };
        let assumed = dtype == DType::I64 && origin >= least_origin;
        // Unsigned numbers of at least 32 bits wrap by themselves.
        let wraps = !dtype.is_signed() && dtype.size() >= 4;
        let known = if exact.within(any) { exact } else { Knowledge { least: exact.least.clamp(any.least, any.most), ..any } };
        (if exact.within(any) || assumed { known } else { any }, exact.within(any) || assumed || wraps)
    }
}

/// `a op b` on integers of a type, by the helper function where C's operator may fail.
pub(super) fn integers(op: BinaryOp, dtype: DType, a: &Text, b: &Text) -> Text {
    let (known, plain) = Knowledge::of(op, dtype, a.known, b.known);
    let text = if plain { Text::operator(op, dtype, a, b) } else { call(op, dtype, a, b) };
    text.knowing(known)
}

fn call(op: BinaryOp, dtype: DType, a: &Text, b: &Text) -> Text {
    let name = match op {
        BinaryOp::Add => "wrap_add",
        BinaryOp::Sub => "wrap_subtract",
        BinaryOp::Mul => "wrap_multiply",
        BinaryOp::Div => "divide",
        BinaryOp::Rem => "remainder_of",
        BinaryOp::Shl => "shift_left",
        BinaryOp::Shr => "shift_right",
        other => panic!("export: {other:?} needs no helper"),
    };
    Text::primary(format!("{name}<{}>({}, {})", c_type(dtype), a.text, b.text))
}

/// `-x`.
pub(super) fn negative(dtype: DType, x: &Text) -> Text {
    match x.constant {
        Some(c) if dtype == DType::I64 => Text::integer(c.wrapping_neg()),
        _ => {
            let (known, plain) = Knowledge::of(BinaryOp::Sub, dtype, Knowledge::constant(0), x.known);
            let minus = || Text::new(format!("-{}", x.at_least(Prec::Primary)), Prec::Unary);
            let text = if plain { minus() } else { call(BinaryOp::Sub, dtype, &Text::integer(0), x) };
            text.knowing(known)
        }
    }
}

/// The functions, each with its name.
const FUNCTIONS: [(&str, &str); 13] = [
    (
        "wrap_add",
        "template <typename T> static T wrap_add(T a, T b)\n{\n    return (T)((unsigned long long)a + (unsigned long long)b);\n}\n",
    ),
    (
        "wrap_subtract",
        "template <typename T> static T wrap_subtract(T a, T b)\n{\n    return (T)((unsigned long long)a - (unsigned long long)b);\n}\n",
    ),
    (
        "wrap_multiply",
        "template <typename T> static T wrap_multiply(T a, T b)\n{\n    return (T)((unsigned long long)a * (unsigned long long)b);\n}\n",
    ),
    (
        "divide",
        "// All ones where b is 0; the least number stays itself under -1.
template <typename T> static T divide(T a, T b)
{
    if (b == 0)
        return (T)-1;
    return (T)-1 < (T)0 && b == (T)-1 ? (T)(0 - (unsigned long long)a) : (T)(a / b);
}
",
    ),
    (
        "remainder_of",
        "template <typename T> static T remainder_of(T a, T b)
{
    if (b == 0)
        return a;
    return (T)-1 < (T)0 && b == (T)-1 ? (T)0 : (T)(a % b);
}
",
    ),
    (
        "shift_left",
        "template <typename T> static T shift_left(T a, T count)
{
    return (T)((unsigned long long)a << (count & (8 * sizeof(T) - 1)));
}
",
    ),
    (
        "shift_right",
        "template <typename T> static T shift_right(T a, T count)\n{\n    return (T)(a >> (count & (8 * sizeof(T) - 1)));\n}\n",
    ),
    (
        "to_integer",
        "// Truncates and saturates; 0 where x is no number.
template <typename T> static T to_integer(float x)
{
    const bool is_signed = (T)-1 < (T)0;
    const int bits = 8 * sizeof(T) - is_signed;
    const float end = 2.0f * (float)(1ull << (bits - 1));
    const T most = (T)(~0ull >> (64 - bits));
    if (x != x || (!is_signed && x <= 0.0f))
        return 0;
    if (x >= end)
        return most;
    return is_signed && x <= -end ? (T)(-most - 1) : (T)x;
}
",
    ),
    (
        "round_f16",
        "// To the 11 significant bits of half, fewer below 2^-14; ties to even.
static float round_f16(float x)
{
    if (x != x || fabsf(x) >= 65520.0f)
        return x != x ? x : copysignf(__builtin_inff(), x);
    int exponent;
    frexpf(x, &exponent);
    const float unit = ldexpf(1.0f, (exponent < -13 ? -13 : exponent) - 11);
    return copysignf(rintf(x / unit) * unit, x);
}
",
    ),
    (
        "round_bf16",
        "// To the 8 significant bits of bfloat16, ties to even.
static float round_bf16(float x)
{
    unsigned int bits;
    __builtin_memcpy(&bits, &x, 4);
    if (x == x)
        bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}
",
    ),
    (
        "integer_to_bf16",
        "// The bfloat16 nearest to an integer, ties to even: a multiple of the power of two that leaves 8 significant bits.
template <typename T> static float integer_to_bf16(T x)
{
    const unsigned long long size = x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x;
    unsigned long long unit = 1;
    while (size / unit > 255)
        unit *= 2;
    const unsigned long long whole = size / unit, rest = size % unit, half = unit / 2;
    const bool up = unit > 1 && (rest > half || (rest == half && whole % 2 == 1));
    const float result = (float)(whole + up) * (float)unit;
    return x < 0 ? -result : result;
}
",
    ),
    (
        "nan_least",
        "static float nan_least(float a, float b)
{
    return a != a ? a : b != b ? b : a < b || (a == b && __builtin_signbit(a)) ? a : b;
}
",
    ),
    (
        "nan_greatest",
        "static float nan_greatest(float a, float b)
{
    return a != a ? a : b != b ? b : a > b || (a == b && !__builtin_signbit(a)) ? a : b;
}
",
    ),
];

/// All of them, with those of 8-bit floats.
pub(super) fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    FUNCTIONS.into_iter().chain(super::float8::FUNCTIONS)
}

/// Those that a text calls.
pub(super) fn functions_of(text: &str) -> impl Iterator<Item = &'static str> {
    let called = |name: &str| text.contains(&format!("{name}<")) || text.contains(&format!("{name}("));
    functions().filter(move |(name, _)| called(name)).map(|(_, function)| function)
}

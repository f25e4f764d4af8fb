//! The corners of the numeric contract.

use super::*;
use crate::types::Literal;

fn f(x: f32) -> u64 {
    to_f32(x)
}

fn int(dtype: DType, x: i64) -> u64 {
    Literal::from_i64(dtype, x).bits
}

fn check(op: BinaryOp, dtype: DType, a: i64, b: i64, expected: i64) {
    let got = Literal { dtype, bits: binary(op, dtype, int(dtype, a), int(dtype, b)) }.to_i64();
    assert_eq!(got, expected, "{a} {op:?} {b} of {dtype}");
}

#[test]
fn integers_wrap() {
    check(BinaryOp::Add, DType::I32, i32::MAX as i64, 1, i32::MIN as i64);
    check(BinaryOp::Sub, DType::U8, 0, 1, 255);
    check(BinaryOp::Mul, DType::I8, 100, 3, 44);
    check(BinaryOp::Div, DType::I32, i32::MIN as i64, -1, i32::MIN as i64);
    check(BinaryOp::Rem, DType::I64, i64::MIN, -1, 0);
    check(BinaryOp::Div, DType::I32, -7, 2, -3);
    check(BinaryOp::Rem, DType::I32, -7, 2, -1);
    assert_eq!(unary(UnaryOp::Abs, DType::I32, i32::MIN as u32 as u64), i32::MIN as u32 as u64);
    assert_eq!(unary(UnaryOp::Neg, DType::U32, 1), u32::MAX as u64);
}

#[test]
fn division_by_zero_is_all_ones() {
    check(BinaryOp::Div, DType::I32, 7, 0, -1);
    check(BinaryOp::Div, DType::U8, 7, 0, 255);
    check(BinaryOp::Div, DType::U32, 7, 0, u32::MAX as i64);
    check(BinaryOp::Rem, DType::I32, -7, 0, -7);
    check(BinaryOp::Rem, DType::U64, 7, 0, 7);
}

#[test]
fn shifts_are_masked() {
    check(BinaryOp::Shl, DType::I32, 1, 33, 2);
    check(BinaryOp::Shl, DType::U8, 1, 9, 2);
    check(BinaryOp::Shr, DType::I32, -8, 1, -4);
    check(BinaryOp::Shr, DType::U32, 0x8000_0000, 31, 1);
    check(BinaryOp::Shr, DType::I64, -1, 64, -1);
}

#[test]
fn bits() {
    check(BinaryOp::MulHi, DType::I32, -1, 1, -1);
    check(BinaryOp::MulHi, DType::U32, 0xffff_ffff, 0xffff_ffff, 0xffff_fffe);
    check(BinaryOp::MulHi, DType::I64, i64::MIN, i64::MIN, 1 << 62);
    check(BinaryOp::MulHi, DType::U8, 200, 200, 156);
    check(BinaryOp::MulHi, DType::I8, -128, 127, -64);
    check(BinaryOp::MulHi, DType::I8, -1, 1, -1);
    assert_eq!(unary(UnaryOp::LeadingZeros, DType::I8, 1), 7);
    assert_eq!(unary(UnaryOp::Popcount, DType::I32, 0xffff_ffff), 32);
    assert_eq!(unary(UnaryOp::Not, DType::U8, 0x0f), 0xf0);
    assert_eq!(unary(UnaryOp::Not, DType::Bool, 1), 0);
}

#[test]
fn min_and_max_propagate_nan_and_order_zeros() {
    for op in [BinaryOp::Min, BinaryOp::Max] {
        assert!(of_f32(binary(op, DType::F32, f(f32::NAN), f(1.0))).is_nan());
        assert!(of_f32(binary(op, DType::F32, f(1.0), f(f32::NAN))).is_nan());
    }
    for (a, b) in [(0.0f32, -0.0f32), (-0.0, 0.0)] {
        assert_eq!(binary(BinaryOp::Min, DType::F32, f(a), f(b)), f(-0.0));
        assert_eq!(binary(BinaryOp::Max, DType::F32, f(a), f(b)), f(0.0));
    }
    assert_eq!(binary(BinaryOp::Max, DType::F32, f(f32::NEG_INFINITY), f(-3.0)), f(-3.0));
}

#[test]
fn comparisons_with_nan_are_false_but_ne() {
    for op in [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq] {
        assert!(!compare(op, DType::F32, f(f32::NAN), f(f32::NAN)), "{op:?}");
    }
    assert!(compare(CompareOp::Ne, DType::F32, f(f32::NAN), f(f32::NAN)));
    assert!(compare(CompareOp::Eq, DType::F32, f(0.0), f(-0.0)));
    assert!(compare(CompareOp::Lt, DType::I8, 0xff, 0));
    assert!(!compare(CompareOp::Lt, DType::U8, 0xff, 0));
}

#[test]
fn floats_saturate_into_integers() {
    for (x, to, expected) in [
        (300.0, DType::U8, 255),
        (-1.0, DType::U8, 0),
        (-200.0, DType::I8, -128),
        (f32::INFINITY, DType::I32, i32::MAX as i64),
        (f32::NEG_INFINITY, DType::I64, i64::MIN),
        (f32::NAN, DType::I32, 0),
        (-1.9, DType::I32, -1),
        (4e9, DType::U32, 4_000_000_000),
    ] {
        let got = Literal { dtype: to, bits: cast(DType::F32, to, f(x)) }.to_i64();
        assert_eq!(got, expected, "{x} to {to}");
    }
}

#[test]
fn integers_convert() {
    assert_eq!(cast(DType::I32, DType::U8, int(DType::I32, -1)), 255);
    assert_eq!(cast(DType::I8, DType::I64, 0xff), u64::MAX);
    assert_eq!(cast(DType::U32, DType::I64, 0xffff_ffff), 0xffff_ffff);
    assert_eq!(cast(DType::I64, DType::F32, int(DType::I64, -3)), f(-3.0));
    assert_eq!(cast(DType::U64, DType::F32, u64::MAX), f(18446744073709551615.0));
    assert_eq!(cast(DType::I32, DType::Bool, 256), 1);
    assert_eq!(cast(DType::F32, DType::Bool, f(f32::NAN)), 1);
    assert_eq!(cast(DType::F32, DType::Bool, f(-0.0)), 0);
}

#[test]
fn sixteen_bit_floats_round_ties_to_even() {
    // bf16 keeps 8 significant bits: 1 + 2^-8 is a tie and goes down to the even 1; 1 + 3 * 2^-8 goes up.
    assert_eq!(cast(DType::F32, DType::BF16, f(1.0 + 1.0 / 256.0)), 0x3f80);
    assert_eq!(cast(DType::F32, DType::BF16, f(1.0 + 3.0 / 256.0)), 0x3f82);
    assert_eq!(cast(DType::F32, DType::F16, f(1.0 + 1.0 / 2048.0)), 0x3c00);
    assert_eq!(cast(DType::F32, DType::F16, f(1.0 + 3.0 / 2048.0)), 0x3c02);
    assert_eq!(cast(DType::F32, DType::F16, f(65520.0)), 0x7c00);
    assert_eq!(cast(DType::F32, DType::BF16, f(f32::MAX)), 0x7f80);
    assert!(half::bf16::from_bits(cast(DType::F32, DType::BF16, 0x7f80_0001) as u16).is_nan());
    assert_eq!(cast(DType::F16, DType::BF16, 0x3c00), 0x3f80);
    assert_eq!(cast(DType::F16, DType::F32, 0x0001), f(2f32.powi(-24)));
}

#[test]
fn float_functions() {
    let near = |op, x: f32, expected: f32| {
        let got = of_f32(unary(op, DType::F32, f(x)));
        assert!((got - expected).abs() <= expected.abs() * 1e-6 || got == expected, "{op:?}({x}) = {got}");
    };
    near(UnaryOp::Exp, 1.0, std::f32::consts::E);
    near(UnaryOp::Exp, f32::NEG_INFINITY, 0.0);
    near(UnaryOp::Log, 0.0, f32::NEG_INFINITY);
    near(UnaryOp::Rsqrt, 0.0, f32::INFINITY);
    near(UnaryOp::Erf, 1.0, 0.842_700_8);
    near(UnaryOp::Tanh, f32::INFINITY, 1.0);
    near(UnaryOp::Round, 2.5, 2.0);
    near(UnaryOp::Round, -0.4, -0.0);
    assert_eq!(binary(BinaryOp::Rem, DType::F32, f(-5.5), f(2.0)), f(-1.5));
    assert_eq!(unary(UnaryOp::Neg, DType::F32, f(0.0)), f(-0.0));
    assert_eq!(
        ternary(TernaryOp::Fma, DType::F32, f(1.0 + f32::EPSILON), f(1.0 - f32::EPSILON), f(-1.0)),
        f(-(f32::EPSILON * f32::EPSILON))
    );
}

#[test]
fn undefined_operations_are_named() {
    assert!(binary_fn(BinaryOp::Add, DType::F16).is_none());
    assert!(unary_fn(UnaryOp::Exp, DType::I32).is_none());
    assert!(compare_fn(CompareOp::Lt, DType::BF16).is_none());
    assert!(ternary_fn(TernaryOp::Fma, DType::Bool).is_none());
}

#[test]
fn tf32_rounds_ties_to_even() {
    let unit = 2f32.powi(-10);
    for (x, expected) in [
        (1.0 + 0.5 * unit, 1.0),
        (-1.0 - 0.5 * unit, -1.0),
        (1.0 + 0.51 * unit, 1.0 + unit),
        (1.0 + 0.49 * unit, 1.0),
        (1.0 + 1.5 * unit, 1.0 + 2.0 * unit),
        (f32::MAX, f32::INFINITY),
        (f32::NEG_INFINITY, f32::NEG_INFINITY),
        (0.0, 0.0),
    ] {
        assert_eq!(unary(UnaryOp::RoundTf32, DType::F32, f(x)), f(expected), "{x}");
    }
    assert!(f32::from_bits(unary(UnaryOp::RoundTf32, DType::F32, f(f32::NAN)) as u32).is_nan());
    assert_eq!(unary_f64(UnaryOp::RoundTf32, 1.0 + f64::from(unit) * 1.5), f64::from(1.0 + 2.0 * unit));
}

//! Operations on floats in double precision.

use super::round_tf32;
use crate::types::{BinaryOp, CompareOp, TernaryOp, UnaryOp};

pub(super) fn min_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

pub(super) fn max_f64(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// A unary float operation in double precision. Panics on integer operations.
pub fn unary_f64(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Exp | UnaryOp::ExpApprox => libm::exp(x),
        UnaryOp::Exp2Approx => libm::exp2(x),
        UnaryOp::Exp2 => libm::exp2(x),
        UnaryOp::Log | UnaryOp::LogApprox => libm::log(x),
        UnaryOp::Log2 => libm::log2(x),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sin => libm::sin(x),
        UnaryOp::Cos => libm::cos(x),
        UnaryOp::SinPi => cos_pi(x, 3),
        UnaryOp::CosPi => cos_pi(x, 0),
        UnaryOp::Tanh | UnaryOp::TanhApprox => libm::tanh(x),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::RecipApprox => 1.0 / x,
        UnaryOp::RoundTf32 => round_tf32(x as f32) as f64,
        UnaryOp::Moved => x,
        UnaryOp::Not | UnaryOp::Popcount | UnaryOp::LeadingZeros => panic!("scalar: {op:?} is not defined on floats"),
    }
}

/// cos(π (x + quarters / 2)), exact where it is 0 or ±1.
fn cos_pi(x: f64, quarters: i64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let turn = x % 2.0;
    let nearest = (turn * 2.0).round_ties_even();
    let angle = std::f64::consts::PI * (turn - nearest / 2.0);
    match (nearest as i64 + quarters).rem_euclid(4) {
        0 => libm::cos(angle),
        1 => -libm::sin(angle),
        2 => -libm::cos(angle),
        _ => libm::sin(angle),
    }
}

/// A binary float operation in double precision. Panics on integer operations.
pub fn binary_f64(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div | BinaryOp::DivApprox => a / b,
        BinaryOp::Rem => a % b,
        BinaryOp::Min => min_f64(a, b),
        BinaryOp::Max => max_f64(a, b),
        BinaryOp::Pow => libm::pow(a, b),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr | BinaryOp::MulHi => {
            panic!("scalar: {op:?} is not defined on floats")
        }
    }
}

/// A ternary float operation in double precision.
pub fn ternary_f64(op: TernaryOp, a: f64, b: f64, c: f64) -> f64 {
    let TernaryOp::Fma = op;
    a.mul_add(b, c)
}

/// A comparison in double precision.
pub fn compare_f64(op: CompareOp, a: f64, b: f64) -> bool {
    match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_turn_are_exact() {
        let both = |x: f64| (unary_f64(UnaryOp::SinPi, x), unary_f64(UnaryOp::CosPi, x));
        let turn = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)];
        for quarter in -9i64..9 {
            assert_eq!(both(quarter as f64 / 2.0), turn[quarter.rem_euclid(4) as usize], "{quarter}");
        }
        for x in [0.1, -0.3, 0.49, 0.51, 1.9, -7.25, 1000.125] {
            let (sin, cos) = both(x);
            let angle = std::f64::consts::PI * x;
            assert!((sin - angle.sin()).abs() < 1e-12 && (cos - angle.cos()).abs() < 1e-12, "{x}");
        }
        assert!(both(f64::INFINITY).0.is_nan() && both(f64::NAN).1.is_nan());
    }
}

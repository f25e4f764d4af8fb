//! Operations of which constants are operands, folded.

use girih_ir::scalar;
use girih_ir::simt::Expr;
use girih_ir::types::{BinaryOp, DType, Literal, UnaryOp};

/// Folds an expression whose operands are folded.
pub(super) fn fold(e: &mut Expr) {
    if let Some(folded) = of_bools(e).or_else(|| of_numbers(e)) {
        *e = folded;
    }
}

/// An integer or bool that is a constant.
pub(super) fn integer(e: &Expr) -> Option<i64> {
    match e {
        Expr::Literal(l) if !l.dtype.is_float() => Some(l.to_i64()),
        _ => None,
    }
}

fn truth(e: &Expr) -> Option<bool> {
    match e {
        Expr::Literal(l) => (l.dtype == DType::Bool).then_some(l.bits != 0),
        _ => None,
    }
}

/// Operations on bools, choices and predicates of which a bool is known.
fn of_bools(e: &mut Expr) -> Option<Expr> {
    match e {
        Expr::Unary(UnaryOp::Not, a) => truth(a).map(|holds| Expr::Literal(Literal::bool(!holds))),
        Expr::Binary(BinaryOp::And, a, b) => match (truth(a), truth(b)) {
            (Some(true), _) | (_, Some(false)) => Some((**b).clone()),
            (_, Some(true)) | (Some(false), _) => Some((**a).clone()),
            (None, None) => None,
        },
        Expr::Binary(BinaryOp::Or, a, b) => match (truth(a), truth(b)) {
            (Some(false), _) | (_, Some(true)) => Some((**b).clone()),
            (_, Some(false)) | (Some(true), _) => Some((**a).clone()),
            (None, None) => None,
        },
        Expr::Select(c, a, b) => truth(c).map(|holds| if holds { (**a).clone() } else { (**b).clone() }),
        Expr::Load { predicate, .. } => {
            if predicate.as_deref().and_then(truth) == Some(true) {
                *predicate = None;
            }
            None
        }
        _ => None,
    }
}

/// Integers of which both are constants, or one is neutral; products of floats and one.
fn of_numbers(e: &Expr) -> Option<Expr> {
    match e {
        Expr::Compare(op, a, b) => {
            let (x, y) = constants(a, b)?;
            Some(Expr::Literal(Literal::bool(scalar::compare(*op, x.dtype, x.bits, y.bits))))
        }
        Expr::Binary(op, a, b) => match constants(a, b) {
            Some((x, y)) => Some(Expr::Literal(Literal { dtype: x.dtype, bits: scalar::binary(*op, x.dtype, x.bits, y.bits) })),
            None => with_neutral(*op, a, b).or_else(|| less(*op, a, b)),
        },
        _ => None,
    }
}

/// Two constants that are integers of at least 32 bits.
fn constants(a: &Expr, b: &Expr) -> Option<(Literal, Literal)> {
    match (a, b) {
        (Expr::Literal(x), Expr::Literal(y)) if x.dtype == y.dtype && x.dtype.is_int() && x.dtype.size() >= 4 => Some((*x, *y)),
        _ => None,
    }
}

fn with_neutral(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    use BinaryOp::{Add, And, Mul, Shl, Shr, Sub};
    let one = |e: &Expr| matches!(e, Expr::Literal(l) if l.dtype.is_float() && l.to_f64() == 1.0);
    match (op, integer(a), integer(b)) {
        (Add, Some(0), _) => Some(b.clone()),
        (Add | Sub | Shl | Shr, _, Some(0)) => Some(a.clone()),
        (Mul | And, Some(0), _) => Some(a.clone()),
        (Mul | And, _, Some(0)) => Some(b.clone()),
        (Mul, Some(1), _) => Some(b.clone()),
        (Mul, _, Some(1)) => Some(a.clone()),
        (Mul, ..) if one(a) => Some(b.clone()),
        (Mul, ..) if one(b) => Some(a.clone()),
        _ => None,
    }
}

/// A difference in the place of a sum with a constant below 0.
fn less(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let Expr::Literal(l) = b else { return None };
    let negative = op == BinaryOp::Add && matches!(l.dtype, DType::I32 | DType::I64) && l.to_i64() < 0;
    let other = l.to_i64().checked_neg().filter(|x| negative && (l.dtype == DType::I64 || i32::try_from(*x).is_ok()))?;
    Some(Expr::Binary(BinaryOp::Sub, Box::new(a.clone()), Box::new(Expr::Literal(Literal::from_i64(l.dtype, other)))))
}

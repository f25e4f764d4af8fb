//! Index arithmetic: folds while it builds, and knows by what an expression is divisible.

use crate::block::gcd;
use crate::block::numbers::{MOST, tracked};
use girih_ir::simt::{Expr, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};
use std::collections::HashMap;

/// An integer literal.
pub(crate) fn literal(dtype: DType, value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(dtype, value))
}

/// The value of an integer literal.
pub(crate) fn as_literal(e: &Expr) -> Option<i64> {
    match e {
        Expr::Literal(l) if l.dtype.is_int() => Some(l.to_i64()),
        _ => None,
    }
}

/// Builds index expressions of one type.
#[derive(Clone, Copy)]
pub(crate) struct Index {
    pub dtype: DType,
}

impl Index {
    pub fn lit(&self, value: i64) -> Expr {
        literal(self.dtype, value)
    }

    pub fn add(&self, a: Expr, b: Expr) -> Expr {
        // Sums lean to the left: `i + u * 4 + v`.
        if let Expr::Binary(BinaryOp::Add, x, y) = b {
            let left = self.add(a, *x);
            return self.add(left, *y);
        }
        match (as_literal(&a), as_literal(&b)) {
            (Some(x), Some(y)) => self.lit(x.wrapping_add(y)),
            (Some(0), None) => b,
            (None, Some(0)) => a,
            (Some(_), None) => self.add(b, a),
            (None, Some(y)) if y < 0 && y > i64::MIN => self.sub(a, self.lit(-y)),
            (None, Some(y)) => match &a {
                Expr::Binary(BinaryOp::Add, x, c) if as_literal(c).is_some() => {
                    self.add((**x).clone(), self.lit(as_literal(c).unwrap_or(0).wrapping_add(y)))
                }
                Expr::Binary(BinaryOp::Sub, x, c) if as_literal(c).is_some() => {
                    self.add((**x).clone(), self.lit(y.wrapping_sub(as_literal(c).unwrap_or(0))))
                }
                _ => binary(BinaryOp::Add, a, b),
            },
            (None, None) => binary(BinaryOp::Add, a, b),
        }
    }

    pub fn sub(&self, a: Expr, b: Expr) -> Expr {
        match (as_literal(&a), as_literal(&b)) {
            (Some(x), Some(y)) => self.lit(x.wrapping_sub(y)),
            (_, Some(0)) => a,
            (None, Some(y)) if y < 0 && y > i64::MIN => self.add(a, self.lit(-y)),
            (None, Some(y)) => match &a {
                Expr::Binary(BinaryOp::Add, x, c) if as_literal(c).is_some() => {
                    self.add((**x).clone(), self.lit(as_literal(c).unwrap_or(0).wrapping_sub(y)))
                }
                Expr::Binary(BinaryOp::Sub, x, c) if as_literal(c).is_some() => {
                    self.sub((**x).clone(), self.lit(as_literal(c).unwrap_or(0).wrapping_add(y)))
                }
                _ => binary(BinaryOp::Sub, a, b),
            },
            _ => binary(BinaryOp::Sub, a, b),
        }
    }

    pub fn mul(&self, a: Expr, b: Expr) -> Expr {
        match (as_literal(&a), as_literal(&b)) {
            (Some(x), Some(y)) => self.lit(x.wrapping_mul(y)),
            (Some(0), _) | (_, Some(0)) => self.lit(0),
            (Some(1), _) => b,
            (_, Some(1)) => a,
            (Some(_), None) => binary(BinaryOp::Mul, b, a),
            _ => binary(BinaryOp::Mul, a, b),
        }
    }

    /// Truncating division by a positive constant.
    pub fn div(&self, a: Expr, b: i64) -> Expr {
        match as_literal(&a) {
            Some(x) => self.lit(x / b),
            None if b == 1 => a,
            None => binary(BinaryOp::Div, a, self.lit(b)),
        }
    }

    /// Remainder by a positive constant.
    pub fn rem(&self, a: Expr, b: i64) -> Expr {
        match as_literal(&a) {
            Some(x) => self.lit(x % b),
            None if b == 1 => self.lit(0),
            None => binary(BinaryOp::Rem, a, self.lit(b)),
        }
    }

    /// Converts to the index type.
    pub fn cast(&self, from: DType, e: Expr) -> Expr {
        match as_literal(&e) {
            _ if from == self.dtype => e,
            Some(x) => self.lit(x),
            None => Expr::Cast(self.dtype, Box::new(e)),
        }
    }
}

/// `a op b`.
/// What a cast widens, or the expression itself.
pub(crate) fn without_cast(e: Expr) -> Expr {
    match e {
        Expr::Cast(_, inner) => *inner,
        other => other,
    }
}

pub(crate) fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

/// `a op b`, bool.
pub(crate) fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::Compare(op, Box::new(a), Box::new(b))
}

/// All of them; `None` where there are none. Equal terms are kept once.
pub(crate) fn all(terms: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    let mut kept: Vec<Expr> = Vec::new();
    for term in terms {
        if !kept.contains(&term) {
            kept.push(term);
        }
    }
    kept.into_iter().reduce(|a, b| binary(BinaryOp::And, a, b))
}

/// By what an expression is surely divisible, given what is known of variables and parameters.
pub(crate) fn multiple(e: &Expr, vars: &HashMap<VarId, i64>, param: &dyn Fn(usize) -> i64) -> i64 {
    let of = |e: &Expr| multiple(e, vars, param);
    match e {
        Expr::Literal(_) => match as_literal(e) {
            Some(0) => MOST,
            Some(x) => tracked(x.saturating_abs()),
            None => 1,
        },
        Expr::Var(v) => vars.get(v).copied().unwrap_or(1),
        Expr::Param(p) => param(*p),
        Expr::Cast(d, x) if d.is_int() => of(x),
        Expr::Binary(BinaryOp::Mul, a, b) => tracked(of(a).saturating_mul(of(b))),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => gcd(of(a), of(b)),
        Expr::Binary(BinaryOp::Div, a, b) => match as_literal(b) {
            Some(c) if c > 0 && of(a) % c == 0 => of(a) / c,
            _ => 1,
        },
        _ => 1,
    }
}

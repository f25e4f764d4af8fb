//! Whether numbers can be multiples of what a version asks for, all at once: `N` and `N - 14` are never both multiples of 4.
//!
//! Sums, differences and products have residues that follow from those of their parts. Residues of everything else (scalars of the
//! signature, variables, quotients) may be any, so the answer "no" is certain.

use crate::export::names::Names;
use girih_ir::program::Expr;
use girih_ir::tile::host::HostExpr;
use girih_ir::types::BinaryOp;

/// Parts whose residues are tried; where there are more, the answer is "yes".
const MOST_PARTS: usize = 4;

/// A number made of parts.
enum Number {
    Constant(i64),
    Part(usize),
    Binary(BinaryOp, Box<Number>, Box<Number>),
}

/// What has any residue.
#[derive(PartialEq)]
enum Part {
    /// A scalar of the signature.
    Scalar(usize),
    Host(HostExpr),
    Other(Expr),
}

impl Names<'_> {
    /// Whether all numbers may be multiples of their divisors (powers of two) at the same time.
    pub fn may_be_multiples(&self, all: &[(&Expr, u32)]) -> bool {
        let mut parts = Vec::new();
        let numbers: Vec<(Number, i64)> = all.iter().map(|(e, divisor)| (self.number(e, &mut parts), i64::from(*divisor))).collect();
        let modulus = numbers.iter().map(|(_, divisor)| *divisor).max().unwrap_or(1);
        if parts.len() > MOST_PARTS {
            return true;
        }
        let tries = modulus.pow(parts.len() as u32);
        (0..tries).any(|which| {
            let residue = |part: usize| which / modulus.pow(part as u32) % modulus;
            numbers.iter().all(|(number, divisor)| number.residue(modulus, &residue) % divisor == 0)
        })
    }

    fn number(&self, e: &Expr, parts: &mut Vec<Part>) -> Number {
        match e {
            Expr::Literal(l) if l.dtype.is_int() => Number::Constant(l.to_i64()),
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                Number::Binary(*op, Box::new(self.number(a, parts)), Box::new(self.number(b, parts)))
            }
            // Integers of 8 bits and more keep the residues that are asked for.
            Expr::Cast(to, a) if to.is_int() && self.dtype(a).is_int() => self.number(a, parts),
            Expr::Param(p) => part(Part::Scalar(self.binding[*p]), parts),
            Expr::Dim(p, k) => match &self.signature.params[self.binding[*p]].shape {
                Some(shape) => extent(&shape[*k], parts),
                None => part(Part::Other(e.clone()), parts),
            },
            other => part(Part::Other(other.clone()), parts),
        }
    }
}

fn extent(e: &HostExpr, parts: &mut Vec<Part>) -> Number {
    match e {
        HostExpr::Const(c) => Number::Constant(*c),
        HostExpr::Scalar(i) => part(Part::Scalar(*i), parts),
        HostExpr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
            Number::Binary(*op, Box::new(extent(a, parts)), Box::new(extent(b, parts)))
        }
        other => part(Part::Host(other.clone()), parts),
    }
}

fn part(part: Part, parts: &mut Vec<Part>) -> Number {
    let at = parts.iter().position(|p| *p == part).unwrap_or_else(|| {
        parts.push(part);
        parts.len() - 1
    });
    Number::Part(at)
}

impl Number {
    fn residue(&self, modulus: i64, part: &dyn Fn(usize) -> i64) -> i64 {
        let found = match self {
            Number::Constant(c) => *c,
            Number::Part(p) => part(*p),
            Number::Binary(op, a, b) => {
                let (a, b) = (a.residue(modulus, part), b.residue(modulus, part));
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    _ => a * b,
                }
            }
        };
        found.rem_euclid(modulus)
    }
}

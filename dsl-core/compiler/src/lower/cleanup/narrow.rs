//! 64-bit integers that 32 bits hold. Variables and loop counters whose every value lies in an i32 become one, comparisons and quotients of such
//! numbers are made in 32 bits, and what was widened is not narrowed again.
//!
//! Before: `const long long s = i * 16; for (long long k = 0; k < n; ++k) .. x[(int)s * n + (int)k]`
//! After:  `const int s = i * 16; for (int k = 0; k < n; ++k) .. x[s * n + k]`
//!
//! Every expression keeps its value: what may not fit stays as it is, and so do elements of memory.

mod ranges;

use crate::block::range::Range;
use crate::lower::expand::index::literal;
use crate::lower::expand::range::{Known, Launch};
use girih_ir::simt::visit::{blocks, children, each_expr, inner_blocks, received};
use girih_ir::simt::{Expr, Kernel, Stmt, VarId, expr_dtype};
use girih_ir::types::{BinaryOp, DType};
use std::collections::{BTreeSet, HashMap};

/// Narrows what fits 32 bits.
pub(crate) fn narrow(kernel: &mut Kernel, launch: &Launch) {
    let ranges = ranges::of(kernel, launch);
    let mut narrowed = narrowed(kernel, &ranges, launch);
    loop {
        narrowed.iter().for_each(|v| kernel.vars[v.0 as usize].dtype = DType::I32);
        let mut body = kernel.body.clone();
        Narrower { kernel, ranges: &ranges, narrowed: &narrowed, launch }.block(&mut body);
        let mut used = BTreeSet::new();
        read_as_they_are(&mut body, &mut used);
        let idle: Vec<VarId> = narrowed.difference(&used).copied().collect();
        if idle.is_empty() {
            kernel.body = body;
            return;
        }
        // What is widened wherever it is read is better off with 64 bits.
        for var in idle {
            kernel.vars[var.0 as usize].dtype = DType::I64;
            narrowed.remove(&var);
        }
    }
}

/// Finds the variables that are read somewhere without being widened.
fn read_as_they_are(block: &mut [Stmt], used: &mut BTreeSet<VarId>) {
    fn expr(e: &mut Expr, used: &mut BTreeSet<VarId>) {
        match e {
            Expr::Cast(DType::I64, a) if matches!(**a, Expr::Var(_)) => return,
            Expr::Cast(DType::I64, a) if matches!(**a, Expr::Element(..)) => return children(a, &mut |c| expr(c, used)),
            Expr::Var(v) | Expr::Element(v, _) => drop(used.insert(*v)),
            _ => {}
        }
        children(e, &mut |c| expr(c, used));
    }
    for stmt in block {
        each_expr(stmt, &mut |e| expr(e, used));
        blocks(stmt).into_iter().for_each(|b| read_as_they_are(b, used));
    }
}

/// Whether a range lies in that of an i32.
fn fits(range: Range) -> bool {
    i32::try_from(range.0).is_ok() && i32::try_from(range.1).is_ok()
}

/// The 64-bit variables that only statements of the thread's own set, all to numbers that fit 32 bits.
fn narrowed(kernel: &Kernel, ranges: &HashMap<VarId, Range>, launch: &Launch) -> BTreeSet<VarId> {
    let mut wide = BTreeSet::new();
    let known = Known { vars: &kernel.vars, params: &kernel.params, ranges, launch };
    keep_wide(&kernel.body, &known, &mut wide);
    let small = |v: &VarId| kernel.var(*v).dtype == DType::I64 && ranges.get(v).is_some_and(|r| fits(*r)) && !wide.contains(v);
    (0..kernel.vars.len() as u32).map(VarId).filter(small).collect()
}

/// Finds the variables that are read or written with others of their width, and counters that run beyond 32 bits.
fn keep_wide(block: &[Stmt], known: &Known, wide: &mut BTreeSet<VarId>) {
    for stmt in block {
        wide.extend(received(stmt));
        match stmt {
            Stmt::StoreVector { var, .. } => drop(wide.insert(*var)),
            Stmt::For { var, start, end, step, .. } if !counts_in_32_bits(known, [start, end, step]) => drop(wide.insert(*var)),
            _ => {}
        }
        inner_blocks(stmt).into_iter().for_each(|b| keep_wide(b, known, wide));
    }
}

/// Whether a counter, also once it has passed the end, and the numbers that it is compared with fit 32 bits. The end may lie below all of them
/// where the start says what takes its place.
fn counts_in_32_bits(known: &Known, [start, end, step]: [&Expr; 3]) -> bool {
    let (Some(first), Some(last), Some(by)) = (known.range(start), known.range(end), known.range(step)) else { return false };
    let passed = last.1.checked_add(by.1).is_some_and(|p| i32::try_from(p - 1).is_ok());
    let end_fits = fits(last) || matches!(start, Expr::Literal(_)) && i32::try_from(last.1).is_ok();
    passed && fits(first) && fits(by) && end_fits
}

/// Rewrites statements over variables that have their new types.
struct Narrower<'a> {
    kernel: &'a Kernel,
    ranges: &'a HashMap<VarId, Range>,
    narrowed: &'a BTreeSet<VarId>,
    launch: &'a Launch,
}

impl Narrower<'_> {
    fn block(&self, block: &mut [Stmt]) {
        for stmt in block {
            each_expr(stmt, &mut |e| self.rewrite(e));
            match stmt {
                Stmt::Let { var, value } | Stmt::Declare { var, init: Some(value) } | Stmt::Assign { var, value, .. }
                    if self.narrowed.contains(var) =>
                {
                    self.cut(value);
                }
                Stmt::For { var, start, end, step, .. } if self.narrowed.contains(var) => {
                    if !self.range(end).is_some_and(fits) {
                        *end = Expr::Binary(BinaryOp::Max, Box::new(end.clone()), Box::new(start.clone()));
                    }
                    [start, end, step].into_iter().for_each(|e| self.cut(e));
                }
                _ => {}
            }
            blocks(stmt).into_iter().for_each(|b| self.block(b));
        }
    }

    /// Brings an expression to the new types of its variables; its own type stays.
    fn rewrite(&self, e: &mut Expr) {
        children(e, &mut |c| self.rewrite(c));
        let new = match e {
            Expr::Var(v) | Expr::Element(v, _) if self.narrowed.contains(v) => Some(widened(e.clone())),
            Expr::Cast(to, a) if self.dtype(a) == DType::I64 => self.exact(a).map(|n| self.cast(*to, n)),
            Expr::Compare(op, a, b) if self.dtype(a) == DType::I64 => {
                self.in_32_bits(a).zip(self.in_32_bits(b)).map(|(a, b)| Expr::Compare(*op, Box::new(a), Box::new(b)))
            }
            Expr::Binary(BinaryOp::Div | BinaryOp::Rem, ..) if self.dtype(e) == DType::I64 => self.in_32_bits(e).map(widened),
            _ => None,
        };
        if let Some(new) = new {
            *e = new;
        }
    }

    /// A narrower integer with the value of a 64-bit expression, of whatever type, without a cast that cuts anything off.
    fn exact(&self, e: &Expr) -> Option<Expr> {
        match e {
            Expr::Cast(DType::I64, a) if matches!(self.dtype(a), DType::I32 | DType::U32 | DType::I8 | DType::U8) => Some((**a).clone()),
            _ => self.in_32_bits(e),
        }
    }

    /// A 64-bit expression as an i32 of the same value, computed in 32 bits throughout.
    fn in_32_bits(&self, e: &Expr) -> Option<Expr> {
        use BinaryOp::{Add, And, Div, Max, Min, Mul, Or, Rem, Shr, Sub, Xor};
        match e {
            Expr::Cast(DType::I64, a) if self.range(a).is_some_and(fits) => Some(self.cast(DType::I32, (**a).clone())),
            Expr::Literal(l) => i32::try_from(l.to_i64()).ok().map(|x| literal(DType::I32, i64::from(x))),
            Expr::Binary(Shr, _, by) if !matches!(&**by, Expr::Literal(l) if (0..32).contains(&l.to_i64())) => None,
            Expr::Binary(op @ (Add | Sub | Mul | Div | Rem | Min | Max | And | Or | Xor | Shr), a, b)
                if self.range(e).is_some_and(fits) =>
            {
                Some(Expr::Binary(*op, Box::new(self.in_32_bits(a)?), Box::new(self.in_32_bits(b)?)))
            }
            Expr::Select(c, a, b) => Some(Expr::Select(c.clone(), Box::new(self.in_32_bits(a)?), Box::new(self.in_32_bits(b)?))),
            _ => None,
        }
    }

    /// Makes an i32 of a 64-bit expression whose value is known to fit.
    fn cut(&self, e: &mut Expr) {
        *e = self.in_32_bits(e).unwrap_or_else(|| Expr::Cast(DType::I32, Box::new(e.clone())));
    }

    fn cast(&self, to: DType, e: Expr) -> Expr {
        if self.dtype(&e) == to { e } else { Expr::Cast(to, Box::new(e)) }
    }

    fn dtype(&self, e: &Expr) -> DType {
        expr_dtype(e, &self.kernel.vars, &self.kernel.params)
    }

    fn range(&self, e: &Expr) -> Option<Range> {
        let (vars, params) = (&self.kernel.vars, &self.kernel.params);
        Known { vars, params, ranges: self.ranges, launch: self.launch }.range(e)
    }
}

/// The same number in 64 bits.
fn widened(e: Expr) -> Expr {
    Expr::Cast(DType::I64, Box::new(e))
}

#[cfg(test)]
mod tests;

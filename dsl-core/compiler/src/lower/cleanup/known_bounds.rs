//! Comparisons of integers that follow from others, or from what the integers are made of, are not made again.
//!
//! Before: `if (tile * 4 + 4 <= rows) { const int i = tile * 4 + thread / 64; const bool found = i < rows && label >= 0; ..`
//! After:  `if (tile * 4 + 4 <= rows) { const int i = tile * 4 + thread / 64; const bool found = label >= 0; ..`
//!
//! What is known where a statement stands: the conditions of the branches and loops around it, how many blocks there are, and between which
//! numbers each integer lies. Integers are sums of products of what is not known of them ([`Polynomial`]); arithmetic on indices does not
//! overflow, other arithmetic is taken apart where its type surely holds it.

mod polynomial;
mod proof;
mod terms;

use super::fold::fold;
use super::known_conditions::predicate;
use super::lets::{Lets, MOST};
use super::narrow::ranges;
use crate::cuda::wrap::{Data, is_cut};
use crate::lower::expand::range::Launch;
use girih_ir::simt::visit::{children, each_expr, inner_blocks};
use girih_ir::simt::{Expr, Kernel, Special, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, UnaryOp};
use polynomial::Polynomial;
use std::collections::HashMap;
use terms::Terms;

/// Puts the results of such comparisons in their place, and the one of two numbers that is the smaller or greater one.
pub(crate) fn use_known_bounds(kernel: &mut Kernel, launch: &Launch) {
    let mut body = std::mem::take(&mut kernel.body);
    let lets = Lets::of(&mut body);
    kernel.body = body;
    let mut made = HashMap::new();
    collect(&kernel.body, &lets, &mut made);
    let (ranges, data) = (ranges::of(kernel, launch), Data::of(kernel));
    let mut body = kernel.body.clone();
    let mut terms = Terms::new((kernel, launch), (&lets, &made), (&ranges, &data));
    terms.has_blocks();
    Bounds { terms, known: Vec::new(), copies: HashMap::new() }.block(&mut body);
    kernel.body = body;
}

/// What variables are made of that are set once, where that is the same wherever it can be read.
fn collect(block: &[Stmt], lets: &Lets, made: &mut HashMap<VarId, Expr>) {
    for stmt in block {
        if let Stmt::Let { var, value } = stmt
            && lets.is_set_once(*var)
            && lets.stays(value)
        {
            made.insert(*var, value.clone());
        }
        inner_blocks(stmt).into_iter().for_each(|inner| collect(inner, lets, made));
    }
}

/// A walk with what is known where it stands.
struct Bounds<'k> {
    terms: Terms<'k>,
    /// Sums that are at least 0.
    known: Vec<Polynomial>,
    /// Variables that turned out to be copies of others, and bools that are known.
    copies: HashMap<VarId, Expr>,
}

impl Bounds<'_> {
    fn block(&mut self, block: &mut [Stmt]) {
        for stmt in block {
            if let Stmt::If { condition, then, otherwise } = stmt {
                self.expr(condition);
                self.under(condition, true, &mut |s| s.block(then));
                self.under(condition, false, &mut |s| s.block(otherwise));
            } else if let Stmt::While { header, condition, body } = stmt {
                self.block(header);
                self.expr(condition);
                self.under(condition, true, &mut |s| s.block(body));
            } else if let Stmt::For { var, start, end, step, body, .. } = stmt {
                [&mut *start, &mut *end, step].into_iter().for_each(|e| self.expr(e));
                let before = self.known.len();
                self.counts(*var, start, end);
                self.block(body);
                self.known.truncate(before);
            } else if let Stmt::Let { var, value: Expr::Special(Special::Block) } = stmt {
                self.is_below_grid(*var);
            } else if let Stmt::Let { var, value } = stmt
                && !matches!(value, Expr::Var(_))
            {
                self.expr(value);
                self.is_copy(*var, value);
            } else {
                each_expr(stmt, &mut |e| self.expr(e));
            }
            predicate(stmt);
        }
    }

    /// Does what is done where a condition holds, or does not.
    fn under(&mut self, condition: &Expr, holds: bool, work: &mut dyn FnMut(&mut Self)) {
        let before = self.known.len();
        self.assume(condition, holds, &mut { MOST });
        work(self);
        self.known.truncate(before);
    }

    /// Adds what a condition says of integers where it holds, or does not.
    fn assume(&mut self, condition: &Expr, holds: bool, steps: &mut usize) {
        let Some(left) = steps.checked_sub(1) else { return };
        *steps = left;
        match condition {
            Expr::Unary(UnaryOp::Not, e) => self.assume(e, !holds, steps),
            Expr::Binary(BinaryOp::And, a, b) if holds => [a, b].into_iter().for_each(|e| self.assume(e, true, steps)),
            Expr::Binary(BinaryOp::Or, a, b) if !holds => [a, b].into_iter().for_each(|e| self.assume(e, false, steps)),
            Expr::Var(v) => {
                if let Some(e) = self.terms.made.get(v).cloned() {
                    self.assume(&e, holds, steps);
                }
            }
            Expr::Compare(op, a, b) => self.assume_compared(if holds { *op } else { op.inverse() }, a, b),
            _ => {}
        }
    }

    fn assume_compared(&mut self, op: CompareOp, a: &Expr, b: &Expr) {
        let Some((a, b)) = self.terms.of(a).zip(self.terms.of(b)) else { return };
        let sums = match op {
            CompareOp::Lt => [beyond(&a, &b, 1), None],
            CompareOp::Le => [beyond(&a, &b, 0), None],
            CompareOp::Gt => [beyond(&b, &a, 1), None],
            CompareOp::Ge => [beyond(&b, &a, 0), None],
            CompareOp::Eq => [beyond(&a, &b, 0), beyond(&b, &a, 0)],
            CompareOp::Ne => [None, None],
        };
        self.known.extend(sums.into_iter().flatten());
    }

    /// A counter begins at one number and stays below another one.
    fn counts(&mut self, var: VarId, start: &Expr, end: &Expr) {
        let Some(counter) = self.terms.of(&Expr::Var(var)) else { return };
        let (start, end) = (self.terms.of(start), self.terms.of(end));
        let sums = [start.and_then(|start| beyond(&start, &counter, 0)), end.and_then(|end| beyond(&counter, &end, 1))];
        self.known.extend(sums.into_iter().flatten());
    }

    /// A block's number is below that of all blocks.
    fn is_below_grid(&mut self, var: VarId) {
        let grid = self.terms.kernel.launch.grid.clone();
        let sums = self.terms.of(&Expr::Var(var)).zip(self.terms.of_host(&grid));
        self.known.extend(sums.and_then(|(block, grid)| beyond(&block, &grid, 1)));
    }

    /// Remembers a variable whose value is that of another one now, and stays so.
    fn is_copy(&mut self, var: VarId, value: &Expr) {
        let kept = match value {
            Expr::Literal(l) => l.dtype == DType::Bool,
            Expr::Var(first) => self.terms.lets.is_set_once(*first),
            _ => false,
        };
        if kept && self.terms.lets.is_set_once(var) {
            self.copies.insert(var, value.clone());
        }
    }

    fn expr(&mut self, e: &mut Expr) {
        match e {
            Expr::Var(v) => {
                if let Some(first) = self.copies.get(v) {
                    *e = first.clone();
                }
                return;
            }
            // All of these are evaluated in any case: what is loaded in them keeps its own condition.
            Expr::Binary(BinaryOp::And, a, b) if !loads(b) => {
                self.expr(a);
                self.under(&a.clone(), true, &mut |s| s.expr(b));
            }
            Expr::Select(condition, a, b) if !loads(a) && !loads(b) => {
                self.expr(condition);
                self.under(&condition.clone(), true, &mut |s| s.expr(a));
                self.under(&condition.clone(), false, &mut |s| s.expr(b));
            }
            Expr::Load { place, predicate: Some(predicate), .. } if !loads(&place.index) => {
                self.expr(predicate);
                self.under(&predicate.clone(), true, &mut |s| s.expr(&mut place.index));
            }
            // An author's number as good as a length: wrapping arithmetic ends here.
            _ if is_cut(self.terms.kernel, e) => return,
            _ => children(e, &mut |inner| self.expr(inner)),
        }
        fold(e);
        let found = match e {
            Expr::Compare(op, a, b) => self.compared(*op, a, b).map(|holds| Expr::Literal(Literal::bool(holds))),
            Expr::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => self.chosen(*op, a, b),
            _ => None,
        };
        if let Some(found) = found {
            *e = found;
        }
    }

    /// What a comparison comes to.
    fn compared(&mut self, op: CompareOp, a: &Expr, b: &Expr) -> Option<bool> {
        let (a, b) = self.terms.of(a).zip(self.terms.of(b))?;
        let (x, y, distance) = match op {
            CompareOp::Lt => (&a, &b, 1),
            CompareOp::Le => (&a, &b, 0),
            CompareOp::Gt => (&b, &a, 1),
            CompareOp::Ge => (&b, &a, 0),
            CompareOp::Eq | CompareOp::Ne => return None,
        };
        if self.is_beyond(x, y, distance) {
            return Some(true);
        }
        self.is_beyond(y, x, 1 - distance).then_some(false)
    }

    /// The smaller one, or the greater one, of two integers.
    fn chosen(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        let (x, y) = self.terms.of(a).zip(self.terms.of(b))?;
        let (first, second) = (self.is_beyond(&x, &y, 0), self.is_beyond(&y, &x, 0));
        match op {
            BinaryOp::Min if first => Some(a.clone()),
            BinaryOp::Min if second => Some(b.clone()),
            BinaryOp::Max if first => Some(b.clone()),
            BinaryOp::Max if second => Some(a.clone()),
            _ => None,
        }
    }

    /// Whether `b` is surely at least `distance` above `a`.
    fn is_beyond(&self, a: &Polynomial, b: &Polynomial, distance: i128) -> bool {
        let first = self.known.len().saturating_sub(MOST);
        beyond(a, b, distance).is_some_and(|sum| proof::is_at_least_0(&sum, &self.known[first..], &self.terms))
    }
}

/// Whether memory is read in an expression.
fn loads(e: &Expr) -> bool {
    match e {
        Expr::Load { .. } => true,
        Expr::Literal(_) | Expr::Var(_) | Expr::Param(_) | Expr::Special(_) => false,
        Expr::Element(_, a) | Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => loads(a),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => loads(a) || loads(b),
        Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => loads(a) || loads(b) || loads(c),
    }
}

/// `b - a - distance`.
fn beyond(a: &Polynomial, b: &Polynomial, distance: i128) -> Option<Polynomial> {
    b.plus(a, -1)?.plus(&Polynomial::constant(distance), -1)
}

#[cfg(test)]
mod tests;

//! What is zero where it was not loaded is not chosen against zero by the same condition again; zero of one type is zero of another.
//!
//! Before: `const float x = i < n ? a[i] : 0.0f; sum = i < n ? x : 0.0f;`
//! After:  `const float x = i < n ? a[i] : 0.0f; sum = x;`

use girih_ir::simt::visit::{blocks, children, each_expr};
use girih_ir::simt::{Expr, Kernel, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType, Literal, UnaryOp};
use std::collections::{HashMap, HashSet};

/// Puts loaded values in the place of choices between them and zero that their predicates have made.
pub(crate) fn use_absent_zeros(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut times = HashMap::new();
    count(&mut body, &mut times);
    let mut found = Lets { once: times.into_iter().filter(|(_, times)| *times == 1).map(|(v, _)| v).collect(), ..Lets::default() };
    found.collect(&mut body);
    rewrite(&mut body, &found);
    kernel.body = body;
}

/// What variables hold for as long as they can be read.
#[derive(Default)]
struct Lets {
    /// Those of bool.
    conditions: HashMap<VarId, Expr>,
    /// Those that are made of what a load under a predicate found.
    loaded: HashMap<VarId, Expr>,
    /// Variables that are set once: they are the same where a condition is told again. Counters are among them.
    once: HashSet<VarId>,
}

/// Counts where variables are declared that never change below.
fn count(block: &mut [Stmt], times: &mut HashMap<VarId, i32>) {
    for stmt in block {
        if let Stmt::Let { var, .. } | Stmt::For { var, .. } = stmt {
            *times.entry(*var).or_default() += 1;
        }
        blocks(stmt).into_iter().for_each(|inner| count(inner, times));
    }
}

impl Lets {
    fn collect(&mut self, block: &mut [Stmt]) {
        for stmt in block {
            if let Stmt::Let { var, value } = stmt
                && self.once.contains(var)
            {
                if compares(value) && self.stays(value) {
                    self.conditions.insert(*var, value.clone());
                } else if loads(value) {
                    self.loaded.insert(*var, value.clone());
                }
            }
            blocks(stmt).into_iter().for_each(|inner| self.collect(inner));
        }
    }

    /// Whether an expression is the same wherever it can be read: it reads no memory, and no variable that is set again.
    fn stays(&self, e: &Expr) -> bool {
        match e {
            Expr::Literal(_) | Expr::Param(_) => true,
            Expr::Var(v) => self.once.contains(v),
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.stays(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.stays(a) && self.stays(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => [a, b, c].into_iter().all(|e| self.stays(e)),
            Expr::Element(..) | Expr::Special(_) | Expr::Load { .. } => false,
        }
    }

    /// Adds what holds where a condition does.
    fn parts(&self, condition: &Expr, holds: &mut Vec<Expr>) {
        holds.push(condition.clone());
        match condition {
            Expr::Binary(BinaryOp::And, a, b) => [a, b].into_iter().for_each(|e| self.parts(e, holds)),
            Expr::Var(v) => {
                if let Some(e) = self.conditions.get(v) {
                    self.parts(e, holds);
                }
            }
            _ => {}
        }
    }

    /// Whether a condition that stays as it is follows from what holds.
    fn follows(&self, condition: &Expr, holds: &[Expr]) -> bool {
        self.stays(condition) && holds.contains(condition)
            || match condition {
                Expr::Binary(BinaryOp::And, a, b) => self.follows(a, holds) && self.follows(b, holds),
                Expr::Binary(BinaryOp::Or, a, b) => self.follows(a, holds) || self.follows(b, holds),
                Expr::Var(v) => self.conditions.get(v).is_some_and(|e| self.follows(e, holds)),
                _ => false,
            }
    }

    /// Whether every bit of an expression is zero where a condition does not hold.
    fn zero_without(&self, e: &Expr, condition: &Expr) -> bool {
        match e {
            Expr::Literal(l) => l.bits == 0,
            Expr::Var(v) => self.loaded.get(v).is_some_and(|e| self.zero_without(e, condition)),
            Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.zero_without(a, condition),
            Expr::Select(_, a, b) => self.zero_without(a, condition) && self.zero_without(b, condition),
            Expr::Load { predicate: Some(predicate), .. } => {
                let mut holds = Vec::new();
                self.parts(predicate, &mut holds);
                self.follows(condition, &holds)
            }
            _ => false,
        }
    }
}

fn compares(e: &Expr) -> bool {
    matches!(e, Expr::Compare(..) | Expr::Unary(UnaryOp::Not, _) | Expr::Binary(BinaryOp::And | BinaryOp::Or, ..))
}

/// Whether an expression is what a load under a predicate found, perhaps converted or chosen.
fn loads(e: &Expr) -> bool {
    match e {
        Expr::Load { predicate, .. } => predicate.is_some(),
        Expr::Cast(_, a) | Expr::Bitcast(_, a) => loads(a),
        Expr::Select(_, a, b) => loads(a) || loads(b),
        _ => false,
    }
}

fn rewrite(block: &mut [Stmt], lets: &Lets) {
    for stmt in block {
        each_expr(stmt, &mut |e| expr(e, lets));
        blocks(stmt).into_iter().for_each(|inner| rewrite(inner, lets));
    }
}

fn expr(e: &mut Expr, lets: &Lets) {
    children(e, &mut |inner| expr(inner, lets));
    if let Expr::Cast(to, a) = e
        && zero(a)
    {
        *e = Expr::Literal(Literal { dtype: *to, bits: 0 });
    }
    let Expr::Select(condition, a, b) = e else { return };
    let chosen = if zero(b) && lets.zero_without(a, condition) {
        a
    } else if zero(a) && lets.zero_without(b, &not(condition)) {
        b
    } else {
        return;
    };
    *e = std::mem::replace(&mut **chosen, Expr::Literal(Literal::bool(false)));
}

fn zero(e: &Expr) -> bool {
    matches!(e, Expr::Literal(l) if l.bits == 0 && l.dtype != DType::Bool)
}

fn not(condition: &Expr) -> Expr {
    match condition {
        Expr::Unary(UnaryOp::Not, e) => (**e).clone(),
        e => Expr::Unary(UnaryOp::Not, Box::new(e.clone())),
    }
}

#[cfg(test)]
mod tests;

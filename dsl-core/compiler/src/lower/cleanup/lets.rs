//! What variables hold for as long as they can be read, and what follows from conditions.

use girih_ir::simt::visit::blocks;
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{BinaryOp, UnaryOp};
use std::collections::{HashMap, HashSet};

/// How many conditions are looked at, at most, to learn what follows from one: names lead from each to others.
pub(super) const MOST: usize = 64;

/// Variables that are set once: what they were made of is the same wherever they can be read.
#[derive(Default)]
pub(super) struct Lets {
    /// Conditions, made of such variables and parameters alone.
    conditions: HashMap<VarId, Expr>,
    /// What is made of what a load under a predicate found.
    loaded: HashMap<VarId, Expr>,
    /// All of them; counters are among them.
    once: HashSet<VarId>,
}

impl Lets {
    /// Those of statements, the ones inside of them included.
    pub fn of(block: &mut [Stmt]) -> Lets {
        let mut times = HashMap::new();
        count(block, &mut times);
        let once = times.into_iter().filter(|(_, times)| *times == 1).map(|(v, _)| v).collect();
        let mut found = Lets { once, ..Lets::default() };
        found.collect(block);
        found
    }

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
    pub fn stays(&self, e: &Expr) -> bool {
        match e {
            Expr::Literal(_) | Expr::Param(_) => true,
            Expr::Var(v) => self.once.contains(v),
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.stays(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.stays(a) && self.stays(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => [a, b, c].into_iter().all(|e| self.stays(e)),
            Expr::Element(..) | Expr::Special(_) | Expr::Load { .. } => false,
        }
    }

    /// What a load under a predicate found, of which a variable is made.
    pub fn loaded(&self, var: VarId) -> Option<&Expr> {
        self.loaded.get(&var)
    }

    /// Whether a variable is set once.
    pub fn is_set_once(&self, var: VarId) -> bool {
        self.once.contains(&var)
    }

    /// Adds what holds where a condition does: parts of conjunctions, and those of what has a name.
    pub fn parts(&self, condition: &Expr, holds: &mut Vec<Expr>) {
        if let Expr::Binary(BinaryOp::And, a, b) = condition {
            return [a, b].into_iter().for_each(|e| self.parts(e, holds));
        }
        if holds.len() >= MOST || holds.contains(condition) {
            return;
        }
        holds.push(condition.clone());
        if let Expr::Var(v) = condition
            && let Some(e) = self.conditions.get(v)
        {
            self.parts(e, holds);
        }
    }

    /// Whether a condition that stays as it is follows from what holds.
    pub fn follows(&self, condition: &Expr, holds: &[Expr]) -> bool {
        self.follows_within(condition, holds, &mut { MOST })
    }

    fn follows_within(&self, condition: &Expr, holds: &[Expr], steps: &mut usize) -> bool {
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        match condition {
            Expr::Binary(BinaryOp::And, a, b) => self.follows_within(a, holds, steps) && self.follows_within(b, holds, steps),
            _ if self.stays(condition) && holds.contains(condition) => true,
            Expr::Binary(BinaryOp::Or, a, b) => self.follows_within(a, holds, steps) || self.follows_within(b, holds, steps),
            Expr::Var(v) => self.conditions.get(v).is_some_and(|e| self.follows_within(e, holds, steps)),
            _ => false,
        }
    }
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

/// A number that equal expressions have in common.
pub(super) fn digest(e: &Expr) -> u64 {
    let mix =
        |kind: u64, parts: &[u64]| parts.iter().fold(kind, |all, part| (all.rotate_left(9) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    match e {
        Expr::Literal(l) => mix(1, &[l.bits]),
        Expr::Var(v) => mix(2, &[v.0.into()]),
        Expr::Param(p) => mix(3, &[*p as u64]),
        Expr::Special(special) => mix(4, &[*special as u64]),
        Expr::Unary(op, a) => mix(5, &[*op as u64, digest(a)]),
        Expr::Binary(op, a, b) => mix(6, &[*op as u64, digest(a), digest(b)]),
        Expr::Compare(op, a, b) => mix(7, &[*op as u64, digest(a), digest(b)]),
        Expr::Select(a, b, c) | Expr::Ternary(_, a, b, c) => mix(8, &[digest(a), digest(b), digest(c)]),
        Expr::Cast(to, a) | Expr::Bitcast(to, a) => mix(9, &[*to as u64, digest(a)]),
        Expr::Element(..) | Expr::Load { .. } => 10,
    }
}

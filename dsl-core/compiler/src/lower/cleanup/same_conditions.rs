//! A condition has one name, and is told once: of variables that hold the same one the first is read, and what follows from the rest of a
//! conjunction is left out of it.
//!
//! Before: `const bool a = i < n && j < m; const bool b = i < n && j < m; if (i < n && b && a) ..`
//! After:  `const bool a = i < n && j < m; if (a) ..`

use super::lets::{Lets, MOST, digest};
use girih_ir::simt::visit::{blocks, children, each_expr};
use girih_ir::simt::{Expr, Kernel, Param, Special, Stmt, Var, VarId, expr_dtype};
use girih_ir::types::{BinaryOp, DType};
use std::collections::HashMap;

/// Reads the first name of each condition, and shortens conjunctions.
pub(crate) fn use_same_conditions(kernel: &mut Kernel) {
    let bools: Vec<bool> = kernel.vars.iter().map(|v| v.dtype == DType::Bool).collect();
    first_names(&mut kernel.body, &bools);
    // What conditions are made of has their first names now.
    let lets = Lets::of(&mut kernel.body);
    let Kernel { body, vars, params, .. } = kernel;
    shorten(body, &Conjunctions { lets, vars, params });
    // Of some conjunctions a name is left.
    first_names(body, &bools);
}

fn first_names(body: &mut [Stmt], bools: &[bool]) {
    let lets = Lets::of(body);
    Names { lets: &lets, bools, known: HashMap::new(), first: HashMap::new() }.block(body);
}

/// Names of conditions and of hardware indices where a walk stands.
struct Names<'l> {
    lets: &'l Lets,
    bools: &'l [bool],
    /// What can be read here, with what it holds.
    known: HashMap<u64, Vec<(Expr, VarId)>>,
    /// The first names of others.
    first: HashMap<VarId, VarId>,
}

impl Names<'_> {
    fn block(&mut self, block: &mut [Stmt]) {
        let mut own = Vec::new();
        for stmt in block {
            each_expr(stmt, &mut |e| self.rename(e));
            if let Stmt::Let { var, value: Expr::Var(first) } = stmt
                && self.bools[var.0 as usize]
                && self.lets.is_set_once(*var)
                && self.lets.is_set_once(*first)
            {
                self.first.insert(*var, *first);
            } else if let Stmt::Let { var, value } = stmt
                && self.has_a_name(*var, value)
            {
                let number = digest(value);
                let alike = self.known.entry(number).or_default();
                match alike.iter().find(|(known, _)| known == value) {
                    Some((_, first)) => drop(self.first.insert(*var, *first)),
                    None => {
                        alike.push((value.clone(), *var));
                        own.push(number);
                    }
                }
            }
            blocks(stmt).into_iter().for_each(|inner| self.block(inner));
        }
        // Names end with their block.
        for number in own {
            self.known.get_mut(&number).and_then(Vec::pop);
        }
    }

    /// Whether a variable's value is the same wherever it is computed again.
    fn has_a_name(&self, var: VarId, value: &Expr) -> bool {
        let condition = self.bools[var.0 as usize] && !matches!(value, Expr::Literal(_) | Expr::Special(_));
        let index = matches!(value, Expr::Special(special) if *special != Special::Elected);
        self.lets.is_set_once(var) && (condition && self.lets.stays(value) || index)
    }

    fn rename(&self, e: &mut Expr) {
        match e {
            Expr::Var(v) => *v = self.first.get(v).copied().unwrap_or(*v),
            _ => children(e, &mut |inner| self.rename(inner)),
        }
    }
}

fn shorten(block: &mut [Stmt], conjunctions: &Conjunctions) {
    for stmt in block {
        each_expr(stmt, &mut |e| conjunctions.shorten(e));
        blocks(stmt).into_iter().for_each(|inner| shorten(inner, conjunctions));
    }
}

struct Conjunctions<'k> {
    lets: Lets,
    vars: &'k [Var],
    params: &'k [Param],
}

impl Conjunctions<'_> {
    fn shorten(&self, e: &mut Expr) {
        if matches!(e, Expr::Binary(BinaryOp::And, a, _) if expr_dtype(a, self.vars, self.params) == DType::Bool) {
            let mut parts = Vec::new();
            conjuncts(e, &mut parts);
            let count = parts.len();
            // What comes later goes first.
            for at in (0..count).rev().filter(|_| count <= MOST) {
                if self.follows_from_others(&parts, at) {
                    parts.remove(at);
                }
            }
            if parts.len() < count {
                let shorter = parts.into_iter().reduce(|a, b| Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b)));
                *e = shorter.unwrap_or_else(|| panic!("same_conditions: a conjunction of nothing"));
            }
        }
        self.inside(e);
    }

    /// Shortens what a conjunction, or another expression, is made of.
    fn inside(&self, e: &mut Expr) {
        let conjunction = matches!(e, Expr::Binary(BinaryOp::And, ..));
        children(e, &mut |inner| match inner {
            Expr::Binary(BinaryOp::And, ..) if conjunction => self.inside(inner),
            _ => self.shorten(inner),
        });
    }

    fn follows_from_others(&self, parts: &[Expr], at: usize) -> bool {
        let mut holds = Vec::new();
        parts.iter().enumerate().filter(|(other, _)| *other != at).for_each(|(_, e)| self.lets.parts(e, &mut holds));
        self.lets.follows(&parts[at], &holds)
    }
}

/// The parts of a conjunction, in their order.
fn conjuncts(e: &Expr, parts: &mut Vec<Expr>) {
    match e {
        Expr::Binary(BinaryOp::And, a, b) => [a, b].into_iter().for_each(|e| conjuncts(e, parts)),
        e => parts.push(e.clone()),
    }
}

#[cfg(test)]
mod tests;

//! What compilers leave of loops that are written out: their counters are constants, so tests, jumps and arithmetic on counters and values
//! from outside vanish into offsets of instructions. The counters of instructions take these for moves.

use super::decode::bodies;
use girih_ir::simt::{Expr, Kernel, Stmt, VarId};
use std::collections::HashSet;

/// The unrolled loops around a statement.
#[derive(Default)]
pub(super) struct Unrolled {
    counters: Vec<VarId>,
    /// What changes from turn to turn.
    inside: HashSet<VarId>,
}

/// Whether a loop is written out: the author of the code asks for it, and the number of its turns is known.
pub(super) fn is_written_out(unroll: bool, [start, end, step]: [&Expr; 3]) -> bool {
    unroll && [start, end, step].iter().all(|e| matches!(e, Expr::Literal(_)))
}

/// The turns of a loop that is written out.
pub(super) fn written_turns(bounds: [&Expr; 3]) -> f64 {
    let [start, end, step] = bounds.map(|e| if let Expr::Literal(l) = e { l.to_i64() } else { 0 });
    ((end - start).max(0) as f64 / step.max(1) as f64).ceil()
}

impl Unrolled {
    pub(super) fn enter(&mut self, counter: VarId, body: &[Stmt]) {
        if self.counters.is_empty() {
            written(body, &mut self.inside);
        }
        self.counters.push(counter);
    }

    pub(super) fn leave(&mut self) {
        self.counters.pop();
        if self.counters.is_empty() {
            self.inside.clear();
        }
    }

    /// A name for what is made of counters is as constant as they are.
    pub(super) fn define(&mut self, var: VarId, value: &Expr, kernel: &Kernel) {
        if self.folds(value, kernel) {
            self.inside.remove(&var);
        }
    }

    /// Whether an integer is made of counters and what is there before the loops.
    pub(super) fn folds(&self, e: &Expr, kernel: &Kernel) -> bool {
        !self.counters.is_empty() && self.folds_all(e, kernel)
    }

    fn folds_all(&self, e: &Expr, kernel: &Kernel) -> bool {
        let all = |parts: &[&Expr]| parts.iter().all(|e| self.folds_all(e, kernel));
        match e {
            Expr::Literal(l) => !l.dtype.is_float(),
            Expr::Var(v) => !kernel.var(*v).dtype.is_float() && (self.counters.contains(v) || !self.inside.contains(v)),
            Expr::Param(_) => !kernel.dtype(e).is_float(),
            Expr::Special(_) => true,
            Expr::Unary(_, a) | Expr::Cast(_, a) => all(&[a]),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => all(&[a, b]),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => all(&[a, b, c]),
            Expr::Element(..) | Expr::Bitcast(..) | Expr::Load { .. } => false,
        }
    }
}

/// Variables that statements set.
fn written(stmts: &[Stmt], set: &mut HashSet<VarId>) {
    for s in stmts {
        match s {
            Stmt::Let { var, .. }
            | Stmt::Declare { var, .. }
            | Stmt::Assign { var, .. }
            | Stmt::LoadRelaxed { var, .. }
            | Stmt::LoadFromBlock { var, .. }
            | Stmt::Vote { var, .. }
            | Stmt::WarpReduce { var, .. }
            | Stmt::Shuffle { var, .. } => {
                set.insert(*var);
            }
            Stmt::For { var, .. } => {
                set.insert(*var);
            }
            Stmt::Atomic { result, .. } => set.extend(result),
            _ => {}
        }
        for body in bodies(s) {
            written(body, set);
        }
    }
}

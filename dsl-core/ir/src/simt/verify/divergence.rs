//! What may differ between threads of a block: values, and so the conditions under which a statement stands.

use super::{Check, Verifier};
use crate::simt::{Expr, Fragment, Special, Stmt, VarId};

impl Verifier<'_> {
    pub(super) fn uniform(&self, what: &str) -> Check {
        self.require(self.divergent == 0, || format!("a {what} barrier stands under a thread-dependent condition"))
    }

    /// Whether an expression's value may differ between threads of a block. Loads may, unless they read what every thread reads.
    pub(super) fn varies(&self, e: &Expr) -> bool {
        let var = |v: &VarId| !self.kernel.alike.contains(v) && self.varying.get(v.0 as usize).copied().unwrap_or(true);
        match e {
            Expr::Literal(_) | Expr::Param(_) => false,
            Expr::Var(v) => var(v),
            Expr::Element(v, i) => var(v) || self.varies(i),
            Expr::Special(s) => matches!(s, Special::Thread | Special::Lane | Special::Warp | Special::Elected),
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.varies(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.varies(a) || self.varies(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => self.varies(a) || self.varies(b) || self.varies(c),
            Expr::Load { place, predicate, .. } => self.varies(&place.index) || predicate.as_ref().is_some_and(|p| self.varies(p)),
        }
    }

    /// Marks the variables that depend on the thread, by value or because a thread-dependent condition decides whether they are set.
    pub(super) fn mark_varying(&mut self, stmts: &[Stmt], divergent: bool) {
        for s in stmts {
            match s {
                Stmt::Let { var, value } | Stmt::Assign { var, value, index: None } => self.mark(*var, divergent || self.varies(value)),
                Stmt::Declare { var, init } => self.mark(*var, init.as_ref().is_some_and(|x| self.varies(x))),
                Stmt::Assign { var, value, index: Some(i) } => self.mark(*var, divergent || self.varies(value) || self.varies(i)),
                Stmt::LoadVector { var, place, at, predicate, .. } => {
                    let varies = self.varies(&place.index) || self.varies(at) || predicate.as_ref().is_some_and(|p| self.varies(p));
                    self.mark(*var, divergent || varies);
                }
                Stmt::Atomic { result: Some(var), .. }
                | Stmt::LoadRelaxed { var, .. }
                | Stmt::LoadFromBlock { var, .. }
                | Stmt::Shuffle { var, .. }
                | Stmt::Mma { d: Fragment { var, .. }, .. }
                | Stmt::Wgmma { d: Fragment { var, .. }, .. }
                | Stmt::LoadMatrix { var, .. } => self.mark(*var, true),
                // The block's only warp agrees.
                Stmt::Vote { var, .. } | Stmt::WarpReduce { var, .. } => self.mark(*var, divergent || self.kernel.launch.block > 32),
                Stmt::If { condition, then, otherwise } => {
                    let divergent = divergent || self.varies(condition);
                    self.mark_varying(then, divergent);
                    self.mark_varying(otherwise, divergent);
                }
                Stmt::For { var, start, end, step, body, .. } => {
                    let varies = divergent || [start, end, step].into_iter().any(|e| self.varies(e));
                    self.mark(*var, varies);
                    self.mark_varying(body, varies);
                }
                Stmt::While { header, condition, body } => {
                    self.mark_varying(header, divergent);
                    let varies = divergent || self.varies(condition);
                    self.mark_varying(header, varies);
                    self.mark_varying(body, varies);
                }
                Stmt::Atomic { result: None, .. } => {}
                Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::Comment(_) => {}
                Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => {}
                Stmt::AsyncArrive { .. }
                | Stmt::MbarrierInit { .. }
                | Stmt::MbarrierArrive { .. }
                | Stmt::MbarrierArriveAt { .. }
                | Stmt::MbarrierWait { .. } => {}
                Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } => {}
                Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
            }
        }
    }

    fn mark(&mut self, var: VarId, varies: bool) {
        if let Some(v) = self.varying.get_mut(var.0 as usize) {
            *v |= varies;
        }
    }
}

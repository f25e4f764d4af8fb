//! The rules of what some threads do for the block.

use super::{Check, Rule, rule};
use crate::block::{Alone, Stmt, Ty, operands, visit};
use girih_ir::types::{AtomicOp, MemoryOrder};

impl Check<'_> {
    /// Threads that others wait for only look, and give scalars; last of all they may publish one word.
    pub(super) fn alone(&mut self, alone: &Alone) -> Rule {
        rule(self.page.teams.len() == 1, || "slices of a block wait for some of its threads".into())?;
        rule(alone.team < self.page.alone.len(), || format!("there is no team {} that works for the block", alone.team))?;
        for stmt in &alone.again {
            let Stmt::Let(v, op) = stmt else { return Err("what is made again is no operation".into()) };
            self.uses(&operands(op))?;
            rule(self.made.contains(v), || format!("{} is made again, and was not made before", self.name(*v)))?;
        }
        let looks = match alone.body.split_last() {
            Some((Stmt::Atomic { update, order: MemoryOrder::Release | MemoryOrder::Relaxed, .. }, looks)) => {
                let tiles = update.uses().into_iter().any(|v| matches!(self.page.ty(v), Ty::Tile(..)));
                rule(!tiles && update.result.is_none(), || "threads that wait for the block publish more than one word".into())?;
                looks
            }
            _ => &alone.body,
        };
        let mut wrong = false;
        visit(looks, &mut |stmt| {
            wrong |= match stmt {
                Stmt::Let(..) | Stmt::Load(..) | Stmt::Combine(_) => false,
                Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } => false,
                Stmt::Atomic { update, .. } => update.op != AtomicOp::Load,
                Stmt::Window(..)
                | Stmt::Store { .. }
                | Stmt::Scatter { .. }
                | Stmt::OverCluster(_)
                | Stmt::Together(_)
                | Stmt::Shared { .. } => true,
                Stmt::Barrier(_) | Stmt::Copies { .. } | Stmt::Meet(_) | Stmt::Loop(_) | Stmt::Alone(_) | Stmt::Finish(_) => true,
            }
        });
        rule(!wrong, || "threads that work for the block do more than to look".into())?;
        self.scope(&alone.body, |check| check.uses(&alone.gives))?;
        alone.gives.iter().try_for_each(|v| {
            rule(matches!(self.page.ty(*v), Ty::Scalar(_)), || format!("{} is no scalar", self.name(*v)))?;
            self.makes(*v)
        })
    }
}

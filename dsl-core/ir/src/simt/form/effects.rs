//! What statements set and store, those inside of them included.

use super::super::{Space, Stmt, VarId};
use std::collections::BTreeSet;

/// What some statements change.
#[derive(Default)]
pub struct Effects {
    /// Variables that they set.
    pub vars: BTreeSet<VarId>,
    /// Memory that they store to.
    pub spaces: BTreeSet<Space>,
    /// They order all memory.
    pub orders: bool,
}

impl Effects {
    /// The effects of some blocks.
    pub fn of(blocks: &[&[Stmt]]) -> Effects {
        let mut effects = Effects::default();
        blocks.iter().for_each(|b| effects.block(b));
        effects
    }

    fn block(&mut self, block: &[Stmt]) {
        block.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { var, .. }
            | Stmt::Declare { var, .. }
            | Stmt::Assign { var, .. }
            | Stmt::LoadVector { var, .. }
            | Stmt::LoadMatrix { var, .. }
            | Stmt::Shuffle { var, .. }
            | Stmt::Vote { var, .. } => drop(self.vars.insert(*var)),
            Stmt::Mma { d, .. } => drop(self.vars.insert(d.var)),
            Stmt::StoreVector { place, .. } | Stmt::Store { place, .. } | Stmt::StoreRelaxed { place, .. } => {
                self.spaces.insert(place.space);
            }
            Stmt::Atomic { result, place, .. } => {
                self.vars.extend(result);
                self.spaces.insert(place.space);
            }
            Stmt::LoadRelaxed { var, place, .. } => {
                self.vars.insert(*var);
                self.spaces.insert(place.space);
            }
            Stmt::AsyncCopy { shared, .. } | Stmt::BulkCopy { shared, .. } => drop(self.spaces.insert(shared.space)),
            Stmt::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|b| self.block(b)),
            Stmt::For { var, body, .. } => {
                self.vars.insert(*var);
                self.block(body);
            }
            Stmt::While { header, body, .. } => [header, body].into_iter().for_each(|b| self.block(b)),
            Stmt::Barrier(_)
            | Stmt::Fence { .. }
            | Stmt::AsyncCommit
            | Stmt::AsyncWait { .. }
            | Stmt::AsyncArrive { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierWait { .. } => self.orders = true,
            Stmt::Comment(_) => {}
        }
    }
}

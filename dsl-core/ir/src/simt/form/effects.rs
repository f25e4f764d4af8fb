//! What statements set and store, those inside of them included.

use super::super::visit::{inner_blocks, set_by};
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
        self.vars.extend(set_by(stmt));
        match stmt {
            Stmt::StoreVector { place, .. }
            | Stmt::Store { place, .. }
            | Stmt::StoreRelaxed { place, .. }
            | Stmt::Atomic { place, .. }
            | Stmt::LoadRelaxed { place, .. } => drop(self.spaces.insert(place.space)),
            Stmt::AsyncCopy { shared, .. } | Stmt::BulkCopy { shared, .. } | Stmt::TensorCopy { shared, .. } => {
                self.spaces.insert(shared.space);
            }
            Stmt::Barrier(_)
            | Stmt::Fence { .. }
            | Stmt::AsyncCommit
            | Stmt::AsyncWait { .. }
            | Stmt::AsyncArrive { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::MbarrierWait { .. }
            | Stmt::WgmmaFence
            | Stmt::WgmmaCommit
            | Stmt::WgmmaWait { .. }
            | Stmt::ProxyFence
            | Stmt::SetRegisters { .. } => self.orders = true,
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::LoadVector { .. } | Stmt::LoadMatrix { .. } => {}
            Stmt::LoadFromBlock { .. } | Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } => {}
            Stmt::Mma { .. } | Stmt::Wgmma { .. } | Stmt::Comment(_) => {}
            Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => {}
        }
        inner_blocks(stmt).into_iter().for_each(|b| self.block(b));
    }
}

//! Tensors through which the threads of a launch exchange values.
//!
//! C's `__restrict__` promises more than that no other pointer leads to a tensor: what this thread has read or stored stays as it is until this
//! thread itself stores to it, so that compilers keep values in registers over a barrier (NVRTC 13.0 does, for `s[i]` read before and after
//! a barrier behind which another thread has stored it). A tensor that a kernel both reads and writes, with a place where threads meet, is none
//! to promise that of.

use girih_ir::simt::visit::{blocks, each_expr, each_load};
use girih_ir::simt::{Kernel, ParamKind, Place, Space, Stmt};
use girih_ir::types::MemoryOrder;
use std::collections::BTreeSet;

/// Takes `restrict` from the pointers through which threads may exchange values.
pub(crate) fn drop_restrict(kernel: &mut Kernel) {
    let mut seen = Seen::default();
    seen.block(&mut kernel.body);
    if !seen.meet {
        return;
    }
    for exchanged in seen.read.intersection(&seen.written) {
        if let ParamKind::Pointer { restrict, .. } = &mut kernel.params[*exchanged].kind {
            *restrict = false;
        }
    }
}

/// What a kernel does with its parameters' memory.
#[derive(Default)]
struct Seen {
    read: BTreeSet<usize>,
    written: BTreeSet<usize>,
    /// Threads wait for one another, or put their accesses in order.
    meet: bool,
}

impl Seen {
    fn block(&mut self, block: &mut [Stmt]) {
        for stmt in block {
            each_expr(stmt, &mut |e| each_load(e, &mut |place| self.reads(place)));
            self.stmt(stmt);
            blocks(stmt).into_iter().for_each(|inner| self.block(inner));
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::LoadVector { place, .. } | Stmt::LoadRelaxed { place, .. } | Stmt::LoadMatrix { place, .. } => self.reads(place),
            Stmt::LoadFromBlock { place, .. } => self.reads(place),
            Stmt::AsyncCopy { global, .. } | Stmt::BulkCopy { global, .. } => self.reads(global),
            Stmt::Store { place, .. } | Stmt::StoreVector { place, .. } | Stmt::StoreRelaxed { place, .. } => self.writes(place),
            // What it reads no compiler keeps.
            Stmt::Atomic { place, order, .. } => {
                self.writes(place);
                self.meet |= *order != MemoryOrder::Relaxed;
            }
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::MbarrierWait { .. } => self.meet = true,
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::Comment(_) => {}
            Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => {}
            // A map is no pointer: what it reads nobody may write.
            Stmt::TensorCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::AsyncArrive { .. } => {}
            Stmt::MbarrierInit { .. } | Stmt::MbarrierArrive { .. } | Stmt::MbarrierArriveAt { .. } => {}
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } | Stmt::Mma { .. } | Stmt::Wgmma { .. } => {}
            Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
        }
    }

    fn reads(&mut self, place: &Place) {
        self.read.extend(param(place));
    }

    fn writes(&mut self, place: &Place) {
        self.written.extend(param(place));
    }
}

fn param(place: &Place) -> Option<usize> {
    match place.space {
        Space::Global(param) => Some(param),
        Space::Shared(_) | Space::Constant(_) => None,
    }
}

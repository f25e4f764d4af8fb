//! What may stand in a loop that each element leaves by itself ([`Stmt::While`] on a tile): nothing for which threads meet.

use super::{Block, Kernel, Op, SharedKind, Stmt};
use crate::loc::SourceLoc;
use crate::types::Scope;

/// The first statement of a turn for which elements that have left the loop would be needed: what it is, and where.
pub fn hindrance(kernel: &Kernel, block: &Block) -> Option<(&'static str, SourceLoc)> {
    block.iter().find_map(|stmt| match stmt {
        Stmt::Let(v, op) => needs_others(op).map(|what| (what, kernel.value(*v).loc)),
        Stmt::Where { body, .. } | Stmt::Range { body, .. } => hindrance(kernel, body),
        Stmt::If { then, otherwise, .. } => hindrance(kernel, then).or_else(|| hindrance(kernel, otherwise)),
        Stmt::While { header, body, .. } => hindrance(kernel, header).or_else(|| hindrance(kernel, body)),
        Stmt::Scatter { run: Some(_), loc, .. } => Some(("a run of neighbours", *loc)),
        Stmt::Scatter { .. } | Stmt::Atomic { .. } => None,
        Stmt::Shared(access) => match access.kind {
            SharedKind::Gather { .. } => None,
            SharedKind::Scatter { .. } | SharedKind::Atomic(_) if kernel.shared_array(access.array).by_hand => None,
            _ => Some(("this access of a shared array", access.loc)),
        },
        Stmt::Store { loc, .. } => Some(("a store of a tile", *loc)),
        Stmt::Combine(c) => Some(("a reduction or scan", c.loc)),
        Stmt::Tiles(l) => Some(("a loop over tiles", l.loc)),
        Stmt::Barrier { scope: Scope::Warp, .. } => None,
        Stmt::Barrier { loc, .. } => Some(("a barrier", *loc)),
        Stmt::Copies { loc, .. } => Some(("a wait for copies", *loc)),
    })
}

fn needs_others(op: &Op) -> Option<&'static str> {
    match op {
        Op::Dot { .. } => Some("a dot"),
        Op::Window { .. } => Some("a window"),
        _ => None,
    }
}

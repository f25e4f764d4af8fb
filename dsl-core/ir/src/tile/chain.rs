//! Chains: values that go from warp to warp in order ([`SharedKind::Take`], [`SharedKind::Leave`]).
//!
//! What a warp does between taking and leaving is done by one warp after the other; everything else the warps do at the same time. So
//! only values are made between the two: nothing there may wait for another warp.

use super::{Kernel, Op, SharedAccess, SharedArray, SharedId, SharedKind, Stmt, visit};
use crate::error::Diagnostic;
use crate::loc::SourceLoc;

/// The statement of a block that leaves what the `at`-th takes.
pub(crate) fn left_by(block: &[Stmt], at: usize) -> Option<usize> {
    let (array, SharedKind::Take { .. }) = access(&block[at])? else { return None };
    let leaves = |s: &Stmt| matches!(access(s), Some((a, SharedKind::Leave(_))) if a == array);
    block[at..].iter().position(leaves).map(|n| at + n)
}

fn access(stmt: &Stmt) -> Option<(SharedId, &SharedKind)> {
    if let Stmt::Shared(SharedAccess { array, kind, .. }) = stmt { Some((*array, kind)) } else { None }
}

/// Whether a statement makes a value of values alone.
fn makes_a_value(stmt: &Stmt) -> bool {
    let Stmt::Let(_, op) = stmt else { return false };
    !matches!(op, Op::Load(..) | Op::Gather(..) | Op::GatherInside(..) | Op::Window { .. } | Op::Near(..) | Op::Dot { .. })
}

/// What is wrong with a kernel's chains.
pub(super) fn check(kernel: &Kernel, errors: &mut Vec<Diagnostic>) {
    let mut blocks = vec![&kernel.body];
    visit::visit(&kernel.body, &mut |s| blocks.extend(visit::blocks(s)));
    for block in blocks {
        for (at, stmt) in block.iter().enumerate() {
            let Stmt::Shared(SharedAccess { array, kind, loc, .. }) = stmt else { continue };
            let chain = kernel.shared_array(*array);
            match kind {
                SharedKind::Take { .. } => errors.extend(taken(block, at, chain, *loc)),
                SharedKind::Leave(_) if !(0..at).any(|earlier| left_by(block, earlier) == Some(at)) => {
                    let message = format!("`{}` is left here and was not taken before in the same block of statements", name(chain));
                    errors.push(
                        Diagnostic::new(*loc, message).note("it is made here", chain.loc).help("take it first: `let v = chain.take();`"),
                    );
                }
                _ => {}
            }
        }
    }
}

fn taken(block: &[Stmt], at: usize, chain: &SharedArray, loc: SourceLoc) -> Option<Diagnostic> {
    let Some(end) = left_by(block, at) else {
        let message = format!("`{}` is taken here and never left in the same block of statements: the next warp waits for it", name(chain));
        return Some(Diagnostic::new(loc, message).help("leave what the next warp takes: `chain.leave(v)`"));
    };
    let other = block[at + 1..end].iter().find(|s| !makes_a_value(s))?;
    let message = format!("between taking and leaving `{}`, warps do more than compute values", name(chain));
    let help = "read before, write behind: in between, one warp works after the other";
    Some(Diagnostic::new(place(other).unwrap_or(loc), message).note("taken here", loc).help(help))
}

fn name(chain: &SharedArray) -> String {
    chain.name.clone().unwrap_or_else(|| "the chain".into())
}

/// Where a statement stands, if it knows.
fn place(stmt: &Stmt) -> Option<SourceLoc> {
    match stmt {
        Stmt::Shared(a) => Some(a.loc),
        Stmt::Store { loc, .. } | Stmt::Scatter { loc, .. } | Stmt::Atomic { loc, .. } | Stmt::Barrier { loc, .. } => Some(*loc),
        Stmt::Copies { loc, .. } | Stmt::Range { loc, .. } | Stmt::While { loc, .. } | Stmt::If { loc, .. } => Some(*loc),
        Stmt::Tiles(l) => Some(l.loc),
        _ => None,
    }
}

//! A walk over the statements of block IR.

use super::{Block, Finish, FinishWay, Loop, Stmt};

/// Calls `f` on every statement, outer ones first. The statements of authors' operators are not among them.
pub(crate) fn visit<'b>(block: &'b [Stmt], f: &mut impl FnMut(&'b Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in blocks(stmt) {
            visit(inner, f);
        }
    }
}

/// The blocks inside of a statement, in their order.
pub(crate) fn blocks(stmt: &Stmt) -> Vec<&Block> {
    match stmt {
        Stmt::Loop(Loop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => vec![body],
        Stmt::While { header, body, .. } => vec![header, body],
        Stmt::Alone(alone) => vec![&alone.body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::Finish(Finish { before, after, way, .. }) => match way {
            FinishWay::SecondLaunch { again } => vec![before, again, after],
            FinishWay::SingleBlock | FinishWay::LastBlock { .. } | FinishWay::Atomics { .. } => vec![before, after],
        },
        Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => vec![],
        Stmt::Combine(_)
        | Stmt::OverCluster(_)
        | Stmt::Together(_)
        | Stmt::Shared { .. }
        | Stmt::Barrier(_)
        | Stmt::Copies { .. }
        | Stmt::Meet(_) => vec![],
    }
}

/// As [`visit`], to change the statements.
pub(crate) fn visit_mut(block: &mut [Stmt], f: &mut impl FnMut(&mut Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in blocks_mut(stmt) {
            visit_mut(inner, f);
        }
    }
}

fn blocks_mut(stmt: &mut Stmt) -> Vec<&mut Block> {
    match stmt {
        Stmt::Loop(Loop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => vec![body],
        Stmt::While { header, body, .. } => vec![header, body],
        Stmt::Alone(alone) => vec![&mut alone.body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::Finish(Finish { before, after, way, .. }) => match way {
            FinishWay::SecondLaunch { again } => vec![before, again, after],
            FinishWay::SingleBlock | FinishWay::LastBlock { .. } | FinishWay::Atomics { .. } => vec![before, after],
        },
        Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => vec![],
        Stmt::Combine(_)
        | Stmt::OverCluster(_)
        | Stmt::Together(_)
        | Stmt::Shared { .. }
        | Stmt::Barrier(_)
        | Stmt::Copies { .. }
        | Stmt::Meet(_) => vec![],
    }
}

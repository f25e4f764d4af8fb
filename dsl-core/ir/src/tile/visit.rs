//! Walks over the statements of a kernel, and what is found that way: how values are made.

use super::{Block, Kernel, Op, Stmt, TileLoop, ValueId};
use std::collections::HashMap;

/// Calls `f` on every statement, outer ones first.
pub fn visit<'a>(block: &'a [Stmt], f: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        f(stmt);
        for inner in blocks(stmt) {
            visit(inner, f);
        }
    }
}

/// How values are made; loop variables and the like are by no operation.
pub fn operations(kernel: &Kernel) -> HashMap<ValueId, &Op> {
    let mut ops = HashMap::new();
    visit(&kernel.body, &mut |s| {
        if let Stmt::Let(v, op) = s {
            ops.insert(*v, op);
        }
    });
    ops
}

/// The blocks of statements inside of a statement, in their order.
pub fn blocks(stmt: &Stmt) -> Vec<&Block> {
    match stmt {
        Stmt::Tiles(TileLoop { body, .. }) | Stmt::Range { body, .. } | Stmt::Where { body, .. } => vec![body],
        Stmt::While { header, body, .. } => vec![header, body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => vec![],
        Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => vec![],
    }
}

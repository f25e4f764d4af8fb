//! Last step: loops of one turn and unused variables vanish, blocks that exist for scoping only are spliced in where they are alone.

use super::fold::{fold, integer};
use girih_ir::simt::visit::{blocks, children, each_expr, each_read};
use girih_ir::simt::{Expr, Kernel, Stmt, VarId};
use girih_ir::types::Literal;

/// Simplifies a kernel; what it computes and its order of accesses stay as they are.
pub(crate) fn simplify(kernel: &mut Kernel) {
    let body = std::mem::take(&mut kernel.body);
    kernel.body = splice(body);
    let mut counts = vec![0; kernel.vars.len()];
    count_block(&mut kernel.body, 1, &mut counts);
    while remove_unused(&mut kernel.body, &mut counts) {}
}

/// Loops of one turn become their body with the counter replaced; a choice that is made becomes the side that was chosen.
fn splice(block: Vec<Stmt>) -> Vec<Stmt> {
    let mut out = Vec::new();
    for mut stmt in block {
        for inner in blocks(&mut stmt) {
            *inner = splice(std::mem::take(inner));
        }
        if let Stmt::For { var, start, end, unroll: true, body, .. } = &mut stmt
            && integer(start) == Some(0)
            && integer(end) == Some(1)
        {
            let zero = Expr::Literal(Literal::i32(0));
            out.extend(std::mem::take(body).into_iter().map(|s| substitute(s, *var, &zero)));
        } else if let Stmt::If { condition: Expr::Literal(l), then, .. } = &mut stmt
            && *l == Literal::bool(true)
        {
            out.append(then);
        } else if let Stmt::If { condition: Expr::Literal(l), otherwise, .. } = &mut stmt
            && *l == Literal::bool(false)
        {
            out.append(otherwise);
        } else {
            out.push(stmt);
        }
    }
    out
}

/// The statement with an expression in a variable's place.
pub(crate) fn substitute(mut stmt: Stmt, var: VarId, by: &Expr) -> Stmt {
    fn expr(e: &mut Expr, var: VarId, by: &Expr) {
        if matches!(e, Expr::Var(v) if *v == var) {
            *e = by.clone();
            return;
        }
        children(e, &mut |c| expr(c, var, by));
        fold(e);
    }
    each_expr(&mut stmt, &mut |e| expr(e, var, by));
    for block in blocks(&mut stmt) {
        let inner = std::mem::take(block);
        *block = inner.into_iter().map(|s| substitute(s, var, by)).collect();
    }
    stmt
}

/// Adds `by` for each read of a variable.
fn count_block(block: &mut [Stmt], by: i32, counts: &mut [i32]) {
    each_read(block, &mut |var| counts[var.0 as usize] += by);
}

/// Removes declarations of variables that are never read, and what only sets them: from the end, so that what they alone have read goes in the
/// same walk.
fn remove_unused(block: &mut Vec<Stmt>, counts: &mut [i32]) -> bool {
    let mut changed = false;
    let mut kept = Vec::new();
    while let Some(mut stmt) = block.pop() {
        for inner in blocks(&mut stmt).into_iter().rev() {
            changed |= remove_unused(inner, counts);
        }
        let unused = |v: &VarId| counts[v.0 as usize] == 0;
        let goes = match &stmt {
            Stmt::Let { var, .. } | Stmt::Declare { var, .. } | Stmt::Assign { var, .. } => unused(var),
            Stmt::LoadVector { var, .. } | Stmt::LoadMatrix { var, .. } | Stmt::LoadFromBlock { var, .. } => unused(var),
            Stmt::Shuffle { var, .. } | Stmt::Vote { var, .. } | Stmt::WarpReduce { var, .. } => unused(var),
            Stmt::For { body, unroll, .. } => *unroll && body.is_empty(),
            Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::LoadRelaxed { .. } => false,
            Stmt::Atomic { .. } | Stmt::Mma { .. } | Stmt::If { .. } | Stmt::While { .. } | Stmt::Comment(_) => false,
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => false,
            Stmt::AsyncArrive { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::MbarrierWait { .. } => false,
            Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::Wgmma { .. } => false,
            Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => false,
        };
        if goes {
            count_block(std::slice::from_mut(&mut stmt), -1, counts);
            changed = true;
        } else {
            kept.push(stmt);
        }
    }
    kept.reverse();
    *block = kept;
    changed
}

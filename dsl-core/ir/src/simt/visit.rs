//! What lies inside of statements and expressions, of all kinds.

use super::{Expr, Kernel, LeftMatrix, Place, Stmt, VarId};
use crate::types::UnaryOp;

/// Calls `f` on each expression of a statement (not of the statements inside).
pub fn each_expr(stmt: &mut Stmt, f: &mut dyn FnMut(&mut Expr)) {
    each_part(stmt, &mut |e, _| f(e));
}

/// Calls `f` on each expression of a statement, and says whether it is the index of a place.
pub fn each_part(stmt: &mut Stmt, f: &mut dyn FnMut(&mut Expr, bool)) {
    let place = |p: &mut Place, f: &mut dyn FnMut(&mut Expr, bool)| f(&mut p.index, true);
    match stmt {
        Stmt::Let { value, .. } => f(value, false),
        Stmt::Declare { init, .. } => init.iter_mut().for_each(|e| f(e, false)),
        Stmt::Assign { index, value, .. } => {
            index.iter_mut().for_each(|e| f(e, false));
            f(value, false);
        }
        Stmt::LoadVector { at, place: p, predicate, .. } | Stmt::StoreVector { at, place: p, predicate, .. } => {
            f(at, false);
            place(p, f);
            predicate.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::Store { place: p, value, predicate, .. } | Stmt::StoreRelaxed { place: p, value, predicate } => {
            place(p, f);
            f(value, false);
            predicate.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::Atomic { place: p, value, expected, predicate, .. } => {
            place(p, f);
            f(value, false);
            expected.iter_mut().for_each(|e| f(e, false));
            predicate.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::LoadRelaxed { place: p, predicate, .. } => {
            place(p, f);
            predicate.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::LoadFromBlock { place: p, block, .. } => {
            place(p, f);
            f(block, false);
        }
        Stmt::If { condition, .. } | Stmt::While { condition, .. } => f(condition, false),
        Stmt::For { start, end, step, .. } => [start, end, step].into_iter().for_each(|e| f(e, false)),
        Stmt::AsyncCopy { shared, global, predicate, .. } => {
            place(shared, f);
            place(global, f);
            predicate.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::MbarrierInit { barrier, .. } | Stmt::AsyncArrive { barrier } => place(barrier, f),
        Stmt::MbarrierArrive { barrier, expect } => {
            place(barrier, f);
            expect.iter_mut().for_each(|e| f(e, false));
        }
        Stmt::MbarrierArriveAt { barrier, block } => {
            place(barrier, f);
            f(block, false);
        }
        Stmt::MbarrierWait { barrier, parity, .. } => {
            place(barrier, f);
            f(parity, false);
        }
        Stmt::BulkCopy { shared, global, bytes, barrier } => {
            place(shared, f);
            place(global, f);
            f(bytes, false);
            place(barrier, f);
        }
        Stmt::Vote { value, .. } | Stmt::WarpReduce { value, .. } => f(value, false),
        Stmt::Mma { d, a, b, c, .. } => [d, a, b, c].into_iter().for_each(|fragment| f(&mut fragment.at, false)),
        Stmt::LoadMatrix { at, place: p, .. } => {
            f(at, false);
            place(p, f);
        }
        Stmt::TensorCopy { shared, at, barrier, .. } => {
            place(shared, f);
            at.iter_mut().for_each(|e| f(e, false));
            place(barrier, f);
        }
        Stmt::Wgmma { d, a, b, accumulate, .. } => {
            f(&mut d.at, false);
            match a {
                LeftMatrix::Shared(a) => place(&mut a.place, f),
                LeftMatrix::Registers(a) => f(&mut a.at, false),
            }
            place(&mut b.place, f);
            f(accumulate, false);
        }
        Stmt::Shuffle { value, operand, .. } => {
            f(value, false);
            f(operand, false);
        }
        Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::Comment(_) => {}
        Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
    }
}

/// The blocks inside a statement, borrowed as the statement is.
macro_rules! blocks_of {
    ($stmt:ident) => {
        match $stmt {
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            Stmt::For { body, .. } => vec![body],
            Stmt::While { header, body, .. } => vec![header, body],
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } => vec![],
            Stmt::LoadVector { .. } | Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::Atomic { .. } => vec![],
            Stmt::StoreRelaxed { .. } | Stmt::LoadRelaxed { .. } | Stmt::LoadFromBlock { .. } | Stmt::LoadMatrix { .. } => vec![],
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => vec![],
            Stmt::AsyncArrive { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::MbarrierWait { .. } => vec![],
            Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } => vec![],
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } | Stmt::Mma { .. } | Stmt::Comment(_) => vec![],
            Stmt::Wgmma { .. }
            | Stmt::WgmmaFence
            | Stmt::WgmmaCommit
            | Stmt::WgmmaWait { .. }
            | Stmt::ProxyFence
            | Stmt::SetRegisters { .. } => vec![],
        }
    };
}

/// The blocks inside a statement.
pub fn blocks(stmt: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
    blocks_of!(stmt)
}

/// The blocks inside a statement, to look at.
pub fn inner_blocks(stmt: &Stmt) -> Vec<&[Stmt]> {
    blocks_of!(stmt)
}

/// The variable that a statement itself sets.
pub fn set_by(stmt: &Stmt) -> Option<VarId> {
    match stmt {
        Stmt::Let { var, .. } | Stmt::Declare { var, .. } | Stmt::Assign { var, .. } | Stmt::For { var, .. } => Some(*var),
        Stmt::LoadVector { .. } | Stmt::LoadMatrix { .. } | Stmt::LoadRelaxed { .. } | Stmt::LoadFromBlock { .. } => received(stmt),
        Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } => received(stmt),
        Stmt::Mma { .. } | Stmt::Wgmma { .. } | Stmt::Atomic { .. } => received(stmt),
        Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::If { .. } | Stmt::While { .. } => None,
        Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => None,
        Stmt::AsyncArrive { .. }
        | Stmt::MbarrierInit { .. }
        | Stmt::MbarrierArrive { .. }
        | Stmt::MbarrierArriveAt { .. }
        | Stmt::MbarrierWait { .. } => None,
        Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::Comment(_) => None,
        Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => None,
    }
}

/// The variable that receives what a statement reads from memory, from other lanes or from a matrix unit.
pub fn received(stmt: &Stmt) -> Option<VarId> {
    match stmt {
        Stmt::LoadVector { var, .. } | Stmt::LoadMatrix { var, .. } | Stmt::LoadRelaxed { var, .. } => Some(*var),
        Stmt::LoadFromBlock { var, .. } => Some(*var),
        Stmt::Shuffle { var, .. } | Stmt::Vote { var, .. } | Stmt::WarpReduce { var, .. } => Some(*var),
        Stmt::Mma { d, .. } | Stmt::Wgmma { d, .. } => Some(d.var),
        Stmt::Atomic { result, .. } => *result,
        Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } => None,
        Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::StoreRelaxed { .. } => None,
        Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => None,
        Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => None,
        Stmt::AsyncArrive { .. }
        | Stmt::MbarrierInit { .. }
        | Stmt::MbarrierArrive { .. }
        | Stmt::MbarrierArriveAt { .. }
        | Stmt::MbarrierWait { .. } => None,
        Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::Comment(_) => None,
        Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => None,
    }
}

/// Calls `f` on each operand.
pub fn children(e: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    match e {
        Expr::Literal(_) | Expr::Var(_) | Expr::Param(_) | Expr::Special(_) => {}
        Expr::Element(_, a) | Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => f(a),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
            f(a);
            f(b);
        }
        Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => {
            f(a);
            f(b);
            f(c);
        }
        Expr::Load { place, predicate, .. } => {
            f(&mut place.index);
            predicate.iter_mut().for_each(|p| f(p));
        }
    }
}

/// Calls `f` for each variable that statements read, those inside of them included, once for each time. What a statement sets counts as read
/// where it must stay: results of atomics, accumulators.
pub fn each_read(block: &mut [Stmt], f: &mut dyn FnMut(VarId)) {
    fn expr(e: &mut Expr, f: &mut dyn FnMut(VarId)) {
        if let Expr::Var(v) | Expr::Element(v, _) = e {
            f(*v);
        }
        children(e, &mut |c| expr(c, f));
    }
    for stmt in block {
        each_expr(stmt, &mut |e| expr(e, f));
        match stmt {
            Stmt::StoreVector { var, .. } => f(*var),
            // Their results count as read, too: the statements stay, and with them the declarations.
            Stmt::LoadRelaxed { var, .. } => f(*var),
            Stmt::Atomic { result, .. } => result.iter().for_each(|var| f(*var)),
            Stmt::Mma { d, a, b, c, .. } => [d, a, b, c].into_iter().for_each(|fragment| f(fragment.var)),
            Stmt::Wgmma { d, a, .. } => {
                f(d.var);
                a.fragment().into_iter().for_each(|fragment| f(fragment.var));
            }
            Stmt::WgmmaWait { sums, .. } => sums.iter().for_each(|var| f(*var)),
            Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::Comment(_) => {}
            Stmt::LoadVector { .. } | Stmt::LoadMatrix { .. } => {}
            Stmt::LoadFromBlock { .. } | Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } => {}
            Stmt::Store { .. } | Stmt::StoreRelaxed { .. } | Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => {}
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => {}
            Stmt::AsyncArrive { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::MbarrierWait { .. } => {}
            Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } => {}
        }
        for inner in blocks(stmt) {
            each_read(inner, f);
        }
    }
}

/// Calls `f` on each place that an expression reads.
pub fn each_load(e: &mut Expr, f: &mut dyn FnMut(&mut Place)) {
    children(e, &mut |c| each_load(c, f));
    if let Expr::Load { place, .. } = e {
        f(place);
    }
}

/// Calls `f` on each place that statements access, those inside of them included.
pub fn each_place(block: &mut [Stmt], f: &mut dyn FnMut(&mut Place)) {
    for stmt in block {
        each_expr(stmt, &mut |e| each_load(e, f));
        match stmt {
            Stmt::LoadVector { place, .. }
            | Stmt::LoadMatrix { place, .. }
            | Stmt::LoadRelaxed { place, .. }
            | Stmt::LoadFromBlock { place, .. }
            | Stmt::StoreVector { place, .. }
            | Stmt::Store { place, .. }
            | Stmt::StoreRelaxed { place, .. }
            | Stmt::Atomic { place, .. } => f(place),
            Stmt::AsyncCopy { shared, global, .. } => [shared, global].into_iter().for_each(&mut *f),
            Stmt::TensorCopy { shared, barrier, .. } => [shared, barrier].into_iter().for_each(&mut *f),
            Stmt::Wgmma { a, b, .. } => a.place_mut().into_iter().chain([&mut b.place]).for_each(&mut *f),
            Stmt::BulkCopy { shared, global, barrier, .. } => [shared, global, barrier].into_iter().for_each(&mut *f),
            Stmt::MbarrierInit { barrier, .. }
            | Stmt::MbarrierArrive { barrier, .. }
            | Stmt::MbarrierArriveAt { barrier, .. }
            | Stmt::MbarrierWait { barrier, .. }
            | Stmt::AsyncArrive { barrier } => f(barrier),
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } => {}
            Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => {}
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => {}
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } | Stmt::Mma { .. } | Stmt::Comment(_) => {}
            Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => {}
        }
        blocks(stmt).into_iter().for_each(|b| each_place(b, f));
    }
}

impl Kernel {
    /// Whether it, or a launch behind it, computes a function for which `is` holds.
    pub fn computes(&self, is: &dyn Fn(UnaryOp) -> bool) -> bool {
        fn expr(e: &mut Expr, is: &dyn Fn(UnaryOp) -> bool) -> bool {
            let mut found = matches!(e, Expr::Unary(op, _) if is(*op));
            children(e, &mut |c| found |= expr(c, is));
            found
        }
        fn block(body: &mut [Stmt], is: &dyn Fn(UnaryOp) -> bool) -> bool {
            body.iter_mut().any(|stmt| {
                let mut found = false;
                each_expr(stmt, &mut |e| found |= expr(e, is));
                found || blocks(stmt).into_iter().any(|inner| block(inner, is))
            })
        }
        self.launches().any(|launch| block(&mut launch.body.clone(), is))
    }
}

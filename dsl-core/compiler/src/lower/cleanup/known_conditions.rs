//! A condition is not told again below itself: a variable that an `if` or `while` has tested is known until it is set.

use super::fold::fold;
use girih_ir::simt::visit::{blocks, children, each_expr, set_by};
use girih_ir::simt::{Expr, Kernel, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType, Literal, UnaryOp};
use std::collections::{HashMap, HashSet};

/// What bool variables hold.
type Known = HashMap<VarId, bool>;

/// Puts what is known of conditions where they are read again.
pub(crate) fn use_known_conditions(kernel: &mut Kernel) {
    let single = |v: &girih_ir::simt::Var| v.dtype == DType::Bool && v.len.is_none();
    let bools = kernel.vars.iter().enumerate().filter(|(_, v)| single(v)).map(|(k, _)| VarId(k as u32)).collect();
    block(&mut kernel.body, &mut Known::new(), &bools);
}

fn block(stmts: &mut [Stmt], known: &mut Known, bools: &HashSet<VarId>) {
    for stmt in stmts {
        if let Stmt::If { condition, then, otherwise } = stmt {
            expr(condition, known);
            for (side, holds) in [(&mut *then, true), (&mut *otherwise, false)] {
                let mut inside = known.clone();
                assume(condition, holds, &mut inside, bools);
                block(side, &mut inside, bools);
            }
        } else if let Stmt::While { header, condition, body } = stmt {
            forget_set(header, known);
            forget_set(body, known);
            let mut inside = known.clone();
            block(header, &mut inside, bools);
            expr(condition, &inside);
            assume(condition, true, &mut inside, bools);
            block(body, &mut inside, bools);
        } else if let Stmt::For { start, end, step, body, .. } = stmt {
            forget_set(body, known);
            [start, end, step].into_iter().for_each(|e| expr(e, known));
            block(body, &mut known.clone(), bools);
        } else {
            each_expr(stmt, &mut |e| expr(e, known));
        }
        predicate(stmt);
        forget_set(std::slice::from_mut(stmt), known);
    }
}

/// What follows for variables from a condition that holds or does not.
fn assume(condition: &Expr, holds: bool, known: &mut Known, bools: &HashSet<VarId>) {
    match condition {
        Expr::Var(v) if bools.contains(v) => drop(known.insert(*v, holds)),
        Expr::Unary(UnaryOp::Not, e) => assume(e, !holds, known, bools),
        Expr::Binary(BinaryOp::And, a, b) if holds => [a, b].into_iter().for_each(|e| assume(e, true, known, bools)),
        Expr::Binary(BinaryOp::Or, a, b) if !holds => [a, b].into_iter().for_each(|e| assume(e, false, known, bools)),
        _ => {}
    }
}

/// What statements set is not known any more.
fn forget_set(stmts: &mut [Stmt], known: &mut Known) {
    if known.is_empty() {
        return;
    }
    for stmt in stmts {
        set_by(stmt).iter().for_each(|v| {
            known.remove(v);
        });
        blocks(stmt).into_iter().for_each(|inner| forget_set(inner, known));
    }
}

fn expr(e: &mut Expr, known: &Known) {
    if known.is_empty() {
        return;
    }
    if let Expr::Var(v) = e
        && let Some(holds) = known.get(v)
    {
        *e = Expr::Literal(Literal::bool(*holds));
        return;
    }
    children(e, &mut |inner| expr(inner, known));
    fold(e);
}

/// A predicate that surely holds is none.
pub(super) fn predicate(stmt: &mut Stmt) {
    if let Stmt::LoadVector { predicate, .. }
    | Stmt::StoreVector { predicate, .. }
    | Stmt::Store { predicate, .. }
    | Stmt::StoreRelaxed { predicate, .. }
    | Stmt::LoadRelaxed { predicate, .. }
    | Stmt::Atomic { predicate, .. } = stmt
        && *predicate == Some(Expr::Literal(Literal::bool(true)))
    {
        *predicate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(k: u32) -> Expr {
        Expr::Var(VarId(k))
    }

    fn and(a: Expr, b: Expr) -> Expr {
        Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b))
    }

    fn set(k: u32, value: Expr) -> Stmt {
        Stmt::Assign { var: VarId(k), index: None, value }
    }

    fn ran(mut body: Vec<Stmt>) -> Vec<Stmt> {
        block(&mut body, &mut Known::new(), &(0..4).map(VarId).collect());
        body
    }

    #[test]
    fn what_was_tested_is_known_until_it_is_set() {
        let body = vec![set(1, and(var(0), var(2))), set(0, var(2)), set(1, and(var(0), var(2)))];
        let found = ran(vec![Stmt::If { condition: and(var(0), var(3)), then: body.clone(), otherwise: body.clone() }]);
        let Stmt::If { then, otherwise, .. } = &found[0] else { panic!("an if") };
        assert_eq!(then, &vec![set(1, var(2)), set(0, var(2)), set(1, and(var(0), var(2)))]);
        assert_eq!(otherwise, &body, "one of two does not hold, nobody knows which");
    }

    #[test]
    fn a_loop_knows_what_it_goes_on_for() {
        let not = |e| Expr::Unary(UnaryOp::Not, Box::new(e));
        let body = vec![set(1, Expr::Select(Box::new(var(0)), Box::new(var(2)), Box::new(var(1)))), set(0, and(var(0), not(var(3))))];
        let found = ran(vec![Stmt::While { header: vec![], condition: var(0), body }, set(1, var(0))]);
        let Stmt::While { body, .. } = &found[0] else { panic!("a while") };
        assert_eq!(body, &vec![set(1, var(2)), set(0, not(var(3)))]);
        assert_eq!(found[1], set(1, var(0)), "behind the loop");
    }
}

//! Expressions by hand, before and after.

use super::*;
use girih_ir::simt::VarId;
use girih_ir::simt::{CacheHint, Place, Space};
use girih_ir::types::{BinaryOp, CompareOp};

const N: Expr = Expr::Param(0);

fn var(k: u32) -> Expr {
    Expr::Var(VarId(k))
}

/// `variable 0 < n`.
fn below() -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(var(0)), Box::new(N))
}

fn and(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b))
}

fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(c), Box::new(a), Box::new(b))
}

fn load(predicate: Option<Expr>) -> Expr {
    let place = Box::new(Place { space: Space::Global(1), dtype: DType::F32, index: var(0) });
    Expr::Load { place, predicate: predicate.map(Box::new), cache: CacheHint::Default }
}

fn zero() -> Expr {
    Expr::Literal(Literal::f32(0.0))
}

fn set(k: u32, value: Expr) -> Stmt {
    Stmt::Let { var: VarId(k), value }
}

/// What the last of these statements sets its variable to, behind variable 0, which never changes, and 1, which does.
fn last(stmts: Vec<Stmt>) -> Expr {
    let mut body = vec![set(0, N), Stmt::Declare { var: VarId(1), init: Some(zero()) }];
    body.extend(stmts);
    let lets = Lets::of(&mut body);
    rewrite(&mut body, &lets);
    match body.pop() {
        Some(Stmt::Let { value, .. }) => value,
        _ => panic!("a variable"),
    }
}

#[test]
fn what_is_absent_is_zero_already() {
    let other = Expr::Compare(CompareOp::Lt, Box::new(N), Box::new(var(0)));
    let loaded = set(2, load(Some(and(other.clone(), below()))));
    assert_eq!(last(vec![loaded.clone(), set(3, select(below(), var(2), zero()))]), var(2));
    assert_eq!(last(vec![loaded.clone(), set(3, select(not(&below()), zero(), var(2)))]), var(2));
    let inside = select(below(), select(other.clone(), var(2), zero()), zero());
    assert_eq!(last(vec![loaded.clone(), set(3, inside)]), var(2));
    assert_eq!(last(vec![set(2, load(Some(not(&below())))), set(3, select(below(), zero(), var(2)))]), var(2));
}

#[test]
fn conditions_with_names_are_seen_through() {
    let named = vec![set(2, below()), set(3, load(Some(and(var(2), var(2))))), set(4, select(below(), var(3), zero()))];
    assert_eq!(last(named), var(3));
    let named = vec![set(2, below()), set(3, load(Some(below()))), set(4, select(var(2), var(3), zero()))];
    assert_eq!(last(named), var(3));
}

#[test]
fn what_may_differ_stays() {
    let stays = |before: Vec<Stmt>, condition: Expr, absent: Expr| {
        let chosen = select(condition, var(2), absent);
        let mut stmts = before;
        stmts.push(set(4, chosen.clone()));
        assert_eq!(last(stmts), chosen);
    };
    let one = Expr::Literal(Literal::f32(1.0));
    let minus = Expr::Literal(Literal::f32(-0.0));
    stays(vec![set(2, load(Some(below())))], below(), one);
    stays(vec![set(2, load(Some(below())))], below(), minus);
    stays(vec![set(2, load(None))], below(), zero());
    stays(vec![set(2, load(Some(below())))], not(&below()), zero());
    // The condition reads what is set again.
    let moves = Expr::Compare(CompareOp::Lt, Box::new(var(1)), Box::new(N));
    stays(vec![set(2, load(Some(moves.clone())))], moves, zero());
    // Two declarations of one variable.
    stays(vec![set(2, load(Some(below()))), set(2, load(None))], below(), zero());
}

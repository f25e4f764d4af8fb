//! Conditions by hand, before and after.

use super::*;
use girih_ir::types::{CompareOp, Literal};

const N: Expr = Expr::Param(0);

fn var(k: u32) -> Expr {
    Expr::Var(VarId(k))
}

/// `variable < n`.
fn below(k: u32) -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(var(k)), Box::new(N))
}

fn all(parts: &[Expr]) -> Expr {
    parts.iter().cloned().reduce(|a, b| Expr::Binary(BinaryOp::And, Box::new(a), Box::new(b))).expect("a part")
}

fn set(k: u32, value: Expr) -> Stmt {
    Stmt::Let { var: VarId(k), value }
}

/// Statements over the numbers 0 and 1, which never change, 2, which does, and conditions from 3 on, behind the pass.
fn ran(stmts: Vec<Stmt>) -> Vec<Stmt> {
    let dtype = |k: u32| if k < 3 { DType::I32 } else { DType::Bool };
    let vars: Vec<Var> = (0..12).map(|k| Var { name: format!("v{k}"), dtype: dtype(k), len: None }).collect();
    let mut body = vec![set(0, N), set(1, N), Stmt::Declare { var: VarId(2), init: Some(N) }];
    body.extend(stmts);
    let bools: Vec<bool> = vars.iter().map(|v| v.dtype == DType::Bool).collect();
    first_names(&mut body, &bools);
    let lets = Lets::of(&mut body);
    shorten(&mut body, &Conjunctions { lets, vars: &vars, params: &[] });
    first_names(&mut body, &bools);
    body.drain(3..).collect()
}

#[test]
fn the_first_name_is_read() {
    let inside = |k| Stmt::If { condition: var(k), then: vec![set(6, below(0)), set(7, var(6))], otherwise: vec![] };
    let found = ran(vec![set(3, below(0)), set(4, below(0)), inside(4), set(5, below(1)), set(8, var(5))]);
    let Stmt::If { condition, then, .. } = &found[2] else { panic!("an if") };
    assert_eq!((condition, &then[1]), (&var(3), &set(7, var(3))));
    assert_eq!(found[4], set(8, var(5)), "another condition");
    // Of a conjunction a name may be left.
    let found = ran(vec![
        set(3, below(0)),
        set(4, all(&[var(3), below(0)])),
        set(5, var(4)),
        set(6, Expr::Unary(girih_ir::types::UnaryOp::Not, Box::new(var(5)))),
    ]);
    assert_eq!(found[3], set(6, Expr::Unary(girih_ir::types::UnaryOp::Not, Box::new(var(3)))));
}

#[test]
fn names_end_with_their_block() {
    let side = |k: u32| vec![set(k, below(0)), set(k + 1, var(k))];
    let found = ran(vec![Stmt::If { condition: below(1), then: side(3), otherwise: side(5) }]);
    let Stmt::If { then, otherwise, .. } = &found[0] else { panic!("an if") };
    assert_eq!((then, otherwise), (&side(3), &side(5)));
}

#[test]
fn what_changes_is_told_again() {
    let stays = vec![set(3, below(2)), set(4, below(2)), set(5, var(4))];
    assert_eq!(ran(stays.clone()), stays);
    let twice = vec![set(3, below(0)), set(3, below(1)), set(4, all(&[var(3), below(0)]))];
    assert_eq!(ran(twice.clone()), twice);
}

#[test]
fn what_follows_from_the_rest_is_left_out() {
    let named = set(3, all(&[below(0), below(1)]));
    assert_eq!(ran(vec![named.clone(), set(4, all(&[below(1), var(3)]))])[1], set(4, var(3)));
    assert_eq!(ran(vec![named.clone(), set(4, all(&[below(0), below(2), below(0)]))])[1], set(4, all(&[below(0), below(2)])));
    assert_eq!(ran(vec![named, set(4, all(&[below(2), below(2)]))])[1], set(4, all(&[below(2), below(2)])), "it may have changed");
    // Numbers are no conditions.
    let bits = all(&[var(0), var(1), var(0)]);
    let number = Expr::Compare(CompareOp::Eq, Box::new(bits), Box::new(Expr::Literal(Literal::i32(0))));
    assert_eq!(ran(vec![set(3, number.clone())])[0], set(3, number));
}

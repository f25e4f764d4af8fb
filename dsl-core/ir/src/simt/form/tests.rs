//! What the form of a kernel depends on, and what it does not.

use super::*;
use crate::simt::{CacheHint, LaunchRecord, Provenance, Special, Var};
use crate::tile::host::HostExpr;
use crate::types::{BinaryOp, DType};

/// A kernel with one pointer, two shared arrays and four i32 variables.
fn kernel(body: Vec<Stmt>) -> Kernel {
    let var = |name: &str| Var { name: name.into(), dtype: DType::I32, len: None };
    let array = |name: &str| crate::simt::SharedArray { name: name.into(), dtype: DType::I32, len: 32, align: 4, at: None };
    let provenance = Provenance {
        signature: String::new(),
        loc: crate::loc::SourceLoc::caller(),
        schedule: String::new(),
        facts: String::new(),
        launch: String::new(),
    };
    let launch = LaunchRecord::new(HostExpr::Const(1), 32);
    Kernel {
        name: "k".into(),
        params: vec![],
        vars: ["a", "b", "c", "d"].map(var).into(),
        shared: vec![array("s"), array("t")],
        body,
        launch,
        provenance,
        alike: Default::default(),
        next: None,
    }
}

fn v(n: u32) -> VarId {
    VarId(n)
}
fn read(n: u32) -> Expr {
    Expr::Var(v(n))
}
fn assign(n: u32, special: Special) -> Stmt {
    Stmt::Let { var: v(n), value: Expr::Special(special) }
}
fn add(n: u32, a: u32, b: u32) -> Stmt {
    Stmt::Let { var: v(n), value: Expr::Binary(BinaryOp::Sub, read(a).into(), read(b).into()) }
}
fn at(array: u32, index: u32) -> Place {
    Place { space: Space::Shared(crate::simt::SharedId(array)), dtype: DType::I32, index: read(index) }
}
fn store(array: u32, index: u32, value: u32) -> Stmt {
    Stmt::Store { place: at(array, index), value: read(value), predicate: None, cache: CacheHint::Default }
}
fn load(n: u32, array: u32, index: u32) -> Stmt {
    let load = Expr::Load { place: at(array, index).into(), predicate: None, cache: CacheHint::Default };
    Stmt::Let { var: v(n), value: load }
}
const BARRIER: Stmt = Stmt::Barrier(crate::simt::Barrier::Block);

fn same(a: Vec<Stmt>, b: Vec<Stmt>) -> bool {
    form(&kernel(a)) == form(&kernel(b))
}

#[test]
fn names_and_the_order_of_what_is_independent_do_not_count() {
    use Special::{Lane, Thread};
    let one = vec![assign(0, Thread), assign(1, Lane), add(2, 0, 1), store(0, 0, 2), store(1, 0, 1)];
    assert!(same(one.clone(), vec![assign(3, Lane), assign(1, Thread), add(0, 1, 3), store(1, 1, 3), store(0, 1, 0)]));
    assert!(same(one.clone(), [&[Stmt::Comment("that".into())], &one[..]].concat()));
    // The operands of a difference, its value, the array, a statement that is missing.
    assert!(!same(one.clone(), vec![assign(0, Thread), assign(1, Lane), add(2, 1, 0), store(0, 0, 2), store(1, 0, 1)]));
    assert!(!same(one.clone(), vec![assign(0, Thread), assign(1, Lane), add(2, 0, 1), store(0, 0, 1), store(1, 0, 1)]));
    assert!(!same(one.clone(), vec![assign(0, Thread), assign(1, Lane), add(2, 0, 1), store(1, 0, 2), store(1, 0, 1)]));
    assert!(!same(one.clone(), one[..4].to_vec()));
}

#[test]
fn what_depends_through_memory_keeps_its_order() {
    use Special::Thread;
    let begin = assign(0, Thread);
    let of = |rest: Vec<Stmt>| [vec![begin.clone()], rest].concat();
    assert!(!same(of(vec![store(0, 0, 0), load(1, 0, 0)]), of(vec![load(1, 0, 0), store(0, 0, 0)])));
    assert!(same(of(vec![store(0, 0, 0), load(1, 1, 0)]), of(vec![load(1, 1, 0), store(0, 0, 0)])));
    assert!(!same(of(vec![store(0, 0, 0), BARRIER, load(1, 1, 0)]), of(vec![load(1, 1, 0), store(0, 0, 0), BARRIER])));
    assert!(!same(of(vec![store(0, 0, 0), BARRIER]), of(vec![BARRIER, store(0, 0, 0)])));
}

#[test]
fn loops_and_choices_are_told_apart_by_what_they_leave() {
    use Special::Thread;
    let i32_of = |n| Expr::Literal(crate::types::Literal::from_i64(DType::I32, n));
    let set = |n: u32, to: Expr| Stmt::Assign { var: v(n), index: None, value: to };
    let zero = |n| Stmt::Declare { var: v(n), init: Some(i32_of(0)) };
    let plus = |a: u32, by: Expr| Expr::Binary(BinaryOp::Add, read(a).into(), by.into());
    let loop_ = |body: Vec<Stmt>| Stmt::For { var: v(3), start: i32_of(0), end: i32_of(8), step: i32_of(1), unroll: false, body };
    let sums = |left: u32| {
        let body = vec![set(1, plus(1, read(3))), set(2, plus(2, i32_of(1)))];
        vec![assign(0, Thread), zero(1), zero(2), loop_(body), store(0, 0, left)]
    };
    assert!(!same(sums(1), sums(2)), "which of two sums is stored");
    let choice = |then, otherwise| {
        let condition = Expr::Compare(crate::types::CompareOp::Lt, read(0).into(), i32_of(4).into());
        let (then, otherwise) = (vec![set(1, i32_of(then))], vec![set(1, i32_of(otherwise))]);
        vec![assign(0, Thread), zero(1), Stmt::If { condition, then, otherwise }, store(0, 0, 1)]
    };
    assert!(same(choice(1, 2), choice(1, 2)));
    assert!(!same(choice(1, 2), choice(2, 1)));
    let barrier_in = |within: bool| match within {
        true => vec![assign(0, Thread), loop_(vec![store(0, 0, 3), BARRIER])],
        false => vec![assign(0, Thread), loop_(vec![store(0, 0, 3)]), BARRIER],
    };
    assert!(!same(barrier_in(true), barrier_in(false)));
}

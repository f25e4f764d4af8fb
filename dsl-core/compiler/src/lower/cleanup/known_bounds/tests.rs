//! Kernels of SIMT IR by hand, before and after.

use super::*;
use crate::block::HostExpr;
use crate::cuda;
use girih_ir::loc::SourceLoc;
use girih_ir::simt::{LaunchRecord, Param, ParamKind, Place, Provenance, Space, Var};

const X: usize = 0;
const DATA: usize = 1;
const ROWS: Expr = Expr::Param(2);
const COLS: Expr = Expr::Param(3);
const BLOCK: Expr = Expr::Var(VarId(0));
const THREAD: Expr = Expr::Var(VarId(1));

/// A kernel of 256 threads a block over two tensors and the lengths of the first one, that begins with its block and its thread.
fn kernel(grid: HostExpr) -> Kernel {
    let pointer = |name: &str, tensor, dtype| Param {
        name: name.into(),
        kind: ParamKind::Pointer { tensor, dtype, writable: true, restrict: true, align: 16 },
    };
    let length = |name: &str, axis| Param { name: name.into(), kind: ParamKind::Host { dtype: DType::I32, value: HostExpr::Dim(0, axis) } };
    let params = vec![pointer("x", 0, DType::F32), pointer("data", 1, DType::I32), length("rows", 0), length("cols", 1)];
    let [signature, schedule, facts, launch] = [(); 4].map(|()| String::new());
    let provenance = Provenance { signature, loc: SourceLoc::NONE, schedule, facts, launch };
    let launch = LaunchRecord::new(grid, 256);
    let (name, alike) = ("by_hand".into(), Default::default());
    let mut k = Kernel { name, params, vars: vec![], shared: vec![], body: vec![], launch, provenance, alike, next: None };
    for (name, special) in [("block", Special::Block), ("thread", Special::Thread)] {
        let_var(&mut k, name, Expr::Special(special));
    }
    k
}

fn fresh(k: &mut Kernel, name: &str) -> VarId {
    k.vars.push(Var { name: name.into(), dtype: DType::I32, len: None });
    VarId(k.vars.len() as u32 - 1)
}

fn let_var(k: &mut Kernel, name: &str, value: Expr) -> Expr {
    let var = fresh(k, name);
    k.body.push(Stmt::Let { var, value });
    Expr::Var(var)
}

fn lit(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

fn bin(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn add(a: Expr, b: Expr) -> Expr {
    bin(BinaryOp::Add, a, b)
}

fn mul(a: Expr, b: Expr) -> Expr {
    bin(BinaryOp::Mul, a, b)
}

fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::Compare(op, Box::new(a), Box::new(b))
}

fn below(a: Expr, b: Expr) -> Expr {
    compare(CompareOp::Lt, a, b)
}

/// A store to the first tensor under a condition.
fn stored(index: Expr, predicate: Expr) -> Stmt {
    let place = Place { space: Space::Global(X), dtype: DType::F32, index };
    Stmt::Store { place, value: Expr::Literal(Literal::f32(1.0)), predicate: Some(predicate), cache: Default::default() }
}

/// The lines of a kernel behind its first two, once its bounds are known.
fn known(mut k: Kernel) -> String {
    use_known_bounds(&mut k, &Launch::any(256));
    girih_ir::simt::verify::verify(&k, "known_bounds");
    let text = cuda::emit(&k);
    let body = text.split_once("threadIdx.x;\n").expect("a body").1;
    body.lines().map(|l| l.trim().to_string() + "\n").collect::<String>().trim_start().trim_end_matches("}\n").to_string()
}

fn product(a: HostExpr, b: HostExpr) -> HostExpr {
    HostExpr::binary(BinaryOp::Mul, a, b)
}

#[test]
fn a_full_tile_has_all_its_rows() {
    let mut k = kernel(HostExpr::Const(4));
    let tile = mul(BLOCK, lit(4));
    // All four rows, and one less.
    for (name, rows) in [("row", 4), ("other", 3)] {
        let row = fresh(&mut k, name);
        let value = add(tile.clone(), bin(BinaryOp::Div, THREAD, lit(64)));
        let then = vec![Stmt::Let { var: row, value }, stored(Expr::Var(row), below(Expr::Var(row), ROWS))];
        let condition = compare(CompareOp::Le, add(tile.clone(), lit(rows)), ROWS);
        k.body.push(Stmt::If { condition, then, otherwise: vec![] });
    }
    let text = known(k);
    assert!(text.contains("\nx[row] = 1.0f;"), "{text}");
    assert!(text.contains("if (other < rows) x[other] = 1.0f;"), "{text}");
}

#[test]
fn a_block_has_a_place_in_the_grid() {
    let mut k = kernel(product(HostExpr::Dim(0, 0), HostExpr::Dim(0, 1)));
    let row = let_var(&mut k, "row", bin(BinaryOp::Div, BLOCK, COLS));
    let col = let_var(&mut k, "col", bin(BinaryOp::Rem, BLOCK, COLS));
    k.body.push(stored(THREAD, below(row.clone(), ROWS)));
    k.body.push(stored(THREAD, below(col.clone(), COLS)));
    k.body.push(stored(THREAD, compare(CompareOp::Ge, row.clone(), lit(0))));
    // A row may be the last one, and a column below no row.
    k.body.push(stored(THREAD, below(add(row, lit(1)), ROWS)));
    k.body.push(stored(THREAD, below(col, ROWS)));
    let text = known(k);
    assert_eq!(text.matches("\nx[thread] = 1.0f;").count(), 3, "{text}");
    assert!(text.contains("if (row + 1 < rows)") && text.contains("if (col < rows)"), "{text}");
}

#[test]
fn tiles_that_are_walked_begin_before_the_end() {
    let tiles = HostExpr::ceil_div(HostExpr::Dim(0, 0), 4);
    let mut k = kernel(HostExpr::binary(BinaryOp::Min, tiles.clone(), HostExpr::Multiprocessors));
    k.params.push(Param { name: "tiles".into(), kind: ParamKind::Host { dtype: DType::I32, value: tiles } });
    let tile = fresh(&mut k, "tile");
    let at = |by| add(mul(Expr::Var(tile), lit(4)), lit(by));
    let body = vec![stored(THREAD, below(at(0), ROWS)), stored(THREAD, below(at(1), ROWS))];
    k.body.push(Stmt::For { var: tile, start: BLOCK, end: Expr::Param(4), step: lit(1), unroll: false, body });
    let text = known(k);
    assert_eq!(text.matches("\nx[thread] = 1.0f;").count(), 1, "{text}");
    assert!(text.contains("if (tile * 4 + 1 < rows) x[thread]"), "{text}");
}

/// 32 bits of the author's may wrap: below a sum does not mean below its first operand.
#[test]
fn what_may_wrap_is_not_taken_apart() {
    let mut k = kernel(HostExpr::Const(1));
    let place = Box::new(Place { space: Space::Global(DATA), dtype: DType::I32, index: THREAD });
    let read = let_var(&mut k, "read", Expr::Load { place, predicate: None, cache: Default::default() });
    let then = vec![stored(THREAD, below(read.clone(), ROWS))];
    k.body.push(Stmt::If { condition: compare(CompareOp::Le, add(read.clone(), lit(1)), ROWS), then, otherwise: vec![] });
    // What needs no sum is known.
    let then = vec![stored(THREAD, compare(CompareOp::Le, read.clone(), ROWS))];
    k.body.push(Stmt::If { condition: below(read, ROWS), then, otherwise: vec![] });
    let text = known(k);
    assert!(text.contains("if (read < rows) x[thread] = 1.0f;"), "{text}");
    assert_eq!(text.matches("\nx[thread] = 1.0f;").count(), 1, "{text}");
}

#[test]
fn sides_of_a_choice_know_what_was_asked() {
    let mut k = kernel(HostExpr::Const(1));
    let at = let_var(&mut k, "at", bin(BinaryOp::Max, bin(BinaryOp::Sub, THREAD, lit(8)), lit(0)));
    let nearest = bin(BinaryOp::Min, at.clone(), bin(BinaryOp::Sub, ROWS, lit(1)));
    let condition = below(at.clone(), ROWS);
    k.body.push(Stmt::If { condition, then: vec![stored(nearest.clone(), compare(CompareOp::Ge, at, lit(0)))], otherwise: vec![] });
    k.body.push(stored(nearest, compare(CompareOp::Gt, THREAD, lit(255))));
    let text = known(k);
    assert!(text.contains("if (at < rows) {\nx[at] = 1.0f;"), "{text}");
    assert!(text.contains("if (false) x[min(at, rows - 1)]"), "{text}");
}

/// Both sides of a choice are evaluated, so that what is loaded there keeps its condition.
#[test]
fn what_is_loaded_in_a_choice_keeps_its_condition() {
    let mut k = kernel(HostExpr::Const(1));
    let inside = below(THREAD, ROWS);
    let place = Box::new(Place { space: Space::Global(DATA), dtype: DType::I32, index: THREAD });
    let load = Expr::Load { place, predicate: Some(Box::new(inside.clone())), cache: Default::default() };
    let chosen = Expr::Select(Box::new(inside), Box::new(load), Box::new(lit(-1)));
    let_var(&mut k, "chosen", chosen.clone());
    let before = k.body.clone();
    use_known_bounds(&mut k, &Launch::any(256));
    assert_eq!(k.body, before);
}

#[test]
fn what_turns_out_to_be_a_copy_has_no_name_of_its_own() {
    let mut k = kernel(HostExpr::Const(1));
    let first = let_var(&mut k, "first", add(THREAD, mul(lit(0), lit(16))));
    k.body.push(stored(first, below(THREAD, ROWS)));
    let text = known(k);
    assert!(text.contains("x[thread] = 1.0f;"), "{text}");
}

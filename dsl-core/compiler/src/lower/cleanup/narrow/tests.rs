//! Kernels of SIMT IR by hand, before and after.

use crate::block::HostExpr;
use crate::cuda;
use crate::lower::expand::range::Launch;
use girih_ir::loc::SourceLoc;
use girih_ir::simt::{Expr, Kernel, LaunchRecord, Param, ParamKind, Place, Provenance, Space, Special, Stmt, Var, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

const X: usize = 0;
const WIDE: usize = 1;
const N: Expr = Expr::Param(2);
const M: Expr = Expr::Param(3);

/// A kernel over floats, 64-bit integers and a length of either width, that begins with its block and its thread.
fn kernel() -> Kernel {
    let pointer = |name: &str, tensor, dtype| Param {
        name: name.into(),
        kind: ParamKind::Pointer { tensor, dtype, writable: true, restrict: true, align: 16 },
    };
    let host = |name: &str, dtype, tensor| Param { name: name.into(), kind: ParamKind::Host { dtype, value: HostExpr::Dim(tensor, 0) } };
    let params = vec![pointer("x", 0, DType::F32), pointer("wide", 1, DType::I64), host("n", DType::I32, 0), host("m", DType::I64, 1)];
    let [signature, schedule, facts, launch] = [(); 4].map(|()| String::new());
    let provenance = Provenance { signature, loc: SourceLoc::NONE, schedule, facts, launch };
    let launch = LaunchRecord::new(HostExpr::Const(1), 64);
    let mut k = Kernel {
        name: "by_hand".into(),
        params,
        vars: vec![],
        shared: vec![],
        body: vec![],
        launch,
        provenance,
        alike: Default::default(),
        next: None,
    };
    for (name, special) in [("block", Special::Block), ("thread", Special::Thread)] {
        let var = declared(&mut k, name, DType::I32);
        k.body.push(Stmt::Let { var, value: Expr::Special(special) });
    }
    k
}

const BLOCK: Expr = Expr::Var(VarId(0));
const THREAD: Expr = Expr::Var(VarId(1));

fn declared(k: &mut Kernel, name: &str, dtype: DType) -> VarId {
    k.vars.push(Var { name: name.into(), dtype, len: None });
    VarId(k.vars.len() as u32 - 1)
}

/// Declares a 64-bit variable that never changes.
fn wide_let(k: &mut Kernel, name: &str, value: Expr) -> Expr {
    let var = declared(k, name, DType::I64);
    k.body.push(Stmt::Let { var, value });
    Expr::Var(var)
}

fn long(value: i64) -> Expr {
    Expr::Literal(Literal::from_i64(DType::I64, value))
}

fn cast(to: DType, e: Expr) -> Expr {
    Expr::Cast(to, Box::new(e))
}

fn widened(e: Expr) -> Expr {
    cast(DType::I64, e)
}

fn bin(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn stored(param: usize, index: Expr, value: Expr) -> Stmt {
    let dtype = if param == X { DType::F32 } else { DType::I64 };
    Stmt::Store { place: Place { space: Space::Global(param), dtype, index }, value, predicate: None, cache: Default::default() }
}

fn one() -> Expr {
    Expr::Literal(Literal::f32(1.0))
}

/// Narrows a kernel whose arguments may be any.
fn narrow(k: &mut Kernel) {
    super::narrow(k, &Launch::any(64));
}

/// The lines of a kernel behind its first two, once it is narrowed.
fn narrowed(mut k: Kernel) -> String {
    narrow(&mut k);
    girih_ir::simt::verify::verify(&k, "narrow");
    let text = cuda::emit(&k);
    let body = text.split_once("threadIdx.x;\n").expect("a body").1;
    body.lines().map(|l| l.trim().to_string() + "\n").collect::<String>().trim_start().trim_end_matches("}\n").to_string()
}

#[test]
fn what_fits_32_bits_has_32_bits() {
    let mut k = kernel();
    let s = wide_let(&mut k, "s", widened(bin(BinaryOp::Mul, BLOCK, Expr::Literal(Literal::i32(16)))));
    let counter = declared(&mut k, "k", DType::I64);
    let at = bin(BinaryOp::Add, cast(DType::I32, s), cast(DType::I32, Expr::Var(counter)));
    let turn = vec![stored(X, at, one())];
    k.body.push(Stmt::For { var: counter, start: long(0), end: widened(N), step: long(1), unroll: false, body: turn });
    let text = narrowed(k);
    assert_eq!(text, "const int s = block * 16;\nfor (int k = 0; k < n; ++k) {\nx[s + k] = 1.0f;\n");
}

/// A position in a table whose length is a power of two: bits of two numbers of 32 bits, of which either may be below 0.
#[test]
fn bits_of_numbers_of_32_bits_have_32_bits() {
    let mut k = kernel();
    let mask = bin(BinaryOp::Sub, widened(N), long(1));
    let any = wide_let(&mut k, "any", widened(bin(BinaryOp::Sub, THREAD, BLOCK)));
    k.body.push(stored(X, cast(DType::I32, bin(BinaryOp::And, any, mask)), one()));
    let text = narrowed(k);
    assert_eq!(text, "const int any = thread - block;\nx[any & (n - 1)] = 1.0f;\n");
}

#[test]
fn numbers_of_32_bits_are_divided_and_compared_in_32_bits() {
    let mut k = kernel();
    let quotient = bin(BinaryOp::Div, widened(THREAD), widened(N));
    let below = Expr::Compare(CompareOp::Lt, Box::new(widened(THREAD)), Box::new(widened(N)));
    k.body.push(stored(WIDE, THREAD, Expr::Select(Box::new(below), Box::new(quotient), Box::new(long(7)))));
    k.body.push(stored(X, THREAD, cast(DType::F32, widened(N))));
    let text = narrowed(k);
    assert_eq!(text, "wide[thread] = thread < n ? (long long)(thread / n) : 7ll;\nx[thread] = (float)n;\n");
}

#[test]
fn what_may_not_fit_keeps_64_bits() {
    let mut k = kernel();
    // A product of lengths, one beyond the greatest length, and what only the host knows.
    let square = wide_let(&mut k, "square", bin(BinaryOp::Mul, widened(N), widened(N)));
    let beyond = wide_let(&mut k, "beyond", bin(BinaryOp::Add, widened(N), long(1)));
    let unknown = wide_let(&mut k, "unknown", M);
    let (long_sum, last) = (declared(&mut k, "sum", DType::I64), declared(&mut k, "k", DType::I64));
    k.body.push(Stmt::Declare { var: long_sum, init: Some(long(0)) });
    let next = bin(BinaryOp::Add, Expr::Var(long_sum), long(1));
    let turn = vec![Stmt::Assign { var: long_sum, index: None, value: next }, stored(WIDE, cast(DType::I32, Expr::Var(last)), long(1))];
    let end = bin(BinaryOp::Add, widened(N), long(1));
    k.body.push(Stmt::For { var: last, start: long(0), end, step: long(1), unroll: false, body: turn });
    let read = Expr::Load {
        place: Box::new(Place { space: Space::Global(WIDE), dtype: DType::I64, index: THREAD }),
        predicate: None,
        cache: Default::default(),
    };
    let loaded = wide_let(&mut k, "loaded", read);
    for value in [square, beyond, unknown, Expr::Var(long_sum), loaded] {
        k.body.push(stored(WIDE, THREAD, value));
    }
    let types: Vec<DType> = k.vars.iter().map(|v| v.dtype).collect();
    let before = k.body.clone();
    narrow(&mut k);
    assert_eq!(k.vars.iter().map(|v| v.dtype).collect::<Vec<_>>(), types);
    assert_eq!(k.body, before);
}

#[test]
fn counters_pass_their_end_within_32_bits() {
    let counted = |end: i64, step: i64| {
        let mut k = kernel();
        let var = declared(&mut k, "k", DType::I64);
        let turn = vec![stored(WIDE, cast(DType::I32, Expr::Var(var)), long(1))];
        k.body.push(Stmt::For { var, start: long(0), end: long(end), step: long(step), unroll: false, body: turn });
        narrow(&mut k);
        k.var(var).dtype
    };
    let most = i64::from(i32::MAX);
    assert_eq!(counted(most, 1), DType::I32);
    assert_eq!(counted(most + 1, 1), DType::I64);
    assert_eq!(counted(most, 2), DType::I64);
}

#[test]
fn an_end_below_all_of_32_bits_is_cut() {
    let mut k = kernel();
    let var = declared(&mut k, "k", DType::I64);
    let left = bin(BinaryOp::Sub, widened(N), bin(BinaryOp::Mul, widened(BLOCK), long(128)));
    let end = bin(BinaryOp::Min, left, long(32));
    let turn = vec![stored(X, cast(DType::I32, Expr::Var(var)), one())];
    k.body.push(Stmt::For { var, start: long(0), end, step: long(1), unroll: false, body: turn });
    let text = narrowed(k);
    assert!(text.contains("for (int k = 0; k < (int)max(min(n - (long long)block * 128, 32ll), 0ll); ++k) {\nx[k] = 1.0f;"), "{text}");
}

#[test]
fn copies_of_what_changes_are_narrowed_with_it() {
    let mut k = kernel();
    let (at, next) = (declared(&mut k, "at", DType::I64), declared(&mut k, "next", DType::I64));
    k.body.push(Stmt::Declare { var: at, init: Some(long(-1)) });
    let found = Expr::Compare(CompareOp::Lt, Box::new(THREAD), Box::new(N));
    let value = Expr::Select(Box::new(found.clone()), Box::new(widened(BLOCK)), Box::new(Expr::Var(at)));
    let turn = vec![Stmt::Let { var: next, value }, Stmt::Assign { var: at, index: None, value: Expr::Var(next) }];
    k.body.push(Stmt::While { header: vec![], condition: found, body: turn });
    k.body.push(stored(WIDE, cast(DType::I32, Expr::Var(at)), long(1)));
    narrow(&mut k);
    assert_eq!([at, next].map(|v| k.var(v).dtype), [DType::I32; 2]);
    girih_ir::simt::verify::verify(&k, "narrow");
}

#[test]
fn what_is_widened_wherever_it_is_read_has_64_bits() {
    let mut k = kernel();
    let s = wide_let(&mut k, "s", widened(BLOCK));
    k.body.push(stored(WIDE, THREAD, bin(BinaryOp::Mul, s, M)));
    let before = k.body.clone();
    narrow(&mut k);
    assert_eq!(k.body, before);
}

#[test]
fn what_is_known_of_a_launch_narrows_more() {
    let first = |launch: Launch| {
        let mut k = kernel();
        let first = wide_let(&mut k, "first", bin(BinaryOp::Mul, widened(BLOCK), long(4096)));
        let Expr::Var(var) = first else { panic!("a variable") };
        let below = Expr::Compare(CompareOp::Lt, Box::new(first.clone()), Box::new(widened(N)));
        k.body.push(stored(WIDE, THREAD, cast(DType::I64, below)));
        super::narrow(&mut k, &launch);
        k.var(var).dtype
    };
    assert_eq!(first(Launch::any(64)), DType::I64);
    assert_eq!(first(Launch { blocks: 1 << 19, ..Launch::any(64) }), DType::I32);
    assert_eq!(first(Launch { blocks: (1 << 19) + 1, ..Launch::any(64) }), DType::I64);
}

/// C leaves it undefined what signed numbers wrap to, and an author's do.
#[test]
fn what_wrapped_wraps() {
    let mut k = kernel();
    let var = declared(&mut k, "k", DType::I64);
    let counter = || cast(DType::I32, Expr::Var(var));
    let cube = bin(BinaryOp::Mul, bin(BinaryOp::Mul, counter(), counter()), counter());
    let few = bin(BinaryOp::Add, bin(BinaryOp::Rem, counter(), Expr::Literal(Literal::i32(8))), Expr::Literal(Literal::i32(1)));
    let turn = vec![stored(WIDE, bin(BinaryOp::Mul, counter(), N), widened(cube)), stored(WIDE, THREAD, widened(few))];
    k.body.push(Stmt::For { var, start: long(0), end: widened(N), step: long(1), unroll: false, body: turn });
    let text = narrowed(k);
    assert!(
        text.contains("wide[k * n] = (int)((unsigned int)k * (unsigned int)k * (unsigned int)k);\nwide[thread] = k % 8 + 1;"),
        "{text}"
    );
}

/// Loads of a thread at constant distances from each other.
fn read_from_one_base(distances: [i64; 2]) -> String {
    let mut k = kernel();
    let load = |param: usize, dtype, index| {
        let place = Box::new(Place { space: Space::Global(param), dtype, index });
        Expr::Load { place, predicate: None, cache: Default::default() }
    };
    let base = wide_let(&mut k, "base", widened(cast(DType::I32, load(WIDE, DType::I64, THREAD))));
    for at in distances {
        let index = cast(DType::I32, bin(BinaryOp::Add, base.clone(), long(at)));
        k.body.push(stored(X, THREAD, load(X, DType::F32, index)));
    }
    narrow(&mut k);
    girih_ir::simt::verify::verify(&k, "narrow");
    cuda::emit(&k)
}

#[test]
fn constant_distances_stay_parts_of_addresses() {
    let text = read_from_one_base([5, 9]);
    assert!(text.contains("const long long base = (int)wide[thread];"), "{text}");
    assert!(text.contains("x[thread] = x[base + 5];\n    x[thread] = x[base + 9];"), "{text}");
    // What wraps may come out at an element.
    let text = read_from_one_base([-1, 1 << 32]);
    assert_eq!(text.matches("x[thread] = x[(int)(").count(), 2, "{text}");
}

/// Of a sum or product that is cut to 32 bits no more than 32 bits are computed.
#[test]
fn what_is_cut_is_computed_in_32_bits() {
    let mut k = kernel();
    let place = Box::new(Place { space: Space::Global(WIDE), dtype: DType::I64, index: THREAD });
    let found = wide_let(&mut k, "found", Expr::Load { place, predicate: None, cache: Default::default() });
    let product = bin(BinaryOp::Mul, found, M);
    k.body.push(stored(X, cast(DType::I32, bin(BinaryOp::Add, product, long(-1))), one()));
    let text = narrowed(k);
    let index = "(int)((unsigned int)found * (unsigned int)m + 4294967295u)";
    assert_eq!(text, format!("const long long found = wide[thread];\nx[{index}] = 1.0f;\n"));
}

//! One malformed kernel per invariant, and the text form.

use super::check;
use crate::fragments::{Atom, LoadMatrix, Number};
use crate::loc::SourceLoc;
use crate::simt::{
    Barrier, CacheHint, Expr, Fragment, Kernel, LaunchRecord, Param, ParamKind, Place, Provenance, SharedArray, SharedId, Space, Special,
    Stmt, Var, VarId,
};
use crate::tile::host::HostExpr;
use crate::types::{BinaryOp, CompareOp, DType, Literal, VoteKind};

const THREAD: VarId = VarId(0);
const VECTOR: VarId = VarId(1);
const SUM: VarId = VarId(2);

fn int(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

fn x(index: Expr) -> Place {
    Place { space: Space::Global(0), dtype: DType::F32, index }
}

fn shared(index: Expr) -> Place {
    Place { space: Space::Shared(SharedId(0)), dtype: DType::F32, index }
}

fn sum() -> Expr {
    Expr::Var(SUM)
}

fn plus(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Add, Box::new(a), Box::new(b))
}

fn below(a: Expr, b: Expr) -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(a), Box::new(b))
}

fn store(place: Place, value: Expr) -> Stmt {
    Stmt::Store { place, value, predicate: None, cache: CacheHint::Default }
}

/// Loads four floats, adds two of them up, stores the sum; the given statements follow.
fn kernel(more: Vec<Stmt>) -> Kernel {
    let var = |name: &str, dtype, len| Var { name: name.into(), dtype, len };
    let pointer = |name: &str, writable| Param {
        name: name.into(),
        kind: ParamKind::Pointer { tensor: 0, dtype: DType::F32, writable, restrict: true, align: 16 },
    };
    let element = |i| Expr::Element(VECTOR, Box::new(int(i)));
    let mut body = vec![
        Stmt::Let { var: THREAD, value: Expr::Special(Special::Thread) },
        Stmt::Declare { var: VECTOR, init: None },
        Stmt::LoadVector { var: VECTOR, at: int(0), place: x(int(0)), lanes: 4, predicate: None, cache: CacheHint::Streaming },
        Stmt::Comment("the sum".into()),
        Stmt::Declare { var: SUM, init: Some(plus(element(0), element(1))) },
        store(Place { space: Space::Global(1), ..x(Expr::Var(THREAD)) }, sum()),
    ];
    body.extend(more);
    let launch = LaunchRecord::new(HostExpr::Const(1), 64);
    Kernel {
        name: "k".into(),
        params: vec![pointer("x", false), pointer("y", true)],
        vars: vec![
            var("thread", DType::I32, None),
            var("v", DType::F32, Some(4)),
            var("sum", DType::F32, None),
            var("i", DType::I32, None),
        ],
        shared: vec![SharedArray { name: "s".into(), dtype: DType::F32, len: 64, align: 16, at: None }],
        body,
        launch,
        provenance: Provenance {
            signature: "k(x, y)".into(),
            loc: SourceLoc::NONE,
            schedule: "naive".into(),
            facts: String::new(),
            launch: String::new(),
        },
        alike: Default::default(),
        next: None,
    }
}

fn rejects(kernel: &Kernel, invariant: &str) {
    let violation = check(kernel).expect_err("a violation");
    assert!(violation.to_string().contains(invariant), "{violation}");
}

fn rejected(stmt: Stmt, invariant: &str) {
    rejects(&kernel(vec![stmt]), invariant);
}

#[test]
fn a_good_kernel_passes() {
    check(&kernel(vec![])).unwrap_or_else(|v| panic!("{v}"));
}

#[test]
fn types() {
    rejected(store(shared(int(0)), int(1)), "types differ: i32 where f32 is expected");
    rejected(store(shared(sum()), sum()), "an index is i32, u32 or i64, not f32");
    rejected(store(shared(int(0)), plus(sum(), int(1))), "types differ");
    let and = Expr::Binary(BinaryOp::And, Box::new(sum()), Box::new(sum()));
    rejected(store(shared(int(0)), and), "And is not defined on f32");
    rejected(Stmt::If { condition: int(1), then: vec![], otherwise: vec![] }, "types differ: i32 where bool is expected");
}

#[test]
fn constant_memory_is_read_only_and_small() {
    let with = |len, stmts| {
        let mut k = kernel(stmts);
        k.params.push(Param { name: "w".into(), kind: ParamKind::Constant { tensor: 2, dtype: DType::F32, len } });
        k
    };
    let place = |param| Place { space: Space::Constant(param), ..x(int(0)) };
    let load = |param| Expr::Load { place: Box::new(place(param)), predicate: None, cache: CacheHint::Default };
    let copied = |param| vec![store(shared(int(0)), load(param))];
    check(&with(16384, copied(2))).unwrap_or_else(|v| panic!("{v}"));
    rejects(&with(16385, copied(2)), "arrays in constant memory take 65540 bytes");
    rejects(&with(4, vec![store(place(2), sum())]), "parameter 2 lies in constant memory, which is read only");
    rejects(&with(4, copied(0)), "parameter 0 is no array in constant memory");
    let global = Place { space: Space::Global(2), ..x(int(0)) };
    rejects(&with(4, vec![store(global, sum())]), "parameter 2 is no pointer");
}

#[test]
fn reductions_of_warps() {
    let i = VarId(3);
    let reduce = |op, value| vec![Stmt::Declare { var: i, init: None }, Stmt::WarpReduce { var: i, op, value }];
    let typed = |dtype, stmts| {
        let mut k = kernel(stmts);
        k.vars[3].dtype = dtype;
        k
    };
    check(&typed(DType::I32, reduce(BinaryOp::Add, Expr::Var(THREAD)))).unwrap_or_else(|v| panic!("{v}"));
    rejects(&typed(DType::I32, reduce(BinaryOp::Mul, Expr::Var(THREAD))), "no instruction combines the lanes' i32 by Mul");
    rejects(&typed(DType::F32, reduce(BinaryOp::Add, sum())), "no instruction combines the lanes' f32 by Add");
    rejects(&typed(DType::U32, reduce(BinaryOp::Add, Expr::Var(THREAD))), "types differ");
}

#[test]
fn variables() {
    let i = VarId(3);
    rejected(store(shared(Expr::Var(i)), sum()), "i%3 is used where it is not declared");
    rejected(Stmt::Declare { var: SUM, init: None }, "sum%2 is declared twice in one scope");
    rejected(Stmt::Assign { var: THREAD, index: None, value: int(0) }, "thread%0 never changes after its Let");
    rejected(Stmt::Assign { var: VECTOR, index: Some(int(4)), value: sum() }, "elements 4..+1 lie outside of an array of 4");
    rejected(store(shared(int(0)), Expr::Var(VECTOR)), "array v%1 is used whole");
    let body = vec![Stmt::Declare { var: i, init: None }];
    let scope = Stmt::If { condition: below(int(0), int(1)), then: body, otherwise: vec![] };
    rejects(&kernel(vec![scope, store(shared(Expr::Var(i)), sum())]), "i%3 is used where it is not declared");
    rejected(store(shared(Expr::Special(Special::Lane)), sum()), "Lane stands only as the whole initialiser of a Let");
}

#[test]
fn accesses() {
    rejected(store(x(int(0)), sum()), "parameter 0 is not writable");
    rejected(store(Place { space: Space::Global(2), ..x(int(0)) }, sum()), "parameter 2 does not exist");
    let vector = |lanes| Stmt::LoadVector { var: VECTOR, at: int(0), place: x(int(0)), lanes, predicate: None, cache: CacheHint::Default };
    rejected(vector(3), "3 lanes of f32 are no vector");
    rejected(vector(8), "elements 0..+8 lie outside of an array of 4");
    let copy = |bytes, from| Stmt::AsyncCopy { shared: shared(int(0)), global: from, bytes, predicate: None };
    rejected(copy(12, x(int(0))), "an async copy moves 4, 8 or 16 bytes, not 12");
    rejected(copy(4, shared(int(0))), "an asynchronous copy goes from global to shared memory");
    rejected(Stmt::MbarrierInit { barrier: shared(int(0)), count: 1 }, "an mbarrier is a u64 in shared memory");
    let word = |place| Stmt::StoreRelaxed { place, value: sum(), predicate: None };
    rejected(word(shared(int(0))), "a word between blocks is a u64 in global memory");
    rejected(word(x(int(0))), "a word between blocks is a u64 in global memory");
}

#[test]
fn launches_behind_others_share_their_memory_and_no_name() {
    let workspace = |dtype| Param { name: "parts".into(), kind: ParamKind::Workspace { dtype, len: HostExpr::Const(4) } };
    let behind = |name: &str, dtype| {
        let mut first = kernel(vec![]);
        first.params.push(workspace(DType::F32));
        let mut next = Kernel { name: name.into(), ..kernel(vec![]) };
        next.params.push(workspace(dtype));
        Kernel { next: Some(Box::new(next)), ..first }
    };
    check(&behind("k_finish", DType::F32)).unwrap_or_else(|v| panic!("{v}"));
    rejects(&behind("k", DType::F32), "two launches are named k");
    rejects(&behind("k_finish", DType::I32), "k_finish takes the workspace parts, which k has not");
    let mut wrong = behind("k_finish", DType::F32);
    wrong.next.as_mut().expect("there is one").body.push(store(x(int(0)), sum()));
    rejects(&wrong, "parameter 0 is not writable");
}

#[test]
fn barriers_and_launch() {
    let under = |condition| Stmt::If { condition, then: vec![Stmt::Barrier(Barrier::Block)], otherwise: vec![] };
    rejected(under(below(Expr::Var(THREAD), int(3))), "a block barrier stands under a thread-dependent condition");
    check(&kernel(vec![under(below(int(0), int(3)))])).unwrap_or_else(|v| panic!("{v}"));
    // The counter of a loop becomes thread-dependent at the end of the loop's body only.
    let i = VarId(3);
    let body = vec![under(below(Expr::Var(i), int(3))), Stmt::Assign { var: i, index: None, value: Expr::Var(THREAD) }];
    let declare = Stmt::Declare { var: i, init: Some(int(0)) };
    let looped = Stmt::While { header: vec![], condition: below(int(0), int(1)), body };
    rejects(&kernel(vec![declare, looped]), "a block barrier stands under a thread-dependent condition");
    // All lanes of a warp know what they voted, which is all of a block of one warp.
    let vote = Stmt::Vote { var: i, kind: VoteKind::Any, value: below(Expr::Var(THREAD), int(3)) };
    let voted = vec![Stmt::Declare { var: i, init: None }, vote, under(Expr::Var(i))];
    for (block, right) in [(32, true), (64, false)] {
        let mut k = kernel(voted.clone());
        (k.vars[3].dtype, k.launch.block) = (DType::Bool, block);
        assert_eq!(check(&k).is_ok(), right, "{block} threads");
    }
    rejected(Stmt::Barrier(Barrier::Named { id: 16, threads: 64 }), "named barriers are 1 to 15, not 16");
    rejected(Stmt::Barrier(Barrier::Named { id: 1, threads: 48 }), "48 threads at a named barrier are not whole warps");
    rejected(Stmt::Barrier(Barrier::Grid { counter: 0 }), "a grid barrier needs a cooperative launch");
    let mut k = kernel(vec![Stmt::Barrier(Barrier::Grid { counter: 0 })]);
    k.launch.cooperative = true;
    rejects(&k, "parameter 0 is no workspace of u32, at which blocks could meet");
    let mut k = kernel(vec![]);
    k.launch.block = 2048;
    rejects(&k, "a block has 1 to 1024 threads, not 2048");
    let mut k = kernel(vec![]);
    k.shared[0].align = 2;
    rejects(&k, "shared array s of f32 is aligned to 2 bytes");
}

#[test]
#[should_panic(expected = "SIMT IR is malformed after the test: a grid barrier needs a cooperative launch, in `barrier grid at ?;`")]
fn a_violation_names_the_pass() {
    super::verify(&kernel(vec![Stmt::Barrier(Barrier::Grid { counter: usize::MAX })]), "the test");
}

#[test]
fn text_form() {
    let i = VarId(3);
    let body = vec![Stmt::Assign { var: SUM, index: None, value: plus(sum(), sum()) }];
    let looped = Stmt::For { var: i, start: int(0), end: int(4), step: int(1), unroll: true, body };
    let choice = Stmt::If {
        condition: below(plus(Expr::Var(THREAD), int(1)), int(8)),
        then: vec![Stmt::Barrier(Barrier::Warp)],
        otherwise: vec![Stmt::AsyncWait { pending: 1 }],
    };
    let expected = "\
// k(x, y) at :0:0
// naive
// grid 1, block 64, cluster 1, min blocks 1, shared 256 bytes
kernel k(
    0: x *const f32 restrict align 16 (tensor 0),
    1: y *mut f32 restrict align 16 (tensor 0),
) {
    shared s#0: f32[64] align 16;
    let thread%0: i32 = thread;
    var v%1: f32[4];
    v%1[0..+4] = load.streaming x[0];
    // the sum
    var sum%2: f32 = v%1[0] + v%1[1];
    store y[thread%0] = sum%2;
    unroll for i%3: i32 in 0..4 step 1 {
        sum%2 = sum%2 + sum%2;
    }
    if (thread%0 + 1) < 8 {
        barrier warp;
    } else {
        async wait until 1 pending;
    }
}
";
    let printed = crate::simt::print::print(&kernel(vec![looped, choice]));
    assert_eq!(printed, expected, "\n{printed}");
}

/// A kernel of one warp with arrays of f16 (8 elements), f32 (4) and i8 (4), a shared array of f16, and one statement.
fn units(block: u32, statement: Stmt) -> Kernel {
    let mut k = kernel(vec![]);
    let array = |dtype, len| Var { name: "part".into(), dtype, len: Some(len) };
    k.vars = vec![array(DType::F16, 8), array(DType::F32, 4), array(DType::I8, 4)];
    k.shared = vec![
        SharedArray { name: "rows".into(), dtype: DType::F16, len: 64, align: 16, at: None },
        SharedArray { name: "loose".into(), dtype: DType::F16, len: 64, align: 8, at: None },
    ];
    k.body = (0..3).map(|v| Stmt::Declare { var: VarId(v), init: None }).collect();
    k.body.push(statement);
    k.launch.block = block;
    k
}

#[test]
fn matrix_instructions_need_their_fragments() {
    let atom = Atom::all_of(Number::F16, Number::F16, DType::F32, 80).next().expect("an atom");
    let part = |var, at| Fragment { var: VarId(var), at: int(at) };
    let mma = |d, a, b| Stmt::Mma { atom, d, a, b, c: part(1, 0) };
    assert_eq!(check(&units(32, mma(part(1, 0), part(0, 0), part(0, 4)))), Ok(()));
    for (block, statement, expected) in [
        (48, mma(part(1, 0), part(0, 0), part(0, 0)), "a matrix instruction needs whole warps, the block has 48 threads"),
        (32, mma(part(1, 0), part(2, 0), part(0, 0)), "elements 0..+8 lie outside of an array of 4"),
        (32, mma(part(1, 0), part(0, 0), part(0, 6)), "elements 6..+4 lie outside of an array of 8"),
        (32, mma(part(1, 0), part(0, 0), part(0, 1)), "a fragment starts within a word, at element 1"),
        (32, mma(part(0, 0), part(0, 0), part(0, 0)), "types differ: f16 where f32 is expected"),
    ] {
        let violation = check(&units(block, statement)).expect_err(expected);
        assert_eq!(violation.invariant, expected);
    }
}

#[test]
fn matrices_are_loaded_from_aligned_rows() {
    let load = |count, transposed, var, space, dtype| Stmt::LoadMatrix {
        load: LoadMatrix { count, transposed },
        var: VarId(var),
        at: int(0),
        place: Place { space, dtype, index: int(0) },
    };
    let (rows, loose) = (Space::Shared(SharedId(0)), Space::Shared(SharedId(1)));
    let good = units(32, load(4, true, 0, rows, DType::F16));
    assert_eq!(check(&good), Ok(()));
    let printed = crate::simt::print::print(&good);
    assert!(printed.contains("part%0[0..+8] = load matrix x4_transposed rows#0[0];"), "{printed}");
    for (statement, expected) in [
        (load(3, false, 0, rows, DType::F16), "1, 2 or 4 matrices are loaded at once, not 3"),
        (load(1, true, 2, rows, DType::I8), "16-bit elements are transposed, not i8"),
        (load(4, false, 1, rows, DType::F16), "elements 0..+8 lie outside of an array of 4"),
        (load(1, false, 1, rows, DType::F16), "types differ: f32 where f16 is expected"),
        (load(1, false, 0, Space::Global(0), DType::F16), "matrices are loaded from shared memory"),
        (load(1, false, 0, loose, DType::F16), "rows of matrices lie in an array that is aligned to 8 bytes only"),
    ] {
        let violation = check(&units(32, statement)).expect_err(expected);
        assert_eq!(violation.invariant, expected);
    }
}

#[test]
fn blocks_read_one_another_between_barriers_of_their_cluster() {
    let meet = || Stmt::Barrier(Barrier::Cluster);
    let read = |place, block| Stmt::LoadFromBlock { var: SUM, place, block };
    let clustered = |more| {
        let mut k = kernel(more);
        k.launch.cluster = 4;
        check(&k).map_err(|e| e.to_string())
    };
    let own = || read(shared(int(0)), int(1));
    assert_eq!(clustered(vec![meet(), own(), meet()]), Ok(()));
    let says = |more, what: &str| {
        let error = clustered(more).expect_err(what);
        assert!(error.contains(what), "{error}");
    };
    says(vec![own(), meet()], "before the cluster's first barrier or behind its last one");
    says(vec![meet(), own()], "before the cluster's first barrier or behind its last one");
    says(vec![meet(), read(x(int(0)), int(1)), meet()], "of one another's shared arrays");
    says(vec![meet(), read(shared(int(0)), sum()), meet()], "types differ");
    let alone = check(&kernel(vec![meet(), own(), meet()])).expect_err("no cluster").to_string();
    assert!(alone.contains("without a cluster"), "{alone}");
}

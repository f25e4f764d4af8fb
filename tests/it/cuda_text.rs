//! Emitted CUDA C under the real compiler: every operation, type and statement, for every architecture.

use super::nvrtc::provide;
use girih::compile::nvrtc;
use girih::error::Error;
use girih_core::cuda::{emit, emit_kernels};
use girih_core::loc::SourceLoc;
use girih_core::simt::{
    Barrier, CacheHint, Expr, Kernel, LaunchRecord, Param, ParamKind, Place, Provenance, SharedArray, SharedId, ShuffleKind, Space,
    Special, Stmt, Var, VarId, VoteKind,
};
use girih_core::tile::host::HostExpr;
use girih_core::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope, TernaryOp, UnaryOp};

/// Architectures with their capability.
pub const ARCHS: [(&str, u32); 5] = [("sm_75", 75), ("sm_80", 80), ("sm_90a", 90), ("sm_100a", 100), ("sm_120", 120)];

const UNARY: [UnaryOp; 27] = [
    UnaryOp::Neg,
    UnaryOp::Not,
    UnaryOp::Abs,
    UnaryOp::Exp,
    UnaryOp::Exp2,
    UnaryOp::Log,
    UnaryOp::Log2,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::SinPi,
    UnaryOp::CosPi,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
    UnaryOp::Trunc,
    UnaryOp::ExpApprox,
    UnaryOp::LogApprox,
    UnaryOp::RecipApprox,
    UnaryOp::TanhApprox,
    UnaryOp::RoundTf32,
    UnaryOp::Moved,
    UnaryOp::Popcount,
    UnaryOp::LeadingZeros,
];

const BINARY: [BinaryOp; 15] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::MulHi,
    BinaryOp::DivApprox,
    BinaryOp::Pow,
];

const COMPARE: [CompareOp; 6] = [CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge, CompareOp::Eq, CompareOp::Ne];

/// A kernel that grows.
pub struct Build {
    pub kernel: Kernel,
}

impl Build {
    pub fn new(name: &str) -> Build {
        let launch = LaunchRecord::new(HostExpr::Const(1), 128);
        let provenance = Provenance {
            signature: format!("{name}()"),
            loc: SourceLoc::NONE,
            schedule: String::new(),
            facts: String::new(),
            launch: String::new(),
        };
        let empty = || vec![];
        Build {
            kernel: Kernel {
                name: name.into(),
                params: vec![],
                vars: vec![],
                shared: vec![],
                body: empty(),
                launch,
                provenance,
                alike: Default::default(),
                next: None,
            },
        }
    }
    pub fn param(&mut self, name: &str, kind: ParamKind) -> usize {
        self.kernel.params.push(Param { name: name.into(), kind });
        self.kernel.params.len() - 1
    }
    pub fn pointer(&mut self, name: &str, dtype: DType) -> usize {
        let tensor = self.kernel.params.len();
        self.param(name, ParamKind::Pointer { tensor, dtype, writable: true, restrict: true, align: 16 })
    }
    pub fn var(&mut self, name: &str, dtype: DType, len: Option<u32>) -> VarId {
        self.kernel.vars.push(Var { name: name.into(), dtype, len });
        VarId(self.kernel.vars.len() as u32 - 1)
    }
    pub fn shared(&mut self, name: &str, dtype: DType, len: u32) -> SharedId {
        self.kernel.shared.push(SharedArray { name: name.into(), dtype, len, align: 128, at: None });
        SharedId(self.kernel.shared.len() as u32 - 1)
    }
    pub fn let_(&mut self, name: &str, value: Expr) -> Expr {
        let dtype = self.kernel.dtype(&value);
        let var = self.var(name, dtype, None);
        self.kernel.body.push(Stmt::Let { var, value });
        Expr::Var(var)
    }
    pub fn push(&mut self, stmt: Stmt) {
        self.kernel.body.push(stmt);
    }
    pub fn thread(&mut self) -> Expr {
        self.let_("thread", Expr::Special(Special::Thread))
    }
}

pub fn int(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

pub fn global(param: usize, dtype: DType, index: Expr) -> Place {
    Place { space: Space::Global(param), dtype, index }
}

pub fn smem(id: SharedId, dtype: DType, index: Expr) -> Place {
    Place { space: Space::Shared(id), dtype, index }
}

pub fn load(place: Place) -> Expr {
    Expr::Load { place: Box::new(place), predicate: None, cache: CacheHint::Default }
}

pub fn store(place: Place, value: Expr) -> Stmt {
    Stmt::Store { place, value, predicate: None, cache: CacheHint::Default }
}

pub fn less(a: Expr, b: Expr) -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(a), Box::new(b))
}

/// Results that one thread of [`arithmetic`] or [`conversions`] stores per output.
pub const SLOTS: i32 = 64;

/// Place `slot` of this thread's results.
fn result(b: &Build, out: usize, thread: &Expr, slot: i32) -> Place {
    let ParamKind::Pointer { dtype, .. } = b.kernel.params[out].kind else { panic!("parameter {out} is no pointer") };
    let row = Expr::Binary(BinaryOp::Mul, Box::new(thread.clone()), Box::new(int(SLOTS)));
    global(out, dtype, Expr::Binary(BinaryOp::Add, Box::new(row), Box::new(int(slot))))
}

/// Every operation on one type: what the scalar arithmetic defines, the emitter must print. Parameters: `x`, `y`, results.
pub fn arithmetic(dtype: DType) -> Kernel {
    let mut b = Build::new(&format!("arithmetic_{dtype}"));
    let (px, py, out) = (b.pointer("px", dtype), b.pointer("py", dtype), b.pointer("out", dtype));
    let thread = b.thread();
    let x = b.let_("x", load(global(px, dtype, thread.clone())));
    let y = b.let_("y", load(global(py, dtype, thread.clone())));
    let mut slot = 0;
    let mut keep = |b: &mut Build, value: Expr| {
        let place = result(b, out, &thread, slot);
        b.push(store(place, value));
        slot += 1;
    };
    for op in UNARY {
        if girih_core::scalar::unary_fn(op, dtype).is_some() {
            keep(&mut b, Expr::Unary(op, Box::new(x.clone())));
        }
    }
    for op in BINARY {
        if girih_core::scalar::binary_fn(op, dtype).is_some() {
            let literal = Expr::Literal(Literal::from_i64(dtype, 3));
            keep(&mut b, Expr::Binary(op, Box::new(x.clone()), Box::new(y.clone())));
            keep(&mut b, Expr::Binary(op, Box::new(x.clone()), Box::new(literal)));
        }
    }
    if girih_core::scalar::ternary_fn(TernaryOp::Fma, dtype).is_some() {
        keep(&mut b, Expr::Ternary(TernaryOp::Fma, Box::new(x.clone()), Box::new(y.clone()), Box::new(x.clone())));
    }
    for op in COMPARE {
        let condition = Expr::Compare(op, Box::new(x.clone()), Box::new(y.clone()));
        keep(&mut b, Expr::Select(Box::new(condition), Box::new(x.clone()), Box::new(y.clone())));
    }
    assert!(slot <= SLOTS);
    b.kernel
}

/// Every cast and bitcast, streaming and predicated scalar accesses of every type. Parameters: a tensor of each type in the order
/// of [`DType::ALL`], then results of each type.
pub fn conversions() -> Kernel {
    let mut b = Build::new("conversions");
    let inputs: Vec<usize> = DType::ALL.iter().map(|d| b.pointer(&format!("in_{d}"), *d)).collect();
    let outputs: Vec<usize> = DType::ALL.iter().map(|d| b.pointer(&format!("out_{d}"), *d)).collect();
    let thread = b.thread();
    for (i, (from, input)) in DType::ALL.into_iter().zip(&inputs).enumerate() {
        let place = global(*input, from, thread.clone());
        let predicate = Some(Box::new(less(thread.clone(), int(100))));
        let x = b.let_("x", Expr::Load { place: Box::new(place), predicate, cache: CacheHint::Streaming });
        for (to, out) in DType::ALL.into_iter().zip(&outputs) {
            let value = Expr::Cast(to, Box::new(x.clone()));
            let place = result(&b, *out, &thread, 2 * i as i32);
            let predicate = Some(less(thread.clone(), int(120)));
            b.push(Stmt::Store { place, value, predicate, cache: CacheHint::Streaming });
            if from.size() == to.size() {
                let place = result(&b, *out, &thread, 2 * i as i32 + 1);
                b.push(store(place, Expr::Bitcast(to, Box::new(x.clone()))));
            }
        }
    }
    b.kernel
}

/// Vector accesses of every type and width, through registers.
fn vectors(widest: u32) -> Kernel {
    let mut b = Build::new("vectors");
    let thread = b.thread();
    for dtype in DType::ALL {
        let p = b.pointer(&format!("p_{dtype}"), dtype);
        for lanes in [2, 4, 8, 16] {
            let bytes = lanes * dtype.size() as u32;
            if bytes > widest {
                continue;
            }
            let var = b.var("frag", dtype, Some(lanes));
            let at = int(0);
            let predicate = Some(less(thread.clone(), int(3)));
            b.push(Stmt::Declare { var, init: None });
            for cache in [CacheHint::Default, CacheHint::Streaming] {
                let place = global(p, dtype, Expr::Binary(BinaryOp::Mul, Box::new(thread.clone()), Box::new(int(lanes as i32))));
                let (at, predicate) = (at.clone(), predicate.clone());
                b.push(Stmt::LoadVector { var, at: at.clone(), place: place.clone(), lanes, predicate: predicate.clone(), cache });
                b.push(Stmt::StoreVector { place, var, at, lanes, predicate, cache });
            }
        }
    }
    b.kernel
}

/// Control flow, shuffles, atomics of every scope and order, barriers, fences and words between blocks.
fn statements() -> Kernel {
    let mut b = Build::new("statements");
    let (pf, pi, pu, pl) = (b.pointer("f", DType::F32), b.pointer("i", DType::I32), b.pointer("u", DType::U32), b.pointer("l", DType::I64));
    let pw = b.pointer("w", DType::U64);
    let n = b.param("n", ParamKind::Host { dtype: DType::I32, value: HostExpr::Const(3) });
    let alpha = b.param("alpha", ParamKind::Scalar { scalar: 6, dtype: DType::F32, range: None });
    let thread = b.thread();
    let lane = b.let_("lane", Expr::Special(Special::Lane));
    let warp = b.let_("warp", Expr::Special(Special::Warp));
    let grid = b.let_("grid", Expr::Special(Special::GridDim));
    let sum = b.var("sum", DType::F32, None);
    b.push(Stmt::Declare { var: sum, init: Some(Expr::Literal(Literal::f32(f32::NEG_INFINITY))) });
    let (many, few) = (b.var("many", DType::F32, Some(16)), b.var("few", DType::I32, Some(4)));
    b.push(Stmt::Declare { var: many, init: Some(Expr::Literal(Literal::f32(f32::NAN))) });
    b.push(Stmt::Declare { var: few, init: Some(int(-1)) });
    let k = b.var("k", DType::I32, None);
    let add = |a: Expr, b: Expr| Expr::Binary(BinaryOp::Add, Box::new(a), Box::new(b));
    let body = vec![Stmt::Assign { var: sum, index: None, value: add(Expr::Var(sum), Expr::Element(many, Box::new(Expr::Var(k)))) }];
    b.push(Stmt::For { var: k, start: int(0), end: int(16), step: int(1), unroll: true, body });
    let j = b.var("k", DType::I32, None);
    let end = load(global(pi, DType::I32, int(0)));
    let step = Expr::Param(n);
    let inner = vec![Stmt::If {
        condition: less(Expr::Var(j), lane),
        then: vec![Stmt::Assign { var: few, index: Some(int(1)), value: Expr::Var(j) }],
        otherwise: vec![Stmt::If { condition: less(grid, warp), then: vec![Stmt::Comment("never".into())], otherwise: vec![] }],
    }];
    b.push(Stmt::For { var: j, start: thread.clone(), end, step, unroll: false, body: inner });
    let count = b.var("count", DType::I32, None);
    b.push(Stmt::Declare { var: count, init: Some(int(0)) });
    let (seen, next) = (b.var("seen", DType::I32, None), add(Expr::Var(count), int(1)));
    let header = vec![Stmt::Let { var: seen, value: load(global(pi, DType::I32, Expr::Var(count))) }];
    let step = vec![Stmt::Assign { var: count, index: None, value: next }];
    b.push(Stmt::While { header, condition: less(Expr::Var(seen), int(9)), body: step.clone() });
    b.push(Stmt::While { header: vec![], condition: less(Expr::Var(count), int(99)), body: step });
    for (i, kind) in [ShuffleKind::Xor, ShuffleKind::Up, ShuffleKind::Down, ShuffleKind::Index].into_iter().enumerate() {
        let var = b.var("other", DType::F32, None);
        b.push(Stmt::Shuffle { var, value: Expr::Var(sum), kind, operand: int(1), width: 32 >> i });
        b.push(store(
            global(pf, DType::F32, int(i as i32)),
            Expr::Binary(BinaryOp::Mul, Box::new(Expr::Var(var)), Box::new(Expr::Param(alpha))),
        ));
    }
    for kind in [VoteKind::Any, VoteKind::All, VoteKind::Ballot, VoteKind::Match(8)] {
        let var = b.var("vote", kind.gives(), None);
        b.push(Stmt::Declare { var, init: None });
        let value = if kind.takes(DType::I32) { thread.clone() } else { less(thread.clone(), int(7)) };
        b.push(Stmt::Vote { var, kind, value });
        b.push(store(global(pu, DType::U32, int(0)), Expr::Cast(DType::U32, Box::new(Expr::Var(var)))));
    }
    b.push(Stmt::Shuffle { var: sum, value: Expr::Var(sum), kind: ShuffleKind::Xor, operand: int(16), width: 32 });
    for (p, dtype) in [(pf, DType::F32), (pi, DType::I32), (pu, DType::U32), (pl, DType::I64)] {
        atomics(&mut b, p, dtype);
    }
    for barrier in [Barrier::Block, Barrier::Warp, Barrier::Named { id: 1, threads: 64 }] {
        b.push(Stmt::Barrier(barrier));
    }
    for scope in [Scope::Warp, Scope::Block, Scope::Device, Scope::System] {
        b.push(Stmt::Fence { scope, order: MemoryOrder::AcquireRelease });
    }
    let word = || global(pw, DType::U64, thread.clone());
    let part = b.var("part", DType::U64, None);
    b.push(Stmt::StoreRelaxed { place: word(), value: Expr::Literal(Literal::from_i64(DType::U64, 1)), predicate: None });
    b.push(Stmt::Declare { var: part, init: None });
    b.push(Stmt::LoadRelaxed { var: part, place: word(), wait: false, predicate: None });
    b.push(Stmt::LoadRelaxed { var: part, place: word(), wait: false, predicate: Some(less(thread.clone(), int(7))) });
    b.push(Stmt::LoadRelaxed { var: part, place: word(), wait: true, predicate: None });
    b.push(Stmt::StoreRelaxed { place: word(), value: Expr::Var(part), predicate: Some(less(thread.clone(), int(7))) });
    b.kernel
}

/// Every integer that one instruction makes of a warp's.
fn warp_reductions() -> Kernel {
    let mut b = Build::new("warp_reductions");
    let thread = b.thread();
    for dtype in [DType::I32, DType::U32] {
        let p = b.pointer(&format!("p_{dtype}"), dtype);
        for op in [BinaryOp::Add, BinaryOp::Min, BinaryOp::Max, BinaryOp::And, BinaryOp::Or, BinaryOp::Xor] {
            let var = b.var("all", dtype, None);
            b.push(Stmt::Declare { var, init: None });
            b.push(Stmt::WarpReduce { var, op, value: load(global(p, dtype, thread.clone())) });
            b.push(store(global(p, dtype, thread.clone()), Expr::Var(var)));
        }
    }
    b.kernel
}

fn atomics(b: &mut Build, p: usize, dtype: DType) {
    let ops: &[AtomicOp] = match dtype {
        DType::F32 => &[AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::Exchange, AtomicOp::CompareSwap],
        _ => &[
            AtomicOp::Add,
            AtomicOp::Min,
            AtomicOp::Max,
            AtomicOp::And,
            AtomicOp::Or,
            AtomicOp::Xor,
            AtomicOp::Exchange,
            AtomicOp::CompareSwap,
        ],
    };
    let one = Expr::Literal(Literal::from_i64(dtype, 1));
    let scopes = [
        (Scope::Block, MemoryOrder::Relaxed),
        (Scope::Device, MemoryOrder::AcquireRelease),
        (Scope::System, MemoryOrder::Acquire),
        (Scope::Device, MemoryOrder::Release),
    ];
    for op in ops {
        for (i, (scope, order)) in scopes.into_iter().enumerate() {
            let result = (i % 2 == 0).then(|| b.var("old", dtype, None));
            let expected = (*op == AtomicOp::CompareSwap).then(|| one.clone());
            let predicate = (i == 0).then(|| Expr::Literal(Literal::bool(true)));
            let place = global(p, dtype, int(4));
            b.push(Stmt::Atomic { result, op: *op, place, value: one.clone(), expected, predicate, scope, order });
            if let Some(old) = result {
                b.push(store(global(p, dtype, int(5)), Expr::Var(old)));
            }
        }
    }
}

/// `cp.async`, from sm_80 on; shared memory beyond 48 KiB.
fn async_copies() -> Kernel {
    let mut b = Build::new("async_copies");
    let p = b.pointer("p", DType::F32);
    let tile = b.shared("tile", DType::F32, 16384);
    let thread = b.thread();
    for bytes in [4, 8, 16] {
        let lanes = bytes as i32 / 4;
        let at = Expr::Binary(BinaryOp::Mul, Box::new(thread.clone()), Box::new(int(lanes)));
        for predicate in [None, Some(less(thread.clone(), int(8)))] {
            let (shared, global) = (smem(tile, DType::F32, at.clone()), global(p, DType::F32, at.clone()));
            b.push(Stmt::AsyncCopy { shared, global, bytes, predicate });
        }
        b.push(Stmt::AsyncCommit);
    }
    b.push(Stmt::AsyncWait { pending: 1 });
    b.push(Stmt::Barrier(Barrier::Block));
    b.push(store(global(p, DType::F32, thread.clone()), load(smem(tile, DType::F32, thread))));
    b.kernel
}

/// Bulk copies on mbarriers and clusters, from sm_90 on; a grid barrier.
fn bulk_copies() -> Kernel {
    let mut b = Build::new("bulk_copies");
    b.kernel.launch.cluster = 2;
    b.kernel.launch.cooperative = true;
    let p = b.pointer("p", DType::F32);
    let (tile, full) = (b.shared("tile", DType::F32, 1024), b.shared("full", DType::U64, 2));
    let thread = b.thread();
    let barrier = |at| smem(full, DType::U64, int(at));
    let first = vec![
        Stmt::MbarrierInit { barrier: barrier(0), count: 1 },
        Stmt::MbarrierInit { barrier: barrier(1), count: 128 },
        Stmt::MbarrierArrive { barrier: barrier(0), expect: Some(int(4096)) },
        Stmt::BulkCopy {
            shared: smem(tile, DType::F32, int(0)),
            global: global(p, DType::F32, int(0)),
            bytes: int(4096),
            barrier: barrier(0),
        },
    ];
    let condition = Expr::Compare(CompareOp::Eq, Box::new(thread.clone()), Box::new(int(0)));
    b.push(Stmt::If { condition, then: first, otherwise: vec![] });
    b.push(Stmt::Barrier(Barrier::Cluster));
    b.push(Stmt::MbarrierArrive { barrier: barrier(1), expect: None });
    b.push(Stmt::MbarrierWait { barrier: barrier(0), parity: int(0), scope: Scope::Block });
    let kind = ParamKind::Workspace { dtype: DType::U32, len: HostExpr::Const(1) };
    b.kernel.params.push(Param { name: "meetings".into(), kind });
    b.push(Stmt::Barrier(Barrier::Grid { counter: b.kernel.params.len() - 1 }));
    b.push(store(global(p, DType::F32, thread.clone()), load(smem(tile, DType::F32, thread))));
    b.kernel
}

/// Blocks that read one another's shared memory, from sm_90 on.
fn clusters() -> Kernel {
    let mut b = Build::new("clusters");
    b.kernel.launch.cluster = 4;
    for dtype in [DType::F32, DType::I32, DType::U32] {
        let (p, left) = (b.pointer(&format!("p_{dtype}"), dtype), b.shared(&format!("left_{dtype}"), dtype, 128));
        let thread = b.thread();
        b.push(store(smem(left, dtype, thread.clone()), load(global(p, dtype, thread.clone()))));
        b.push(Stmt::Barrier(Barrier::Cluster));
        let var = b.var("found", dtype, None);
        b.push(Stmt::LoadFromBlock { var, place: smem(left, dtype, thread.clone()), block: int(3) });
        b.push(Stmt::Barrier(Barrier::Cluster));
        b.push(store(global(p, dtype, thread), Expr::Var(var)));
    }
    b.kernel
}

fn kernels(capability: u32) -> Vec<Kernel> {
    let computed = DType::ALL.into_iter().filter(|d| d.compute() == *d);
    let mut all: Vec<Kernel> = computed.map(arithmetic).collect();
    all.extend([conversions(), vectors(if capability >= 100 { 32 } else { 16 }), statements()]);
    if capability >= 80 {
        all.extend([async_copies(), warp_reductions()]);
    }
    if capability >= 90 {
        all.extend([bulk_copies(), clusters()]);
    }
    all
}

#[test]
fn nvrtc_accepts_everything_that_can_be_emitted() {
    provide();
    for (arch, capability) in ARCHS {
        let kernels = kernels(capability);
        let source = emit_kernels(&kernels);
        let cubin = nvrtc::compile(&source, arch, &[], "everything", "tests").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(cubin.resources.len(), kernels.len(), "{}", cubin.log);
        assert!(cubin.code.starts_with(b"\x7fELF"));
        assert!(cubin.resources.iter().all(|(_, r)| r.registers > 0));
    }
}

#[test]
fn rejected_text_names_the_kernel_and_the_line() {
    provide();
    let source = emit(&statements()).replace("__syncthreads();", "syncthreads_();");
    let error = nvrtc::compile(&source, "sm_80", &[], "statements", "src/k.rs:3:1").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Nvrtc { .. }));
    assert!(text.starts_with("NVRTC could not compile kernel `statements` (src/k.rs:3:1) for sm_80:"), "{text}");
    assert!(text.contains("    | syncthreads_();"), "{text}");
}

//! Memory that kernels own: zero before the first launch, kept between launches, grown on demand. On every device of this machine.

use super::nvrtc::provide;
use super::on_devices::devices;
use girih::error::Error;
use girih::{Compiled, Device};
use girih_core::cuda::emit;
use girih_core::facts::TensorArg;
use girih_core::loc::SourceLoc;
use girih_core::simt::{
    CacheHint, Expr, Kernel, LaunchRecord, Param, ParamKind, Place, Provenance, Space, Special, Stmt, Var, VarId, print, verify,
};
use girih_core::target::Target;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope};

const OUT: usize = 0;
const PARTS: usize = 1;
const DONE: usize = 2;
const MINE: VarId = VarId(2);
const I: VarId = VarId(3);
const SUM: VarId = VarId(4);

fn int(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Add, Box::new(a), Box::new(b))
}

fn at(param: usize, dtype: DType, index: Expr) -> Place {
    Place { space: Space::Global(param), dtype, index }
}

fn store(place: Place, value: Expr) -> Stmt {
    Stmt::Store { place, value, predicate: None, cache: CacheHint::Default }
}

/// One block per element of `out`: each writes its number plus one into memory of the kernel's own, the last one to finish stores
/// the sum to `out[0]`, and the counter is zero again. `parts` has `beyond` elements more than there are blocks.
fn last_block(beyond: i64) -> Kernel {
    let (block, grid) = (VarId(0), VarId(1));
    let vars = [("block", DType::I32), ("blocks", DType::I32), ("mine", DType::I32), ("i", DType::I32), ("sum", DType::F32)];
    let count = HostExpr::binary(BinaryOp::Add, HostExpr::Dim(0, 0), HostExpr::Const(beyond));
    let kinds = [
        ("out", ParamKind::Pointer { tensor: 0, dtype: DType::F32, writable: true, restrict: true, align: 4 }),
        ("parts", ParamKind::Workspace { dtype: DType::F32, len: count }),
        ("done", ParamKind::Workspace { dtype: DType::I32, len: HostExpr::Const(1) }),
    ];
    let part = Expr::Load { place: Box::new(at(PARTS, DType::F32, Expr::Var(I))), predicate: None, cache: CacheHint::Default };
    let total = vec![
        Stmt::Declare { var: SUM, init: Some(Expr::Literal(Literal::f32(0.0))) },
        Stmt::For {
            var: I,
            start: int(0),
            end: Expr::Var(grid),
            step: int(1),
            unroll: false,
            body: vec![Stmt::Assign { var: SUM, index: None, value: add(Expr::Var(SUM), part) }],
        },
        store(at(OUT, DType::F32, int(0)), Expr::Var(SUM)),
        store(at(DONE, DType::I32, int(0)), int(0)),
    ];
    let last = Expr::Compare(CompareOp::Eq, Box::new(add(Expr::Var(MINE), int(1))), Box::new(Expr::Var(grid)));
    let number = Expr::Cast(DType::F32, Box::new(add(Expr::Var(block), int(1))));
    let body = vec![
        Stmt::Let { var: block, value: Expr::Special(Special::Block) },
        Stmt::Let { var: grid, value: Expr::Special(Special::GridDim) },
        store(at(PARTS, DType::F32, Expr::Var(block)), number),
        Stmt::Declare { var: MINE, init: None },
        Stmt::Atomic {
            result: Some(MINE),
            op: AtomicOp::Add,
            place: at(DONE, DType::I32, int(0)),
            value: int(1),
            expected: None,
            predicate: None,
            scope: Scope::Device,
            order: MemoryOrder::AcquireRelease,
        },
        Stmt::If { condition: last, then: total, otherwise: vec![] },
    ];
    let kernel = Kernel {
        name: "last_block".into(),
        params: kinds.into_iter().map(|(name, kind)| Param { name: name.into(), kind }).collect(),
        vars: vars.into_iter().map(|(name, dtype)| Var { name: name.into(), dtype, len: None }).collect(),
        shared: vec![],
        body,
        launch: LaunchRecord::new(HostExpr::Dim(0, 0), 1),
        provenance: Provenance {
            signature: "last_block()".into(),
            loc: SourceLoc::NONE,
            schedule: String::new(),
            facts: String::new(),
            launch: String::new(),
        },
        alike: Default::default(),
        next: None,
    };
    verify::verify(&kernel, "test");
    kernel
}

/// The sums that launches of so many blocks give, one after the other.
fn sums(device: &Device, kernel: &Kernel, blocks: &[i64]) -> Result<Vec<f32>, Error> {
    let mut compiled = Compiled::of(kernel.clone(), device.target());
    if device.needs_cubin() {
        provide();
        compiled = compiled.with_cubin()?;
    }
    let loaded = device.load(&compiled)?;
    let mut found = Vec::new();
    for blocks in blocks {
        let out = device.alloc(*blocks as usize * 4)?;
        device.launch(&loaded, &[HostArg::Tensor(TensorArg::packed(out.address(), &[*blocks]))])?;
        let mut bytes = [0; 4];
        device.download(&out, 0, &mut bytes)?;
        found.push(f32::from_le_bytes(bytes));
    }
    Ok(found)
}

#[test]
fn counters_are_zero_at_first_and_left_so() {
    for device in devices() {
        // The same again, fewer, as many as before, more: the memory is cut, found again, and grown.
        let found = sums(&device, &last_block(0), &[9, 9, 4, 9, 100, 3]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found, [45.0, 45.0, 10.0, 45.0, 5050.0, 6.0], "{}", device.name());
    }
}

#[test]
fn a_bound_launch_keeps_its_memory_while_others_need_more() {
    for device in devices() {
        let mut compiled = Compiled::of(last_block(0), device.target());
        if device.needs_cubin() {
            provide();
            compiled = compiled.with_cubin().unwrap_or_else(|e| panic!("{e}"));
        }
        let loaded = device.load(&compiled).unwrap();
        let out = device.alloc(400).unwrap();
        let args = |blocks: i64| [HostArg::Tensor(TensorArg::packed(out.address(), &[blocks]))];
        let few = device.bind(&loaded, &args(5)).unwrap();
        let many = device.bind(&loaded, &args(100)).unwrap();
        for (bound, sum) in [(&few, 15.0), (&many, 5050.0), (&few, 15.0), (&few, 15.0)] {
            bound.launch().unwrap_or_else(|e| panic!("{e}"));
            let mut bytes = [0; 4];
            device.download(&out, 0, &mut bytes).unwrap();
            assert_eq!(f32::from_le_bytes(bytes), sum, "{}", device.name());
        }
    }
}

#[test]
fn workspaces_are_checked_as_tensors_are() {
    let simulator = Device::sim(Target::h200());
    let trap = |kernel: &Kernel, blocks: &[i64]| sums(&simulator, kernel, blocks).unwrap_err().to_string();
    // One element short.
    let short = last_block(-1);
    assert!(trap(&short, &[9]).contains("parts"), "{}", trap(&short, &[9]));
    let Some(Stmt::If { then, .. }) = last_block(0).body.last().cloned() else { panic!("the last block") };
    let mut forgetful = last_block(0);
    *forgetful.body.last_mut().expect("a body") = Stmt::If {
        condition: Expr::Compare(CompareOp::Eq, Box::new(add(Expr::Var(MINE), int(1))), Box::new(Expr::Var(VarId(1)))),
        then: then[..then.len() - 1].to_vec(),
        otherwise: vec![],
    };
    // A counter that is not left at zero: the second launch finds no last block, and `out` stays unwritten.
    assert_eq!(sums(&simulator, &forgetful, &[4, 4]).unwrap(), [10.0, 0.0]);
    let mut racing = last_block(0);
    let Some(Stmt::Atomic { order, .. }) = racing.body.iter_mut().find(|s| matches!(s, Stmt::Atomic { .. })) else { panic!("an atomic") };
    *order = MemoryOrder::Relaxed;
    assert!(trap(&racing, &[6]).contains("race"), "{}", trap(&racing, &[6]));
}

#[test]
fn workspaces_are_plain_pointers() {
    let kernel = last_block(0);
    let text = emit(&kernel);
    assert!(text.contains("last_block(float* __restrict__ out, float* parts, int* done)"), "{text}");
    provide();
    Compiled::of(kernel.clone(), Target::h200()).with_cubin().unwrap_or_else(|e| panic!("{e}"));
    let ir = print::print(&kernel);
    assert!(ir.contains("1: parts workspace f32[dim(0, 0)],") && ir.contains("2: done workspace i32[1],"), "{ir}");
    let args = [HostArg::Tensor(TensorArg::packed(0, &[7]))];
    assert_eq!(kernel.workspaces(&args, 1), [(PARTS, 28), (DONE, 4)]);
}

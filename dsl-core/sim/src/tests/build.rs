//! A small builder of SIMT IR for the tests, and a launch that returns what is in memory afterwards.

use crate::{Arg, BufferId, Memory, Options, Program, Report, Trap, simulate};
use girih_ir::loc::SourceLoc;
use girih_ir::simt::{
    CacheHint, Expr, Kernel, LaunchRecord, Param, ParamKind, Place, Provenance, SharedArray, SharedId, Space, Special, Stmt, Var, VarId,
};
use girih_ir::tile::host::HostExpr;
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

pub fn int(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

pub fn float(value: f32) -> Expr {
    Expr::Literal(Literal::f32(value))
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

pub fn add(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, a, b)
}

pub fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, a, b)
}

pub fn div(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Div, a, b)
}

pub fn rem(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Rem, a, b)
}

pub fn less(a: Expr, b: Expr) -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(a), Box::new(b))
}

pub fn equal(a: Expr, b: Expr) -> Expr {
    Expr::Compare(CompareOp::Eq, Box::new(a), Box::new(b))
}

pub fn global(param: usize, index: Expr) -> Place {
    Place { space: Space::Global(param), dtype: DType::F32, index }
}

pub fn shared(array: u32, index: Expr) -> Place {
    Place { space: Space::Shared(SharedId(array)), dtype: DType::F32, index }
}

pub fn of(dtype: DType, place: Place) -> Place {
    Place { dtype, ..place }
}

pub fn load(place: Place) -> Expr {
    Expr::Load { place: Box::new(place), predicate: None, cache: CacheHint::Default }
}

pub fn load_when(place: Place, predicate: Expr) -> Expr {
    Expr::Load { place: Box::new(place), predicate: Some(Box::new(predicate)), cache: CacheHint::Default }
}

pub fn store(place: Place, value: Expr) -> Stmt {
    Stmt::Store { place, value, predicate: None, cache: CacheHint::Default }
}

pub fn store_when(place: Place, value: Expr, predicate: Expr) -> Stmt {
    Stmt::Store { place, value, predicate: Some(predicate), cache: CacheHint::Default }
}

pub fn when(condition: Expr, then: Vec<Stmt>) -> Stmt {
    Stmt::If { condition, then, otherwise: vec![] }
}

/// A kernel in the making.
pub struct Build {
    pub kernel: Kernel,
}

impl Build {
    pub fn new(block: u32) -> Build {
        let launch = LaunchRecord::new(HostExpr::Const(1), block);
        let provenance = Provenance {
            signature: "test".into(),
            loc: SourceLoc::NONE,
            schedule: String::new(),
            facts: String::new(),
            launch: String::new(),
        };
        let (name, body) = ("test".into(), vec![]);
        Build {
            kernel: Kernel {
                name,
                params: vec![],
                vars: vec![],
                shared: vec![],
                body,
                launch,
                provenance,
                alike: Default::default(),
                next: None,
            },
        }
    }

    pub fn pointer(&mut self, name: &str, dtype: DType, writable: bool) -> usize {
        let tensor = self.kernel.params.len();
        let kind = ParamKind::Pointer { tensor, dtype, writable, restrict: true, align: dtype.size() as u32 };
        self.kernel.params.push(Param { name: name.into(), kind });
        tensor
    }

    /// A workspace of one u32.
    pub fn workspace(&mut self, name: &str) {
        let kind = ParamKind::Workspace { dtype: DType::U32, len: HostExpr::Const(1) };
        self.kernel.params.push(Param { name: name.into(), kind });
    }

    pub fn scalar(&mut self, name: &str, dtype: DType) -> Expr {
        let scalar = self.kernel.params.len();
        self.kernel.params.push(Param { name: name.into(), kind: ParamKind::Scalar { scalar, dtype, range: None } });
        Expr::Param(scalar)
    }

    pub fn array(&mut self, name: &str, dtype: DType, len: u32) -> u32 {
        self.kernel.shared.push(SharedArray { name: name.into(), dtype, len, align: 16, at: None });
        self.kernel.shared.len() as u32 - 1
    }

    pub fn var(&mut self, name: &str, dtype: DType, len: Option<u32>) -> VarId {
        self.kernel.vars.push(Var { name: name.into(), dtype, len });
        VarId(self.kernel.vars.len() as u32 - 1)
    }

    pub fn push(&mut self, stmt: Stmt) {
        self.kernel.body.push(stmt);
    }

    /// `let name = value`, as an expression.
    pub fn bind(&mut self, name: &str, value: Expr) -> Expr {
        let dtype = self.kernel.dtype(&value);
        let var = self.var(name, dtype, None);
        self.push(Stmt::Let { var, value });
        Expr::Var(var)
    }

    pub fn special(&mut self, special: Special) -> Expr {
        self.bind("special", Expr::Special(special))
    }

    /// Declares a variable without a value.
    pub fn declare(&mut self, name: &str, dtype: DType, len: Option<u32>) -> VarId {
        let var = self.var(name, dtype, len);
        self.push(Stmt::Declare { var, init: None });
        var
    }

    /// The kernel, after it has been verified.
    pub fn done(self) -> Kernel {
        girih_ir::simt::verify::verify(&self.kernel, "test");
        self.kernel
    }
}

/// What a launch's parameter gets.
pub enum Given<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    /// A buffer of so many bytes, not initialised.
    Raw(usize),
    Scalar(i32),
}

pub struct Launched {
    pub report: Report,
    memory: Memory,
    buffers: Vec<Option<BufferId>>,
}

impl Launched {
    pub fn f32(&self, param: usize) -> Vec<f32> {
        self.words(param).into_iter().map(f32::from_bits).collect()
    }

    pub fn i32(&self, param: usize) -> Vec<i32> {
        self.words(param).into_iter().map(|w| w as i32).collect()
    }

    fn words(&self, param: usize) -> Vec<u32> {
        let buffer = self.buffers[param].expect("a buffer");
        let bytes = self.memory.read(buffer, 0, self.memory.len(buffer));
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

pub fn launch_seeded(kernel: &Kernel, grid: u32, given: &[Given], seed: u64) -> Result<Launched, Box<Trap>> {
    let mut memory = Memory::new();
    let mut args = Vec::new();
    let mut buffers = Vec::new();
    for g in given {
        let bytes: Vec<u8> = match g {
            Given::F32(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Given::I32(x) => x.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Given::Raw(_) => vec![],
            Given::Scalar(x) => {
                args.push(Arg::Scalar(Literal::i32(*x)));
                buffers.push(None);
                continue;
            }
        };
        let buffer = if let Given::Raw(n) = g { memory.alloc(*n) } else { memory.from_bytes(&bytes) };
        args.push(Arg::Buffer { buffer, offset: 0 });
        buffers.push(Some(buffer));
    }
    let program = Program::decode(kernel);
    let options = Options { seed, fuel: 1_000_000, count: true, resident: None };
    let report = simulate(&program, grid, &args, &mut memory, &options)?;
    Ok(Launched { report, memory, buffers })
}

pub fn launch(kernel: &Kernel, grid: u32, given: &[Given]) -> Launched {
    launch_seeded(kernel, grid, given, 1).unwrap_or_else(|t| panic!("{t}"))
}

/// The traps of several seeds.
fn traps(kernel: &Kernel, grid: u32, given: &[Given]) -> Vec<Trap> {
    (0..8)
        .map(|seed| match launch_seeded(kernel, grid, given, seed) {
            Ok(_) => panic!("no trap with seed {seed}"),
            Err(t) => *t,
        })
        .collect()
}

/// A trap of the kind that every seed leads to.
pub fn trap(kernel: &Kernel, grid: u32, given: &[Given]) -> Trap {
    let traps = traps(kernel, grid, given);
    let first = traps[0].clone();
    assert!(traps.iter().all(|t| t.kind.name() == first.kind.name()), "{traps:?}");
    first
}

/// A race that every seed finds, but where the reader comes first and finds nothing written. The race, if any seed finds it.
pub fn race(kernel: &Kernel, grid: u32, given: &[Given]) -> Trap {
    let traps = traps(kernel, grid, given);
    for t in &traps {
        assert!(matches!(t.kind.name(), "race" | "uninitialised"), "{t}");
    }
    traps.iter().find(|t| t.kind.name() == "race").unwrap_or(&traps[0]).clone()
}

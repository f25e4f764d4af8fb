//! SIMT IR: what one thread does, close to C. The simulator ([`crate::sim`]) is its definition; the emitter prints it as it stands.
//!
//! # Values
//! Variables are registers of one thread: scalars, or arrays of constant length. Expressions have no side effects.
//! Arithmetic happens on bool, 32- and 64-bit integers, f32, and on 8-bit integers (wrapping). `F16` and `BF16` variables
//! are raw 16-bit storage: only loads, stores, [`Expr::Cast`] and [`Expr::Bitcast`] touch them.
//! Index arithmetic is i32 or i64, as the facts allow; overflow of index arithmetic is a compiler bug.
//!
//! # Memory
//! An access names a global parameter or a shared array, an element type and an index in elements of that type. Accesses of
//! `lanes > 1` must be aligned to their whole size. A predicate that is false makes a load give zeros and a store do nothing.
//!
//! # Order
//! Accesses of two threads to one byte, one of them a write, are a race unless a barrier, mbarrier phase, asynchronous group
//! and barrier, atomic or fence orders them; also within a warp.

mod params;
pub mod print;
pub mod verify;
pub(crate) mod visit;

use crate::fragments::{Atom, LoadMatrix};
use crate::loc::SourceLoc;
use crate::tile::host::{HostArg, HostExpr};
use crate::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope, TernaryOp, UnaryOp};
pub use crate::types::{ShuffleKind, VoteKind};
pub use params::{Param, ParamKind, TensorMap};

/// Index of a [`Var`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct VarId(pub u32);

/// Index of a [`SharedArray`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SharedId(pub u32);

/// A register variable of one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    /// Name hint; the emitter makes it unique.
    pub name: String,
    /// Type of each element.
    pub dtype: DType,
    /// `None`: a scalar. `Some(n)`: an array of n elements.
    pub len: Option<u32>,
}

/// An array in shared memory.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedArray {
    /// Name hint.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Elements.
    pub len: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// It begins where the block's shared memory begins: what the arrays before it hold is no longer needed when it is written.
    pub reuses: bool,
}

/// Hardware indices. i32; only as the whole initialiser of a [`Stmt::Let`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Special {
    /// `threadIdx.x`.
    Thread,
    /// `blockIdx.x`.
    Block,
    /// `gridDim.x`.
    GridDim,
    /// Thread index modulo 32.
    Lane,
    /// Thread index divided by 32.
    Warp,
}

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// The tensor behind [`Kernel::params`]`[i]`, a pointer.
    Global(usize),
    /// A shared array.
    Shared(SharedId),
}

/// A place in memory: element `index` (in elements of `dtype`) of a space.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Which memory.
    pub space: Space,
    /// Element type of the access; may differ from the space's (then a reinterpretation).
    pub dtype: DType,
    /// Element index.
    pub index: Expr,
}

/// Neighbouring elements of an array variable: a thread's part of an operand of a matrix instruction, as many as the atom says.
#[derive(Clone, PartialEq, Debug)]
pub struct Fragment {
    /// Array variable.
    pub var: VarId,
    /// First element; a multiple of the elements in a 32-bit word.
    pub at: Expr,
}

/// Cache hint of a global access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CacheHint {
    /// As the compiler likes.
    #[default]
    Default,
    /// Read or written once: `__ldcs`, `__stcs`.
    Streaming,
}

/// A pure expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A scalar variable.
    Var(VarId),
    /// An element of an array variable.
    Element(VarId, Box<Expr>),
    /// A scalar or host-computed parameter.
    Param(usize),
    /// A hardware index.
    Special(Special),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands of one type.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Three operands of one type.
    Ternary(TernaryOp, Box<Expr>, Box<Expr>, Box<Expr>),
    /// Two operands of one type; bool.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// `condition ? a : b`; both sides are evaluated (they are pure), but see [`Expr::Load`] for predicated reads.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion by the numeric contract.
    Cast(DType, Box<Expr>),
    /// Same bits.
    Bitcast(DType, Box<Expr>),
    /// One element from memory; zero, and no access, where the predicate is false.
    Load {
        /// Where.
        place: Box<Place>,
        /// Bool, or always.
        predicate: Option<Box<Expr>>,
        /// Hint.
        cache: CacheHint,
    },
}

/// Barriers, by who meets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// `__syncthreads()`.
    Block,
    /// `__syncwarp()`.
    Warp,
    /// `bar.sync id, threads`.
    Named {
        /// 1 to 15.
        id: u32,
        /// Threads that meet; a multiple of 32.
        threads: u32,
    },
    /// As many neighbouring threads as this, of which the thread is one: `bar.sync 1 + thread / threads, threads`.
    Slice {
        /// Threads that meet; a multiple of 32, at least 64, and at most 15 times in a block.
        threads: u32,
    },
    /// All blocks of the cluster (arrive release, wait acquire).
    Cluster,
    /// All blocks of a cooperative launch.
    Grid,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// Declares a scalar variable that never changes.
    Let {
        /// The variable.
        var: VarId,
        /// Its value.
        value: Expr,
    },
    /// Declares a variable that changes, or an array. Uninitialised without `init` (arrays: every element set to it).
    Declare {
        /// The variable.
        var: VarId,
        /// First value.
        init: Option<Expr>,
    },
    /// Sets a scalar variable, or an element of an array.
    Assign {
        /// The variable.
        var: VarId,
        /// Element, for arrays.
        index: Option<Expr>,
        /// New value.
        value: Expr,
    },
    /// Reads `lanes` neighbouring elements into elements `at..at+lanes` of an array variable.
    LoadVector {
        /// Array variable of the place's dtype.
        var: VarId,
        /// First element set.
        at: Expr,
        /// First element read; aligned to the whole access.
        place: Place,
        /// 2, 4, 8 or 16 elements; at most 16 bytes (32 where the target has it).
        lanes: u32,
        /// Zeros where false.
        predicate: Option<Expr>,
        /// Hint.
        cache: CacheHint,
    },
    /// Writes elements `at..at+lanes` of an array variable.
    StoreVector {
        /// First element written.
        place: Place,
        /// Array variable of the place's dtype.
        var: VarId,
        /// First element read.
        at: Expr,
        /// As for loads.
        lanes: u32,
        /// Nothing where false.
        predicate: Option<Expr>,
        /// Hint.
        cache: CacheHint,
    },
    /// Writes one element.
    Store {
        /// Where.
        place: Place,
        /// Of the place's dtype.
        value: Expr,
        /// Nothing where false.
        predicate: Option<Expr>,
        /// Hint.
        cache: CacheHint,
    },
    /// Read-modify-write of one element.
    Atomic {
        /// The old value, if wanted; stays as it is where the predicate is false.
        result: Option<VarId>,
        /// The operation.
        op: AtomicOp,
        /// Where.
        place: Place,
        /// The operand (for compare-and-swap: the new value).
        value: Expr,
        /// The expected value of a compare-and-swap.
        expected: Option<Expr>,
        /// Nothing where false.
        predicate: Option<Expr>,
        /// Among whom.
        scope: Scope,
        /// What else it orders.
        order: MemoryOrder,
    },
    /// Writes one word (u64) of global memory by a relaxed store of device scope: it races with no atomic and no other of these, and
    /// orders nothing. What another block waits for lies in the word itself; until it is taken, nothing but zero is stored over it.
    StoreRelaxed {
        /// Where.
        place: Place,
        /// Of the place's dtype.
        value: Expr,
        /// Nothing where false.
        predicate: Option<Expr>,
    },
    /// Reads one word (u64) of global memory by a relaxed load of device scope; or waits where the variable is zero, by as many loads as it
    /// takes until the word is not. Orders nothing. Only the last block of a grid may wait: it starts when all others have started, so nobody lacks the room that it
    /// takes. Whoever waits for a word leaves zero there for the next launch.
    LoadRelaxed {
        /// Receives; u64.
        var: VarId,
        /// Where.
        place: Place,
        /// Only where the variable is zero, and until the word is not.
        wait: bool,
        /// Zero where false; none for a wait.
        predicate: Option<Expr>,
    },
    /// A choice per thread.
    If {
        /// Bool.
        condition: Expr,
        /// Where true.
        then: Vec<Stmt>,
        /// Where false.
        otherwise: Vec<Stmt>,
    },
    /// `for (var = start; var < end; var += step)`; `start`, `end`, `step` are evaluated once, before.
    For {
        /// The counter.
        var: VarId,
        /// First value.
        start: Expr,
        /// One past the last.
        end: Expr,
        /// Positive.
        step: Expr,
        /// Fully unrolled by the CUDA compiler: bounds are literals.
        unroll: bool,
        /// One turn.
        body: Vec<Stmt>,
    },
    /// `for (;;) { header; if (!condition) break; body }`.
    While {
        /// Computes the condition.
        header: Vec<Stmt>,
        /// Bool.
        condition: Expr,
        /// One turn.
        body: Vec<Stmt>,
    },
    /// A barrier; orders all memory accesses of those who meet.
    Barrier(Barrier),
    /// A fence.
    Fence {
        /// Among whom.
        scope: Scope,
        /// What it orders.
        order: MemoryOrder,
    },
    /// Starts an asynchronous copy of `bytes` (4, 8 or 16) from global to shared memory (`cp.async`); zeros are written where
    /// the predicate is false. In flight until the group it is committed to has been waited for, by this thread; other
    /// threads see it after a barrier that follows the wait.
    AsyncCopy {
        /// Where to; aligned to `bytes`.
        shared: Place,
        /// Where from; aligned to `bytes`.
        global: Place,
        /// Size.
        bytes: u32,
        /// Zeros where false.
        predicate: Option<Expr>,
    },
    /// Closes this thread's group of asynchronous copies.
    AsyncCommit,
    /// Waits until at most `pending` of this thread's newest groups are in flight.
    AsyncWait {
        /// Groups that may stay in flight.
        pending: u32,
    },
    /// Arrives at an mbarrier for this thread, as soon as all asynchronous copies that the thread has started have landed
    /// (`cp.async.mbarrier.arrive.noinc`): who waits for the phase sees them.
    AsyncArrive {
        /// The mbarrier.
        barrier: Place,
    },
    /// Initialises an mbarrier (a u64 in shared memory) for `count` arrivals per phase, and makes it visible to asynchronous copies.
    MbarrierInit {
        /// The mbarrier.
        barrier: Place,
        /// Arrivals per phase.
        count: u32,
    },
    /// Arrives at an mbarrier, first adding to the bytes that its phase expects.
    MbarrierArrive {
        /// The mbarrier.
        barrier: Place,
        /// Bytes of bulk copies that complete on this phase.
        expect: Option<Expr>,
    },
    /// Waits until the phase of the given parity has completed.
    MbarrierWait {
        /// The mbarrier.
        barrier: Place,
        /// 0 or 1 (i32).
        parity: Expr,
    },
    /// Starts a bulk copy (`cp.async.bulk`) of `bytes` (a multiple of 16) from global to shared memory, completing on an mbarrier.
    BulkCopy {
        /// Where to; aligned to 16 bytes.
        shared: Place,
        /// Where from; aligned to 16 bytes.
        global: Place,
        /// Size in bytes (i32).
        bytes: Expr,
        /// Completes here.
        barrier: Place,
    },
    /// Exchanges a value between lanes. All lanes of the warp that exist reach it together, and only they may be read. It orders no
    /// memory access.
    Shuffle {
        /// Receives.
        var: VarId,
        /// Contributes; 32-bit.
        value: Expr,
        /// How the source is picked.
        kind: ShuffleKind,
        /// Lane number or distance (i32).
        operand: Expr,
        /// Lanes per group: a power of two up to 32.
        width: u32,
    },
    /// What the lanes of a warp find out together: bool, or u32 for a ballot, the same in all of them. All lanes of the warp that exist
    /// reach it together; those that don't count as false in a ballot and are left out otherwise. It orders no memory access.
    Vote {
        /// Receives.
        var: VarId,
        /// What is found out.
        kind: VoteKind,
        /// Bool.
        value: Expr,
    },
    /// `D = A · B + C` by all 32 lanes of the warp together, each with its part of the fragments ([`Atom::layout`]). `d` may be `c`.
    /// It orders no memory access.
    Mma {
        /// The instruction.
        atom: Atom,
        /// Receives, m × n.
        d: Fragment,
        /// m × k. Of f32 elements the upper 19 bits are read.
        a: Fragment,
        /// k × n.
        b: Fragment,
        /// m × n.
        c: Fragment,
    },
    /// All 32 lanes of the warp together read matrices from shared memory, each with the address of a row ([`LoadMatrix::addresses`])
    /// and its part of the elements ([`LoadMatrix::received`]) for elements `at..` of an array variable. Every lane reads every row.
    LoadMatrix {
        /// How many matrices, and whether they are transposed.
        load: LoadMatrix,
        /// Array variable of the place's dtype.
        var: VarId,
        /// First element set; a multiple of the elements in a 32-bit word.
        at: Expr,
        /// First element of this lane's row, in a shared array; aligned to 16 bytes. Legal in every lane, also where it is not read.
        place: Place,
    },
    /// A full-line comment.
    Comment(String),
}

/// How a kernel is launched.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchRecord {
    /// Blocks; 0 means there is nothing to do and no launch.
    pub grid: HostExpr,
    /// Threads per block.
    pub block: u32,
    /// Blocks per cluster; 1 means none.
    pub cluster: u32,
    /// All blocks must be resident at once.
    pub cooperative: bool,
    /// Blocks per multiprocessor that the schedule counts on (second argument of `__launch_bounds__`).
    pub min_blocks: u32,
    /// The optimisation level that ptxas is asked for; it does what it can at [`OPT_LEVEL`], its default.
    pub opt_level: u32,
    /// What groups of warps do; empty where all do the same.
    pub roles: Vec<WarpRole>,
}

/// ptxas's own optimisation level.
pub const OPT_LEVEL: u32 = 3;

/// A group of warps that runs its own part of the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct WarpRole {
    /// `producer`, `consumer`.
    pub name: String,
    /// Warps in the group; roles follow each other from warp 0.
    pub warps: u32,
    /// Registers per thread after `setmaxnreg`, if it changes them.
    pub registers: Option<u32>,
}

/// Where a kernel comes from: the lines above it in the CUDA C.
#[derive(Clone, PartialEq, Debug)]
pub struct Provenance {
    /// `vector_add(a: &Tensor<f32, 1>, ..)`.
    pub signature: String,
    /// The author's function.
    pub loc: SourceLoc,
    /// The schedule as its attribute.
    pub schedule: String,
    /// What the launch must promise, in words.
    pub facts: String,
    /// Grid, block, shared bytes, in words.
    pub launch: String,
}

/// A kernel of SIMT IR with its launch record.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The function's name.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Register variables, by [`VarId`].
    pub vars: Vec<Var>,
    /// Shared arrays, by [`SharedId`].
    pub shared: Vec<SharedArray>,
    /// What each thread does.
    pub body: Vec<Stmt>,
    /// How it is launched.
    pub launch: LaunchRecord,
    /// Where it comes from.
    pub provenance: Provenance,
    /// A launch of its own behind this one: what waits for all blocks. Its parameters are this kernel's or computed by the host as they
    /// are; its workspaces are this kernel's, by name.
    pub next: Option<Box<Kernel>>,
}

impl Kernel {
    /// This kernel and those that are launched behind it, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Kernel> {
        std::iter::successors(Some(self), |k| k.next.as_deref())
    }
    /// Calls `f` on this kernel and those that are launched behind it.
    pub fn each_launch(&mut self, f: &mut dyn FnMut(&mut Kernel)) {
        f(self);
        if let Some(next) = &mut self.next {
            next.each_launch(f);
        }
    }
    /// Which parameter of this kernel is the memory that one behind it takes by this name.
    pub fn workspace_named(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name && matches!(p.kind, ParamKind::Workspace { .. }))
    }
    /// The variable.
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }
    /// Bytes of shared memory: arrays placed one after the other at their alignment, but for those that reuse what others had.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_offsets().1
    }
    /// Byte offset of each shared array and their total size.
    pub fn shared_offsets(&self) -> (Vec<u32>, u32) {
        let mut offsets = Vec::new();
        let mut end = 0u32;
        let bytes = |a: &SharedArray| a.len * a.dtype.size() as u32;
        for a in &self.shared {
            if a.reuses {
                offsets.push(0);
                // What is declared behind it is there at the same time.
                end = end.max(bytes(a));
                continue;
            }
            let start = end.next_multiple_of(a.align.max(1));
            offsets.push(start);
            end = start + bytes(a);
        }
        (offsets, end)
    }
    /// Bytes of each workspace for a launch, with its parameter.
    pub fn workspaces(&self, args: &[HostArg], multiprocessors: i64) -> Vec<(usize, usize)> {
        let bytes = |(p, param): (usize, &Param)| match &param.kind {
            ParamKind::Workspace { dtype, len } => Some((p, len.eval(args, multiprocessors).max(0) as usize * dtype.size())),
            _ => None,
        };
        self.params.iter().enumerate().filter_map(bytes).collect()
    }
    /// The type of an expression.
    pub fn dtype(&self, expr: &Expr) -> DType {
        expr_dtype(expr, &self.vars, &self.params)
    }
}

/// The type of an expression over these variables and parameters.
pub fn expr_dtype(expr: &Expr, vars: &[Var], params: &[Param]) -> DType {
    match expr {
        Expr::Literal(l) => l.dtype,
        Expr::Var(v) | Expr::Element(v, _) => vars[v.0 as usize].dtype,
        Expr::Param(p) => match &params[*p].kind {
            ParamKind::Scalar { dtype, .. } | ParamKind::Host { dtype, .. } => *dtype,
            ParamKind::Pointer { .. } | ParamKind::Workspace { .. } | ParamKind::TensorMap { .. } => {
                panic!("simt: parameter {p} is no value")
            }
        },
        Expr::Special(_) => DType::I32,
        Expr::Unary(_, a) | Expr::Binary(_, a, _) | Expr::Ternary(_, a, _, _) => expr_dtype(a, vars, params),
        Expr::Compare(..) => DType::Bool,
        Expr::Select(_, a, _) => expr_dtype(a, vars, params),
        Expr::Cast(d, _) | Expr::Bitcast(d, _) => *d,
        Expr::Load { place, .. } => place.dtype,
    }
}

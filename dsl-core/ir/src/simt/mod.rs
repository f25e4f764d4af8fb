//! SIMT IR: what one thread does, close to C. The simulator (`girih-sim`) is its definition; the emitter prints it as it stands.
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

mod expr;
pub mod form;
mod params;
pub mod print;
mod shared_matrix;
mod stmt;
pub mod verify;
pub mod visit;

use crate::loc::SourceLoc;
use crate::tile::host::{HostArg, HostExpr};
use crate::types::DType;
pub use crate::types::{ShuffleKind, VoteKind};
pub use expr::{CacheHint, Expr, Fragment, Place, Space, Special, expr_dtype};
pub use params::{Param, ParamKind, TensorMap};
pub use shared_matrix::{LeftMatrix, SharedMatrix, swizzled};
use std::collections::BTreeSet;
pub use stmt::{Barrier, Stmt};

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
    /// The byte of the block's shared memory at which it begins; `None`: behind the array before it. Arrays that lie on the same bytes are
    /// never needed at the same time: what one holds is gone when another is written.
    pub at: Option<u32>,
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
    /// It may begin before the launch in front of it has ended: every thread waits for that first (programmatic dependent launch, CUDA C++
    /// Programming Guide).
    pub dependent: bool,
    /// Blocks per multiprocessor that the schedule counts on (second argument of `__launch_bounds__`).
    pub min_blocks: u32,
    /// The optimisation level that ptxas is asked for; it does what it can at [`OPT_LEVEL`], its default.
    pub opt_level: u32,
    /// What groups of warps do; empty where all do the same.
    pub roles: Vec<WarpRole>,
}

impl LaunchRecord {
    /// So many blocks of so many threads, and nothing else asked for.
    pub fn new(grid: HostExpr, block: u32) -> LaunchRecord {
        let (cooperative, dependent) = (false, false);
        LaunchRecord { grid, block, cluster: 1, cooperative, dependent, min_blocks: 1, opt_level: OPT_LEVEL, roles: vec![] }
    }
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
    /// Scalar variables that all threads of a block have alike wherever a condition is made of them: what a reduction has told to all, say.
    pub alike: BTreeSet<VarId>,
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

/// Byte offset of each of a block's shared arrays and their total size: one after the other at their alignment, but for those whose place is
/// given.
pub fn shared_offsets(arrays: &[SharedArray]) -> (Vec<u32>, u32) {
    let mut offsets = Vec::new();
    let mut end = 0u32;
    let bytes = |a: &SharedArray| a.len * a.dtype.size() as u32;
    for a in arrays {
        if let Some(at) = a.at {
            offsets.push(at);
            // What is declared behind it is there at the same time.
            end = end.max(at + bytes(a));
            continue;
        }
        let start = end.next_multiple_of(a.align.max(1));
        offsets.push(start);
        end = start + bytes(a);
    }
    (offsets, end)
}

/// Bytes of constant memory that a module has (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
pub const CONSTANT_BYTES: u32 = 64 * 1024;

/// A tensor that the host copies to constant memory before a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstantCopy {
    /// The array: a parameter of the kernel.
    pub param: usize,
    /// The tensor: a parameter of the tile kernel.
    pub tensor: usize,
    /// The byte of the module's constant memory at which the array begins.
    pub at: u32,
    /// Bytes that the tensor has.
    pub bytes: usize,
}

/// Where a kernel's arrays in constant memory begin, each with its parameter, and the bytes that they take together.
pub fn constant_offsets(params: &[Param]) -> (Vec<(usize, u32)>, u32) {
    let (mut offsets, mut end) = (Vec::new(), 0u32);
    for (p, param) in params.iter().enumerate() {
        let ParamKind::Constant { dtype, len, .. } = &param.kind else { continue };
        let at = end.next_multiple_of(16);
        offsets.push((p, at));
        end = at.saturating_add(len.saturating_mul(dtype.size() as u32));
    }
    (offsets, end)
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
    /// Bytes of shared memory: arrays placed one after the other at their alignment, but for those whose place is given.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_offsets().1
    }
    /// Byte offset of each shared array and their total size.
    pub fn shared_offsets(&self) -> (Vec<u32>, u32) {
        shared_offsets(&self.shared)
    }
    /// Bytes of each workspace for a launch, with its parameter.
    pub fn workspaces(&self, args: &[HostArg], multiprocessors: i64) -> Vec<(usize, usize)> {
        let bytes = |(p, param): (usize, &Param)| match &param.kind {
            ParamKind::Workspace { dtype, len } => Some((p, len.eval(args, multiprocessors).max(0) as usize * dtype.size())),
            _ => None,
        };
        self.params.iter().enumerate().filter_map(bytes).collect()
    }
    /// What the host copies to constant memory before a launch.
    pub fn constant_copies(&self, args: &[HostArg]) -> Vec<ConstantCopy> {
        let copy = |(param, at): (usize, u32)| {
            let ParamKind::Constant { tensor, dtype, .. } = self.params[param].kind else { return None };
            let Some(HostArg::Tensor(t)) = args.get(tensor) else { return None };
            Some(ConstantCopy { param, tensor, at, bytes: t.numel().max(0) as usize * dtype.size() })
        };
        constant_offsets(&self.params).0.into_iter().filter_map(copy).collect()
    }
    /// Whether an array has room for what is copied to it.
    ///
    /// # Errors
    /// It has not: what was found, and what is allowed.
    pub fn check_room(&self, copy: &ConstantCopy) -> Result<(), String> {
        let param = &self.params[copy.param];
        let ParamKind::Constant { dtype, len, .. } = param.kind else { return Ok(()) };
        let room = len as usize * dtype.size();
        if copy.bytes <= room {
            return Ok(());
        }
        Err(format!(
            "`{}` has {} bytes, and the kernel was compiled for at most {room} of it in constant memory: launch it under other facts, or with \
             its `constant` knob Off",
            param.name, copy.bytes
        ))
    }
    /// The type of an expression.
    pub fn dtype(&self, expr: &Expr) -> DType {
        expr_dtype(expr, &self.vars, &self.params)
    }
}

//! Statements of SIMT IR: what a thread does, in order, and at which barriers it meets others.

use super::{CacheHint, Expr, Fragment, LeftMatrix, Place, SharedMatrix, ShuffleKind, VarId, VoteKind};
use crate::fragments::{Atom, GroupAtom, LoadMatrix};
use crate::types::{AtomicOp, BinaryOp, MemoryOrder, Scope};

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
    /// Warp groups that take turns: the thread's group waits until the one before it has passed the turn on
    /// (`bar.sync first + thread / 128, 256`). It orders no memory access.
    AwaitTurn {
        /// The named barrier of the first group; the others' follow.
        first: u32,
        /// How many groups take turns.
        groups: u32,
    },
    /// The group passes the turn on to the next one, the last one to the first, and goes on (`bar.arrive`).
    PassTurn {
        /// As above.
        first: u32,
        /// As above.
        groups: u32,
    },
    /// All blocks of the cluster (arrive release, wait acquire).
    Cluster,
    /// All blocks of a cooperative launch: what any thread did before is done for every thread behind.
    Grid {
        /// The workspace of one u32 at which the blocks count themselves. Only its uppermost bit changes from meeting to meeting.
        counter: usize,
    },
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
    /// Reads one element of the same shared array of a block of the cluster (`mapa`, `ld.shared::cluster`). What that block has written is
    /// seen behind a barrier of the cluster; it may neither write there again nor end before another one.
    LoadFromBlock {
        /// Receives; 32-bit.
        var: VarId,
        /// Where, in a shared array.
        place: Place,
        /// The block's number in the cluster (i32).
        block: Expr,
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
    /// Arrives at the same mbarrier of a block of the cluster (`mapa`, a release at the cluster's scope).
    MbarrierArriveAt {
        /// The mbarrier, by its place in this block.
        barrier: Place,
        /// The block's number in the cluster (i32).
        block: Expr,
    },
    /// Waits until the phase of the given parity has completed.
    MbarrierWait {
        /// The mbarrier.
        barrier: Place,
        /// 0 or 1 (i32).
        parity: Expr,
        /// Whose arrivals it is ordered behind: those of the block, or of the cluster.
        scope: Scope,
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
    /// Starts the copy of a box of a tensor to shared memory (`cp.async.bulk.tensor`), by one thread, completing on an mbarrier: all bytes of the box
    /// arrive there, zeros where it lies outside of the tensor. Rows of the box lie one below the other; their chunks change places as the map's
    /// swizzle says. What other threads did with these bytes before is ordered before it as for any write of another thread.
    TensorCopy {
        /// Where to; aligned to 128 bytes, or to 8 rows of the swizzle.
        shared: Place,
        /// Parameter that is a tensor map.
        map: usize,
        /// The box's first coordinate along each axis of the map, innermost first (i32).
        at: Vec<Expr>,
        /// Completes here.
        barrier: Place,
        /// All blocks of the cluster receive the box, each at this place of its own, and it completes on the barrier of each
        /// (`.multicast::cluster`).
        to_all: bool,
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
    /// Combines an integer of each lane of a warp, the same result in all of them (`redux.sync`, from sm_80 on). All lanes of the warp that
    /// exist reach it together. It orders no memory access.
    WarpReduce {
        /// Receives.
        var: VarId,
        /// Add, Min, Max, And, Or or Xor.
        op: BinaryOp,
        /// Contributes; i32 or u32.
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
    /// `D = A · B + D` by the 128 threads of a warp group together, of operands in shared memory, the left one possibly in registers
    /// (`wgmma.mma_async`). It is in flight until the group of instructions that it is committed to has been waited for by this warp: until
    /// then nobody writes what it reads, and nobody but further ones of its kind reads or writes `d` and the registers of `a`. What threads
    /// have written to shared memory it sees behind their [`Stmt::ProxyFence`].
    Wgmma {
        /// The instruction.
        atom: GroupAtom,
        /// Receives, and is added: the thread's part of 64 × n.
        d: Fragment,
        /// 64 × k.
        a: LeftMatrix,
        /// k × n.
        b: SharedMatrix,
        /// Whether `d` is added: otherwise it is written alone, whatever it was. The same in all threads.
        accumulate: Expr,
    },
    /// Makes what a warp group has in accumulators and in registers of left operands ready for [`Stmt::Wgmma`] (`wgmma.fence`): before the
    /// first one, and before the first one behind any other access to them.
    WgmmaFence,
    /// Closes the warp group's group of [`Stmt::Wgmma`].
    WgmmaCommit,
    /// Waits until at most `pending` of the warp group's newest groups are in flight.
    WgmmaWait {
        /// Groups that may stay in flight.
        pending: u32,
        /// Array variables whose elements are what was computed from here on. Left operands in registers are free for other uses, too.
        sums: Vec<VarId>,
    },
    /// Orders what this thread has observed and written in shared memory before what the matrix unit and the copy engine do there afterwards
    /// (`fence.proxy.async`).
    ProxyFence,
    /// From here on each thread of the warp group has so many registers: some are given back, or taken as soon as others have given so many
    /// back (`setmaxnreg`). All warps of the group say so.
    SetRegisters {
        /// A multiple of 8 from 24 to 256.
        count: u32,
        /// More than before.
        more: bool,
    },
    /// A full-line comment.
    Comment(String),
}

//! What threads do among each other: atomics, shuffles, votes; among whom, and what that orders.

/// Read-modify-write operations on memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum AtomicOp {
    /// Add.
    Add,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// And.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
    /// Exchange.
    Exchange,
    /// Compare and swap.
    CompareSwap,
    /// Leaves the element as it is: its operand says nothing.
    Load,
}

/// The threads among which an atomic, fence or barrier orders memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Scope {
    /// One warp.
    Warp,
    /// One block.
    Block,
    /// The blocks of a cluster.
    Cluster,
    /// The whole device.
    Device,
    /// The device and its host.
    System,
}

/// How a shuffle picks the lane that it reads from, given a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ShuffleKind {
    /// lane ^ number.
    Xor,
    /// lane − number; the lane itself where there is none.
    Up,
    /// lane + number; the lane itself where there is none.
    Down,
    /// number.
    Index,
}

/// What the lanes of a warp find out about their conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VoteKind {
    /// Whether any holds.
    Any,
    /// Whether all hold.
    All,
    /// Which hold: bit `l` of a u32 is lane `l`'s.
    Ballot,
}

/// What an atomic or fence orders around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum MemoryOrder {
    /// Nothing but the location itself.
    Relaxed,
    /// Later accesses stay after it.
    Acquire,
    /// Earlier accesses stay before it.
    Release,
    /// Both.
    AcquireRelease,
}

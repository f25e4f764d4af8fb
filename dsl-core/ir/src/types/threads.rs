//! What threads do among each other: atomics, shuffles, votes; among whom, and what that orders.

use super::DType;

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
    /// Which have the same lowest bits, so many of a 32-bit integer: bit `l` of a u32 is lane `l`'s.
    Match(u32),
}

impl VoteKind {
    /// The type of what lanes find out.
    pub fn gives(self) -> DType {
        match self {
            VoteKind::Any | VoteKind::All => DType::Bool,
            VoteKind::Ballot | VoteKind::Match(_) => DType::U32,
        }
    }

    /// Whether lanes may bring values of a type.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            VoteKind::Any | VoteKind::All | VoteKind::Ballot => dtype == DType::Bool,
            VoteKind::Match(bits) => matches!(dtype, DType::I32 | DType::U32) && (1..=32).contains(&bits),
        }
    }

    /// What each lane of a warp finds out of the values that the lanes bring; `here` has a bit for each lane that there is.
    pub fn found(self, values: &[u64; 32], here: u32) -> [u64; 32] {
        let which =
            |holds: &dyn Fn(u64) -> bool| (0..32).filter(|l| here >> l & 1 == 1 && holds(values[*l])).fold(0u32, |all, l| all | 1 << l);
        let ballot = which(&|v| v != 0);
        let low = |v: u64, bits: u32| v & (u64::MAX >> (64 - bits));
        std::array::from_fn(|lane| match self {
            VoteKind::Any => u64::from(ballot != 0),
            VoteKind::All => u64::from(ballot == here),
            VoteKind::Ballot => u64::from(ballot),
            VoteKind::Match(bits) => u64::from(which(&|v| low(v, bits) == low(values[lane], bits))),
        })
    }
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

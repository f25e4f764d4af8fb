//! The words that knobs take, as types: authors, the macro and the compiler have the same.

use super::{Choice, KnobKind, Schedule, Site};
use crate::tile::{Kernel, KnobId};
use std::fmt;

/// The words of a kind of knob.
pub trait Words: Copy + fmt::Display + 'static {
    /// The kind.
    const KIND: KnobKind;
    /// All of them.
    const WORDS: &'static [&'static str];

    /// One of them.
    fn read(word: &str) -> Option<Self>;

    /// The schedule's choice for all, where the kernel has such a knob.
    fn of(kernel: &Kernel, schedule: &Schedule) -> Option<Self> {
        Self::chosen(schedule, Self::knob(kernel)?)
    }

    /// The schedule's choice for one of these knobs.
    fn chosen(schedule: &Schedule, knob: KnobId) -> Option<Self> {
        match &schedule.choices[knob.0 as usize] {
            Choice::Word(word) => Self::read(word),
            Choice::Int(_) => None,
        }
    }

    /// The knob for all.
    fn knob(kernel: &Kernel) -> Option<KnobId> {
        kernel.knob_at(Self::KIND, &Site::default())
    }
}

macro_rules! words {
    ($(#[doc = $doc:literal] $name:ident of $kind:ident { $(#[doc = $word_doc:literal] $word:ident,)* })*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $(#[doc = $word_doc] $word,)*
        }

        impl Words for $name {
            const KIND: KnobKind = KnobKind::$kind;
            const WORDS: &'static [&'static str] = &[$(stringify!($word)),*];

            fn read(word: &str) -> Option<$name> {
                match word {
                    $(stringify!($word) => Some($name::$word),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(match self {
                    $($name::$word => stringify!($word),)*
                })
            }
        }
    )*};
}

words! {
    /// How a stage of the pipeline is filled: the values of `copy(..)`.
    CopyPath of Copy {
        /// Loads to registers, then stores to shared memory.
        Registers,
        /// `cp.async` (sm_80 on).
        Async,
        /// The same, where the turns of a sum overlap (sm_80 on).
        Overlap,
        /// The same, with stages that are handed over by mbarriers (sm_80 on).
        Mbarriers,
        /// Bulk copies that complete on mbarriers (sm_90 on).
        Bulk,
        /// Tensor maps (sm_90 on).
        Tensor,
    }
    /// Which unit computes a dot: the values of `unit(..)`.
    DotUnit of Unit {
        /// fp32 fused multiply-adds.
        Ffma,
        /// Warp-wide matrix instructions.
        Mma,
        /// Warpgroup-wide matrix instructions (sm_90a).
        Wgmma,
    }
    /// How tiles of whole rows are read: the values of `rows(..)`.
    RowPath of Rows {
        /// Each thread reads its own rows.
        Direct,
        /// All threads read the tile as one run, and hand out rows through shared memory.
        Shared,
    }
    /// Where windows are read from: the values of `halo(..)`.
    HaloPath of Halo {
        /// A copy in shared memory.
        Shared,
        /// Global memory.
        Direct,
    }
    /// Where a dot's operands are read from: the values of `operands(..)`.
    OperandPath of Operands {
        /// Global memory.
        Direct,
        /// A copy in shared memory.
        Shared,
        /// A copy in shared memory along whose rows the axis of the result lies.
        Transposed,
    }
    /// Whether a tensor lies in constant memory: the values of `constant(..)`.
    ConstantPath of Constant {
        /// It is read where it is.
        Off,
        /// The host copies it there before the launch, where it fits.
        On,
    }
    /// How a combination over the grid ends: the values of `finish(..)`.
    FinishPath of Finish {
        /// The last block combines what all have left.
        LastBlock,
        /// Each block adds its part to a total by an atomic.
        Atomics,
        /// A launch behind this one combines what all blocks have left.
        SecondLaunch,
    }
    /// In which order blocks take the grid's tiles: the values of `order(..)`.
    TileOrder of Order {
        /// From the first tile on.
        Rising,
        /// From the last tile on.
        Falling,
    }
    /// When the warp groups of a block multiply: the values of `turns(..)`.
    GroupTurns of Turns {
        /// Each as soon as its operands are there.
        Free,
        /// One after the other: one computes while another one multiplies.
        InTurn,
    }
    /// Hints on global accesses: the values of `cache(..)`.
    CacheHint of Cache {
        /// None.
        Default,
        /// Data that nobody reads again.
        Streaming,
        /// The same, of stores only.
        Stores,
        /// The same, of loads only.
        Loads,
        /// Loads of what the kernel does not write stay in the L2 the longest.
        Kept,
        /// Loads leave nothing in the L1, and stores are left to the caches.
        Once,
    }
}

impl CopyPath {
    /// By `cp.async`.
    pub fn is_async(self) -> bool {
        self == CopyPath::Async || self.prefetches_fragments()
    }

    /// An iteration's first fragments are read among the products of the one before.
    pub fn prefetches_fragments(self) -> bool {
        matches!(self, CopyPath::Overlap | CopyPath::Mbarriers)
    }
}

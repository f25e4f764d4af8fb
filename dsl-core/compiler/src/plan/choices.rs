//! The choices of a schedule, typed: words are read here and nowhere else.

use girih_ir::schedule::{Choice, KnobKind, Schedule};
use girih_ir::tile::{Kernel, KnobId};
use std::fmt;

/// The words of a kind of knob, of which a kernel has one at most.
pub(crate) trait Words: Sized {
    /// The kind.
    const KIND: KnobKind;

    /// One of the words.
    fn read(word: &str) -> Option<Self>;

    /// The schedule's choice, where the kernel has such a knob.
    fn of(kernel: &Kernel, schedule: &Schedule) -> Option<Self> {
        match schedule.of_kind(kernel, Self::KIND)? {
            Choice::Word(word) => Self::read(word),
            Choice::Int(_) => None,
        }
    }

    /// The knob.
    fn knob(kernel: &Kernel) -> Option<KnobId> {
        knob_of_kind(kernel, Self::KIND)
    }
}

/// Makes an enum of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident of $kind:ident: $($(#[$each:meta])* $word:ident),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name {
            $($(#[$each])* $word,)+
        }

        impl Words for $name {
            const KIND: KnobKind = KnobKind::$kind;

            fn read(word: &str) -> Option<$name> {
                match word {
                    $(stringify!($word) => Some($name::$word),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(match self {
                    $($name::$word => stringify!($word),)+
                })
            }
        }
    };
}

words! {
    /// How tiles are copied ahead of their iteration.
    CopyBy of Copy:
    /// Loads to registers.
    Registers,
    /// `cp.async`.
    Async,
    /// `cp.async`, and the first fragments of an iteration are read among the products of the one before.
    Overlap,
    /// As `Overlap`; mbarriers hand the stages over.
    Mbarriers,
    /// Bulk copies.
    Bulk,
    /// Copies by tensor maps.
    Tensor,
}

impl CopyBy {
    /// By `cp.async`.
    pub fn is_async(self) -> bool {
        self == CopyBy::Async || self.prefetches_fragments()
    }

    /// An iteration's first fragments are read among the products of the one before.
    pub fn prefetches_fragments(self) -> bool {
        matches!(self, CopyBy::Overlap | CopyBy::Mbarriers)
    }
}

words! {
    /// What multiplies.
    Unit of Unit:
    /// Fused multiply-adds of a thread.
    Ffma,
    /// Matrix instructions of a warp.
    Mma,
    /// Matrix instructions of four warps.
    Wgmma,
}

words! {
    /// Where dots read their operands.
    Operands of Operands:
    /// Where they were loaded from.
    Direct,
    /// In shared memory, as they lie.
    Shared,
    /// In shared memory, those along the axis of the sum transposed.
    Transposed,
}

words! {
    /// How whole rows are read.
    Rows of Rows:
    /// By each thread what it needs.
    Direct,
    /// Through shared memory.
    Shared,
}

words! {
    /// Where windows are read.
    Halo of Halo:
    /// In shared memory.
    Shared,
    /// Where they lie.
    Direct,
}

words! {
    /// How a combination over the grid ends.
    Finish of Finish:
    /// The last block combines what all have left, in the blocks' order.
    LastBlock,
    /// Each block adds its part to a total by an atomic.
    Atomics,
    /// One block of a launch behind this one combines what all have left, in the blocks' order.
    SecondLaunch,
}

words! {
    /// Hints of accesses of global memory.
    Cache of Cache:
    /// None.
    Default,
    /// Loads and stores are for once.
    Streaming,
    /// Stores are.
    Stores,
    /// Loads are.
    Loads,
    /// Lines that are loaded stay in the L2 the longest.
    Kept,
}

/// The knob of a kind, of which a kernel has one at most.
pub(crate) fn knob_of_kind(kernel: &Kernel, kind: KnobKind) -> Option<KnobId> {
    kernel.knobs.iter().position(|k| k.kind == kind).map(|i| KnobId(i as u32))
}

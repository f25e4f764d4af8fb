//! What is decided for the loops over tiles, as data: which iterations who takes, and what is done ahead of its iteration.

use super::Fill;
use super::split::Split;
use girih_ir::tile::{KnobId, ValueId};

/// What is decided for a loop over tiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoopPlan {
    pub range: Range,
    pub pipeline: Pipeline,
}

/// Which iterations of a loop who takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    /// All of them, one after the other.
    All,
    /// The only one: the axis fits one tile.
    Once,
    /// Of the grid loop: one for each block.
    OnePerBlock,
    /// Of the grid loop: they are dealt to so many blocks per multiprocessor.
    Persistent(i64),
    /// Blocks share them: so many for each tile of the result (split-K), or all tiles' iterations one after the other (stream-K).
    Shared(Split),
    /// So many groups of a block's threads share them (sliced-K).
    SlicedK(i64),
    /// The blocks of a cluster take them in turn: so many neighbouring ones at a time.
    Cluster(i64),
}

/// What of a loop's iterations is done ahead of its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pipeline {
    /// Nothing.
    None,
    /// Copies to a ring of stages in shared memory.
    Multistage { ring: RingPlan, copies: Copies },
    /// Of a persistent grid loop: loads of its tiles, to registers or a ring of each thread's own.
    GridPrefetch { stages: i64, loads: Vec<(ValueId, Fill)> },
    /// Of a persistent grid loop: the iterations of the loop in its body with this first tile index, which has a ring, go on from tile to tile.
    Persistent { sum: ValueId },
    /// Of a grid loop: a warp of its own fills the ring of the loop in its body with this first tile index, by tensor maps. It computes the
    /// scalars of the tile that say where the copies lie (`places`) for itself.
    Roles { sum: ValueId, places: Vec<ValueId> },
}

/// A ring of stages that copies fill and iterations read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingPlan {
    pub stages: i64,
    pub handover: Handover,
    /// An iteration's first fragments are read among the products of the one before.
    pub fragment_prefetch: bool,
    /// The products of an iteration are in flight while the copies of a later one start.
    pub products_first: bool,
    /// Warp groups multiply in turn: while the products of one run, the others compute with theirs. (CUTLASS calls it ping-pong.)
    pub in_turn: bool,
    /// The last product of an iteration, which the next iteration alone looks at, runs beside the first one of the next.
    pub products_overlap: bool,
    /// The knob that asks for the asynchronous copies.
    pub asked_by: Option<KnobId>,
}

/// How a stage goes from those who fill it to those who read it, and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handover {
    /// All threads meet once per iteration, behind a wait for asynchronous copies.
    Barrier,
    /// The same for one of two stages, to which loads to registers are stored at the end of the iteration before.
    Registers,
    /// Each stage has two mbarriers: full, free.
    Mbarriers,
    /// The same, and the bytes of tensor maps complete the first one.
    Transactions,
}

/// What an iteration copies to shared memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Copies {
    /// Windows, and loads that are operands of dots.
    pub windows: Vec<ValueId>,
    /// The scalars of the body that say where they lie.
    pub places: Vec<ValueId>,
    /// Those of which each block of a cluster brings a part, for all of them.
    pub to_all: Vec<ValueId>,
}

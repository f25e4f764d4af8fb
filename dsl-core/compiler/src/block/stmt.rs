//! Statements of block IR.

use super::{Boundary, Branch, HostExpr, Index, Key, LoopPlan, Op, Raster, SharedKind, Span, Update, ValueId, ViewId};
use girih_ir::layout::Layout;
use girih_ir::schedule::words::TileOrder;
use girih_ir::tile;
use girih_ir::types::{MemoryOrder, Scope};
use std::collections::BTreeSet;

/// A list of statements.
pub(crate) type Block = Vec<Stmt>;

/// A combination, whose operator may be the author's: statements of block IR.
pub(crate) type Combine = tile::Combine<Block>;
/// Its operator.
pub(crate) type Operator = tile::Operator<Block>;

/// A place in global memory: a tile, or one element where no index names an axis.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub view: ViewId,
    /// Per axis of the view.
    pub index: Vec<Index>,
    /// The layout in which neighbouring threads access neighbouring elements; of tiles, once it is assigned.
    pub layout: Option<Layout>,
    /// Of what is read.
    pub read: Reading,
    /// The instructions that it takes, or those of its copy to shared memory; of tiles, once widths are assigned.
    pub cuts: Option<Cuts>,
}

/// How a tile access is cut into instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Neighbouring registers that are neighbours in memory.
    pub run: i64,
    /// Elements per instruction; divides `run`.
    pub width: i64,
    /// Memory runs against the registers.
    pub reversed: bool,
    /// Whole vectors are loaded of which a loop keeps to some positions: then absent elements hold what lies there.
    pub beyond: bool,
}

impl Cut {
    /// One element per instruction.
    pub const SINGLE: Cut = Cut { run: 1, width: 1, reversed: false, beyond: false };
}

/// The instructions of an access in the text for full tiles of the grid, and where each element is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cuts {
    pub full: Cut,
    pub checked: Cut,
}

/// Whole rows in which a tile goes to memory that lies as matrix instructions left it: by way of shared memory, if that has room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub layout: Layout,
    pub cuts: Cuts,
}

impl Cuts {
    /// The same instructions in both texts, of so many elements that lie together.
    pub fn of_width(width: i64) -> Cuts {
        let cut = Cut { run: width, width, reversed: false, beyond: false };
        Cuts { full: cut, checked: cut }
    }
}

/// How a place is read; by default where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reading {
    /// From a copy in shared memory.
    pub shared: bool,
    /// An operand of a dot that lies along the axis of the sum is transposed on the way there.
    pub transposed: bool,
    /// The copy is made by `cp.async`.
    pub asynchronous: bool,
    /// It is handed over by mbarriers.
    pub mbarriers: bool,
    /// The copy is made by a tensor map.
    pub tensor: bool,
    /// The tensor map rounds f32 to tf32.
    pub rounded: bool,
}

impl Access {
    /// The layout of a tile's access.
    pub fn dealt(&self) -> &Layout {
        self.layout.as_ref().unwrap_or_else(|| panic!("block: an access of {:?} has no layout", self.view))
    }
}

/// A tile with the elements around it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The tile that it lies about.
    pub tile: Access,
    /// Elements by which it lies further on, per axis.
    pub shift: Vec<Option<ValueId>>,
    /// What lies outside of the view.
    pub boundary: Boundary,
}

/// A value that changes over the iterations of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Carry {
    /// Before the first iteration, at the start of one, at its end, behind the loop.
    pub init: ValueId,
    pub inner: ValueId,
    pub next: ValueId,
    pub result: ValueId,
    /// It starts as zeros.
    pub from_zero: bool,
    /// Axis and tile index: elements beyond the length that the index walks are never looked at.
    pub unobserved: Vec<(usize, ValueId)>,
}

/// A loop over the tiles of a view's axes, in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub view: ViewId,
    /// Which of its axes, one per tile index.
    pub axes: Vec<usize>,
    pub vars: Vec<ValueId>,
    /// Extents of the tiles.
    pub sizes: Vec<i64>,
    /// Only the tiles that hold some of these positions.
    pub span: Option<Span>,
    pub carries: Vec<Carry>,
    pub plan: LoopPlan,
    /// The loop over the grid's tiles.
    pub grid: Option<Box<Grid>>,
    pub body: Block,
}

impl Stmt {
    /// The loop over tiles that it is.
    pub fn as_loop(&self) -> Option<&Loop> {
        if let Stmt::Loop(l) = self { Some(l) } else { None }
    }
}

impl Stmt {
    /// Whether it is a dot, or holds one.
    pub fn has_dot(&self) -> bool {
        let mut found = false;
        super::visit(std::slice::from_ref(self), &mut |s| found |= matches!(s, Stmt::Let(_, Op::Dot { .. })));
        found
    }
}

impl Loop {
    /// The last of its products where that stands in the body itself: its place and value.
    pub fn last_product(&self) -> Option<(usize, ValueId)> {
        let at = self.body.iter().rposition(Stmt::has_dot)?;
        if let Stmt::Let(v, Op::Dot { .. }) = &self.body[at] { Some((at, *v)) } else { None }
    }

    /// Where in its body a loop with this first tile index stands.
    pub fn place_of(&self, var: ValueId) -> Option<usize> {
        self.body.iter().position(|stmt| matches!(stmt, Stmt::Loop(l) if l.vars[0] == var))
    }
}

/// What was decided for the loop over the grid's tiles.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// All tiles.
    pub total: HostExpr,
    /// Rows of tiles that blocks walk together; none for row after row.
    pub raster: Option<Raster>,
    /// From which end on blocks take the tiles.
    pub order: TileOrder,
    /// Blocks of a cluster take neighbouring tiles.
    pub neighbours: Option<Neighbours>,
    /// A block takes neighbouring tiles: what blocks have is combined in the order of the tiles.
    pub in_order: bool,
    /// Blocks take their tiles by tickets, so that they begin in the order of the tiles.
    pub tickets: Option<Tickets>,
    /// One block runs in any case, however few tiles there are.
    pub runs_anyway: bool,
    /// All threads are done with shared arrays that are kept by hand when a tile begins: the first one, and each one behind it.
    pub begins_by_hand: [bool; 2],
    /// The first tile index of the loop in its body whose iterations blocks, or slices, share.
    pub shared: Option<ValueId>,
    /// Iterations of a block, where blocks share those of all tiles.
    pub run: Option<HostExpr>,
    /// Every length is a multiple of its tile.
    pub divides: bool,
    pub tail: Tail,
}

/// Blocks of a cluster at neighbouring tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    /// As many as a cluster has.
    pub blocks: i64,
    /// Along which of the loop's tile indices.
    pub axis: usize,
}

/// What tickets say that blocks take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tickets {
    /// The number of the block among those of its launch.
    OfBlocks,
    /// Also the number of the launch, by which tiles that look back tell its words from those of launches before.
    OfLaunches,
}

/// How a tile is checked that may reach beyond the tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tail {
    /// Not yet decided.
    Open,
    /// Not at all: every tile is full.
    None,
    /// One condition for each thread, whose elements lie by this layout, around the body.
    OneIf(Layout),
    /// The body stands twice: for full tiles, and for the others with a condition at each access.
    TwoTexts,
    /// A condition at each access.
    Predicates,
    /// As that, where the body might have stood twice: one text is as good.
    OneText,
}

/// The end of a kernel that combines what all blocks have.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    /// What every block does.
    pub before: Block,
    pub combines: Vec<Combine>,
    /// What is done once, with the results.
    pub after: Block,
    pub way: FinishWay,
}

/// Who combines what blocks have.
#[derive(Clone, Debug)]
pub(crate) enum FinishWay {
    /// There is one block.
    SingleBlock,
    /// The last block: the one with the highest number waits for words with flags (`words`), or the one that a ticket finds to be last. What it
    /// does touches memory that other blocks have touched where that is `passed_on`.
    LastBlock { words: bool, passed_on: bool },
    /// Blocks add to totals, the last one takes them.
    Atomics { passed_on: bool },
    /// A launch behind this one, which computes these statements `again`.
    SecondLaunch { again: Block },
}

/// Statements that the block's first threads run for all of them; what they do touches no memory that others of the block write.
#[derive(Clone, Debug)]
pub(crate) struct Alone {
    /// Those threads: see [`super::Kernel::alone`].
    pub team: usize,
    /// Tiles that were made before: these threads make them again, so that they lie as these threads need them.
    pub again: Block,
    pub body: Block,
    /// Scalars that the body makes and the block reads behind it.
    pub gives: Vec<ValueId>,
    pub told: Told,
}

/// How all threads come to know what some have found out, and to see what these have acquired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Through shared memory: the block meets once.
    Block,
    /// The block is one warp, whose lanes shuffle.
    Warp,
}

/// Why threads meet between two accesses of memory.
#[derive(Clone, Debug)]
pub(crate) enum Meet {
    /// What the loop that follows does conflicts with what was done before it.
    Loop,
    /// The access of a shared array that follows conflicts with one before it.
    Shared,
    /// The load or store of a tensor that follows, of this key, may meet what another thread has done.
    Memory(Key),
    /// It goes where these others went. A thread that did so in the same layout has been at its own elements alone.
    SamePlace { key: Key, access: Access, earlier: BTreeSet<Key> },
    /// Threads may still read the copies in shared memory that the ones that follow replace.
    Replaced,
    /// The copies just made are read; some of them may be on their way.
    Copied { asynchronous: bool },
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    /// Makes a value of others: neither a load nor a window.
    Let(ValueId, Op),
    /// Loads a tile, or a scalar.
    Load(ValueId, Access),
    /// Opens a window.
    Window(ValueId, Window),
    /// Stores a tile, or a scalar.
    Store {
        to: Access,
        value: ValueId,
        /// It is stored from this layout and not from that of the access. Until widths are assigned: if the tile lies as the anchor.
        from: Option<Layout>,
        rows: Option<Box<Rows>>,
        /// All blocks of the cluster have it, and the first one stores it.
        by_first: bool,
    },
    /// Stores to computed positions, single elements or runs of neighbours.
    Scatter {
        view: ViewId,
        indices: Vec<ValueId>,
        value: ValueId,
        run: Option<i64>,
        /// Elements per instruction.
        width: i64,
    },
    /// Read-modify-write at computed positions.
    Atomic {
        update: Update,
        view: ViewId,
        scope: Scope,
        order: MemoryOrder,
    },
    /// Combines elements of the block.
    Combine(Combine),
    /// Reduces elements of the block, and then what the blocks of the cluster have, in their order.
    OverCluster(Combine),
    /// Reductions that do not depend on each other: threads meet once for all of them.
    Together(Vec<Combine>),
    /// Accesses one of the author's shared arrays; `number` is the access's own.
    Shared {
        number: u32,
        array: super::SharedId,
        kind: SharedKind,
        /// The instructions of a run that is copied from global memory, and of a gather or scatter of neighbours.
        cuts: Cuts,
    },
    /// The author's barrier of the block or of each warp.
    Barrier(Scope),
    /// The threads that work together meet before what follows.
    Meet(Meet),
    /// Closes a group of a thread's copies, or waits until so many groups are on their way.
    Copies {
        pending: Option<u32>,
    },
    Loop(Loop),
    /// `for var in start..end` over scalars.
    Range {
        var: ValueId,
        start: ValueId,
        end: ValueId,
        carries: Vec<Carry>,
        body: Block,
    },
    /// Repeats while `condition`, which `header` computes, holds; on a tile each element while its own does. With `once` there is one turn at
    /// most, which warps take or pass by themselves.
    While {
        once: bool,
        carries: Vec<Carry>,
        header: Block,
        condition: ValueId,
        body: Block,
    },
    /// One side runs, by a scalar.
    If {
        condition: ValueId,
        then: Block,
        otherwise: Block,
        results: Vec<Branch>,
    },
    /// One side of a choice per element: what is loaded inside is absent on the other.
    Where {
        mask: ValueId,
        negate: bool,
        body: Block,
    },
    /// A wait for other blocks, by some of the threads.
    Alone(Alone),
    Finish(Finish),
}

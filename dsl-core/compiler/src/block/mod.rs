//! Block IR: what one block of a launch does, with every decision recorded as data. Passes make it of tile IR, facts and a plan; `expand` makes
//! SIMT IR of it and sees nothing else.
//!
//! A [`Kernel`] is one launch (and what its last block, or a launch behind it, does with what blocks leave). Extents are numbers. What the passes
//! have decided stands where it is for: the layout of an access at the access, the plan of a loop at the loop, what many statements share in the
//! [`Launch`] and in the [`Team`]s. `print` writes a kernel as a page, `verify` says which rules a page obeys.
//!
//! Values keep the numbers that they have in tile IR, and so do views and the author's shared arrays.

mod demands;
pub(crate) mod divisors;
pub(crate) mod exchange;
mod fed;
pub(crate) mod late_sums;
pub(crate) mod layouts;
pub(crate) mod lying;
pub(crate) mod mask;
pub(crate) mod numbers;
pub(crate) mod positions;
pub(crate) mod print;
pub(crate) mod range;
pub(crate) mod steps;
mod stmt;
pub(crate) mod uniform;
pub(crate) mod verify;
mod visit;

pub(crate) use demands::Demands;
pub(crate) use stmt::{
    Access, Alone, Block, Carry, Combine, Cut, Cuts, Finish, FinishWay, Grid, Loop, Meet, Neighbours, Operator, Reading, Rows, Stmt, Tail,
    Tickets, Told, Window,
};
pub(crate) use visit::{visit, visit_mut};

pub(crate) use crate::analyses::chained::Link;
pub(crate) use crate::analyses::dots::{Loaded, Reader};
pub(crate) use crate::analyses::same_block_hazards::Key;
pub(crate) use crate::analyses::totals::{Kind, Total};
pub(crate) use crate::analyses::uses::{Uses, operands};
pub(crate) use crate::analyses::window_groups::Group;
pub(crate) use crate::plan::matrix_units::{WRITTEN_OUT, Warps};
pub(crate) use crate::plan::split::Split;
pub(crate) use crate::plan::tensor_maps::Producer;
pub(crate) use crate::plan::{Copies, Fill, Handover, LoopPlan, Pipeline, Range, Raster, RingPlan, gcd, spread};
pub(crate) use girih_ir::tile::host::HostExpr;
pub(crate) use girih_ir::tile::{Boundary, Branch, Fold, Form, Index, KnobId, Op, SharedId, SharedKind, Span, Update, ValueId, ViewId};

use crate::analyses::dots::Dots;
use crate::analyses::window_groups::WindowGroups;
use girih_ir::facts::TensorFacts;
pub(crate) use girih_ir::layout::Layout;
use girih_ir::simt::CacheHint;
use girih_ir::types::{BinaryOp, DType, Literal};
use late_sums::LateSum;
use std::collections::{HashMap, HashSet};

/// One launch.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub name: String,
    /// The name with its instance: `matmul<f32>`.
    pub title: String,
    pub launch: Launch,
    /// The type of index arithmetic.
    pub index: DType,
    pub params: Vec<Param>,
    pub lengths: Lengths,
    /// By [`ValueId`].
    pub values: Vec<Value>,
    /// By [`ViewId`].
    pub views: Vec<View>,
    /// The author's shared arrays, by [`SharedId`].
    pub shared: Vec<SharedArray>,
    /// Threads that work together: first those of a slice, or of the block without slices; last those of the whole block.
    pub teams: Vec<Team>,
    /// Threads of the block that run statements for all of them: a warp, or one thread.
    pub alone: Vec<Team>,
    /// Tile indices that are always 0: one tile spans the axis.
    pub fitting: HashSet<ValueId>,
    /// What dots read, and where it lies.
    pub dots: Dots,
    /// Dots whose left operand stays in the registers of the sums that it is made of.
    pub fed: Vec<Link>,
    /// Sums of a loop's turns whose lanes meet behind the loop.
    pub late_sums: Vec<LateSum>,
    /// Which reads of windows are made together.
    pub window_groups: WindowGroups,
    /// The instructions of gathers of which a thread's neighbouring elements are neighbours in memory. The others read single elements.
    pub gathers: HashMap<ValueId, Cuts>,
    pub body: Block,
}

/// What holds for all statements of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Blocks.
    pub grid: HostExpr,
    /// Blocks per multiprocessor to which tiles, or parts of them, are dealt; 0 for one tile a block.
    pub dealt: i64,
    /// Blocks that work together on a tile of the grid; 1 where each works alone.
    pub cluster: i64,
    /// All blocks run at the same time, since they meet.
    pub cooperative: bool,
    /// Who fills the ring of the others, behind them.
    pub producer: Producer,
    /// Blocks that a multiprocessor holds at least.
    pub min_blocks: u32,
    /// See [`girih_ir::simt::LaunchRecord::opt_level`].
    pub opt_level: u32,
    /// Bytes of shared memory that a block may take.
    pub room: i64,
    /// Elements per run of a thread.
    pub vector: i64,
    /// A thread's elements are one block of neighbours along each axis.
    pub blocked: bool,
    /// Hints for global loads and stores.
    pub load_cache: CacheHint,
    pub store_cache: CacheHint,
    /// The GPU has asynchronous copies and mbarriers.
    pub has_async: bool,
    /// The GPU combines integers of a warp's lanes by one instruction.
    pub has_warp_reduce: bool,
    /// Copies of each element of a shared array that is only updated.
    pub copies: i64,
    /// Tiles of whole rows are read through shared memory.
    pub shared_rows: bool,
    /// The kernel has dots.
    pub has_dots: bool,
    /// The matrix instruction that dots become, and how warps share the result.
    pub units: Option<Warps>,
}

/// Threads that work on a tile together.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    pub threads: i64,
    /// Groups of as many threads in a block.
    pub slices: i64,
    /// The layout of the tile whose elements are dealt to the threads.
    pub anchor: Option<Layout>,
    /// By form (see [`Value::form`]): how a tile is dealt that has no layout by itself.
    pub dealt: Vec<Dealt>,
}

/// How a tile of some shape is dealt to the threads of a team.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dealt {
    /// As part of the anchor where its axes are; short constant axes lie in the registers of a thread.
    pub own: Layout,
    /// All axes are dealt: of a tile that fits every layout.
    pub natural: Layout,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub name: Option<String>,
    pub ty: Ty,
    /// Of a tile: which of the author's shapes it has. Tiles of one form have the same extents under every schedule.
    pub form: Option<u32>,
    pub uses: Uses,
    /// What the host computes of the launch's arguments.
    pub host: Option<HostExpr>,
    /// The bool tile that says which of its elements exist, where that is computed.
    pub found: Option<ValueId>,
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ty {
    Scalar(DType),
    /// Element type and extents.
    Tile(DType, Vec<i64>),
    /// The number of a tile along an axis: the extent of its tiles.
    TileIndex(i64),
    Window(DType, Vec<Reach>),
}

impl Ty {
    /// The element type of a scalar or tile.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Ty::Scalar(d) | Ty::Tile(d, _) => Some(*d),
            Ty::TileIndex(_) | Ty::Window(..) => None,
        }
    }

    /// The extents of a tile.
    pub fn shape(&self) -> Option<&[i64]> {
        match self {
            Ty::Tile(_, shape) => Some(shape),
            Ty::Scalar(_) | Ty::TileIndex(_) | Ty::Window(..) => None,
        }
    }
}

/// How far a window reaches along an axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    pub size: i64,
    pub before: i64,
    pub after: i64,
}

/// A parameter of the author's kernel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Param {
    pub name: String,
    pub kind: ParamKind,
}

/// What a parameter is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ParamKind {
    Tensor {
        dtype: DType,
        rank: usize,
        /// The kernel stores to it.
        written: bool,
        /// No other argument overlaps it.
        restrict: bool,
        /// It lies in constant memory, where there is room for so many elements.
        constant: Option<u32>,
        /// What every launch promises of it.
        known: Option<TensorFacts>,
    },
    Scalar(DType),
}

impl Param {
    /// What every launch promises of a tensor.
    pub fn known(&self) -> Option<&TensorFacts> {
        match &self.kind {
            ParamKind::Tensor { known, .. } => known.as_ref(),
            ParamKind::Scalar(_) => None,
        }
    }

    /// Of how many bytes a tensor's pointer is a multiple.
    pub fn align(&self) -> i64 {
        match &self.kind {
            ParamKind::Tensor { dtype, known, .. } => known.as_ref().map_or(dtype.size() as i64, |t| t.align as i64),
            ParamKind::Scalar(dtype) => dtype.size() as i64,
        }
    }
}

/// What every launch proves of the lengths of tensors' axes (parameter, axis).
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Lengths {
    /// Lengths that are equal, each with the one that stands for all.
    pub class: HashMap<(usize, usize), (usize, usize)>,
    /// Lengths that are constants.
    pub constant: HashMap<(usize, usize), i64>,
    /// The length that bounds each tile index: that of the axis its loop walks.
    pub walked: HashMap<ValueId, ValueId>,
    /// What launches meet because the kernel demands it.
    pub demands: Demands,
}

/// A part or another arrangement of a tensor: element `(i0, i1, ..)` lies `offset + Σ i_k * axes[k].stride` elements after the pointer.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub param: usize,
    pub dtype: DType,
    pub axes: Vec<ViewAxis>,
    pub offset: ValueId,
    /// How the author wrote it.
    pub text: String,
}

pub(crate) use girih_ir::tile::ViewAxis;

/// An array in shared memory that the author has made.
#[derive(Clone, Debug)]
pub(crate) struct SharedArray {
    pub name: Option<String>,
    pub dtype: DType,
    pub shape: Vec<i64>,
    /// Which of the author's shapes it has, as [`Value::form`].
    pub form: u32,
    /// The author's barriers alone order its accesses.
    pub by_hand: bool,
    /// Where one operation alone changes it, and nobody wants the old values: how several copies of an element are joined, and what they start
    /// with.
    pub join: Option<(BinaryOp, Literal)>,
}

impl Kernel {
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    pub fn ty(&self, id: ValueId) -> &Ty {
        &self.value(id).ty
    }

    pub fn view(&self, id: ViewId) -> &View {
        &self.views[id.0 as usize]
    }

    pub fn shared_array(&self, id: SharedId) -> &SharedArray {
        &self.shared[id.0 as usize]
    }

    /// The extent of a tile index' tile.
    pub fn tile_size(&self, index: ValueId) -> i64 {
        match self.ty(index) {
            Ty::TileIndex(size) => *size,
            other => panic!("block: {index:?} is no tile index but {other:?}"),
        }
    }

    /// Whether a value says where along an axis a tile lies, rather than one coordinate.
    pub fn is_tile_index(&self, value: ValueId) -> bool {
        matches!(self.ty(value), Ty::TileIndex(_))
    }

    /// Whether the kernel stores to a tensor parameter.
    pub fn is_written(&self, param: usize) -> bool {
        matches!(self.params[param].kind, ParamKind::Tensor { written: true, .. })
    }

    /// The loop over the grid's tiles, if there is one.
    pub fn grid_loop(&self) -> Option<&Loop> {
        self.body.iter().filter_map(Stmt::as_loop).find(|l| l.grid.is_some())
    }

    /// What was decided for the loop over the grid's tiles.
    pub fn grid(&self) -> Option<&Grid> {
        self.grid_loop().and_then(|l| l.grid.as_deref())
    }
}

impl Kernel {
    /// The tile index and the columns of a tile of whole rows that lies in memory without gaps.
    pub fn whole_rows(&self, access: &Access) -> Option<(ValueId, i64)> {
        let [Index::Tile(rows), Index::All(columns)] = access.index[..] else { return None };
        let axes = &self.view(access.view).axes;
        let packed = self.constant(axes[1].stride) == Some(1) && self.constant(axes[0].stride) == Some(columns);
        packed.then_some((rows, columns))
    }
}

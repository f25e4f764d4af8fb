//! What a schedule means for a kernel: numbers for the symbolic sizes, threads, elements per thread, and the rules they must obey.

pub(crate) mod anchor;
pub(crate) mod cluster;
pub(crate) mod constants;
pub(crate) mod finish;
pub mod legality;
mod loop_plan;
mod loops;
pub(crate) mod matrix_units;
pub(crate) mod neighbours;
pub(crate) mod one_by_one;
mod raster;
mod reads;
pub(crate) mod results;
pub(crate) mod room;
mod rules;
pub(crate) mod second_launch;
pub(crate) mod slices;
pub(crate) mod split;
pub(crate) mod tensor_maps;
#[cfg(test)]
mod tests;
mod warp_groups;

pub(crate) use loop_plan::{Copies, Handover, LoopPlan, Pipeline, Range, RingPlan};
pub(crate) use raster::Raster;
pub(crate) use reads::ReadPlan;

use rules::{
    cache_hints, check_ahead, check_choices, check_copies, check_fill, check_fragment_prefetch, check_min_blocks, check_opt_level,
    check_tile_of_its_own, check_vector, check_way, walk_one_by_one,
};

use crate::analyses::converted::Converted;
use crate::analyses::dots::Dots;
use crate::analyses::uses;
use girih_ir::schedule::words::{FinishPath, RowPath, TileOrder, Words};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError, Site};
use girih_ir::simt::CacheHint;
use girih_ir::target::Target;
use girih_ir::tile::{Kernel, KnobId, Op, Size, Stmt, ValueId};
use legality::{Broken, Rule};
use split::Split;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How a stage of the pipeline is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// Loads into registers, used one turn later.
    Registers,
    /// `cp.async` into a ring of shared buffers.
    Async,
}

/// A schedule in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Value of each knob (0 for words).
    pub knobs: Vec<i64>,
    /// Extents of the grid loop's tile; empty without a grid loop.
    pub grid_tile: Vec<i64>,
    /// The tile whose elements are dealt to the threads: symbolic extents. See [`crate::block::layouts`].
    pub anchor_sizes: Vec<Size>,
    /// Extents of the anchor.
    pub anchor: Vec<i64>,
    /// Threads along each axis of the anchor.
    pub thread_shape: Vec<i64>,
    /// Threads that work on a tile together: those of a block, or of each of its slices.
    pub threads: i64,
    /// Groups of as many threads in a block, which share the sum of a tile.
    pub slices: i64,
    /// Who fills the ring of the others, behind them; of no threads where they fill it themselves.
    pub producer: tensor_maps::Producer,
    /// Slices whose threads go on together, behind their sum: 1 before.
    pub joined: i64,
    /// Elements per run of a thread.
    pub vector: i64,
    /// 0: one tile per block. k: k blocks per multiprocessor, to which tiles are dealt.
    pub grid: i64,
    /// How blocks share the sum of a tile.
    pub split: Option<Split>,
    /// Blocks that work together on each tile of the grid.
    pub cluster: Option<cluster::Cluster>,
    /// Blocks at neighbouring tiles of the grid that copy for each other.
    pub neighbours: Option<neighbours::Neighbours>,
    /// Blocks per multiprocessor that registers must leave room for.
    pub min_blocks: i64,
    /// See [`girih_ir::simt::LaunchRecord::opt_level`].
    pub opt_level: u32,
    /// Rows of tiles that blocks walk together; none for row after row.
    pub raster: Option<Raster>,
    /// From which end on blocks take the tiles.
    pub order: TileOrder,
    /// How the loops over tiles run, by their first tile index.
    pub loops: HashMap<ValueId, LoopPlan>,
    /// How loaded tiles and windows are read, by their value.
    pub reads: HashMap<ValueId, ReadPlan>,
    /// Tensors (parameters) in constant memory, each with the elements that there is room for.
    pub constants: BTreeMap<usize, u32>,
    /// Copies of each element of a shared array that is only updated.
    pub copies: i64,
    /// Tiles of whole rows are read through shared memory.
    pub shared_rows: bool,
    /// The GPU has asynchronous copies and mbarriers (sm_80 or newer).
    pub has_async: bool,
    /// The GPU combines integers of a warp's lanes by one instruction (sm_80 or newer).
    pub has_warp_reduce: bool,
    /// The kernel has dots.
    pub dots: bool,
    /// The matrix instruction that dots become, and how warps share the anchor.
    pub mma: Option<matrix_units::Warps>,
    /// The shapes of what matrix units add up, as the author wrote them.
    pub results: Vec<Vec<Size>>,
    /// Dots that take a left operand from registers in which it was computed from what was copied to shared memory.
    pub converted: Vec<Converted>,
    /// Bytes of shared memory that a block may take.
    pub room: i64,
    /// Some operands of dots are copied to shared memory.
    pub shared_operands: bool,
    /// Some of those that lie along the axis of the sum are transposed on the way.
    pub transposed_operands: bool,
    /// A thread's elements are one block of neighbours along each axis, as windows want it.
    pub blocked: bool,
    /// How a combination over the grid ends.
    pub finish: FinishPath,
    /// Hint for global loads.
    pub load_cache: CacheHint,
    /// Hint for global stores.
    pub store_cache: CacheHint,
}

impl Plan {
    /// The value of a size.
    pub fn size(&self, size: &Size) -> i64 {
        size.value(|k| self.knobs[k.0 as usize])
    }

    /// How a loaded tile or a window is read.
    pub fn read(&self, value: ValueId) -> ReadPlan {
        *self.reads.get(&value).unwrap_or_else(|| panic!("plan: {value:?} is no load"))
    }
}

/// The error for a choice that breaks a rule.
pub(crate) fn illegal(kernel: &Kernel, knobs: &[KnobId], found: String, broken: impl Into<Broken>) -> ScheduleError {
    let names: Vec<&str> = knobs.iter().map(|k| kernel.knob(*k).name.as_str()).collect();
    let Broken { rule, text } = broken.into();
    ScheduleError { knob: names.join(" / "), found, rule: text, id: rule.row().id, loc: knobs.first().map(|k| kernel.knob(*k).loc) }
}

/// The knob of a kind that is for all, of which a kernel has one at most.
pub(crate) fn knob_of_kind(kernel: &Kernel, kind: KnobKind) -> Option<KnobId> {
    kernel.knob_at(kind, &Site::default())
}

/// The number that a schedule gives each knob; 0 for words.
pub(crate) fn numbers(kernel: &Kernel, schedule: &Schedule) -> Vec<i64> {
    (0..kernel.knobs.len()).map(|i| schedule.int(KnobId(i as u32))).collect()
}

/// Checks the rules that need no lowering and works out the numbers.
/// `fitting` has the tile indices of loops of one turn, `one_by_one` the knobs of axes that are walked element by element, `mapped` the loads that
/// tensor maps may serve, `constants` the tensors in constant memory.
pub(crate) fn plan(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    fitting: &HashSet<ValueId>,
    one_by_one: &[KnobId],
    mapped: &HashSet<ValueId>,
    constants: BTreeMap<usize, u32>,
) -> Result<Plan, ScheduleError> {
    check_choices(kernel, schedule)?;
    let mut knobs = numbers(kernel, schedule);
    let value = |k: KnobId| knobs[k.0 as usize];
    let grid_tile: Vec<i64> = anchor::grid_sizes(kernel).iter().map(|s| s.value(value)).collect();
    let sizes = anchor::sizes(kernel);
    let anchor: Vec<i64> = sizes.iter().map(|s| s.value(value)).collect();
    let mut coarsen = vec![1; anchor.len()];
    for (i, knob) in kernel.knobs.iter().enumerate() {
        let id = KnobId(i as u32);
        if let KnobKind::Coarsen { of } = knob.kind {
            if value(of) % value(id) != 0 {
                return Err(illegal(kernel, &[id], value(id).to_string(), Rule::CoarsenDivides.with(&[&kernel.knob(of).name, &value(of)])));
            }
            for (axis, size) in sizes.iter().enumerate().filter(|(_, s)| s.as_knob() == Some(of)) {
                debug_assert!(size.as_knob().is_some());
                coarsen[axis] = value(id);
            }
        }
    }
    let dots = kernel.has_dots();
    let blocked = reads_windows(kernel);
    let mut reads = reads::reads(kernel, schedule, blocked);
    let uses = uses::count(kernel);
    let mut found = Dots::new(kernel, &uses, &uses::written_params(kernel));
    let unit = warp_groups::unit(kernel, schedule, &found, (&reads, fitting, mapped))?;
    let mma = matrix_units::warps(kernel, schedule, target, &anchor, &knobs, unit)?;
    let converted = warp_groups::converted(kernel, (&found, &uses), mma.as_ref(), &knobs);
    found.convert(kernel, &converted);
    let mut thread_shape: Vec<i64> = anchor.iter().zip(&coarsen).map(|(t, c)| t / c).collect();
    let override_ = override_threads(kernel, schedule).filter(|_| !dots);
    if let Some(mma) = &mma {
        thread_shape = mma.thread_shape();
    } else if let Some((id, threads)) = override_ {
        let elements: i64 = anchor.iter().product();
        if elements % threads != 0 {
            return Err(illegal(kernel, &[id], threads.to_string(), Rule::ThreadsDivide.with(&[&elements])));
        }
        thread_shape = spread(threads, &anchor);
    }
    let threads: i64 = thread_shape.iter().product::<i64>().max(1);
    if threads > 1024 {
        let ids: Vec<KnobId> = kernel
            .knobs
            .iter()
            .enumerate()
            .filter(|(_, k)| matches!(k.kind, KnobKind::Tile | KnobKind::Coarsen { .. }))
            .map(|(i, _)| KnobId(i as u32))
            .collect();
        let found = ids.iter().map(|k| value(*k).to_string()).collect::<Vec<_>>().join(" / ");
        return Err(illegal(kernel, &ids, found, Rule::BlockThreads.with(&[&threads])));
    }
    let vector = schedule.int_of_kind(kernel, KnobKind::Vector, 1);
    if mma.is_none() {
        check_vector(kernel, target, vector, &anchor, &thread_shape)?;
    }
    let slices = slices::slices(kernel, schedule, fitting, threads)?;
    let min_blocks = check_min_blocks(kernel, schedule, target, threads * slices)?;
    let split = split::split(kernel, schedule, fitting, threads, min_blocks)?;
    slices::check_alone(kernel, slices, split)?;
    let grid = match split {
        Some(Split::StreamK(blocks)) => blocks,
        _ => schedule.int_of_kind(kernel, KnobKind::Grid, 0),
    };
    let cluster = cluster::cluster(kernel, schedule, target, fitting, grid)?;
    check_tile_of_its_own(kernel, schedule, grid, split.is_some())?;
    check_way(kernel, schedule)?;
    check_fill(kernel, schedule, target, grid)?;
    check_ahead(kernel, schedule, target, grid * anchor.iter().max().copied().unwrap_or(1))?;
    let shared_rows = RowPath::of(kernel, schedule) == Some(RowPath::Shared);
    let (load_cache, store_cache) = cache_hints(kernel, schedule, target)?;
    constants::read_in_place(kernel, &constants, &mut reads);
    let shared_windows = blocked && reads::copies_windows(kernel, &reads);
    tensor_maps::fall_back(&mut reads, |v| found.is_load(v), mapped);
    let neighbours = neighbours::neighbours(kernel, schedule, target, reads.values().any(ReadPlan::is_tensor))?;
    let (shared_operands, transposed_operands) = reads::operands(kernel, schedule, &reads, &found);
    walk_one_by_one(kernel, schedule, one_by_one, &mut knobs)?;
    if shared_windows || shared_operands {
        check_copies(kernel, schedule, target)?;
    }
    if mma.as_ref().is_some_and(|m| m.group.is_some()) {
        warp_groups::check_operands(kernel, &found, &mut reads, matrix_units::unit(kernel))?;
    }
    check_fragment_prefetch(kernel, schedule, &found, &reads, mma.as_ref().and_then(|m| m.steps), slices)?;
    let raster = raster::raster(kernel, schedule.int_of_kind(kernel, KnobKind::Raster, 1));
    let copies = schedule.int_of_kind(kernel, KnobKind::Copies, 1);
    if !(copies as u64).is_power_of_two() || copies > 32 {
        let id = knob_of_kind(kernel, KnobKind::Copies).into_iter().collect::<Vec<_>>();
        return Err(illegal(kernel, &id, copies.to_string(), Rule::CopiesPower));
    }
    let mut plan = Plan {
        loops: HashMap::new(),
        reads,
        constants,
        copies,
        split,
        cluster,
        neighbours,
        min_blocks,
        opt_level: check_opt_level(kernel, schedule)?,
        raster,
        order: match TileOrder::of(kernel, schedule) {
            Some(order) if !finish::keeps_order(kernel) => order,
            _ => TileOrder::Rising,
        },
        knobs,
        grid_tile,
        anchor_sizes: sizes,
        anchor,
        thread_shape,
        threads,
        slices,
        joined: 1,
        producer: Default::default(),
        vector,
        grid,
        shared_rows,
        has_async: target.has_async_copy(),
        has_warp_reduce: target.has_warp_reduce(),
        dots,
        room: room::most(kernel, schedule, target),
        results: if mma.is_some() { results::sizes(kernel, &converted) } else { vec![] },
        converted,
        mma,
        shared_operands,
        transposed_operands,
        blocked,
        finish: finish::finish(kernel, schedule)?,
        load_cache,
        store_cache,
    };
    plan.loops = loops::Planner { kernel, schedule, plan: &plan, fitting, uses, dots: found }.all()?;
    warp_groups::check_rounded(kernel, &plan)?;
    let roles = plan.loops.values().any(|l| matches!(l.pipeline, Pipeline::Roles { .. }));
    // There is no ring where the loop's axis fits one tile.
    plan.neighbours = plan.neighbours.filter(|_| roles);
    if roles {
        let holds_operands = !(crate::analyses::chained::links(kernel).is_empty() && plan.converted.is_empty());
        plan.producer = tensor_maps::producer(plan.threads, holds_operands, plan.min_blocks);
    }
    Ok(plan)
}

fn override_threads(kernel: &Kernel, schedule: &Schedule) -> Option<(KnobId, i64)> {
    let threads = knob_of_kind(kernel, KnobKind::Threads).map(|id| (id, schedule.int(id)));
    threads.or_else(|| knob_of_kind(kernel, KnobKind::Warps).map(|id| (id, 32 * schedule.int(id))))
}

/// Threads dealt to the axes, the last one first.
pub(crate) fn spread(threads: i64, shape: &[i64]) -> Vec<i64> {
    let mut left = threads;
    let mut along = vec![1; shape.len()];
    for axis in (0..shape.len()).rev() {
        along[axis] = gcd(left, shape[axis]);
        left /= along[axis];
    }
    along
}

/// Greatest common divisor.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether the body reads moved tiles of windows.
fn reads_windows(kernel: &Kernel) -> bool {
    let mut found = false;
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| found |= matches!(stmt, Stmt::Let(_, Op::Near(..))));
    found
}

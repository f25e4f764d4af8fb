//! Clusters of blocks at neighbouring tiles of the grid: what a ring copies alike for all of them, each brings a part of, for all.

use super::legality::Rule;
use super::{Plan, cluster, illegal};
use girih_ir::schedule::words::{CopyPath, Words};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::target::Target;
use girih_ir::tile::access::{operations, tile_size};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{Index, Kernel, KnobId, Op, TileLoop, ValueId};

/// Rows of a part are a multiple of these: a swizzle goes over as many.
const ROWS: i64 = 8;

/// Blocks of a cluster take neighbouring tiles of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Neighbours {
    /// How many there are, at least 2.
    pub blocks: i64,
    /// Along which tile index of the grid.
    pub axis: usize,
    /// The knob that says so.
    pub asked_by: KnobId,
}

/// The knob of clusters whose tile cuts the grid, and along which tile index.
pub(super) fn knob(kernel: &Kernel) -> Option<(KnobId, usize)> {
    let grid = kernel.grid_loop()?;
    let axis = |of: KnobId| grid.vars.iter().position(|v| tile_size(kernel, *v).as_knob() == Some(of));
    let of = |k: &girih_ir::schedule::Knob| if let KnobKind::Cluster { of } = k.kind { axis(of) } else { None };
    kernel.knobs.iter().enumerate().find_map(|(i, k)| Some((KnobId(i as u32), of(k)?)))
}

/// The clusters of a schedule; `None` where each block copies for itself, as it does where tensor maps may not serve what a schedule wants them for.
pub(super) fn neighbours(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    tensors: bool,
) -> Result<Option<Neighbours>, ScheduleError> {
    let Some((asked_by, axis)) = knob(kernel) else { return Ok(None) };
    let Some(blocks) = cluster::blocks(kernel, schedule, target, asked_by)? else { return Ok(None) };
    let copies = |i: &usize| kernel.knobs[*i].kind == CopyPath::KIND;
    let mut paths = (0..kernel.knobs.len()).filter(copies).filter_map(|i| CopyPath::chosen(schedule, KnobId(i as u32)));
    let wanted = paths.any(|path| path == CopyPath::Tensor);
    match (tensors, wanted) {
        (true, _) => Ok(Some(Neighbours { blocks, axis, asked_by })),
        (false, true) => Ok(None),
        (false, false) => {
            let broken = Rule::ClusterCopies.with(&[&"no tensor map fills a ring (`copy = Tensor`)"]);
            Err(illegal(kernel, &[asked_by], blocks.to_string(), broken))
        }
    }
}

/// What a ring copies that is the same for the blocks of a cluster.
///
/// # Errors
/// There is nothing, or it cannot be cut into as many parts.
pub(super) fn same_for_all(
    (kernel, plan): (&Kernel, &Plan),
    l: &TileLoop,
    copied: &[ValueId],
    of: Neighbours,
) -> Result<Vec<ValueId>, ScheduleError> {
    let refused = |found: String| Err(illegal(kernel, &[of.asked_by], of.blocks.to_string(), Rule::ClusterCopies.with(&[&found])));
    if l.span.is_some() {
        return refused("the tiles of a cluster may have other turns than one another".into());
    }
    let (grid, ops) = (kernel.grid_loop(), operations(kernel));
    let own = grid.map(|grid| grid.vars[of.axis]);
    let mut all = Vec::new();
    for value in copied {
        let Some(Op::Load(_, index)) = ops.get(value) else { continue };
        let same = index.iter().all(|i| match i {
            Index::Tile(v) => Some(*v) != own,
            Index::At(v) => HostExpr::of_value(kernel, *v).is_some(),
            Index::All(_) => false,
        });
        if !same {
            continue;
        }
        let extent = |i: &Index| if let Index::Tile(v) = i { plan.size(tile_size(kernel, *v)) } else { 1 };
        let rows = index.iter().rev().skip(1).map(extent).find(|n| *n > 1).unwrap_or(1);
        if rows % (ROWS * of.blocks) != 0 {
            return refused(format!("{rows} rows of a copy are not cut into {} parts of a multiple of {ROWS}", of.blocks));
        }
        all.push(*value);
    }
    if all.is_empty() { refused("the tiles of a cluster have no copy in common".into()) } else { Ok(all) }
}

//! Blocks that work together on a tile (`cluster`): how many, and what must hold for it.
//!
//! A cluster of N blocks does what one block would do with a tile N times as long: in each turn of a loop over the axis its blocks take
//! neighbouring tiles, and what is reduced along the axis is reduced over all of them. So a kernel may have one whose result does not depend
//! on the length of the tile, and which needs its neighbours along the axis for reductions alone.

use super::legality::{Broken, Rule};
use super::{illegal, numbers};
use crate::analyses::uses::{stored_tensor, written_params};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::target::Target;
use girih_ir::tile::access::{tile_size, visit};
use girih_ir::tile::{Block, Combine, Form, Index, Kernel, KnobId, Op, Stmt, TileLoop, Ty, ValueId, ViewId};
use girih_ir::types::DType;
use std::collections::HashSet;

/// Blocks for which every GPU that has clusters has room.
const PORTABLE: i64 = 8;

/// The blocks of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cluster {
    /// How many there are, at least 2.
    pub blocks: i64,
    /// The knob of the tiles of which they take neighbouring ones.
    pub tile: KnobId,
}

impl Cluster {
    /// Whether a reduction is one over all blocks.
    pub fn reduces(&self, kernel: &Kernel, c: &Combine) -> bool {
        let Form::Reduce { axes } = &c.form else { return false };
        let along = |v: &ValueId| axis_of(kernel, *v, self.tile).is_some_and(|axis| axes.contains(&axis));
        c.inputs.iter().any(along)
    }
}

/// How many blocks a knob makes work together; `None` for one.
pub(super) fn blocks(kernel: &Kernel, schedule: &Schedule, target: &Target, id: KnobId) -> Result<Option<i64>, ScheduleError> {
    let blocks = numbers(kernel, schedule)[id.0 as usize];
    let refused = |broken: Broken| Err(illegal(kernel, &[id], blocks.to_string(), broken));
    match blocks {
        1 => Ok(None),
        _ if !target.has_clusters() => refused(Rule::ClusterTarget.with(&[&target.arch])),
        _ if blocks > PORTABLE || blocks.count_ones() != 1 => refused(Rule::ClusterSize.into()),
        _ => Ok(Some(blocks)),
    }
}

/// The cluster of a schedule; `None` where each block works alone, or at a tile of its own ([`super::neighbours`]). `fitting` has the tile
/// indices of loops of one turn, which there is nothing to share of. Tiles of the grid are dealt to `grid` blocks per multiprocessor.
pub(crate) fn cluster(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    fitting: &HashSet<ValueId>,
    grid: i64,
) -> Result<Option<Cluster>, ScheduleError> {
    let Some((id, tile)) = knob(kernel).filter(|_| super::neighbours::knob(kernel).is_none()) else { return Ok(None) };
    let Some(blocks) = blocks(kernel, schedule, target, id)? else { return Ok(None) };
    let refused = |broken: Broken| illegal(kernel, &[id], blocks.to_string(), broken);
    let check = Check { kernel, tile, written: written_params(kernel) };
    let loops = check.kernel(grid).map_err(refused)?;
    let shares = !loops.iter().any(|l| fitting.contains(&l.vars[0]));
    Ok(shares.then_some(Cluster { blocks, tile }))
}

/// The knob, and that of its tile.
fn knob(kernel: &Kernel) -> Option<(KnobId, KnobId)> {
    let of = |k: &girih_ir::schedule::Knob| if let KnobKind::Cluster { of } = k.kind { Some(of) } else { None };
    kernel.knobs.iter().enumerate().find_map(|(i, k)| Some((KnobId(i as u32), of(k)?)))
}

/// The axis of a tile that is as long as a knob says.
fn axis_of(kernel: &Kernel, value: ValueId, tile: KnobId) -> Option<usize> {
    kernel.ty(value).shape()?.iter().position(|size| size.as_knob() == Some(tile))
}

struct Check<'k> {
    kernel: &'k Kernel,
    tile: KnobId,
    /// Tensor parameters that the kernel stores to.
    written: Vec<bool>,
}

impl<'k> Check<'k> {
    /// The loops whose turns are shared.
    fn kernel(&self, dealt: i64) -> Result<Vec<&'k TileLoop>, Broken> {
        let knob = self.kernel.knob(self.tile);
        if knob.choices.len() == 1 {
            return Err(Rule::ClusterPinned.with(&[&knob.name]));
        }
        let refused = |found: &str| Err(Rule::ClusterGrid.with(&[&found]));
        let Some(grid) = self.kernel.grid_loop() else { return refused("there is one block") };
        for stmt in &self.kernel.body {
            if let Stmt::Let(v, op) = stmt {
                self.value(*v, op, None)?;
            } else if !matches!(stmt, Stmt::Tiles(l) if l.vars == grid.vars) {
                return refused("more is done around the tiles of the grid");
            }
        }
        match grid {
            _ if dealt > 0 => refused("several tiles of the grid are dealt to a block"),
            l if !l.carries.is_empty() => refused("the tiles of the grid are combined with each other"),
            l if l.in_order => refused("blocks begin in the order of the tiles"),
            l => self.stored_once().and_then(|()| self.tile_of_grid(&l.body)),
        }
    }

    /// Whether tiles are as long as the knob says.
    fn is_cut(&self, index: ValueId) -> bool {
        tile_size(self.kernel, index).as_knob() == Some(self.tile)
    }

    fn name(&self, value: ValueId) -> String {
        self.kernel.value(value).name.as_ref().map_or("a value".to_string(), |name| format!("`{name}`"))
    }

    fn tile_of_grid(&self, body: &'k Block) -> Result<Vec<&'k TileLoop>, Broken> {
        let mut loops = Vec::new();
        for stmt in body {
            if let Stmt::Tiles(l) = stmt {
                self.shared_loop(l)?;
                loops.push(l);
            } else {
                self.stmt(stmt, None)?;
            }
        }
        if loops.is_empty() {
            return Err(Rule::ClusterLoops.with(&[&self.kernel.knob(self.tile).name, &"none of these"]));
        }
        Ok(loops)
    }

    fn shared_loop(&self, l: &TileLoop) -> Result<(), Broken> {
        let found = match l.vars[..] {
            [only] if !self.is_cut(only) => "one over other tiles",
            [_] if l.span.is_some() => "one that keeps to some positions",
            [_] => "",
            _ => "one over several axes",
        };
        if !found.is_empty() {
            return Err(Rule::ClusterLoops.with(&[&self.kernel.knob(self.tile).name, &found]));
        }
        let other = l.carries.iter().find(|c| axis_of(self.kernel, c.inner, self.tile).is_none());
        if let Some(c) = other {
            return Err(Rule::ClusterCarries.with(&[&self.name(c.inner), &self.kernel.knob(self.tile).name]));
        }
        l.body.iter().try_for_each(|stmt| self.stmt(stmt, Some(l)))
    }

    /// A statement of a tile of the grid, or of a loop in it.
    fn stmt(&self, stmt: &Stmt, within: Option<&TileLoop>) -> Result<(), Broken> {
        let more = |what: &str| Err(Rule::ClusterRest.with(&[&what]));
        match stmt {
            Stmt::Let(v, op) => self.value(*v, op, within),
            Stmt::Store { view, index, .. } => self.store(*view, index, within),
            Stmt::Combine(c) => self.combine(c, within),
            Stmt::Scatter { .. } => more("a scatter"),
            Stmt::Atomic { .. } => more("an atomic"),
            Stmt::Shared(_) => more("a shared array"),
            Stmt::Barrier { .. } | Stmt::Copies { .. } => more("a barrier or copies by hand"),
            Stmt::Tiles(_) | Stmt::Range { .. } | Stmt::While { .. } => more("a loop inside"),
            Stmt::If { .. } | Stmt::Where { .. } => more("a branch"),
        }
    }

    /// What a block makes of its own part of the tile; numbers are those of all blocks.
    fn value(&self, value: ValueId, op: &Op, within: Option<&TileLoop>) -> Result<(), Broken> {
        let own = |index: &ValueId| within.is_some_and(|l| l.vars.contains(index));
        let more = match op {
            Op::Load(view, _) | Op::Gather(view, _) | Op::GatherInside(view, _) => return self.load(*view),
            Op::Start(index) | Op::End(index) | Op::Number(index) if own(index) => "a number that says where a tile of the loop lies",
            Op::Iota if axis_of(self.kernel, value, self.tile).is_some() => "the positions in a tile",
            Op::Total { .. } => "a scan",
            Op::Pick { .. } | Op::Stack(_) => "elements side by side",
            Op::Window { .. } | Op::Near(..) => "a window",
            Op::Shuffle { .. } | Op::Vote(..) => "what lanes exchange",
            Op::Dot { .. } => "a dot",
            Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Unary(..) | Op::Binary(..) | Op::Ternary(..) => {
                return Ok(());
            }
            Op::Compare(..) | Op::Select(..) | Op::Cast(_) | Op::Bitcast(_) | Op::Splat(_) | Op::Like { .. } | Op::Or { .. } => {
                return Ok(());
            }
            Op::Within(..) | Op::Broadcast(..) | Op::Transpose(..) | Op::Coordinates(_) | Op::Iota => return Ok(()),
            Op::Start(_) | Op::End(_) | Op::Number(_) => return Ok(()),
        };
        Err(Rule::ClusterRest.with(&[&more]))
    }

    fn load(&self, view: ViewId) -> Result<(), Broken> {
        let param = self.kernel.view(view).param;
        if self.written[param] {
            return Err(Rule::ClusterMemory.with(&[&self.kernel.params[param].name, &"loaded"]));
        }
        Ok(())
    }

    /// Blocks that store to one tensor at two places might meet there.
    fn stored_once(&self) -> Result<(), Broken> {
        let (mut stored, mut twice) = (HashSet::new(), None);
        visit(&self.kernel.body, &mut |stmt| {
            twice = twice.or(stored_tensor(self.kernel, stmt).filter(|param| !stored.insert(*param)));
        });
        match twice {
            Some(param) => Err(Rule::ClusterMemory.with(&[&self.kernel.params[param].name, &"stored to again"])),
            None => Ok(()),
        }
    }

    fn store(&self, view: ViewId, index: &[Index], within: Option<&TileLoop>) -> Result<(), Broken> {
        let own = |l: &TileLoop| index.iter().any(|i| matches!(i, Index::Tile(v) if l.vars.contains(v)));
        if within.is_some_and(|l| !own(l)) {
            return Err(Rule::ClusterStores.with(&[&self.kernel.params[self.kernel.view(view).param].name]));
        }
        Ok(())
    }

    fn combine(&self, c: &Combine, within: Option<&TileLoop>) -> Result<(), Broken> {
        match c.form {
            Form::Reduce { .. } => {}
            Form::Scan { .. } | Form::Before => return Err(Rule::ClusterRest.with(&[&"a scan"])),
            Form::Grid => return Err(Rule::ClusterGrid.with(&[&"the tiles of the grid are combined with each other"])),
        }
        if !(Cluster { blocks: 1, tile: self.tile }).reduces(self.kernel, c) {
            return Ok(());
        }
        let tile = &self.kernel.knob(self.tile).name;
        if within.is_some() {
            return Err(Rule::ClusterReductions.with(&[&self.name(c.results[0]), tile]));
        }
        let dtype = |v: &ValueId| if let Ty::Tile(dtype, _) = self.kernel.ty(*v) { *dtype } else { DType::F32 };
        let wide = |v: &&ValueId| dtype(v).compute().size() != 4;
        match c.inputs.iter().find(wide) {
            Some(v) => Err(Rule::ClusterNumbers.with(&[&self.name(c.results[0]), &dtype(v)])),
            None => Ok(()),
        }
    }
}

//! How the loops over tiles run: which iterations who takes, and what is done ahead of its iteration. All of it is decided here, from tile
//! IR and the schedule, before anything is lowered.

use super::legality::Rule;
use super::loop_plan::{Copies, Handover, LoopPlan, Pipeline, Range, RingPlan};
use super::split::shared_loop;
use super::{Fill, Plan, ReadPlan, illegal, neighbours, tensor_maps};
use crate::analyses::barriers::kept_by_hand;
use crate::analyses::dots::Dots;
use crate::analyses::uses::{Uses, operands, stored_tensor};
use girih_ir::schedule::words::{GroupTurns, Words};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError, Site};
use girih_ir::tile::access::visit;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::print::definitions;
use girih_ir::tile::{Block, Index, Kernel, KnobId, Op, Stmt, TileLoop, Ty, ValueId, ViewId};
use std::collections::{HashMap, HashSet};

/// The loop of each tile of the grid whose iterations go on from tile to tile.
struct Onward {
    /// Its first tile index.
    sum: ValueId,
    ring: RingPlan,
    /// The scalars of the tile that say where its copies lie.
    places: Vec<ValueId>,
}

/// Decides how loops run.
pub(super) struct Planner<'p> {
    pub kernel: &'p Kernel,
    pub schedule: &'p Schedule,
    /// All of the plan but its loops.
    pub plan: &'p Plan,
    /// The tile indices of axes that fit one tile.
    pub fitting: &'p HashSet<ValueId>,
    pub uses: Vec<Uses>,
    pub dots: Dots,
}

impl Planner<'_> {
    /// The plans of a kernel's loops over tiles, by their first tile index.
    ///
    /// # Errors
    /// Copies that one ring can't have beside each other.
    pub fn all(&self) -> Result<HashMap<ValueId, LoopPlan>, ScheduleError> {
        let (mut all, mut wrong) = (HashMap::new(), None);
        visit(&self.kernel.body, &mut |stmt| {
            if let Stmt::Tiles(l) = stmt {
                match self.of(l) {
                    Ok(plan) => drop(all.insert(l.vars[0], plan)),
                    Err(error) => wrong = wrong.take().or(Some(error)),
                }
            }
        });
        wrong.map_or(Ok(all), Err)
    }

    fn of(&self, l: &TileLoop) -> Result<LoopPlan, ScheduleError> {
        match self.kernel.grid_loop() {
            Some(grid) if grid.vars == l.vars => self.of_grid(l),
            grid => self.of_inner(grid, l),
        }
    }

    fn of_inner(&self, grid: Option<&TileLoop>, l: &TileLoop) -> Result<LoopPlan, ScheduleError> {
        if l.vars.iter().all(|v| self.fitting.contains(v)) {
            return Ok(LoopPlan { range: Range::Once, pipeline: Pipeline::None });
        }
        let shared = grid.and_then(shared_loop).is_some_and(|(_, inner)| inner.vars == l.vars);
        let range = match self.plan.split {
            Some(split) if shared => Range::Shared(split),
            _ if let Some(cluster) = self.plan.cluster => Range::Cluster(cluster.blocks),
            _ if shared && self.plan.slices > 1 => Range::SlicedK(self.plan.slices),
            _ => Range::All,
        };
        Ok(LoopPlan { range, pipeline: self.pipeline(l)? })
    }

    fn of_grid(&self, l: &TileLoop) -> Result<LoopPlan, ScheduleError> {
        let range = if self.plan.grid == 0 { Range::OnePerBlock } else { Range::Persistent(self.plan.grid) };
        let alone = self.plan.split.is_none() && self.plan.slices == 1 && self.plan.grid > 0;
        let stages = self.stages(l);
        let pipeline = match self.pipelined_sum(l)? {
            Some(Onward { sum, ring, places }) if ring.handover == Handover::Transactions => Pipeline::Roles { sum, places },
            Some(Onward { sum, places, .. }) if alone && places.is_empty() => Pipeline::Persistent { sum },
            Some(_) => Pipeline::None,
            None if !alone => Pipeline::None,
            None if stages > 1 && !self.plan.dots => match self.early_loads(l) {
                loads if loads.is_empty() => Pipeline::None,
                loads => Pipeline::GridPrefetch { stages, loads: loads.into_iter().map(|v| (v, self.fill(v))).collect() },
            },
            None => Pipeline::None,
        };
        Ok(LoopPlan { range, pipeline })
    }

    /// A loop's own stages.
    fn stages(&self, l: &TileLoop) -> i64 {
        self.schedule.int_at(self.kernel, KnobKind::Stages, &Site::of_loop(l), 1)
    }

    /// How the tiles of a load wait for their turn of the grid loop.
    fn fill(&self, load: ValueId) -> Fill {
        if self.plan.read(load).copy.is_async() { Fill::Async } else { Fill::Registers }
    }

    fn pipeline(&self, l: &TileLoop) -> Result<Pipeline, ScheduleError> {
        let stages = self.stages(l);
        if stages == 1 {
            return self.without_ring(l);
        }
        let Some(mut copies) = self.copies(l) else { return Ok(Pipeline::None) };
        let reads: Vec<ReadPlan> = copies.windows.iter().map(|v| self.plan.read(*v)).collect();
        if let Some(first) = reads.iter().find(|read| read.is_tensor()) {
            let alone = self.kernel.grid_loop().is_some_and(
                |grid| matches!(self.only_loop(grid), Some((at, only)) if only.vars == l.vars && self.places_of_tile(&grid.body[..at], l, &copies).is_some()),
            );
            tensor_maps::check(self.kernel, self.plan, first, alone)?;
            let (handover, products_first) = (Handover::Transactions, self.products_wait(l));
            let in_turn = !products_first && self.in_turn(l);
            let ring = RingPlan { handover, products_first, in_turn, ..self.ring(stages, first, &reads)? };
            if let Some(neighbours) = self.plan.neighbours {
                copies.to_all = neighbours::same_for_all((self.kernel, self.plan), l, &copies.windows, neighbours)?;
            }
            return Ok(Pipeline::Multistage { ring, copies });
        }
        if let Some(first) = reads.iter().find(|read| read.is_async()) {
            let ring = RingPlan { products_first: self.products_wait(l), ..self.ring(stages, first, &reads)? };
            return Ok(Pipeline::Multistage { ring, copies });
        }
        let by_registers = self.plan.shared_operands && stages == 2;
        let (handover, asked_by) = (Handover::Registers, None);
        let ring = RingPlan {
            stages,
            handover,
            fragment_prefetch: false,
            products_first: false,
            products_overlap: false,
            in_turn: false,
            asked_by,
        };
        Ok(if by_registers { Pipeline::Multistage { ring, copies } } else { Pipeline::None })
    }

    /// A loop of one stage: tensor maps fill no copy of it.
    fn without_ring(&self, l: &TileLoop) -> Result<Pipeline, ScheduleError> {
        let by_tensor =
            self::lets(&l.body).filter(|(v, _)| self.dots.is_load(*v)).map(|(v, _)| self.plan.read(v)).find(ReadPlan::is_tensor);
        match by_tensor {
            Some(read) => {
                let knobs: Vec<KnobId> = read.copied_by.into_iter().collect();
                Err(illegal(self.kernel, &knobs, read.copy.to_string(), Rule::TensorUnit))
            }
            None => Ok(Pipeline::None),
        }
    }

    /// The ring of a loop's copies, of which the `first` is the first asynchronous one.
    fn ring(&self, stages: i64, first: &ReadPlan, all: &[ReadPlan]) -> Result<RingPlan, ScheduleError> {
        let agree = first.by_mbarriers() || first.is_tensor();
        if let Some(other) = all.iter().find(|read| read.copy != first.copy && (read.is_async() || agree)) {
            let knobs: Vec<KnobId> = [first.copied_by, other.copied_by].into_iter().flatten().collect();
            return Err(illegal(self.kernel, &knobs, format!("{} / {}", first.copy, other.copy), Rule::RingCopies));
        }
        let handover = if first.by_mbarriers() { Handover::Mbarriers } else { Handover::Barrier };
        let (fragment_prefetch, asked_by) = (first.copy.prefetches_fragments(), first.copied_by);
        Ok(RingPlan { stages, handover, fragment_prefetch, products_first: false, products_overlap: false, in_turn: false, asked_by })
    }

    /// Whether the products of an iteration are those of warp groups, and nobody looks at them before it ends.
    fn products_wait(&self, l: &TileLoop) -> bool {
        let by_groups = self.plan.mma.as_ref().is_some_and(|m| m.group.is_some());
        let kept = |v: ValueId| self.dots.in_place(v) && self.uses[v.0 as usize].count == 1 && l.carries.iter().any(|c| c.next == v);
        let mut dots = Vec::new();
        visit(&l.body, &mut |s| dots.extend(if let Stmt::Let(v, Op::Dot { .. }) = s { Some(*v) } else { None }));
        by_groups && !dots.is_empty() && dots.into_iter().all(kept)
    }

    /// Whether warp groups multiply one after the other, where there are several: as the schedule says, if it does.
    fn in_turn(&self, l: &TileLoop) -> bool {
        let several = self.plan.mma.as_ref().is_some_and(|m| m.group.is_some() && m.along != [1, 1]);
        let said = GroupTurns::of(self.kernel, self.schedule).map(|turns| turns == GroupTurns::InTurn);
        several && said.unwrap_or_else(|| self.multiplies_once(l))
    }

    /// Whether one sum is made of several products in an iteration, and then looked at: left alone groups all multiply at once, and all compute
    /// at once. (f32 by planes of f16: 10 % on an H200. Of one product it is nothing.)
    fn multiplies_once(&self, l: &TileLoop) -> bool {
        let dots: HashMap<ValueId, ValueId> =
            lets(&l.body).filter_map(|(v, op)| if let Op::Dot { acc, .. } = op { Some((v, *acc)) } else { None }).collect();
        dots.len() > 1 && dots.values().filter(|acc| !dots.contains_key(acc)).count() == 1
    }

    /// What a loop's body copies to shared memory, if its places depend on nothing but the iteration.
    fn copies(&self, l: &TileLoop) -> Option<Copies> {
        let lets: HashMap<ValueId, &Op> = lets(&l.body).collect();
        let (mut windows, mut wanted, mut pending) = (Vec::new(), HashSet::new(), Vec::new());
        for (value, op) in self::lets(&l.body) {
            let view = match op {
                Op::Window { view, shift, .. } => {
                    pending.extend(shift.iter().flatten());
                    view
                }
                Op::Load(view, index) if self.dots.is_load(value) => {
                    pending.extend(index.iter().filter_map(|i| if let Index::At(v) = i { Some(*v) } else { None }));
                    view
                }
                _ => continue,
            };
            if self.uses[value.0 as usize].count == 0 || !self.plan.read(value).shared {
                continue;
            }
            windows.push(value);
            let v = self.kernel.view(*view);
            pending.push(v.offset);
            pending.extend(v.axes.iter().flat_map(|a| [a.len, a.stride]));
        }
        let mut made = Vec::new();
        definitions(&l.body, &mut made);
        let made: HashSet<ValueId> = made.into_iter().map(|(v, _)| v).collect();
        while let Some(v) = pending.pop() {
            match lets.get(&v) {
                Some(op) if is_arithmetic(op) && wanted.insert(v) => pending.extend(operands(op)),
                Some(op) if is_arithmetic(op) => {}
                Some(_) => return None,
                None if made.contains(&v) => return None,
                None => {}
            }
        }
        let places = self::lets(&l.body).map(|(v, _)| v).filter(|v| wanted.contains(v)).collect();
        (!windows.is_empty()).then_some(Copies { windows, places, to_all: vec![] })
    }

    /// The loop of each tile whose iterations go on from tile to tile; `None` where the schedule asks for no such thing, where a tile has
    /// several loops or barriers of its own, or where the places of its copies depend on more than arithmetic of what the tile does before
    /// the loop.
    fn pipelined_sum(&self, grid: &TileLoop) -> Result<Option<Onward>, ScheduleError> {
        let Some((at, inner)) = self.only_loop(grid) else { return Ok(None) };
        let Pipeline::Multistage { copies, ring } = self.pipeline(inner)? else { return Ok(None) };
        // Of a pipeline over all tiles every turn is of one kind, and all tiles have as many.
        let even = inner.span.is_none() && !inner.body.iter().any(|s| matches!(s, Stmt::Tiles(_)));
        if !(ring.fragment_prefetch && even) && ring.handover != Handover::Transactions {
            return Ok(None);
        }
        let places = self.places_of_tile(&grid.body[..at], inner, &copies);
        Ok(places.map(|places| Onward { sum: inner.vars[0], ring, places }))
    }

    /// The scalars of a tile of the grid, of its statements before an inner loop, that the places of the loop's copies depend on; `None` where
    /// some are more than arithmetic.
    fn places_of_tile(&self, before: &[Stmt], inner: &TileLoop, copies: &Copies) -> Option<Vec<ValueId>> {
        let lets: HashMap<ValueId, &Op> =
            before.iter().filter_map(|s| if let Stmt::Let(v, op) = s { Some((*v, op)) } else { None }).collect();
        let mut made = Vec::new();
        definitions(before, &mut made);
        let made: HashSet<ValueId> = made.into_iter().map(|(v, _)| v).collect();
        let (mut pending, mut places) = (self.read_by(copies, &inner.body), HashSet::new());
        pending.extend(inner.span.iter().flat_map(|span| [span.first, span.end]));
        while let Some(v) = pending.pop() {
            match lets.get(&v) {
                Some(op) if is_arithmetic(op) => pending.extend(places.insert(v).then(|| operands(op)).into_iter().flatten()),
                None if !made.contains(&v) => {}
                _ => return None,
            }
        }
        Some(before.iter().filter_map(|s| if let Stmt::Let(v, _) = s { Some(*v) } else { None }).filter(|v| places.contains(v)).collect())
    }

    /// The only loop of a tile of the grid, and its place there, where nothing hinders that its iterations go on from tile to tile.
    fn only_loop<'l>(&self, grid: &'l TileLoop) -> Option<(usize, &'l TileLoop)> {
        if !grid.carries.is_empty() || kept_by_hand(self.kernel, &grid.body) {
            return None;
        }
        let walks = |s: &Stmt| matches!(s, Stmt::Tiles(l) if !l.vars.iter().all(|v| self.fitting.contains(v)));
        let (mut loops, mut barriers) = (0, false);
        visit(&grid.body, &mut |s| {
            loops += usize::from(walks(s));
            barriers |= matches!(s, Stmt::Barrier { .. } | Stmt::Copies { .. } | Stmt::Shared(_));
        });
        let at = grid.body.iter().position(walks)?;
        let Stmt::Tiles(inner) = &grid.body[at] else { return None };
        (loops == 1 && !barriers && tensor_maps::takes_whole_tiles(self.kernel, self.plan, inner)).then_some((at, inner))
    }

    /// What the places of copies are computed of.
    fn read_by(&self, copies: &Copies, body: &Block) -> Vec<ValueId> {
        let mut all = Vec::new();
        for (value, op) in lets(body) {
            let window = copies.windows.contains(&value);
            if window || copies.places.contains(&value) {
                all.extend(operands(op));
            }
            if window && let Op::Window { view, .. } | Op::Load(view, _) = op {
                let view = self.kernel.view(*view);
                all.push(view.offset);
                all.extend(view.axes.iter().flat_map(|a| [a.len, a.stride]));
            }
        }
        all
    }

    /// Loads that depend on nothing but the grid's tile, those of rows that fit one tile included: they can start some iterations early.
    fn early_loads(&self, grid: &TileLoop) -> Vec<ValueId> {
        let (mut early, mut stored) = (Vec::new(), HashSet::new());
        self.collect_early(grid, &grid.body, &mut stored, &mut early);
        early
    }

    /// Those of one block of statements. `stored` has the tensors that statements before store to: what is loaded then must not be early.
    fn collect_early(&self, grid: &TileLoop, body: &Block, stored: &mut HashSet<usize>, early: &mut Vec<ValueId>) {
        for stmt in body {
            match stmt {
                Stmt::Let(value, Op::Load(view, index)) if !stored.contains(&self.kernel.view(*view).param) => {
                    if self.is_early(grid, *value, *view, index) {
                        early.push(*value);
                    }
                }
                Stmt::Tiles(row) if row.vars.iter().all(|v| self.fitting.contains(v)) => {
                    self.collect_early(grid, &row.body, stored, early);
                }
                _ => visit(std::slice::from_ref(stmt), &mut |s| stored.extend(stored_tensor(self.kernel, s))),
            }
        }
    }

    fn is_early(&self, grid: &TileLoop, value: ValueId, view: ViewId, index: &[Index]) -> bool {
        let v = self.kernel.view(view);
        let known = |x: ValueId| HostExpr::of_value(self.kernel, x).is_some();
        let fixed = v.axes.iter().all(|a| known(a.len) && known(a.stride)) && known(v.offset);
        let own = index.iter().all(|i| match i {
            Index::Tile(t) => grid.vars.contains(t) || self.fitting.contains(t),
            Index::At(s) => known(*s),
            Index::All(_) => true,
        });
        fixed && own && matches!(self.kernel.ty(value), Ty::Tile(..))
    }
}

/// The values that a block itself computes.
fn lets(block: &Block) -> impl Iterator<Item = (ValueId, &Op)> {
    block.iter().filter_map(|s| if let Stmt::Let(v, op) = s { Some((*v, op)) } else { None })
}

/// Arithmetic on scalars, which may be done twice.
fn is_arithmetic(op: &Op) -> bool {
    matches!(
        op,
        Op::Literal(_)
            | Op::Param(_)
            | Op::Dim(..)
            | Op::Stride(..)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Ternary(..)
            | Op::Compare(..)
            | Op::Select(..)
            | Op::Cast(_)
            | Op::Bitcast(_)
            | Op::Start(_)
            | Op::End(_)
            | Op::Number(_)
    )
}

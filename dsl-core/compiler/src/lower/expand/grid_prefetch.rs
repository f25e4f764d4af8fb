//! The pipeline over the tiles dealt to a block: loads that start some turns before their tile's.

use super::context::{Data, Expanded, Expander, Mode, Rep, TileRep};
use super::index::literal;
use crate::block::{Access, Index, Loop, ValueId};
use crate::block::{Fill, Pipeline};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, SharedId, Stmt, VarId};
use girih_ir::types::DType;

/// The loads of a grid loop's body that are started before their turn, and how many turns' tiles are there at one time.
pub(crate) struct EarlyLoads<'k> {
    stages: i64,
    loads: Vec<Early<'k>>,
}

/// One of them.
struct Early<'k> {
    value: ValueId,
    fill: Fill,
    access: &'k Access,
    layout: Layout,
}

/// Where the tiles of an early load wait.
pub(crate) enum Waiting {
    /// Arrays of registers, oldest first.
    Registers(Vec<VarId>),
    /// A ring of buffers in shared memory; each thread reads what it copied.
    Ring { shared: SharedId, array: VarId, width: i64 },
}

impl<'k> Expander<'k> {
    /// The loads of the grid loop's body that its plan starts early.
    pub fn early_loads(&mut self, pipeline: &Pipeline) -> Option<EarlyLoads<'k>> {
        let Pipeline::GridPrefetch { stages, loads } = pipeline else { return None };
        let one = |(value, fill): &(ValueId, Fill)| {
            let access = *self.loads.get(value).unwrap_or_else(|| panic!("grid_prefetch: {value:?} is no load in\n{}", self.kernel));
            Early { value: *value, fill: *fill, access, layout: self.layout_at(access) }
        };
        Some(EarlyLoads { stages: *stages, loads: loads.iter().map(one).collect() })
    }

    /// Declares where early tiles wait, and starts the loads of the first `stages - 1` turns.
    pub fn pipeline_prologue(
        &mut self,
        l: &Loop,
        counts: &[Expr],
        early: &EarlyLoads,
        block: &Expr,
        stride: &Expr,
    ) -> Expanded<Vec<Waiting>> {
        let depth = early.stages - 1;
        self.comment(format!("prologue: start the loads of the first {} of {} stages", depth, early.stages));
        let mut waiting = Vec::new();
        for e in &early.loads {
            let dtype = self.kernel.view(e.access.view).dtype;
            let name = self.fragment_name(e.value, e.access.view);
            let cut = self.cut_of(e.access);
            let bytes = cut.width * dtype.size() as i64;
            waiting.push(if e.fill == Fill::Async && !cut.reversed && bytes >= 4 {
                let elements = e.layout.registers * self.team.threads;
                let tensor = &self.kernel.params[self.kernel.view(e.access.view).param].name;
                let shared = self.new_shared(&format!("{tensor}_ring"), dtype, elements * early.stages);
                let array = self.new_var(&name, dtype, Some(e.layout.registers as u32));
                Waiting::Ring { shared, array, width: cut.width }
            } else {
                let vars: Vec<VarId> = (0..early.stages)
                    .map(|s| {
                        let name = if s == 0 {
                            name.clone()
                        } else {
                            format!("{name}_next{}", if s == 1 { String::new() } else { s.to_string() })
                        };
                        self.new_var(&name, dtype, Some(e.layout.registers as u32))
                    })
                    .collect();
                vars.iter().for_each(|var| self.emit(Stmt::Declare { var: *var, init: None }));
                Waiting::Registers(vars)
            });
        }
        for stage in 0..depth {
            let ahead = self.ix.mul(stride.clone(), self.ix.lit(stage));
            let number = self.ix.add(block.clone(), ahead);
            self.start_loads(l, counts, early, &waiting, number, stage as usize, &literal(DType::I32, stage))?;
        }
        Ok(waiting)
    }

    /// The only tile of each axis that fits.
    fn set_row(&mut self, index: &[Index]) {
        for i in index {
            if let Index::Tile(t) = i
                && self.kernel.fitting.contains(t)
            {
                self.set(*t, Rep::TileIndex(self.ix.lit(0)));
            }
        }
    }

    /// Starts the loads of tile `number` into the slot of their stage.
    fn start_loads(
        &mut self,
        l: &Loop,
        counts: &[Expr],
        early: &EarlyLoads,
        waiting: &[Waiting],
        number: Expr,
        slot: usize,
        stage: &Expr,
    ) -> Expanded<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        self.open();
        self.set_tiles(l, number, counts);
        self.mode = Mode::Tail;
        for (e, w) in early.loads.iter().zip(waiting) {
            self.set_row(&e.access.index);
            let mask = self.mask_at(e.access, self.kernel.value(e.value).form);
            let cut = self.cut_of(e.access);
            match w {
                Waiting::Registers(vars) => {
                    self.load_array(vars[slot], e.access, &e.layout, &mask)?;
                }
                Waiting::Ring { shared, .. } => {
                    self.begin_access(e.access, &e.layout, &mask);
                    let (shared, dtype) = (*shared, self.kernel.view(e.access.view).dtype);
                    let bytes = (cut.width * dtype.size() as i64) as u32;
                    let layout = e.layout.clone();
                    let stage = stage.clone();
                    self.accesses(e.access.view, &e.access.index, &e.layout, &mask, cut, &mut |cx, at, address, predicate| {
                        let global = cx.place(e.access.view, address);
                        let shared = cx.ring_place(shared, dtype, &layout, &at.flat, cut.width, &stage);
                        cx.emit(Stmt::AsyncCopy { shared, global, bytes, predicate });
                        Ok(())
                    })?;
                }
            }
        }
        if waiting.iter().any(|w| matches!(w, Waiting::Ring { .. })) {
            self.emit(Stmt::AsyncCommit);
        }
        // In a block of its own: its variables end with it.
        let inner = self.close();
        self.emit(Stmt::If { condition: Expr::Literal(girih_ir::types::Literal::bool(true)), then: inner, otherwise: vec![] });
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }

    fn copy_array(&mut self, from: VarId, to: VarId, registers: i64) {
        let (var, e) = self.loop_var("e");
        let value = Expr::Element(from, Box::new(e.clone()));
        self.emit(super::elements::unrolled(var, registers, vec![Stmt::Assign { var: to, index: Some(e), value }]));
    }

    /// A thread's own slot in a ring: runs of all threads next to each other, so that neighbours use different banks.
    fn ring_place(&self, shared: SharedId, dtype: DType, layout: &Layout, flat: &Expr, width: i64, stage: &Expr) -> girih_ir::simt::Place {
        let ix = super::index::Index { dtype: DType::I32 };
        let thread = self.thread32();
        let runs = ix.mul(flat.clone(), ix.lit(layout.threads));
        let own = ix.add(runs, ix.mul(thread, ix.lit(width)));
        let base = ix.mul(stage.clone(), ix.lit(layout.registers * layout.threads));
        girih_ir::simt::Place { space: girih_ir::simt::Space::Shared(shared), dtype, index: ix.add(base, own) }
    }

    /// One turn of the pipelined loop: start the load of a later tile, work on the oldest.
    pub fn pipelined_turn(
        &mut self,
        l: &Loop,
        counts: &[Expr],
        early: &EarlyLoads,
        waiting: &[Waiting],
        counter: VarId,
        stage_var: Option<VarId>,
        stride: &Expr,
    ) -> Expanded<()> {
        let stages = early.stages;
        let ix32 = super::index::Index { dtype: DType::I32 };
        let rings = waiting.iter().any(|w| matches!(w, Waiting::Ring { .. }));
        let stage = stage_var.map_or(ix32.lit(0), Expr::Var);
        let later = self.ix.add(Expr::Var(counter), self.ix.mul(stride.clone(), self.ix.lit(stages - 1)));
        let free = if rings { super::stages::filled(stage.clone(), stages) } else { ix32.lit(0) };
        let ahead = if stages == 2 { "1 turn".to_string() } else { format!("{} turns", stages - 1) };
        self.comment(format!("start the load of the tile {ahead} ahead"));
        self.start_loads(l, counts, early, waiting, later, stages as usize - 1, &free)?;
        if rings {
            self.emit(Stmt::AsyncWait { pending: stages as u32 - 1 });
        }
        for (e, w) in early.loads.iter().zip(waiting) {
            let mask = self.mask_at(e.access, self.kernel.value(e.value).form);
            let var = match w {
                Waiting::Registers(vars) => vars[0],
                Waiting::Ring { shared, array, width } => {
                    self.emit(Stmt::Declare { var: *array, init: None });
                    self.read_ring(*shared, *array, *width, &e.layout, &stage);
                    *array
                }
            };
            self.set(e.value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(e.layout.clone()), mask, data: Data::Array(var) }));
        }
        self.mode = Mode::Tail;
        self.loaded_early = early.loads.iter().map(|e| e.value).collect();
        let lowered = self.lower_block(&l.body);
        self.loaded_early.clear();
        lowered
    }

    /// The end of a pipelined turn: the next stage is the oldest.
    pub fn end_turn(&mut self, early: &EarlyLoads, waiting: &[Waiting], stage_var: Option<VarId>) {
        if let Some(var) = stage_var {
            let value = super::stages::next(Expr::Var(var), early.stages);
            self.emit(Stmt::Assign { var, index: None, value });
        }
        for (e, w) in early.loads.iter().zip(waiting) {
            if let Waiting::Registers(vars) = w {
                for pair in vars.windows(2) {
                    self.copy_array(pair[1], pair[0], e.layout.registers);
                }
            }
        }
    }

    fn read_ring(&mut self, shared: SharedId, array: VarId, width: i64, layout: &Layout, stage: &Expr) {
        let dtype = self.vars[array.0 as usize].dtype;
        let ix = super::index::Index { dtype: DType::I32 };
        let (var, e) = self.loop_var("u");
        let flat = ix.mul(e, ix.lit(width));
        let place = self.ring_place(shared, dtype, layout, &flat, width, stage);
        let turn = if width > 1 {
            Stmt::LoadVector { var: array, at: flat, place, lanes: width as u32, predicate: None, cache: Default::default() }
        } else {
            let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            Stmt::Assign { var: array, index: Some(flat), value }
        };
        self.emit(super::elements::unrolled(var, layout.registers / width, vec![turn]));
    }
}

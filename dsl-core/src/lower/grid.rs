//! The grid loop: which block works on which tiles, where bounds are checked, and the pipeline over the tiles dealt to a block.

use super::context::{Data, Lowered, Lowering, Mode, Rep, TileRep};
use super::index::{all, compare, literal};
use super::plan::Fill;
use crate::layout::Layout;
use crate::simt::{Expr, SharedId, Special, Stmt, VarId};
use crate::tile::host::HostExpr;
use crate::tile::{self, Index, Op, TileLoop, ValueId, ViewId};
use crate::types::{BinaryOp, CompareOp, DType};

/// A load of the grid loop's body that can be started before its turn.
struct Early<'k> {
    value: ValueId,
    view: ViewId,
    index: &'k [Index],
    layout: Layout,
}

/// Where the tiles of an early load wait.
enum Waiting {
    /// Arrays of registers, oldest first.
    Registers(Vec<VarId>),
    /// A ring of buffers in shared memory; each thread reads what it copied.
    Ring { shared: SharedId, array: VarId, width: i64 },
}

impl Lowering<'_> {
    /// Lowers the grid loop.
    pub fn grid(&mut self, l: &TileLoop) -> Lowered<()> {
        if !l.carries.is_empty() {
            return Err(self.unsupported(l.loc, "a value carried over the grid's tiles"));
        }
        let counts = self.tile_counts(l);
        if self.plan.grid == 0 {
            let block = self.block_index();
            self.set_tiles(l, block, &counts);
            return self.tile_of_block(l);
        }
        let total = self.total_tiles(l);
        let tiles = self.host_param(&total, "tiles");
        let block = self.block_index();
        let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let stride = self.ix.cast(DType::I32, stride);
        self.comment(format!("the tiles are dealt to {} blocks per multiprocessor", self.plan.grid));
        let counter = self.new_var("tile", self.ix.dtype, None);
        let early = if self.plan.stages > 1 { self.early_loads(l)? } else { vec![] };
        let before = self.values.clone();
        self.repeated = true;
        let waiting = self.pipeline_prologue(l, &counts, &early, &block, &stride)?;
        self.open();
        self.set_tiles(l, Expr::Var(counter), &counts);
        if early.is_empty() {
            self.tile_of_block(l)?;
        } else {
            self.pipelined_turn(l, &counts, &early, &waiting, counter, &block, &stride)?;
        }
        let body = self.close();
        self.values = before;
        self.emit(Stmt::For { var: counter, start: block, end: tiles, step: stride, unroll: false, body });
        Ok(())
    }

    fn block_index(&mut self) -> Expr {
        let block = self.declare_let("block", DType::I32, Expr::Special(Special::Block));
        self.ix.cast(DType::I32, block)
    }

    /// Tiles along each axis but the first, as index expressions.
    fn tile_counts(&mut self, l: &TileLoop) -> Vec<Expr> {
        let mut counts = vec![self.ix.lit(1)];
        for (k, axis) in l.axes.iter().enumerate().skip(1) {
            let len = self.index_of(self.kernel.view(l.view).axes[*axis].len);
            let size = self.plan.anchor[k];
            let count = self.ix.div(self.ix.add(len, self.ix.lit(size - 1)), size);
            let name = format!("{}_tiles", self.name_of(l.vars[k], "axis"));
            counts.push(self.declare_let(&name, self.ix.dtype, count));
        }
        counts
    }

    /// Tiles of the whole grid loop, for the host.
    pub fn total_tiles(&self, l: &TileLoop) -> HostExpr {
        l.axes.iter().zip(&self.plan.anchor).fold(HostExpr::Const(1), |product, (axis, size)| {
            let len = self.kernel.view(l.view).axes[*axis].len;
            let len = HostExpr::of_value(self.kernel, len)
                .unwrap_or_else(|| panic!("grid: the host cannot compute the extent of the grid loop in\n{}", self.kernel));
            HostExpr::binary(BinaryOp::Mul, product, HostExpr::ceil_div(len, *size))
        })
    }

    /// Sets the tile index of each axis from the number of the tile, the last axis fastest.
    fn set_tiles(&mut self, l: &TileLoop, number: Expr, counts: &[Expr]) {
        let mut left = number;
        for k in (1..l.vars.len()).rev() {
            let name = self.name_of(l.vars[k], "tile");
            let index = self.declare_let(&name, self.ix.dtype, super::index::binary(BinaryOp::Rem, left.clone(), counts[k].clone()));
            self.set(l.vars[k], Rep::TileIndex(index));
            left = super::index::binary(BinaryOp::Div, left, counts[k].clone());
        }
        let first = match &left {
            Expr::Var(_) => left,
            _ => {
                let name = self.name_of(l.vars[0], "tile");
                self.declare_let(&name, self.ix.dtype, left)
            }
        };
        self.set(l.vars[0], Rep::TileIndex(first));
    }

    /// One tile: guarded as a whole, or a full tile without checks and a tail with them, or checked access by access.
    fn tile_of_block(&mut self, l: &TileLoop) -> Lowered<()> {
        let before = self.values.clone();
        if let Some(layout) = self.guard_layout(l) {
            self.mode = Mode::Full;
            let axes: Vec<super::memory::TileAxis> = l.vars.iter().zip(&self.plan.anchor).map(|(v, n)| (Some(*v), *n)).collect();
            let base = self.base_coordinates(&axes, &layout);
            let terms: Vec<Expr> = self.loop_bounds(l).into_iter().zip(base).map(|(len, c)| compare(CompareOp::Lt, c, len)).collect();
            let condition = all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"));
            self.open();
            self.lower_block(&l.body)?;
            let then = self.close();
            self.emit(Stmt::If { condition, then, otherwise: vec![] });
        } else if self.never_tail(l) {
            self.mode = Mode::Full;
            self.lower_block(&l.body)?;
        } else if self.both_worthwhile(l) {
            let full = self.full_condition(l);
            self.open();
            self.comment("a full tile: no bounds to check");
            self.mode = Mode::Full;
            self.lower_block(&l.body)?;
            let then = self.close();
            self.values = before.clone();
            self.open();
            self.comment("the tail");
            self.mode = Mode::Tail;
            self.lower_block(&l.body)?;
            let otherwise = self.close();
            self.emit(Stmt::If { condition: full, then, otherwise });
        } else {
            self.mode = Mode::Tail;
            self.lower_block(&l.body)?;
        }
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    fn loop_bounds(&mut self, l: &TileLoop) -> Vec<Expr> {
        l.axes.iter().map(|axis| self.index_of(self.kernel.view(l.view).axes[*axis].len)).collect()
    }

    /// Every length is surely a multiple of its tile.
    fn never_tail(&mut self, l: &TileLoop) -> bool {
        let bounds = self.loop_bounds(l);
        bounds.iter().zip(&self.plan.anchor).all(|(len, tile)| self.multiple(len) % tile == 0)
    }

    /// The condition under which the whole tile lies inside.
    fn full_condition(&mut self, l: &TileLoop) -> Expr {
        let bounds = self.loop_bounds(l);
        let mut terms = Vec::new();
        for (k, len) in bounds.into_iter().enumerate() {
            let Rep::TileIndex(tile) = self.rep(l.vars[k]).clone() else { panic!("grid: no tile index") };
            let end = self.ix.add(self.ix.mul(tile, self.ix.lit(self.plan.anchor[k])), self.ix.lit(self.plan.anchor[k]));
            terms.push(compare(CompareOp::Le, end, len));
        }
        all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"))
    }

    /// The body once more for the tail is worth its text where the body is small and something is gained: vectors or fewer checks.
    fn both_worthwhile(&self, l: &TileLoop) -> bool {
        let mut statements = 0;
        tile::access::visit(&l.body, &mut |_| statements += 1);
        statements <= 60
    }

    /// Where each thread owns one run and every access is at the grid's own tile, one `if` around the body does: the layout of
    /// that tile. Threads that meet at barriers cannot be guarded so.
    fn guard_layout(&mut self, l: &TileLoop) -> Option<Layout> {
        let layout = self.anchor_layout();
        let last = layout.axes.len().checked_sub(1)?;
        let bounds = self.loop_bounds(l);
        let run = layout.run(last);
        if layout.registers != run || self.multiple(&bounds[last]) % run != 0 || layout.distinct_threads() != layout.threads {
            return None;
        }
        let mut simple = true;
        let mut straight = |cx: &mut Self, view: ViewId, index: &[Index]| {
            let tiles: Vec<ValueId> = index.iter().filter_map(|i| if let Index::Tile(v) = i { Some(*v) } else { None }).collect();
            let grid_only = tiles == l.vars;
            let bounded = cx.mask_at(view, index).bounds.iter().all(|b| cx.lengths[&b.index] == b.len);
            simple &= grid_only && bounded && cx.same_threads(view, index, &layout);
        };
        let mut pending: Vec<&tile::Stmt> = l.body.iter().collect();
        while let Some(stmt) = pending.pop() {
            match stmt {
                tile::Stmt::Let(v, Op::Load(view, index)) if matches!(self.kernel.ty(*v), tile::Ty::Tile(..)) => {
                    straight(self, *view, index)
                }
                tile::Stmt::Let(_, Op::Transpose(..) | Op::Reduce(..) | Op::Broadcast(..)) => return None,
                tile::Stmt::Let(..) | tile::Stmt::Scatter { .. } | tile::Stmt::Atomic { .. } => {}
                tile::Stmt::Store { view, index, .. } => straight(self, *view, index),
                tile::Stmt::Tiles(_) => return None,
                tile::Stmt::Range { body, .. } | tile::Stmt::Where { body, .. } => pending.extend(body),
                tile::Stmt::While { header, body, .. } => pending.extend(header.iter().chain(body)),
                tile::Stmt::If { then, otherwise, .. } => pending.extend(then.iter().chain(otherwise)),
            }
        }
        simple.then_some(layout)
    }

    /// Whether the tile at this place is dealt to threads as the grid's own tile is (whole axes aside).
    fn same_threads(&mut self, view: ViewId, index: &[Index], own: &Layout) -> bool {
        let mut layout = self.preferred_layout(view, index);
        for (k, axis) in self.tile_axes(index).into_iter().enumerate().rev() {
            if axis.0.is_none() {
                layout = layout.without(k);
            }
        }
        let threads = |l: &Layout| -> Vec<Vec<crate::layout::Digit>> {
            l.axes.iter().map(|a| a.iter().copied().filter(|d| d.source == crate::layout::Source::Thread).collect()).collect()
        };
        threads(&layout) == threads(own)
    }

    /// Loads that depend on nothing but the grid's tile: they can start some turns early.
    fn early_loads<'k>(&mut self, l: &'k TileLoop) -> Lowered<Vec<Early<'k>>> {
        let mut early = Vec::new();
        for stmt in &l.body {
            let tile::Stmt::Let(value, Op::Load(view, index)) = stmt else { continue };
            let v = self.kernel.view(*view);
            let known = |x: ValueId| HostExpr::of_value(self.kernel, x).is_some();
            let fixed = v.axes.iter().all(|a| known(a.len) && known(a.stride)) && known(v.offset);
            let own = index.iter().all(|i| match i {
                Index::Tile(t) => l.vars.contains(t),
                Index::At(s) => known(*s),
                Index::All(_) => true,
            });
            if fixed && own && matches!(self.kernel.ty(*value), tile::Ty::Tile(..)) {
                let layout = self.preferred_layout(*view, index);
                early.push(Early { value: *value, view: *view, index, layout });
            }
        }
        Ok(early)
    }

    /// Declares where early tiles wait, and starts the loads of the first `stages - 1` turns.
    fn pipeline_prologue(&mut self, l: &TileLoop, counts: &[Expr], early: &[Early], block: &Expr, stride: &Expr) -> Lowered<Vec<Waiting>> {
        if early.is_empty() {
            return Ok(vec![]);
        }
        let depth = self.plan.stages - 1;
        self.comment(format!("prologue: start the loads of the first {} of {} stages", depth, self.plan.stages));
        let mut waiting = Vec::new();
        for e in early {
            let dtype = self.kernel.view(e.view).dtype;
            let name = self.name_of(e.value, &self.kernel.params[self.kernel.view(e.view).param].name.clone());
            self.set_probe_tiles(l);
            let mask = self.mask_at(e.view, e.index);
            let cut = self.cut(e.view, e.index, &e.layout, &mask);
            self.coordinates.clear();
            let bytes = cut.width * dtype.size() as i64;
            waiting.push(if self.plan.fill == Fill::Async && !cut.reversed && bytes >= 4 {
                let elements = e.layout.registers * self.plan.threads;
                let shared = self.new_shared(&format!("{name}_ring"), dtype, elements * self.plan.stages);
                let array = self.new_var(&name, dtype, Some(e.layout.registers as u32));
                Waiting::Ring { shared, array, width: cut.width }
            } else {
                let vars: Vec<VarId> = (0..self.plan.stages)
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

    /// Tile indices for questions about divisibility only.
    fn set_probe_tiles(&mut self, l: &TileLoop) {
        for v in &l.vars {
            let probe = self.new_var("probe", self.ix.dtype, None);
            self.set(*v, Rep::TileIndex(Expr::Var(probe)));
        }
        self.open();
        self.close();
    }

    /// Starts the loads of tile `number` into the slot of their stage.
    fn start_loads(
        &mut self,
        l: &TileLoop,
        counts: &[Expr],
        early: &[Early],
        waiting: &[Waiting],
        number: Expr,
        slot: usize,
        stage: &Expr,
    ) -> Lowered<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        self.open();
        self.set_tiles(l, number, counts);
        self.mode = Mode::Tail;
        for (e, w) in early.iter().zip(waiting) {
            let mask = self.mask_at(e.view, e.index);
            let cut = self.cut(e.view, e.index, &e.layout, &mask);
            match w {
                Waiting::Registers(vars) => {
                    let from = self.load_array("ahead", e.view, e.index, &e.layout, &mask)?;
                    self.copy_array(from, vars[slot], e.layout.registers);
                }
                Waiting::Ring { shared, .. } => {
                    let (shared, dtype) = (*shared, self.kernel.view(e.view).dtype);
                    let bytes = (cut.width * dtype.size() as i64) as u32;
                    let layout = e.layout.clone();
                    let stage = stage.clone();
                    self.accesses(e.view, e.index, &e.layout, &mask, cut, &mut |cx, at, address, predicate| {
                        let global = cx.place(e.view, address);
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
        self.emit(Stmt::If { condition: Expr::Literal(crate::types::Literal::bool(true)), then: inner, otherwise: vec![] });
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
    fn ring_place(&self, shared: SharedId, dtype: DType, layout: &Layout, flat: &Expr, width: i64, stage: &Expr) -> crate::simt::Place {
        let ix = super::index::Index { dtype: DType::I32 };
        let thread = match &self.thread {
            Expr::Cast(_, inner) => (**inner).clone(),
            other => other.clone(),
        };
        let runs = ix.mul(flat.clone(), ix.lit(layout.threads));
        let own = ix.add(runs, ix.mul(thread, ix.lit(width)));
        let base = ix.mul(stage.clone(), ix.lit(layout.registers * layout.threads));
        crate::simt::Place { space: crate::simt::Space::Shared(shared), dtype, index: ix.add(base, own) }
    }

    /// One turn of the pipelined loop: start the load of a later tile, work on the oldest.
    fn pipelined_turn(
        &mut self,
        l: &TileLoop,
        counts: &[Expr],
        early: &[Early],
        waiting: &[Waiting],
        counter: VarId,
        block: &Expr,
        stride: &Expr,
    ) -> Lowered<()> {
        let stages = self.plan.stages;
        let ix32 = super::index::Index { dtype: DType::I32 };
        let rings = waiting.iter().any(|w| matches!(w, Waiting::Ring { .. }));
        let turn = super::index::binary(BinaryOp::Div, self.ix.sub(Expr::Var(counter), block.clone()), stride.clone());
        let stage = if rings {
            let wide = self.ix.rem(turn, stages);
            self.declare_let("stage", DType::I32, ix32.cast(self.ix.dtype, wide))
        } else {
            ix32.lit(0)
        };
        let later = self.ix.add(Expr::Var(counter), self.ix.mul(stride.clone(), self.ix.lit(stages - 1)));
        let free = if rings { ix32.rem(ix32.add(stage.clone(), ix32.lit(stages - 1)), stages) } else { ix32.lit(0) };
        self.comment(format!("start the load of the tile {} turns ahead", stages - 1));
        self.start_loads(l, counts, early, waiting, later, stages as usize - 1, &free)?;
        if rings {
            self.emit(Stmt::AsyncWait { pending: stages as u32 - 1 });
        }
        for (e, w) in early.iter().zip(waiting) {
            let mask = self.mask_at(e.view, e.index);
            let var = match w {
                Waiting::Registers(vars) => vars[0],
                Waiting::Ring { shared, array, width } => {
                    self.emit(Stmt::Declare { var: *array, init: None });
                    self.read_ring(*shared, *array, *width, &e.layout, &stage);
                    *array
                }
            };
            self.set(e.value, Rep::Tile(TileRep { layout: Some(e.layout.clone()), mask, data: Data::Array(var) }));
        }
        self.mode = Mode::Tail;
        let done: Vec<ValueId> = early.iter().map(|e| e.value).collect();
        for stmt in &l.body {
            if !matches!(stmt, tile::Stmt::Let(v, _) if done.contains(v)) {
                self.lower_block(&vec![stmt.clone()])?;
            }
        }
        for (e, w) in early.iter().zip(waiting) {
            if let Waiting::Registers(vars) = w {
                for pair in vars.windows(2) {
                    self.copy_array(pair[1], pair[0], e.layout.registers);
                }
            }
        }
        Ok(())
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

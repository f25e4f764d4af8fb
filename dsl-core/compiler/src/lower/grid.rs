//! The grid loop: which block works on which tiles, where bounds are checked, and the pipeline over the tiles dealt to a block.

use super::context::{Lowered, Lowering, Mode, Rep};
use super::control::Carried;
use super::grid_prefetch::Waiting;
use super::index::{all, compare, literal};
use super::persistent_pipeline::Dealt;
use crate::plan::{Pipeline, Range};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, SharedId, Special, Stmt};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::presence::Presence;
use girih_ir::tile::{self, Index, Op, TileLoop, ValueId, ViewId};
use girih_ir::types::{BinaryOp, CompareOp, DType, MemoryOrder};

impl Lowering<'_> {
    /// Lowers the grid loop.
    pub fn grid(&mut self, l: &TileLoop) -> Lowered<()> {
        let plan = self.loop_plan(l);
        match crate::plan::split::shared_loop(l).map(|(_, inner)| self.loop_plan(inner).range) {
            Some(Range::Shared(split)) => return self.split_k_grid(l, split),
            Some(Range::SlicedK(_)) => return self.sliced_k_grid(l),
            Some(Range::All | Range::Once | Range::OnePerBlock | Range::Persistent(_)) | None => {}
        }
        let carried = self.start_carries(&l.carries)?;
        let counts = self.tile_counts(l);
        if plan.range == Range::OnePerBlock {
            let block = self.block_index();
            self.set_tiles(l, block, &counts);
            self.begin_by_hand(l, false);
            self.tile_of_block(l, &carried)?;
            self.finish_carries(&l.carries, &carried);
            return Ok(());
        }
        let total = self.total_tiles(l);
        let tiles = self.host_param(&total, "tiles");
        let block = self.block_index();
        let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let stride = self.ix.cast(DType::I32, stride);
        let (block, tiles, stride) =
            if crate::plan::finish::keeps_order(self.kernel) { self.in_order(block, tiles, stride) } else { (block, tiles, stride) };
        self.dealt("tiles");
        if let Pipeline::Persistent { sum } = plan.pipeline {
            return self.persistent_pipeline(&Dealt { grid: l, counts, tiles, block, stride }, sum);
        }
        let counter = self.new_var("tile", self.ix.dtype, None);
        let early = self.early_loads(&plan.pipeline);
        let before = self.values.clone();
        self.repeated = true;
        let waiting = match &early {
            Some(early) => self.pipeline_prologue(l, &counts, early, &block, &stride)?,
            None => vec![],
        };
        let stage_var = waiting.iter().any(|w| matches!(w, Waiting::Ring { .. })).then(|| self.new_var("stage", DType::I32, None));
        if let Some(var) = stage_var {
            self.emit(Stmt::Declare { var, init: Some(literal(DType::I32, 0)) });
        }
        self.open();
        self.set_tiles(l, Expr::Var(counter), &counts);
        self.begin_by_hand(l, true);
        match &early {
            None => self.tile_of_block(l, &carried)?,
            Some(early) => {
                self.pipelined_turn(l, &counts, early, &waiting, counter, stage_var, &stride)?;
                self.end_carries(&l.carries, &carried)?;
                self.end_turn(early, &waiting, stage_var);
            }
        }
        let body = self.close();
        self.values = before;
        self.repeated = false;
        self.emit(Stmt::For { var: counter, start: block, end: tiles, step: stride, unroll: false, body });
        self.finish_carries(&l.carries, &carried);
        Ok(())
    }

    /// What a block has of the tiles where what blocks have is combined in an order: neighbours, from a first one to the one behind the last,
    /// one by one.
    fn in_order(&mut self, block: Expr, tiles: Expr, blocks: Expr) -> (Expr, Expr, Expr) {
        use super::index::binary;
        let (ix, dtype) = (self.ix, self.ix.dtype);
        self.comment("neighbouring tiles for each block: what blocks have is combined in their order");
        let most = binary(BinaryOp::Div, ix.sub(ix.add(tiles.clone(), blocks.clone()), ix.lit(1)), blocks);
        let most = self.declare_let("share", dtype, most);
        let first = self.declare_let("first_tile", dtype, binary(BinaryOp::Min, ix.mul(block, most.clone()), tiles.clone()));
        let end = self.declare_let("end_tile", dtype, binary(BinaryOp::Min, ix.add(first.clone(), most), tiles));
        (first, end, ix.lit(1))
    }

    /// Says to how many blocks tiles, or parts of them, are dealt.
    pub fn dealt(&mut self, what: &str) {
        let blocks = if self.plan.grid == 1 { "1 block".to_string() } else { format!("{} blocks", self.plan.grid) };
        self.comment(format!("the {what} are dealt to {blocks} per multiprocessor"));
    }

    /// A turn of the grid loop begins when all threads are done with what came before it: the last turn, or the statements before the loop.
    pub fn begin_by_hand(&mut self, l: &TileLoop, repeats: bool) {
        use super::barriers::kept_by_hand;
        let before = self.kernel.body.iter().position(|s| matches!(s, tile::Stmt::Tiles(_))).unwrap_or(0);
        if kept_by_hand(self.kernel, &l.body) && (repeats || kept_by_hand(self.kernel, &self.kernel.body[..before])) {
            self.comment("shared arrays that are kept by hand: a tile begins when all is done before it");
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
    }

    pub fn block_index(&mut self) -> Expr {
        let block = self.declare_let("block", DType::I32, Expr::Special(Special::Block));
        let block = self.ix.cast(DType::I32, block);
        self.block = Some(block.clone());
        block
    }

    /// Tiles along each axis but the first, as index expressions.
    pub fn tile_counts(&mut self, l: &TileLoop) -> Vec<Expr> {
        let mut counts = vec![self.ix.lit(1)];
        for (k, axis) in l.axes.iter().enumerate().skip(1) {
            let len = self.index_of(self.kernel.view(l.view).axes[*axis].len);
            let size = self.plan.grid_tile[k];
            let mut count = self.ix.div(self.ix.add(len, self.ix.lit(size - 1)), size);
            if self.plan.grid == 0 && crate::plan::finish::combines_grid(self.kernel) {
                // There is a block even where there are no tiles: it must not divide by their number.
                count = super::index::binary(BinaryOp::Max, count, self.ix.lit(1));
            }
            let name = format!("{}_tiles", self.name_of(l.vars[k], "axis"));
            counts.push(self.declare_let(&name, self.ix.dtype, count));
        }
        counts
    }

    /// Tiles of the whole grid loop, for the host.
    pub fn total_tiles(&self, l: &TileLoop) -> HostExpr {
        l.axes.iter().zip(&self.plan.grid_tile).fold(HostExpr::Const(1), |product, (axis, size)| {
            let len = self.kernel.view(l.view).axes[*axis].len;
            let len = HostExpr::of_value(self.kernel, len)
                .unwrap_or_else(|| panic!("grid: the host cannot compute the extent of the grid loop in\n{}", self.kernel));
            HostExpr::binary(BinaryOp::Mul, product, HostExpr::ceil_div(len, *size))
        })
    }

    /// Sets the tile index of each axis from the number of the tile.
    pub fn set_tiles(&mut self, l: &TileLoop, number: Expr, counts: &[Expr]) {
        let raster = self.in_raster(l);
        let mut all: Vec<(ValueId, Expr)> = l.vars.iter().copied().zip(self.tiles_at(l, number, counts)).collect();
        if !raster {
            all.reverse();
        }
        for (var, index) in all {
            let index = match &index {
                Expr::Var(_) => index,
                _ => self.declare_let(&self.name_of(var, "tile"), self.ix.dtype, index),
            };
            self.set(var, Rep::TileIndex(index));
        }
    }

    /// Whether blocks walk several rows of tiles together.
    fn in_raster(&self, l: &TileLoop) -> bool {
        self.plan.raster > 1 && l.vars.len() == 2 && !crate::plan::finish::keeps_order(self.kernel)
    }

    /// Along each axis the index of the tile of this number, the last axis fastest.
    pub fn tiles_at(&mut self, l: &TileLoop, number: Expr, counts: &[Expr]) -> Vec<Expr> {
        use super::index::binary;
        if self.in_raster(l) {
            return self.raster_tiles_at(l, number, &counts[1]).into();
        }
        let (mut left, mut all) = (number, Vec::new());
        for count in counts.iter().skip(1).rev() {
            all.push(binary(BinaryOp::Rem, left.clone(), count.clone()));
            left = binary(BinaryOp::Div, left, count.clone());
        }
        all.push(left);
        all.reverse();
        all
    }

    /// The tile indices where blocks walk `raster` rows of tiles together: down each column of the group, then on to the next column.
    /// Neighbouring blocks then share pages of memory (and operands) along both axes.
    fn raster_tiles_at(&mut self, l: &TileLoop, number: Expr, columns: &Expr) -> [Expr; 2] {
        use super::index::binary;
        let (ix, dtype, group) = (self.ix, self.ix.dtype, self.plan.raster);
        let len = self.index_of(self.kernel.view(l.view).axes[l.axes[0]].len);
        let size = self.plan.grid_tile[0];
        let rows = ix.div(ix.add(len, ix.lit(size - 1)), size);
        self.comment(format!("raster order: {group} rows of tiles together, column by column"));
        let in_group = self.declare_let("group_tiles", dtype, ix.mul(columns.clone(), ix.lit(group)));
        let first = self.declare_let("group_row", dtype, ix.mul(binary(BinaryOp::Div, number.clone(), in_group.clone()), ix.lit(group)));
        let left = ix.sub(rows, first.clone());
        let height = self.declare_let("group_rows", dtype, binary(BinaryOp::Min, left, ix.lit(group)));
        let within = self.declare_let("in_group", dtype, binary(BinaryOp::Rem, number, in_group));
        [ix.add(first, binary(BinaryOp::Rem, within.clone(), height.clone())), binary(BinaryOp::Div, within, height)]
    }

    /// One tile: guarded as a whole, or a full tile without checks and a tail with them, or checked access by access.
    fn tile_of_block(&mut self, l: &TileLoop, carried: &[Carried]) -> Lowered<()> {
        let before = self.values.clone();
        let tails = !self.never_tail(l);
        if let Some(layout) = if tails { self.guard_layout(l) } else { None } {
            self.mode = Mode::Full;
            let axes: Vec<super::memory::TileAxis> = l.vars.iter().zip(&self.plan.grid_tile).map(|(v, n)| (Some(*v), *n)).collect();
            let base = self.base_coordinates(&axes, &layout);
            let terms: Vec<Expr> = self.loop_bounds(l).into_iter().zip(base).map(|(len, c)| compare(CompareOp::Lt, c, len)).collect();
            let condition = all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"));
            self.open();
            self.keeps_to_own = true;
            self.lower_block(&l.body)?;
            self.keeps_to_own = false;
            let then = self.close();
            self.emit(Stmt::If { condition, then, otherwise: vec![] });
        } else if l.carries.is_empty() && !tails {
            self.mode = Mode::Full;
            self.turn(l, carried)?;
        } else if self.both_worthwhile(l) {
            let full = self.full_condition(l);
            self.open();
            self.comment("a full tile: no bounds to check");
            self.mode = Mode::Full;
            let first = self.shared.len() as u32;
            self.turn(l, carried)?;
            let mut then = self.close();
            self.values = before.clone();
            self.open();
            self.comment("the tail");
            self.mode = Mode::Tail;
            self.vacant.clear();
            self.reusable = (first..self.shared.len() as u32).map(SharedId).collect();
            self.turn(l, carried)?;
            self.reusable.clear();
            let mut otherwise = self.close();
            if !combines(l) && super::tail::tail_suffices(&mut then, &mut otherwise) {
                otherwise[0] = Stmt::Comment("full tiles and the tail alike: loads and stores check their bounds".into());
                let always = Expr::Literal(girih_ir::types::Literal::bool(true));
                self.emit(Stmt::If { condition: always, then: otherwise, otherwise: vec![] });
            } else {
                self.emit(Stmt::If { condition: full, then, otherwise });
            }
        } else {
            self.mode = Mode::Tail;
            self.turn(l, carried)?;
        }
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    /// The body once, and what it carries on.
    fn turn(&mut self, l: &TileLoop, carried: &[Carried]) -> Lowered<()> {
        self.lower_block(&l.body)?;
        self.end_carries(&l.carries, carried)
    }

    fn loop_bounds(&mut self, l: &TileLoop) -> Vec<Expr> {
        l.axes.iter().map(|axis| self.index_of(self.kernel.view(l.view).axes[*axis].len)).collect()
    }

    /// Every length is surely a multiple of its tile.
    pub fn never_tail(&mut self, l: &TileLoop) -> bool {
        let bounds = self.loop_bounds(l);
        bounds.iter().zip(&self.plan.grid_tile).all(|(len, tile)| self.multiple(len) % tile == 0)
    }

    /// The condition under which the whole tile lies inside.
    fn full_condition(&mut self, l: &TileLoop) -> Expr {
        let bounds = self.loop_bounds(l);
        let mut terms = Vec::new();
        for (k, len) in bounds.into_iter().enumerate() {
            let Rep::TileIndex(tile) = self.rep(l.vars[k]).clone() else { panic!("grid: no tile index") };
            let end = self.ix.add(self.ix.mul(tile, self.ix.lit(self.plan.grid_tile[k])), self.ix.lit(self.plan.grid_tile[k]));
            terms.push(compare(CompareOp::Le, end, len));
        }
        all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"))
    }

    /// The body once more for the tail is worth its text where the body is small and something is gained: vectors or fewer checks.
    fn both_worthwhile(&self, l: &TileLoop) -> bool {
        let mut statements = 0;
        tile::access::visit(&l.body, &mut |_| statements += 1);
        // The copy of a window, or of a dot's operand, checks its bounds in any case.
        statements <= 60 && !self.plan.shared_windows && !self.plan.dots
    }

    /// Where each thread owns one run and every access is at the grid's own tile, one `if` around the body does: the layout of
    /// that tile. Threads that meet at barriers cannot be guarded so.
    fn guard_layout(&mut self, l: &TileLoop) -> Option<Layout> {
        if self.plan.anchor_sizes != crate::plan::anchor::grid_sizes(self.kernel) || !l.carries.is_empty() {
            return None;
        }
        let layout = self.layouts().anchor();
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
            simple &= grid_only && bounded && cx.same_threads(view, index, &layout) && !cx.stages_rows(view, index);
        };
        let mut pending: Vec<&tile::Stmt> = l.body.iter().collect();
        while let Some(stmt) = pending.pop() {
            match stmt {
                tile::Stmt::Let(v, Op::Load(view, index)) if matches!(self.kernel.ty(*v), tile::Ty::Tile(..)) => {
                    straight(self, *view, index)
                }
                tile::Stmt::Let(_, Op::Window { .. }) if self.plan.shared_windows => return None,
                tile::Stmt::Let(_, Op::Transpose(..) | Op::Broadcast(..) | Op::Shuffle { .. } | Op::Vote(..)) => return None,
                tile::Stmt::Combine(_) | tile::Stmt::Shared(_) | tile::Stmt::Barrier { .. } | tile::Stmt::Copies { .. } => return None,
                // Threads that hold the same element, or the same scalar, meet at barriers to exchange an old value.
                tile::Stmt::Atomic { update, order, .. } if update.result.is_some() || *order != MemoryOrder::Relaxed => return None,
                tile::Stmt::Let(..) | tile::Stmt::Scatter { .. } | tile::Stmt::Atomic { .. } => {}
                tile::Stmt::Store { view, .. } if self.layouts().stored(&layout, self.kernel.view(*view).dtype.size() as i64) != layout => {
                    return None;
                }
                tile::Stmt::Store { view, index, .. } => straight(self, *view, index),
                tile::Stmt::Tiles(_) => return None,
                tile::Stmt::Range { body, .. } | tile::Stmt::Where { body, .. } => pending.extend(body),
                tile::Stmt::While { header, body, .. } => pending.extend(header.iter().chain(body)),
                tile::Stmt::If { then, otherwise, .. } => pending.extend(then.iter().chain(otherwise)),
            }
        }
        // What belongs to the block is there for threads beyond the end, too.
        (simple && Presence::of(self.kernel).accesses_end(&l.body, &[])).then_some(layout)
    }

    /// Whether the tile at this place is dealt to threads as the grid's own tile is (whole axes aside).
    fn same_threads(&mut self, view: ViewId, index: &[Index], own: &Layout) -> bool {
        let mut layout = self.preferred_layout(view, index);
        for (k, axis) in self.tile_axes(index).into_iter().enumerate().rev() {
            if axis.0.is_none() {
                layout = layout.without(k);
            }
        }
        let threads = |l: &Layout| -> Vec<Vec<girih_ir::layout::Digit>> {
            l.axes.iter().map(|a| a.iter().copied().filter(|d| d.source == girih_ir::layout::Source::Thread).collect()).collect()
        };
        threads(&layout) == threads(own)
    }
}

/// Combinations pad absent elements, one by one: a full tile is better off without.
fn combines(l: &TileLoop) -> bool {
    let mut found = false;
    tile::access::visit(&l.body, &mut |s| found |= matches!(s, tile::Stmt::Combine(_)));
    found
}

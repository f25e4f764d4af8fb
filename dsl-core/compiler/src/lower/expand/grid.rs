//! The grid loop: which block works on which tiles, where bounds are checked, and the pipeline over the tiles dealt to a block.

use super::context::{Expanded, Expander, Mode, Rep};
use super::control::Carried;
use super::grid_prefetch::Waiting;
use super::index::{all, compare, literal};
use super::persistent_pipeline::Dealt;
use crate::block::{Grid, Loop, Raster, Tail, ValueId};
use crate::block::{Pipeline, Range};
use girih_ir::layout::Layout;
use girih_ir::schedule::words::TileOrder;
use girih_ir::simt::{Expr, SharedId, Special, Stmt};
use girih_ir::types::{BinaryOp, CompareOp, DType};

impl Expander<'_> {
    /// Lowers the grid loop.
    pub fn grid_loop(&mut self, l: &Loop) -> Expanded<()> {
        let plan = &l.plan;
        match self.shared_loop(l).map(|(_, inner)| inner.plan.range) {
            Some(Range::Shared(split)) => return self.split_k_grid(l, split),
            Some(Range::SlicedK(_)) => return self.sliced_k_grid(l),
            Some(Range::All | Range::Once | Range::OnePerBlock | Range::Persistent(_) | Range::Cluster(_)) | None => {}
        }
        if let Pipeline::Roles { sum, places } = &plan.pipeline {
            return self.grid_with_roles(l, *sum, places);
        }
        let carried = self.start_carries(&l.carries)?;
        let counts = self.tile_counts(l);
        if plan.range == Range::OnePerBlock {
            let block = match grid_of(l).tickets {
                Some(tickets) => self.tile_by_ticket(tickets),
                None => self.block_index(),
            };
            let number = self.tile_of_cluster(block);
            self.set_tiles(l, number, &counts);
            self.begin_by_hand(l, false);
            self.tile_of_block(l, &carried)?;
            self.end_cluster(l);
            self.finish_carries(&l.carries, &carried)?;
            return Ok(());
        }
        let tiles = self.host_param(&grid_of(l).total, "tiles");
        let block = self.block_index();
        let stride = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let stride = self.ix.cast(DType::I32, stride);
        let (block, tiles, stride) = if grid_of(l).in_order { self.in_order(block, tiles, stride) } else { (block, tiles, stride) };
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
        self.finish_carries(&l.carries, &carried)?;
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
        let blocks = if self.kernel.launch.dealt == 1 { "1 block".to_string() } else { format!("{} blocks", self.kernel.launch.dealt) };
        self.comment(format!("the {what} are dealt to {blocks} per multiprocessor"));
    }

    /// A turn of the grid loop begins when all threads are done with what came before it: the last turn, or the statements before the loop.
    pub fn begin_by_hand(&mut self, l: &Loop, repeats: bool) {
        if grid_of(l).begins_by_hand[usize::from(repeats)] {
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
    pub fn tile_counts(&mut self, l: &Loop) -> Vec<Expr> {
        let mut counts = vec![self.ix.lit(1)];
        for k in 1..l.axes.len() {
            let count = self.tiles_along(l, k);
            let name = format!("{}_tiles", self.name_of(l.vars[k], "axis"));
            counts.push(self.declare_let(&name, self.ix.dtype, count));
        }
        counts
    }

    fn tiles_along(&mut self, l: &Loop, k: usize) -> Expr {
        let len = self.index_of(self.kernel.view(l.view).axes[l.axes[k]].len);
        let size = l.sizes[k] * grid_of(l).neighbours.filter(|n| n.axis == k).map_or(1, |n| n.blocks);
        let count = self.ix.div(self.ix.add(len, self.ix.lit(size - 1)), size);
        // There is a block even where there are no tiles: it must not divide by their number.
        let may_be_none = self.kernel.launch.dealt == 0 && grid_of(l).runs_anyway;
        if may_be_none { super::index::binary(BinaryOp::Max, count, self.ix.lit(1)) } else { count }
    }

    /// Where in the body of a grid loop the loop stands whose iterations are shared, and that loop.
    pub fn shared_loop<'l>(&self, l: &'l Loop) -> Option<(usize, &'l Loop)> {
        let at = l.place_of(grid_of(l).shared?)?;
        Some((at, l.body[at].as_loop()?))
    }

    /// Sets the tile index of each axis from the number of the tile.
    pub fn set_tiles(&mut self, l: &Loop, number: Expr, counts: &[Expr]) {
        let raster = grid_of(l).raster.is_some();
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

    /// Along each axis the index of the tile of this number, the last axis fastest.
    pub fn tiles_at(&mut self, l: &Loop, number: Expr, counts: &[Expr]) -> Vec<Expr> {
        let number = match grid_of(l).order {
            TileOrder::Rising => number,
            TileOrder::Falling => self.number_from_behind(l, number),
        };
        let (neighbours, ix) = (grid_of(l).neighbours, self.ix);
        let of_cluster = neighbours.map_or(number.clone(), |n| ix.div(number.clone(), n.blocks));
        let mut all = match grid_of(l).raster {
            Some(raster) => self.raster_tiles_at(l, raster, of_cluster, counts),
            None => digits(of_cluster, &counts[1..]),
        };
        if let Some(n) = neighbours {
            all[n.axis] = ix.add(ix.mul(all[n.axis].clone(), ix.lit(n.blocks)), ix.rem(number, n.blocks));
        }
        all
    }

    /// The number of the tile that comes in this place where blocks take them from the last on.
    fn number_from_behind(&mut self, l: &Loop, place: Expr) -> Expr {
        let tiles = self.host_param(&grid_of(l).total, "tiles");
        self.comment("from the last tile on");
        let number = self.ix.sub(self.ix.sub(tiles, self.ix.lit(1)), place);
        self.declare_let("number", self.ix.dtype, number)
    }

    /// The tile indices where blocks walk several rows of tiles together: down each column of the group, then on to the next column.
    /// Neighbouring blocks then share pages of memory (and operands) along both axes.
    fn raster_tiles_at(&mut self, l: &Loop, raster: Raster, number: Expr, counts: &[Expr]) -> Vec<Expr> {
        use super::index::binary;
        let (ix, dtype, Raster { rows: group, column }) = (self.ix, self.ix.dtype, raster);
        let tiles: Vec<Expr> = (0..counts.len()).map(|k| if k == 0 { self.tiles_along(l, 0) } else { counts[k].clone() }).collect();
        let row_tiles: Vec<Expr> = (0..tiles.len()).filter(|k| *k != column).map(|k| tiles[k].clone()).collect();
        let rows = row_tiles.iter().cloned().reduce(|a, b| ix.mul(a, b)).unwrap_or_else(|| panic!("grid: a raster over one axis"));
        let way = if column + 1 == tiles.len() {
            "column by column".into()
        } else {
            format!("along {}", self.name_of(l.vars[column], "one axis"))
        };
        self.comment(format!("raster order: {group} rows of tiles together, {way}"));
        let in_group = self.declare_let("group_tiles", dtype, ix.mul(tiles[column].clone(), ix.lit(group)));
        let first = self.declare_let("group_row", dtype, ix.mul(binary(BinaryOp::Div, number.clone(), in_group.clone()), ix.lit(group)));
        let left = ix.sub(rows, first.clone());
        let height = self.declare_let("group_rows", dtype, binary(BinaryOp::Min, left, ix.lit(group)));
        let within = self.declare_let("in_group", dtype, binary(BinaryOp::Rem, number, in_group));
        let mut row = ix.add(first, binary(BinaryOp::Rem, within.clone(), height.clone()));
        if row_tiles.len() > 1 {
            row = self.declare_let("row", dtype, row);
        }
        let mut all = digits(row, &row_tiles[1..]);
        all.insert(column, binary(BinaryOp::Div, within, height));
        all
    }

    /// One tile: guarded as a whole, or a full tile without checks and a tail with them, or checked access by access.
    fn tile_of_block(&mut self, l: &Loop, carried: &[Carried]) -> Expanded<()> {
        let before = self.values.clone();
        match &grid_of(l).tail {
            Tail::OneIf(layout) => self.guarded_tile(l, layout)?,
            Tail::None => {
                self.mode = Mode::Full;
                self.turn(l, carried)?;
            }
            Tail::TwoTexts => self.tile_in_two_texts(l, carried)?,
            Tail::OneText => self.tile_in_one_text(l, carried)?,
            Tail::Predicates => {
                self.mode = Mode::Tail;
                self.turn(l, carried)?;
            }
            Tail::Open => panic!("grid: nobody has decided the tail of\n{}", self.kernel),
        }
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    /// One condition around the body, for each thread.
    fn guarded_tile(&mut self, l: &Loop, layout: &Layout) -> Expanded<()> {
        self.mode = Mode::Full;
        let axes: Vec<super::memory::TileAxis> = l.vars.iter().zip(&l.sizes).map(|(v, n)| (Some(*v), *n)).collect();
        let base = self.base_coordinates(&axes, layout);
        let terms: Vec<Expr> = self.loop_bounds(l).into_iter().zip(base).map(|(len, c)| compare(CompareOp::Lt, c, len)).collect();
        let condition = all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"));
        self.open();
        self.keeps_to_own = true;
        self.lower_block(&l.body)?;
        self.keeps_to_own = false;
        let then = self.close();
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        Ok(())
    }

    /// The body twice: for a full tile, and with checks.
    fn tile_in_two_texts(&mut self, l: &Loop, carried: &[Carried]) -> Expanded<()> {
        let before = self.values.clone();
        let full = self.full_condition(l);
        self.open();
        self.comment("a full tile: no bounds to check");
        self.mode = Mode::Full;
        let first = self.shared.len() as u32;
        self.turn(l, carried)?;
        let then = self.close();
        self.values = before;
        self.open();
        self.comment("the tail");
        self.mode = Mode::Tail;
        self.vacant.clear();
        self.reusable = (first..self.shared.len() as u32).map(SharedId).collect();
        self.turn(l, carried)?;
        self.reusable.clear();
        let otherwise = self.close();
        self.emit(Stmt::If { condition: full, then, otherwise });
        Ok(())
    }

    /// The body once, with checks, for full tiles and the tail.
    fn tile_in_one_text(&mut self, l: &Loop, carried: &[Carried]) -> Expanded<()> {
        self.loop_bounds(l);
        self.open();
        self.comment("full tiles and the tail alike: loads and stores check their bounds");
        self.mode = Mode::Tail;
        self.vacant.clear();
        self.turn(l, carried)?;
        let then = self.close();
        let condition = Expr::Literal(girih_ir::types::Literal::bool(true));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        Ok(())
    }

    /// The body once, and what it carries on.
    fn turn(&mut self, l: &Loop, carried: &[Carried]) -> Expanded<()> {
        self.lower_block(&l.body)?;
        self.end_carries(&l.carries, carried)
    }

    fn loop_bounds(&mut self, l: &Loop) -> Vec<Expr> {
        l.axes.iter().map(|axis| self.index_of(self.kernel.view(l.view).axes[*axis].len)).collect()
    }

    /// The condition under which the whole tile lies inside. A tile of one element along an axis does, as its number is a position there;
    /// but the tile of a block that runs where there are no tiles.
    fn full_condition(&mut self, l: &Loop) -> Expr {
        let bounds = self.loop_bounds(l);
        let mut terms = Vec::new();
        let all_ones = l.sizes.iter().all(|n| *n == 1);
        let may_lie_outside = l.plan.range == Range::OnePerBlock && grid_of(l).runs_anyway;
        for (k, len) in bounds.into_iter().enumerate().filter(|(k, _)| all_ones || may_lie_outside || l.sizes[*k] > 1) {
            let Rep::TileIndex(tile) = self.rep(l.vars[k]).clone() else { panic!("grid: no tile index") };
            let end = self.ix.add(self.ix.mul(tile, self.ix.lit(l.sizes[k])), self.ix.lit(l.sizes[k]));
            terms.push(compare(CompareOp::Le, end, len));
        }
        all(terms).unwrap_or_else(|| panic!("grid: a loop without axes"))
    }
}

/// The digits of a number, of which all but the first have so many values.
fn digits(number: Expr, counts: &[Expr]) -> Vec<Expr> {
    use super::index::binary;
    let (mut left, mut all) = (number, Vec::new());
    for count in counts.iter().rev() {
        all.push(binary(BinaryOp::Rem, left.clone(), count.clone()));
        left = binary(BinaryOp::Div, left, count.clone());
    }
    all.push(left);
    all.reverse();
    all
}

/// What was decided for the grid loop.
pub(crate) fn grid_of(l: &Loop) -> &Grid {
    l.grid.as_deref().unwrap_or_else(|| panic!("grid: {:?} walk no tiles of the grid", l.vars))
}

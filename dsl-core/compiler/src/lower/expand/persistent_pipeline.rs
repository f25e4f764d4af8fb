//! Tiles dealt to a block whose turns make one pipeline (`grid` with `copy(P = Overlap)`): the copies of the next tile's first turns start
//! among the last products of this one, and are on their way while its results are stored. (1 % at 4096³ in tf32. CUTLASS's persistent
//! kernels gain the same by warps of their own for the results.)

use super::context::{Expanded, Expander, Mode, Rep};
use super::elements::unrolled;
use super::index::{compare, literal};
use super::multistage::{Ahead, Turns};
use super::stages::Stages;
use super::window::WindowCopy;
use crate::block::{self, Loop, ValueId};
use crate::block::{Pipeline, RingPlan};
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{CompareOp, DType};

/// A grid loop whose tiles are dealt to blocks: the tiles along its axes, all of them, a block's first, and from one of its tiles to the next.
pub(crate) struct Dealt<'k> {
    pub grid: &'k Loop,
    pub counts: Vec<Expr>,
    pub tiles: Expr,
    pub block: Expr,
    pub stride: Expr,
}

/// The loop along a sum in such a tile.
struct Sum<'k> {
    /// Its place in the tile's statements.
    at: usize,
    turns: &'k Loop,
    ring: RingPlan,
    ahead: Ahead<'k>,
}

/// The turn whose copies are the next ones, of whichever tile.
struct Front {
    tile: VarId,
    turn: VarId,
    /// Its tile along each axis of the grid.
    along: Vec<VarId>,
    /// Copies of turns behind a tile's last one write zeros by themselves: there the front stays once there are no tiles any more.
    ends: bool,
}

impl Expander<'_> {
    /// The loop in a tile's body, by its first tile index, whose turns go on from tile to tile.
    fn sum_of<'k>(&self, grid: &'k Loop, var: ValueId) -> Sum<'k> {
        let at = grid.place_of(var).unwrap_or_else(|| panic!("persistent_pipeline: no loop there in\n{}", self.kernel));
        let block::Stmt::Loop(turns) = &grid.body[at] else { panic!("persistent_pipeline: no loop there in\n{}", self.kernel) };
        let Pipeline::Multistage { ring, copies } = &turns.plan.pipeline else {
            panic!("persistent_pipeline: the loop has no ring in\n{}", self.kernel)
        };
        Sum { at, turns, ring: *ring, ahead: Ahead::of(turns, copies) }
    }

    /// Lowers a grid loop whose tiles' turns make one pipeline.
    pub fn persistent_pipeline(&mut self, dealt: &Dealt, sum: ValueId) -> Expanded<()> {
        let l = dealt.grid;
        let sum = &self.sum_of(l, sum);
        let stages_of_ring = sum.ring.stages;
        let before = self.values.clone();
        self.mode = if super::grid::grid_of(l).divides { Mode::Full } else { Mode::Tail };
        let turns = self.turns(sum.turns);
        let rings = self.rings(&sum.ahead, stages_of_ring);
        let signals = self.begin_ring(sum.ring, false)?;
        self.comment("the turns of all its tiles are one pipeline: the next copies belong to turn next_turn of tile next_tile");
        let ends = self.ends_by_itself(sum.turns, sum.ring, &sum.ahead, &rings);
        let front = self.front(dealt, &turns, ends);
        self.comment(format!("prologue: start the copies of the first {} of {} stages", stages_of_ring - 1, stages_of_ring));
        let (early, stage) = self.loop_var("stage");
        self.open();
        self.copy_front(dealt, sum, &rings, &turns, &front, &stage)?;
        self.end_copies(signals, &stage)?;
        self.advance_front(dealt, &turns, &front);
        let body = self.close();
        self.emit(unrolled(early, stages_of_ring - 1, body));
        let stages = self.first_stage(sum.ring, signals);
        let counter = self.new_var("tile", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.set_tiles(l, Expr::Var(counter), &dealt.counts);
        let awaited = self.pipelined_tile(dealt, sum, &rings, &turns, &front, &stages)?;
        let body = self.leave_turn(outer);
        let (start, end, step) = (dealt.block.clone(), dealt.tiles.clone(), dealt.stride.clone());
        self.emit(Stmt::For { var: counter, start, end, step, unroll: false, body });
        self.end_ring(&stages, awaited);
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    /// One tile, in the innermost block. What its turns need of the thread alone is computed once, before all tiles. Gives what
    /// [`Expander::turn_of_ring`] says of the last turn.
    fn pipelined_tile(
        &mut self,
        dealt: &Dealt,
        sum: &Sum,
        rings: &[WindowCopy],
        turns: &Turns,
        front: &Front,
        stages: &Stages,
    ) -> Expanded<i64> {
        let inner = sum.turns;
        self.lower_block(&dealt.grid.body[..sum.at])?;
        let carried = self.start_carries(&inner.carries)?;
        let tile = self.blocks.pop().expect("flat: the tile's block is open");
        let var = self.new_var("turn", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.comment(format!("start the copies of the turn {} ahead, of this tile or of the next", sum.ring.stages - 1));
        let free = self.free_stage(stages);
        self.copy_front(dealt, sum, rings, turns, front, &free)?;
        self.end_copies(stages.signals(), &free)?;
        self.advance_front(dealt, turns, front);
        let turn = self.mark();
        self.steps = None;
        self.set_turn(inner, turns, Expr::Var(var));
        self.lower_turn(inner, &sum.ahead, rings, &stages.stage())?;
        self.end_carries(&inner.carries, &carried)?;
        let (body, awaited) = self.turn_of_ring(turn, outer, stages);
        self.blocks.push(tile);
        let (start, end, step) = (turns.start.clone(), turns.end.clone(), self.ix.lit(1));
        self.emit(Stmt::For { var, start, end, step, unroll: false, body });
        self.finish_carries(&inner.carries, &carried);
        self.lower_block(&dealt.grid.body[sum.at + 1..])?;
        Ok(awaited)
    }

    /// Declares where the copies are: at the first turn of the block's first tile. Where there are no turns, there are none of any tile.
    fn front(&mut self, dealt: &Dealt, turns: &Turns, ends: bool) -> Front {
        let index = self.ix.dtype;
        let exist = compare(CompareOp::Gt, turns.end.clone(), literal(index, 0));
        let first = match ends {
            true => dealt.block.clone(),
            false => Expr::Select(Box::new(exist), Box::new(dealt.block.clone()), Box::new(dealt.tiles.clone())),
        };
        let along = self.tiles_at(dealt.grid, dealt.block.clone(), &dealt.counts);
        let named = dealt.grid.vars.iter().map(|v| format!("next_{}", self.name_of(*v, "along")));
        let named: Vec<(String, Expr)> = named.zip(along).collect();
        let mut declare = |name: &str, value: Expr| {
            let var = self.new_var(name, index, None);
            self.emit(Stmt::Declare { var, init: Some(value) });
            var
        };
        let (tile, turn) = (declare("next_tile", first), declare("next_turn", literal(index, 0)));
        Front { tile, turn, along: named.into_iter().map(|(name, value)| declare(&name, value)).collect(), ends }
    }

    /// Moves on to the next turn, of the next tile behind the last one of this. Behind the last tile the place stays where it is.
    fn advance_front(&mut self, dealt: &Dealt, turns: &Turns, front: &Front) {
        let set = |var: VarId, value: Expr| Stmt::Assign { var, index: None, value };
        let [turn, tile] = [front.turn, front.tile].map(Expr::Var);
        self.emit(set(front.turn, self.ix.add(turn.clone(), self.ix.lit(1))));
        self.open();
        if !front.ends {
            self.emit(set(front.turn, self.ix.lit(0)));
        }
        self.emit(set(front.tile, self.ix.add(tile.clone(), dealt.stride.clone())));
        self.open();
        if front.ends {
            self.emit(set(front.turn, self.ix.lit(0)));
        }
        let along = self.tiles_at(dealt.grid, tile.clone(), &dealt.counts);
        front.along.iter().zip(along).for_each(|(var, value)| self.emit(set(*var, value)));
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Lt, tile, dealt.tiles.clone()), then, otherwise: vec![] });
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Eq, turn, turns.end.clone()), then, otherwise: vec![] });
    }

    /// Starts the copies of the front's turn, without a branch: what is not there is zeros.
    fn copy_front(&mut self, dealt: &Dealt, sum: &Sum, rings: &[WindowCopy], turns: &Turns, front: &Front, stage: &Expr) -> Expanded<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        for (value, var) in dealt.grid.vars.iter().zip(&front.along) {
            self.set(*value, Rep::TileIndex(Expr::Var(*var)));
        }
        self.set_turn(sum.turns, turns, Expr::Var(front.turn));
        if !front.ends {
            let is_there = compare(CompareOp::Lt, Expr::Var(front.tile), dealt.tiles.clone());
            self.copies_if = Some(self.declare_let("is_there", DType::Bool, is_there));
        }
        self.start_copies(&sum.ahead, rings, stage)?;
        self.copies_if = None;
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }
}

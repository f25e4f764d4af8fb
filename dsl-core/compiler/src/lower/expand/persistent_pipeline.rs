//! Tiles dealt to a block whose turns make one pipeline (`grid` with `copy(P = Overlap)`): the copies of the next tile's first turns start
//! among the last products of this one, and are on their way while its results are stored. (1 % at 4096³ in tf32. CUTLASS's persistent
//! kernels gain the same by warps of their own for the results.)

use super::context::{Expanded, Expander, Mode, Rep};
use super::index::{compare, literal};
use super::multistage::{Pipelined, Upcoming};
use super::stages::Stages;
use super::turns::Turns;
use crate::block::{self, Loop, Pipeline, ValueId};
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

/// The turn whose copies are the next ones, of whichever tile.
pub(crate) struct Front {
    tile: VarId,
    turn: VarId,
    /// Its tile along each axis of the grid.
    along: Vec<VarId>,
    /// Copies of turns behind a tile's last one write zeros by themselves: there the front stays once there are no tiles any more.
    ends: bool,
}

impl Expander<'_> {
    /// Lowers a grid loop of whose tiles the turns of the loop with this tile index make one pipeline.
    pub fn persistent_pipeline(&mut self, dealt: &Dealt, sum: ValueId) -> Expanded<()> {
        let l = dealt.grid;
        let at = l.place_of(sum).unwrap_or_else(|| panic!("persistent_pipeline: no loop there in\n{}", self.kernel));
        let block::Stmt::Loop(inner) = &l.body[at] else { panic!("persistent_pipeline: no loop there in\n{}", self.kernel) };
        let Pipeline::Multistage { ring, copies } = &inner.plan.pipeline else {
            panic!("persistent_pipeline: the loop has no ring in\n{}", self.kernel)
        };
        let before = self.values.clone();
        self.mode = if super::grid::grid_of(l).divides { Mode::Full } else { Mode::Tail };
        let p = self.begin_pipeline(inner, *ring, copies)?;
        self.comment("the turns of all its tiles are one pipeline: the next copies belong to turn next_turn of tile next_tile");
        let ends = self.ends_by_itself(&p);
        let front = self.front(dealt, p.turns(), ends);
        let upcoming = Upcoming::Front(dealt, &front);
        self.fill_ring(&p, &upcoming)?;
        let stages = self.first_stage(p.ring, p.signals);
        let counter = self.new_var("tile", self.ix.dtype, None);
        let outer = self.enter_turn();
        self.set_tiles(l, Expr::Var(counter), &dealt.counts);
        self.lower_block(&l.body[..at])?;
        let awaited = self.turns_of_tile(&p, &upcoming, &stages)?;
        self.lower_block(&l.body[at + 1..])?;
        let body = self.leave_turn(outer);
        let (start, end, step) = (dealt.block.clone(), dealt.tiles.clone(), dealt.stride.clone());
        self.emit(Stmt::For { var: counter, start, end, step, unroll: false, body });
        self.end_ring(&stages, awaited);
        self.mode = Mode::Tail;
        self.values = before;
        Ok(())
    }

    /// The turns of one tile, in the innermost block. What they need of the thread alone is computed once, before all tiles.
    fn turns_of_tile(&mut self, p: &Pipelined, upcoming: &Upcoming, stages: &Stages) -> Expanded<i64> {
        let carried = self.start_carries(&p.walked.carries)?;
        let tile = self.blocks.pop().expect("persistent_pipeline: the tile's block is open");
        let var = self.new_var("turn", self.ix.dtype, None);
        let (body, awaited) = self.turn_of_ring(p, upcoming, (var, stages), &carried)?;
        self.blocks.push(tile);
        let (start, end, step) = (p.turns().start.clone(), p.turns().end.clone(), self.ix.lit(1));
        self.emit(Stmt::For { var, start, end, step, unroll: false, body });
        self.finish_carries(&p.walked.carries, &carried)?;
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
    pub fn advance_front(&mut self, dealt: &Dealt, turns: &Turns, front: &Front) {
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
    pub fn copy_front(&mut self, dealt: &Dealt, p: &Pipelined, front: &Front, stage: &Expr) -> Expanded<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        for (value, var) in dealt.grid.vars.iter().zip(&front.along) {
            self.set(*value, Rep::TileIndex(Expr::Var(*var)));
        }
        self.set_turn(p.walked, p.turns(), Expr::Var(front.turn));
        if !front.ends {
            let is_there = compare(CompareOp::Lt, Expr::Var(front.tile), dealt.tiles.clone());
            self.copies_if = Some(self.declare_let("is_there", DType::Bool, is_there));
        }
        self.start_copies(p, stage)?;
        self.copies_if = None;
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }
}

//! Double buffers without asynchronous copies: at each turn of a loop over tiles the loads of the next turn's operands are on their way to
//! registers while the block computes, and are then stored to the buffer that the next turn reads. The block meets once per turn.

use super::context::{Expanded, Expander};
use super::copy_to_shared::Begun;
use super::index::{Index, compare, literal};
use super::multistage::{Ahead, Turns};
use super::window::{WindowCopy, WindowRep};
use crate::block::Copies;
use crate::block::{self, Loop};
use girih_ir::simt::{Expr, Stmt};
use girih_ir::types::{CompareOp, DType};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A copy that a turn makes for the next one.
struct Next {
    window: WindowRep,
    copy: WindowCopy,
    begun: Begun,
}

impl Expander<'_> {
    /// A loop over tiles whose operands are loaded a turn ahead.
    pub fn double_buffered_loop(&mut self, l: &Loop, copies: &Copies) -> Expanded<()> {
        let ahead = &Ahead::of(l, copies);
        let carried = self.start_carries(&l.carries)?;
        self.start_shared(l, &carried);
        self.begin_dots(&l.body);
        let turns = self.turns(l);
        let rings = self.rings(ahead, 2);
        if self.repeated {
            // Some threads may still read what the loop's last turns left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        self.comment("prologue: copy what the first turn reads");
        let first = turns.start.clone();
        self.open();
        let next = self.begin_turn(l, ahead, &rings, &turns, first.clone(), &LOCAL.lit(0))?;
        self.take_turn(&next);
        self.land_turn(&next);
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Lt, first, turns.end.clone()), then, otherwise: vec![] });

        let counter = self.new_var("turn", self.ix.dtype, None);
        let stage_var = self.new_var("stage", DType::I32, None);
        self.emit(Stmt::Declare { var: stage_var, init: Some(literal(DType::I32, 0)) });
        let stage = Expr::Var(stage_var);
        let outer = self.enter_turn();
        self.emit(Stmt::Barrier(self.team_barrier()));
        let later = self.ix.add(Expr::Var(counter), self.ix.lit(1));
        let is_there = compare(CompareOp::Lt, later.clone(), turns.end.clone());
        let free = LOCAL.sub(LOCAL.lit(1), stage.clone());
        let next = self.begin_turn(l, ahead, &rings, &turns, later, &free)?;
        self.comment("load what the next turn reads");
        self.open();
        self.take_turn(&next);
        let then = self.close();
        self.emit(Stmt::If { condition: is_there.clone(), then, otherwise: vec![] });
        self.set_turn(l, &turns, Expr::Var(counter));
        self.lower_turn(l, ahead, &rings, &stage)?;
        self.end_carries(&l.carries, &carried)?;
        self.comment("store it to the other buffer");
        self.open();
        self.land_turn(&next);
        let then = self.close();
        self.emit(Stmt::If { condition: is_there, then, otherwise: vec![] });
        self.emit(Stmt::Assign { var: stage_var, index: None, value: free });
        let body = self.leave_turn(outer);
        let step = self.ix.lit(1);
        self.emit(Stmt::For { var: counter, start: turns.start, end: turns.end, step, unroll: false, body });
        self.finish_carries(&l.carries, &carried);
        Ok(())
    }

    /// Works out what the turn of this number reads, and gives its items registers.
    fn begin_turn(
        &mut self,
        l: &Loop,
        ahead: &Ahead,
        rings: &[WindowCopy],
        turns: &Turns,
        number: Expr,
        stage: &Expr,
    ) -> Expanded<Vec<Next>> {
        let values = self.values.clone();
        let coordinates = self.coordinates.clone();
        self.set_turn(l, turns, number);
        for (value, op) in &ahead.before {
            self.lower_block(&[block::Stmt::Let(*value, (*op).clone())])?;
        }
        let mut all = Vec::new();
        for ((value, op), ring) in ahead.windows.iter().zip(rings) {
            let (window, name) = (self.window_at(*value, *op), self.copy_name(*value));
            let copy = ring.at_stage(stage);
            let begun = self.begin_copy(&window, &copy, &name);
            all.push(Next { window, copy, begun });
        }
        self.values = values;
        self.coordinates = coordinates;
        Ok(all)
    }

    fn take_turn(&mut self, next: &[Next]) {
        next.iter().for_each(|n| self.take_copy(&n.window, &n.copy, &n.begun));
    }

    fn land_turn(&mut self, next: &[Next]) {
        next.iter().for_each(|n| self.land_copy(&n.window, &n.copy, &n.begun));
    }
}

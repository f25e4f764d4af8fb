//! Windows of a loop over tiles that are copied ahead of their turn: a ring of copies in shared memory, filled by `cp.async`.
//!
//! At each turn the block waits for the turn's own copies and meets once: then everybody sees them, and nobody reads any more what the
//! turn before has read, whose place the copies of a later turn take.

use super::context::{Expanded, Expander, Rep};
use super::elements::unrolled;
use super::index::{binary, compare};
use super::stages::Stages;
use super::window::{Copied, WindowCopy};
use crate::block::{self, Loop, Op, ValueId};
use crate::block::{Copies, Handover, RingPlan};
use girih_ir::simt::{Expr, Stmt};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// What of a loop's body can be done before its turn.
pub(crate) struct Ahead<'k> {
    /// The windows.
    pub windows: Vec<(ValueId, Copied<'k>)>,
    /// The scalars that say where they lie, in order.
    pub before: Vec<(ValueId, &'k Op)>,
}

impl<'k> Ahead<'k> {
    /// What a loop's plan copies, in the loop's body.
    pub fn of(l: &'k Loop, copies: &Copies) -> Ahead<'k> {
        let (mut windows, mut before) = (Vec::new(), Vec::new());
        for stmt in &l.body {
            if let block::Stmt::Window(v, window) = stmt {
                windows.push((*v, Copied::Window(window)));
            } else if let block::Stmt::Load(v, access) = stmt {
                windows.push((*v, Copied::Operand(access)));
            } else if let block::Stmt::Let(v, op) = stmt {
                before.push((*v, op));
            }
        }
        windows.retain(|(v, _)| copies.windows.contains(v));
        before.retain(|(v, _)| copies.places.contains(v));
        Ahead { windows, before }
    }
}

/// The turns of a loop over tiles, as one loop.
#[derive(Clone)]
pub(crate) struct Turns {
    /// Tiles along each axis.
    pub counts: Vec<Expr>,
    /// The first turn: 0, unless blocks share them, or the loop keeps to some positions.
    pub start: Expr,
    /// One past the last.
    pub end: Expr,
}

impl Expander<'_> {
    /// A loop over tiles whose windows are copied `stages - 1` turns ahead.
    pub fn multistage_loop(&mut self, l: &Loop, ring: RingPlan, copies: &Copies) -> Expanded<()> {
        let (ahead, stages) = (&Ahead::of(l, copies), ring.stages);
        let carried = self.start_carries(&l.carries)?;
        self.start_shared(l, &carried);
        self.begin_dots(&l.body);
        let turns = self.turns(l);
        let rings = self.rings(ahead, stages);
        if self.repeated {
            // Some threads may still read what the loop's last turns left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let signals = self.begin_ring(ring, self.repeated)?;
        self.comment(format!("prologue: start the copies of the first {} of {stages} stages", stages - 1));
        let (early, stage) = self.loop_var("stage");
        let number = self.ix.add(turns.start.clone(), self.ix.cast(DType::I32, stage.clone()));
        self.open();
        self.copy_ahead(l, ring, ahead, &rings, &turns, number, &stage)?;
        self.end_copies(signals, &stage)?;
        let body = self.close();
        self.emit(unrolled(early, stages - 1, body));
        let counter = self.new_var("turn", self.ix.dtype, None);
        let at = self.first_stage(ring, signals);
        let outer = self.enter_turn();
        let later = self.ix.add(Expr::Var(counter), self.ix.lit(stages - 1));
        self.comment(format!("start the copies of the turn {} ahead", stages - 1));
        let free = self.free_stage(&at);
        self.copy_ahead(l, ring, ahead, &rings, &turns, later, &free)?;
        self.end_copies(signals, &free)?;
        let turn = self.mark();
        self.steps = None;
        self.set_turn(l, &turns, Expr::Var(counter));
        self.lower_turn(l, ahead, &rings, &at.stage())?;
        self.end_carries(&l.carries, &carried)?;
        let (body, awaited) = self.turn_of_ring(turn, outer, &at);
        let step = self.ix.lit(1);
        self.emit(Stmt::For { var: counter, start: turns.start, end: turns.end, step, unroll: false, body });
        if ring.fragment_prefetch {
            self.end_ring(&at, awaited);
        }
        self.finish_carries(&l.carries, &carried);
        Ok(())
    }

    /// Closes a turn that began at a mark with the start of a later one's copies; turns overlap if they can. Also the stages whose copies it
    /// has waited for at the end of the last turn.
    pub fn turn_of_ring(&mut self, mark: usize, outer: (Vec<Option<Rep>>, bool), at: &Stages) -> (Vec<Stmt>, i64) {
        let (leave, wait) = (self.leave_stage(at), self.await_stage(at));
        let steps = if at.ring.fragment_prefetch { self.steps_of_turn(mark) } else { None };
        let mut body = self.leave_turn(outer);
        if let Some(steps) = steps {
            self.first_fragments(&steps, &wait);
            return (self.overlapped_turn(at.ring.handover, steps, body, leave, wait), 1);
        }
        body.splice(0..0, wait);
        body.extend(leave);
        (body, 0)
    }

    /// The statements of a turn, with its windows at their stage.
    pub fn lower_turn(&mut self, l: &Loop, ahead: &Ahead, rings: &[WindowCopy], stage: &Expr) -> Expanded<()> {
        for stmt in &l.body {
            let own = |v: &ValueId| matches!(stmt, block::Stmt::Window(w, _) | block::Stmt::Load(w, _) if w == v);
            let window = ahead.windows.iter().position(|(v, _)| own(v));
            let Some(at) = window else {
                self.lower_block(std::slice::from_ref(stmt))?;
                continue;
            };
            let (value, copied) = ahead.windows[at];
            let mut window = self.window_at(value, copied);
            window.copy = Some(rings[at].at_stage(stage));
            self.set(value, Rep::Window(Box::new(window)));
        }
        Ok(())
    }

    /// Room in shared memory for every window, so many copies of each.
    pub fn rings(&mut self, ahead: &Ahead, copies: i64) -> Vec<WindowCopy> {
        let place = |(value, op): &(ValueId, Copied)| {
            let (window, name) = (self.window_anywhere(*value, *op), self.copy_name(*value));
            self.place_copy(*value, &window, &name, copies)
        };
        ahead.windows.iter().map(place).collect()
    }

    /// The turns that this block takes of a loop: all, unless blocks share them.
    pub fn turns(&mut self, l: &Loop) -> Turns {
        if let Some(own) = self.shared_turns(l) {
            return own;
        }
        let (mut counts, mut total) = (Vec::new(), self.ix.lit(1));
        for (along, var) in l.vars.iter().enumerate() {
            let (start, tiles) = self.tiles_walked(l, along);
            if l.span.is_some() {
                return Turns { counts: vec![tiles.clone()], start, end: tiles };
            }
            let name = format!("{}_tiles", self.name_of(*var, "axis"));
            let count = self.declare_let(&name, self.ix.dtype, tiles);
            total = self.ix.mul(total, count.clone());
            counts.push(count);
        }
        let total = if l.vars.len() > 1 { self.declare_let("turns", self.ix.dtype, total) } else { total };
        Turns { counts, start: self.ix.lit(0), end: total }
    }

    /// Sets the tile indices of a turn, the last axis fastest.
    pub fn set_turn(&mut self, l: &Loop, turns: &Turns, number: Expr) {
        let mut left = number;
        for k in (1..l.vars.len()).rev() {
            let name = self.name_of(l.vars[k], "tile");
            let index = self.declare_let(&name, self.ix.dtype, binary(BinaryOp::Rem, left.clone(), turns.counts[k].clone()));
            self.set(l.vars[k], Rep::TileIndex(index));
            left = binary(BinaryOp::Div, left, turns.counts[k].clone());
        }
        let name = self.name_of(l.vars[0], "tile");
        let first = self.declare_let(&name, self.ix.dtype, left);
        self.set(l.vars[0], Rep::TileIndex(first));
    }

    /// Starts the copies of a turn, if there is one of this number.
    fn copy_ahead(
        &mut self,
        l: &Loop,
        ring: RingPlan,
        ahead: &Ahead,
        rings: &[WindowCopy],
        turns: &Turns,
        number: Expr,
        stage: &Expr,
    ) -> Expanded<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        let is_there = compare(CompareOp::Lt, number.clone(), turns.end.clone());
        self.open();
        if !ring.fragment_prefetch || self.ends_by_itself(l, ring, ahead, rings) {
            self.set_turn(l, turns, number);
        } else {
            // Without a branch: what is not there is zeros.
            let last = self.ix.sub(turns.end.clone(), self.ix.lit(1));
            self.set_turn(l, turns, binary(BinaryOp::Min, number, last));
            self.copies_if = Some(self.declare_let("is_there", DType::Bool, is_there.clone()));
        }
        self.start_copies(ahead, rings, stage)?;
        self.copies_if = None;
        let then = self.close();
        match ring.fragment_prefetch {
            true => then.into_iter().for_each(|s| self.emit(s)),
            false => self.emit(Stmt::If { condition: is_there, then, otherwise: vec![] }),
        }
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }

    /// Whether all copies of turns behind the last one find themselves behind the end of the axis that is walked, and write zeros.
    pub fn ends_by_itself(&mut self, l: &Loop, ring: RingPlan, ahead: &Ahead, rings: &[WindowCopy]) -> bool {
        let [var] = l.vars[..] else { return false };
        if ring.handover == Handover::Barrier {
            return false;
        }
        ahead.windows.iter().zip(rings).all(|((value, op), ring)| {
            let window = self.window_anywhere(*value, *op);
            let axis = window.index.iter().position(|v| *v == var);
            window.halo.is_empty() && axis.is_some_and(|k| self.operand_ends(&window, ring)[k])
        })
    }

    /// Starts the copies of the turn that is set, into their stage.
    pub fn start_copies(&mut self, ahead: &Ahead, rings: &[WindowCopy], stage: &Expr) -> Expanded<()> {
        for (value, op) in &ahead.before {
            self.lower_block(&[block::Stmt::Let(*value, (*op).clone())])?;
        }
        for ((value, op), ring) in ahead.windows.iter().zip(rings) {
            let (window, name) = (self.window_at(*value, *op), self.copy_name(*value));
            self.start_copy(&window, &ring.at_stage(stage), &name);
        }
        Ok(())
    }
}

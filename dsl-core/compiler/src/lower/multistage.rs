//! Windows of a loop over tiles that are copied ahead of their turn: a ring of copies in shared memory, filled by `cp.async`.
//!
//! At each turn the block waits for the turn's own copies and meets once: then everybody sees them, and nobody reads any more what the
//! turn before has read, whose place the copies of a later turn take.

use super::context::{Lowered, Lowering, Rep};
use super::elements::unrolled;
use super::index::{binary, compare};
use super::stages::Stages;
use super::window::WindowCopy;
use girih_ir::simt::{Expr, Stmt};
use girih_ir::tile::{self, Op, TileLoop, ValueId};
use girih_ir::types::{BinaryOp, CompareOp, DType};
use std::collections::{HashMap, HashSet};

/// What of a loop's body can be done before its turn.
pub(crate) struct Ahead<'k> {
    /// The windows.
    pub windows: Vec<(ValueId, &'k Op)>,
    /// The scalars that say where they lie, in order.
    pub before: Vec<(ValueId, &'k Op)>,
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

impl Lowering<'_> {
    /// The windows of a loop's body, if the schedule copies them ahead of their turn: their places may depend on nothing but the turn.
    pub fn windows_ahead<'k>(&self, l: &'k TileLoop) -> Option<Ahead<'k>> {
        let by_registers = self.plan.shared_operands && self.plan.stages == 2;
        if !(self.plan.async_windows && self.plan.stages > 1 || by_registers) {
            return None;
        }
        let lets: HashMap<ValueId, &Op> =
            l.body.iter().filter_map(|s| if let tile::Stmt::Let(v, op) = s { Some((*v, op)) } else { None }).collect();
        let (mut windows, mut wanted, mut pending) = (Vec::new(), HashSet::new(), Vec::new());
        for stmt in &l.body {
            let tile::Stmt::Let(value, op) = stmt else { continue };
            let view = match op {
                Op::Window { view, shift, .. } => {
                    pending.extend(shift.iter().flatten());
                    view
                }
                Op::Load(view, index) if self.dots.is_load(*value) => {
                    pending.extend(index.iter().filter_map(|i| if let tile::Index::At(v) = i { Some(*v) } else { None }));
                    view
                }
                _ => continue,
            };
            if self.used(*value).count == 0 {
                continue;
            }
            windows.push((*value, op));
            let v = self.kernel.view(*view);
            pending.push(v.offset);
            pending.extend(v.axes.iter().flat_map(|a| [a.len, a.stride]));
        }
        while let Some(v) = pending.pop() {
            match lets.get(&v) {
                Some(op) if is_arithmetic(op) => {
                    if wanted.insert(v) {
                        pending.extend(super::uses::operands(op));
                    }
                }
                Some(_) => return None,
                // What is made by a statement of its own, but not here, is made outside.
                None if l.vars.contains(&v) || self.grid_vars.contains(&v) => {}
                None if self.near.op(v).is_some() || self.values[v.0 as usize].is_some() => {}
                None => return None,
            }
        }
        let before = l.body.iter().filter_map(|s| match s {
            tile::Stmt::Let(v, op) if wanted.contains(v) => Some((*v, op)),
            _ => None,
        });
        (!windows.is_empty()).then(|| Ahead { windows, before: before.collect() })
    }

    /// A loop over tiles whose windows are copied `stages - 1` turns ahead.
    pub fn multistage_loop(&mut self, l: &TileLoop, ahead: &Ahead) -> Lowered<()> {
        if !self.plan.async_windows {
            return self.double_buffered_loop(l, ahead);
        }
        let carried = self.start_carries(&l.carries)?;
        self.start_shared(l, &carried);
        self.begin_dots(&l.body);
        let stages = self.plan.stages;
        let turns = self.turns(l);
        let rings = self.rings(ahead, stages);
        if self.repeated {
            // Some threads may still read what the loop's last turns left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let signals = self.begin_ring(self.repeated)?;
        self.comment(format!("prologue: start the copies of the first {} of {stages} stages", stages - 1));
        let (early, stage) = self.loop_var("stage");
        let number = self.ix.add(turns.start.clone(), self.ix.cast(DType::I32, stage.clone()));
        self.open();
        self.copy_ahead(l, ahead, &rings, &turns, number, &stage)?;
        self.end_copies(signals, &stage)?;
        let body = self.close();
        self.emit(unrolled(early, stages - 1, body));
        let counter = self.new_var("turn", self.ix.dtype, None);
        let at = self.first_stage(signals);
        let outer = self.enter_turn();
        let later = self.ix.add(Expr::Var(counter), self.ix.lit(stages - 1));
        self.comment(format!("start the copies of the turn {} ahead", stages - 1));
        let free = self.free_stage(&at);
        self.copy_ahead(l, ahead, &rings, &turns, later, &free)?;
        self.end_copies(signals, &free)?;
        let turn = self.mark();
        self.set_turn(l, &turns, Expr::Var(counter));
        self.lower_turn(l, ahead, &rings, &at.stage())?;
        self.end_carries(&l.carries, &carried)?;
        let (body, awaited) = self.turn_of_ring(turn, outer, &at);
        let step = self.ix.lit(1);
        self.emit(Stmt::For { var: counter, start: turns.start, end: turns.end, step, unroll: false, body });
        if self.plan.fragment_prefetch {
            self.end_ring(&at, awaited);
        }
        self.finish_carries(&l.carries, &carried);
        Ok(())
    }

    /// Closes a turn that began at a mark with the start of a later one's copies; turns overlap if they can. Also the stages whose copies it
    /// has waited for at the end of the last turn.
    pub fn turn_of_ring(&mut self, mark: usize, outer: (Vec<Option<Rep>>, bool), at: &Stages) -> (Vec<Stmt>, i64) {
        let (leave, wait) = (self.leave_stage(at), self.await_stage(at));
        let steps = if self.plan.fragment_prefetch { self.steps_of_turn(mark) } else { None };
        let mut body = self.leave_turn(outer);
        if let Some(steps) = steps {
            self.first_fragments(&steps, &wait);
            return (self.overlapped_turn(steps, body, leave, wait), 1);
        }
        body.splice(0..0, wait);
        body.extend(leave);
        (body, 0)
    }

    /// The statements of a turn, with its windows at their stage.
    pub fn lower_turn(&mut self, l: &TileLoop, ahead: &Ahead, rings: &[WindowCopy], stage: &Expr) -> Lowered<()> {
        for stmt in &l.body {
            let window = ahead.windows.iter().position(|(v, _)| matches!(stmt, tile::Stmt::Let(w, _) if w == v));
            let Some(at) = window else {
                self.lower_block(std::slice::from_ref(stmt))?;
                continue;
            };
            let (value, op) = ahead.windows[at];
            let mut window = self.window_at(value, op);
            window.copy = Some(rings[at].at_stage(stage));
            self.set(value, Rep::Window(Box::new(window)));
        }
        Ok(())
    }

    /// Room in shared memory for every window, so many copies of each.
    pub fn rings(&mut self, ahead: &Ahead, copies: i64) -> Vec<WindowCopy> {
        let place = |(value, op): &(ValueId, &Op)| {
            let (window, name) = (self.window_anywhere(*value, op), self.copy_name(*value));
            self.place_copy(*value, &window, &name, copies)
        };
        ahead.windows.iter().map(place).collect()
    }

    /// The turns that this block takes of a loop: all, unless blocks share them.
    pub fn turns(&mut self, l: &TileLoop) -> Turns {
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
    pub fn set_turn(&mut self, l: &TileLoop, turns: &Turns, number: Expr) {
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
    fn copy_ahead(&mut self, l: &TileLoop, ahead: &Ahead, rings: &[WindowCopy], turns: &Turns, number: Expr, stage: &Expr) -> Lowered<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        let is_there = compare(CompareOp::Lt, number.clone(), turns.end.clone());
        self.open();
        if !self.plan.fragment_prefetch || self.ends_by_itself(l, ahead, rings) {
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
        match self.plan.fragment_prefetch {
            true => then.into_iter().for_each(|s| self.emit(s)),
            false => self.emit(Stmt::If { condition: is_there, then, otherwise: vec![] }),
        }
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }

    /// Whether all copies of turns behind the last one find themselves behind the end of the axis that is walked, and write zeros.
    pub fn ends_by_itself(&mut self, l: &TileLoop, ahead: &Ahead, rings: &[WindowCopy]) -> bool {
        let [var] = l.vars[..] else { return false };
        if !self.plan.mbarriers {
            return false;
        }
        ahead.windows.iter().zip(rings).all(|((value, op), ring)| {
            let window = self.window_anywhere(*value, op);
            let axis = window.index.iter().position(|v| *v == var);
            window.halo.is_empty() && axis.is_some_and(|k| self.operand_ends(&window, ring)[k])
        })
    }

    /// Starts the copies of the turn that is set, into their stage.
    pub fn start_copies(&mut self, ahead: &Ahead, rings: &[WindowCopy], stage: &Expr) -> Lowered<()> {
        for (value, op) in &ahead.before {
            self.lower_block(&[tile::Stmt::Let(*value, (*op).clone())])?;
        }
        for ((value, op), ring) in ahead.windows.iter().zip(rings) {
            let (window, name) = (self.window_at(*value, op), self.copy_name(*value));
            self.start_copy(&window, &ring.at_stage(stage), &name);
        }
        Ok(())
    }
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

//! Loops over tiles whose copies to shared memory are made ahead of their turns: all pipelines of copies are this one. A ring has some stages; the
//! copies of the first turns fill all but one of them before the loop, and at each turn those of a later one go where the turn before has read.
//!
//! How a stage is handed over is the ring's word ([`super::stages`]). By way of registers, for memory without asynchronous copies, the loads
//! of the next turn are on their way while the block computes, and are stored behind it. The turns of all tiles that a block has may make one
//! pipeline ([`super::persistent_pipeline`]): the copies that come next are then those at its front, of whichever tile.

use super::context::{Expanded, Expander, Rep, Reps};
use super::control::Carried;
use super::copy_to_shared::Begun;
use super::elements::unrolled;
use super::index::{Index, binary, compare};
use super::persistent_pipeline::{Dealt, Front};
use super::stages::{Signals, Stages};
use super::turns::Turns;
use super::window::{Copied, WindowCopy, WindowRep};
use crate::block::{self, Loop, Op, ValueId};
use crate::block::{Copies, Handover, RingPlan};
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// What of a loop's body can be done before its turn.
pub(crate) struct Ahead<'k> {
    /// The windows.
    pub windows: Vec<(ValueId, Copied<'k>)>,
    /// The scalars that say where they lie, in order.
    pub before: Vec<(ValueId, &'k Op)>,
    /// The windows of which each block of a cluster brings a part, for all of them.
    pub to_all: &'k [ValueId],
}

impl<'k> Ahead<'k> {
    /// What a loop's plan copies, in the loop's body.
    pub fn of(l: &'k Loop, copies: &'k Copies) -> Ahead<'k> {
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
        Ahead { windows, before, to_all: &copies.to_all }
    }
}

/// A loop whose copies go through a ring.
pub(crate) struct Pipelined<'k> {
    pub walked: &'k Loop,
    pub ring: RingPlan,
    pub ahead: Ahead<'k>,
    /// The copies of each window, all stages of it.
    pub rings: Vec<WindowCopy>,
    /// Its turns; `None` where each tile of the grid has its own, and its roles count them.
    pub turns: Option<Turns>,
    pub signals: Option<Signals>,
}

impl Pipelined<'_> {
    /// The turns of a loop that has the same of them in all tiles of the grid.
    pub fn turns(&self) -> &Turns {
        self.turns.as_ref().unwrap_or_else(|| panic!("multistage: each tile has turns of its own"))
    }
}

/// Whose copies come next.
pub(crate) enum Upcoming<'a> {
    /// Those of the turn of the same loop that is as many turns ahead as the ring has other stages.
    Later,
    /// Those of the turn at the front, of whichever tile.
    Front(&'a Dealt<'a>, &'a Front),
}

impl Expander<'_> {
    /// A loop over tiles whose copies are made ahead of their turns.
    pub fn pipelined_loop(&mut self, l: &Loop, ring: RingPlan, copies: &Copies) -> Expanded<()> {
        let carried = self.start_carries(&l.carries)?;
        self.start_shared(l, &carried);
        self.begin_dots(&l.body);
        let p = self.begin_pipeline(l, ring, copies)?;
        self.fill_ring(&p, &Upcoming::Later)?;
        let counter = self.new_var("turn", self.ix.dtype, None);
        let at = self.first_stage(ring, p.signals);
        let (body, awaited) = self.turn_of_ring(&p, &Upcoming::Later, (counter, &at), &carried)?;
        let step = self.ix.lit(1);
        let Turns { start, end, .. } = p.turns().clone();
        self.emit(Stmt::For { var: counter, start, end, step, unroll: false, body });
        if ring.fragment_prefetch {
            self.end_ring(&at, awaited);
        }
        self.finish_carries(&l.carries, &carried)?;
        Ok(())
    }

    /// The turns of a loop and its ring, before the first copy.
    ///
    /// # Errors
    /// As [`Expander::begin_ring`].
    pub fn begin_pipeline<'k>(&mut self, walked: &'k Loop, ring: RingPlan, copies: &'k Copies) -> Expanded<Pipelined<'k>> {
        let ahead = Ahead::of(walked, copies);
        let each_tile = ring.handover == Handover::Transactions && walked.span.is_some();
        let turns = if each_tile { None } else { Some(self.turns(walked)) };
        let rings = self.rings(&ahead, ring.stages);
        if self.repeated {
            // Some threads may still read what the loop's last turns left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let signals = self.begin_ring(ring, self.repeated)?;
        Ok(Pipelined { walked, ring, ahead, rings, turns, signals })
    }

    /// Before the loop: the copies of the first turns, one less than there are stages.
    pub fn fill_ring(&mut self, p: &Pipelined, upcoming: &Upcoming) -> Expanded<()> {
        if p.ring.handover == Handover::Registers {
            return self.copy_first(p);
        }
        let stages = p.ring.stages;
        self.comment(format!("prologue: start the copies of the first {} of {stages} stages", stages - 1));
        let (early, stage) = self.loop_var("stage");
        let number = self.ix.add(p.turns().start.clone(), self.ix.cast(DType::I32, stage.clone()));
        self.open();
        match upcoming {
            Upcoming::Later => self.copy_ahead(p, number, &stage)?,
            Upcoming::Front(dealt, front) => self.copy_front(dealt, p, front, &stage)?,
        }
        self.end_copies(p.signals, &stage)?;
        if let Upcoming::Front(dealt, front) = upcoming {
            self.advance_front(dealt, p.turns(), front);
        }
        let body = self.close();
        self.emit(unrolled(early, stages - 1, body));
        Ok(())
    }

    /// One turn: those of a later one's copies that can start now do, then it computes, then the others land. Also the stages whose copies it has
    /// waited for at its end, where turns overlap.
    pub fn turn_of_ring(
        &mut self,
        p: &Pipelined,
        upcoming: &Upcoming,
        (counter, at): (VarId, &Stages),
        carried: &[Carried],
    ) -> Expanded<(Vec<Stmt>, i64)> {
        let outer = self.enter_turn();
        if p.ring.products_first {
            let turn = self.mark();
            self.in_flight = Some(Vec::new());
            self.lower_of_turn(p, (counter, at))?;
            let sums = self.in_flight.take().unwrap_or_default();
            self.start_later(p, upcoming, (counter, at))?;
            self.emit(Stmt::WgmmaWait { pending: 0, sums });
            self.end_carries(&p.walked.carries, carried)?;
            return Ok(self.close_turn(turn, outer, at));
        }
        let taken = match p.ring.handover {
            Handover::Registers => Some(self.take_next(p, counter, at)?),
            Handover::Transactions => panic!("multistage: no thread that multiplies copies by tensor maps in\n{}", self.kernel),
            Handover::Barrier | Handover::Mbarriers => {
                self.start_later(p, upcoming, (counter, at))?;
                None
            }
        };
        let turn = self.mark();
        self.compute_turn(p, (counter, at), carried)?;
        taken.into_iter().for_each(|taken| self.land(taken));
        Ok(self.close_turn(turn, outer, at))
    }

    /// Starts those copies of a later turn that can start now, to the stage that is free.
    fn start_later(&mut self, p: &Pipelined, upcoming: &Upcoming, (counter, at): (VarId, &Stages)) -> Expanded<()> {
        let ahead = p.ring.stages - 1;
        let whose = if matches!(upcoming, Upcoming::Later) { "" } else { ", of this tile or of the next" };
        self.comment(format!("start the copies of the turn {ahead} ahead{whose}"));
        let free = self.free_stage(at);
        match upcoming {
            Upcoming::Later => {
                let later = self.ix.add(Expr::Var(counter), self.ix.lit(ahead));
                self.copy_ahead(p, later, &free)?;
                self.end_copies(p.signals, &free)
            }
            Upcoming::Front(dealt, front) => {
                self.copy_front(dealt, p, front, &free)?;
                self.end_copies(p.signals, &free)?;
                self.advance_front(dealt, p.turns(), front);
                Ok(())
            }
        }
    }

    /// What a turn computes from its stage, and what it carries on.
    fn compute_turn(&mut self, p: &Pipelined, at: (VarId, &Stages), carried: &[Carried]) -> Expanded<()> {
        self.lower_of_turn(p, at)?;
        self.end_carries(&p.walked.carries, carried)
    }

    /// The statements of a turn, at its stage.
    pub fn lower_of_turn(&mut self, p: &Pipelined, (counter, at): (VarId, &Stages)) -> Expanded<()> {
        self.steps = None;
        self.set_turn(p.walked, p.turns(), Expr::Var(counter));
        self.lower_statements(p, &at.stage(), 0..p.walked.body.len())
    }

    /// Closes a turn that began at a mark behind the start of a later one's copies; turns overlap if they can.
    fn close_turn(&mut self, mark: usize, outer: (Reps, bool), at: &Stages) -> (Vec<Stmt>, i64) {
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

    /// Some statements of a turn, with its windows at their stage.
    pub fn lower_statements(&mut self, p: &Pipelined, stage: &Expr, some: std::ops::Range<usize>) -> Expanded<()> {
        for stmt in &p.walked.body[some] {
            let own = |v: &ValueId| matches!(stmt, block::Stmt::Window(w, _) | block::Stmt::Load(w, _) if w == v);
            let window = p.ahead.windows.iter().position(|(v, _)| own(v));
            let Some(at) = window else {
                self.lower_block(std::slice::from_ref(stmt))?;
                continue;
            };
            let (value, copied) = p.ahead.windows[at];
            let mut window = self.window_at(value, copied);
            window.copy = Some(p.rings[at].at_stage(stage));
            self.set(value, Rep::Window(Box::new(window)));
        }
        Ok(())
    }

    /// Room in shared memory for every window, so many copies of each.
    fn rings(&mut self, ahead: &Ahead, copies: i64) -> Vec<WindowCopy> {
        let place = |(value, op): &(ValueId, Copied)| {
            let (window, name) = (self.window_anywhere(*value, *op), self.copy_name(*value));
            self.place_copy(*value, &window, &name, copies)
        };
        ahead.windows.iter().map(place).collect()
    }

    /// Starts the copies of a turn, if there is one of this number.
    fn copy_ahead(&mut self, p: &Pipelined, number: Expr, stage: &Expr) -> Expanded<()> {
        let values = self.values.clone();
        let coordinates = std::mem::take(&mut self.coordinates);
        let is_there = compare(CompareOp::Lt, number.clone(), p.turns().end.clone());
        self.open();
        if !p.ring.fragment_prefetch || self.ends_by_itself(p) {
            self.set_turn(p.walked, p.turns(), number);
        } else {
            // Without a branch: what is not there is zeros.
            let last = self.ix.sub(p.turns().end.clone(), self.ix.lit(1));
            self.set_turn(p.walked, p.turns(), binary(BinaryOp::Min, number, last));
            self.copies_if = Some(self.declare_let("is_there", DType::Bool, is_there.clone()));
        }
        self.start_copies(p, stage)?;
        self.copies_if = None;
        let then = self.close();
        match p.ring.fragment_prefetch {
            true => then.into_iter().for_each(|s| self.emit(s)),
            false => self.emit(Stmt::If { condition: is_there, then, otherwise: vec![] }),
        }
        self.values = values;
        self.coordinates = coordinates;
        Ok(())
    }

    /// Whether all copies of turns behind the last one find themselves behind the end of the axis that is walked, and write zeros.
    pub fn ends_by_itself(&mut self, p: &Pipelined) -> bool {
        let [var] = p.walked.vars[..] else { return false };
        if p.ring.handover != Handover::Mbarriers {
            return false;
        }
        p.ahead.windows.iter().zip(&p.rings).all(|((value, op), ring)| {
            let window = self.window_anywhere(*value, *op);
            let axis = window.index.iter().position(|v| *v == var);
            window.halo.is_empty() && axis.is_some_and(|k| self.operand_ends(&window, ring)[k])
        })
    }

    /// Starts the copies of the turn that is set, into their stage.
    pub fn start_copies(&mut self, p: &Pipelined, stage: &Expr) -> Expanded<()> {
        self.lower_places(p)?;
        for ((value, op), ring) in p.ahead.windows.iter().zip(&p.rings) {
            let (window, name) = (self.window_at(*value, *op), self.copy_name(*value));
            self.start_copy(&window, &ring.at_stage(stage), &name);
        }
        Ok(())
    }

    /// Computes where the windows of the turn that is set lie.
    pub fn lower_places(&mut self, p: &Pipelined) -> Expanded<()> {
        p.ahead.before.iter().try_for_each(|(value, op)| self.lower_block(&[block::Stmt::Let(*value, (*op).clone())]))
    }
}

/// A turn's copies by way of registers: under way, or on their way to a stage.
struct Taken {
    copies: Vec<(WindowRep, WindowCopy, Begun)>,
    /// There is such a turn.
    is_there: Expr,
}

impl Expander<'_> {
    /// Copies what the first turn reads, by way of registers.
    fn copy_first(&mut self, p: &Pipelined) -> Expanded<()> {
        self.comment("prologue: copy what the first turn reads");
        let first = p.turns().start.clone();
        self.open();
        let copies = self.begin_copies(p, first.clone(), &LOCAL.lit(0))?;
        copies.iter().for_each(|(window, copy, begun)| self.take_copy(window, copy, begun));
        copies.iter().for_each(|(window, copy, begun)| self.land_copy(window, copy, begun));
        let then = self.close();
        self.emit(Stmt::If { condition: compare(CompareOp::Lt, first, p.turns().end.clone()), then, otherwise: vec![] });
        Ok(())
    }

    /// Loads what the next turn reads to registers.
    fn take_next(&mut self, p: &Pipelined, counter: VarId, at: &Stages) -> Expanded<Taken> {
        let later = self.ix.add(Expr::Var(counter), self.ix.lit(1));
        let is_there = compare(CompareOp::Lt, later.clone(), p.turns().end.clone());
        let free = self.free_stage(at);
        let copies = self.begin_copies(p, later, &free)?;
        self.comment("load what the next turn reads");
        self.open();
        copies.iter().for_each(|(window, copy, begun)| self.take_copy(window, copy, begun));
        let then = self.close();
        self.emit(Stmt::If { condition: is_there.clone(), then, otherwise: vec![] });
        Ok(Taken { copies, is_there })
    }

    /// Stores it to the stage that the next turn reads.
    fn land(&mut self, taken: Taken) {
        self.comment("store it to the other buffer");
        self.open();
        taken.copies.iter().for_each(|(window, copy, begun)| self.land_copy(window, copy, begun));
        let then = self.close();
        self.emit(Stmt::If { condition: taken.is_there, then, otherwise: vec![] });
    }

    /// Works out what the turn of this number reads, and gives its items registers.
    fn begin_copies(&mut self, p: &Pipelined, number: Expr, stage: &Expr) -> Expanded<Vec<(WindowRep, WindowCopy, Begun)>> {
        let values = self.values.clone();
        let coordinates = self.coordinates.clone();
        self.set_turn(p.walked, p.turns(), number);
        self.lower_places(p)?;
        let mut all = Vec::new();
        for ((value, op), ring) in p.ahead.windows.iter().zip(&p.rings) {
            let (window, name) = (self.window_at(*value, *op), self.copy_name(*value));
            let copy = ring.at_stage(stage);
            let begun = self.begin_copy(&window, &copy, &name);
            all.push((window, copy, begun));
        }
        self.values = values;
        self.coordinates = coordinates;
        Ok(all)
    }
}

//! A warp: registers as far as they are needed, masks, loops, and when what is there.

use super::{Info, NONE, Turns};
use crate::Program;
use crate::decode::Counted;
use crate::op::{ElementsOp, Slot};
use crate::warp::{Lanes, active_lanes, bits, signed};
use girih_ir::types::Literal;
use std::collections::{HashMap, VecDeque};

pub(super) struct Warp {
    pub index: u32,
    pub pc: u32,
    pub active: u32,
    pub present: u32,
    pub done: bool,
    pub stack: Vec<(u32, u32)>,
    pub regs: Vec<Lanes>,
    pub turns: Vec<Turns>,
    /// How many turns the operations stand for that are passed now.
    pub weight: f64,
    /// When the next operation can be issued.
    pub clock: f64,
    /// When the last operation so far begins.
    latest: f64,
    /// When what a slot holds is there.
    pub ready: Vec<f64>,
    /// When asynchronous copies arrive: those of no group yet, and groups.
    pub open: f64,
    pub groups: VecDeque<f64>,
    /// What the warp does at barriers of phases, by their places.
    pub stages: HashMap<u64, Stage>,
    /// When matrix instructions of the warp's group end: those of no group of instructions yet, and groups.
    pub multiplied: f64,
    pub products: VecDeque<f64>,
}

/// A barrier of phases, as a warp uses it.
#[derive(Default)]
pub(super) struct Stage {
    /// Phases at which the warp's copies have arrived, and when those do that it has not waited for.
    pub arrived: usize,
    pub copies: VecDeque<f64>,
    /// Phases that it has waited for.
    pub passed: usize,
}

impl Warp {
    pub fn new(program: &Program, scalars: &[Literal], index: u32, threads: u32) -> Warp {
        let lanes = threads.saturating_sub(index * 32).min(32);
        let present = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        let mut regs = vec![[0u64; 32]; program.slots];
        for (slot, bits) in &program.constants {
            regs[*slot as usize] = [*bits; 32];
        }
        for (slot, param) in &program.scalars {
            regs[*slot as usize] = [scalars[*param].bits; 32];
        }
        Warp {
            index,
            pc: 0,
            active: present,
            present,
            done: false,
            stack: Vec::new(),
            regs,
            turns: Vec::new(),
            weight: 1.0,
            clock: 0.0,
            latest: 0.0,
            ready: vec![0.0; program.slots],
            open: 0.0,
            groups: VecDeque::new(),
            stages: HashMap::new(),
            multiplied: 0.0,
            products: VecDeque::new(),
        }
    }

    /// Back to the start, as the same warp of another block.
    pub fn restart(&mut self) {
        (self.pc, self.active, self.done, self.weight) = (0, self.present, false, 1.0);
        (self.clock, self.latest, self.open, self.multiplied) = (0.0, 0.0, 0.0, 0.0);
        self.stack.clear();
        self.turns.clear();
        self.groups.clear();
        self.stages.clear();
        self.products.clear();
        self.ready.fill(0.0);
    }

    /// When all operations so far have begun.
    pub fn now(&self) -> f64 {
        self.clock.max(self.latest)
    }

    /// Nothing is issued before.
    pub fn wait_until(&mut self, time: f64) {
        self.clock = self.now().max(time);
    }

    /// All that is to come happens so much later.
    pub fn delay(&mut self, clocks: f64) {
        self.clock += clocks;
        self.latest += clocks;
        self.open += clocks;
        self.ready.iter_mut().for_each(|t| *t += clocks);
        self.multiplied += clocks;
        let stages = self.stages.values_mut().flat_map(|stage| &mut stage.copies);
        self.groups.iter_mut().chain(&mut self.products).chain(stages).for_each(|t| *t += clocks);
    }

    /// An operation begins when these slots are there; when that is.
    pub fn issue(&mut self, reads: impl IntoIterator<Item = Slot>) -> f64 {
        let at = reads.into_iter().fold(self.clock, |t, slot| t.max(self.ready[slot as usize]));
        self.clock += 1.0;
        self.latest = self.latest.max(at);
        at
    }

    /// An operation on scalars of registers. Moves vanish in compiled code.
    pub fn plain(&mut self, info: &Info) {
        let mut at = self.clock;
        for slot in info.reads {
            if slot != NONE {
                at = at.max(self.ready[slot as usize]);
            }
        }
        if info.class != crate::Class::Move {
            self.clock += 1.0;
            self.latest = self.latest.max(at);
        }
        if info.sets != NONE {
            self.ready[info.sets as usize] = at + info.latency;
        }
    }

    pub fn reg(&self, slot: Slot) -> &Lanes {
        &self.regs[slot as usize]
    }

    /// Active lanes in which a predicate holds.
    pub fn lanes(&self, predicate: Option<Slot>) -> u32 {
        predicate.map_or(self.active, |p| self.active & bits(self.reg(p)))
    }

    /// Sets a slot in some lanes.
    pub fn set(&mut self, slot: Slot, values: &Lanes, lanes: u32) {
        let to = &mut self.regs[slot as usize];
        if lanes == u32::MAX {
            *to = *values;
        } else {
            active_lanes(lanes).for_each(|lane| to[lane] = values[lane]);
        }
    }

    /// The slot of a lane's element, which an array has for certain in a kernel that works.
    pub fn element(&self, of: &ElementsOp, lane: usize) -> Slot {
        let at = signed(self.reg(of.at)[lane], of.at_type);
        of.base + at.clamp(0, i64::from(of.len) - 1) as u32
    }

    /// The slots of so many elements of the first active lane: other lanes mostly have the same.
    pub fn elements(&self, of: &ElementsOp, count: u32) -> std::ops::Range<Slot> {
        let first = self.element(of, self.active.trailing_zeros().min(31) as usize);
        first..(first + count).min(of.base + of.len)
    }

    /// How many turns a loop has left in the lanes that take any: the least of them; 0 if none does.
    pub fn least_turns(&self, l: &Counted) -> u64 {
        let value = |slot: Slot, lane: usize| signed(self.reg(slot)[lane], l.dtype);
        let turns = |lane: usize| {
            let (from, to, step) = (value(l.counter, lane), value(l.bound, lane), value(l.step, lane).max(1));
            if to > from { (to - from).div_euclid(step) as u64 + u64::from((to - from).rem_euclid(step) > 0) } else { 0 }
        };
        active_lanes(self.active).map(turns).filter(|t| *t > 0).min().unwrap_or(0)
    }

    /// Leaves out turns of a loop.
    pub fn skip(&mut self, l: &Counted, turns: u64) {
        for lane in active_lanes(self.active) {
            let step = signed(self.regs[l.step as usize][lane], l.dtype);
            let at = signed(self.regs[l.counter as usize][lane], l.dtype);
            self.regs[l.counter as usize][lane] = Literal::from_i64(l.dtype, at + step * turns as i64).bits;
        }
    }
}

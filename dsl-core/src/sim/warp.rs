//! One warp: its registers and masks, and the operations that stay inside of it.

use super::clock::Clock;
use super::decode::Program;
use super::machine::{Block, Core};
use super::op::{ElementsOp, Op, ShuffleStep, Slot};
use super::order::LaneOrder;
use super::trap::TrapKind;
use crate::scalar;
use crate::simt::{Barrier, ShuffleKind, Special, VoteKind};
use crate::types::{DType, Literal};

/// Values of one slot in 32 lanes.
pub(super) type Lanes = [u64; 32];

/// A trap before the machine adds where it happened.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: TrapKind,
    pub(super) lane: Option<u32>,
}

/// Result of an operation.
pub(super) type Exec<T = ()> = Result<T, Box<Fault>>;

pub(super) fn fault<T>(kind: TrapKind, lane: usize) -> Exec<T> {
    Err(Box::new(Fault { kind, lane: Some(lane as u32) }))
}

/// What a warp waits for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Status {
    /// Nothing.
    Ready,
    /// A barrier that more than its warp meets at.
    At(Barrier),
    /// An mbarrier's phase.
    Mbarrier,
    /// Words of global memory that are zero.
    Words,
    /// It has finished.
    Done,
}

/// A resumable machine of 32 lanes.
pub(super) struct Warp {
    pub(super) index: u32,
    pub(super) pc: u32,
    pub(super) active: u32,
    /// Lanes that exist: all, but in the last warp of a block.
    pub(super) present: u32,
    stack: Vec<(u32, u32)>,
    pub(super) regs: Vec<Lanes>,
    /// Lanes in which the slots of variables are set.
    known: Vec<u32>,
    pub(super) epoch: u32,
    /// What each lane has observed.
    pub(super) clocks: Vec<Clock>,
    /// All lanes have the same clock.
    pub(super) uniform: bool,
    pub(super) status: Status,
    /// Fences and asynchronous copies by lane; empty until used.
    pub(super) order: Vec<LaneOrder>,
}

impl Warp {
    pub(super) fn new(program: &Program, scalars: &[Literal], index: u32, threads: u32, clock: &Clock) -> Warp {
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
            stack: Vec::new(),
            regs,
            known: vec![0; program.tracked],
            epoch: 1,
            clocks: vec![clock.clone(); 32],
            uniform: true,
            status: Status::Ready,
            order: Vec::new(),
        }
    }

    /// Back to the start, as the same warp of another block. Registers keep old values, which nobody can read: constants stay, and
    /// variables are unset.
    pub(super) fn restart(&mut self, clock: &Clock) {
        self.pc = 0;
        self.active = self.present;
        self.stack.clear();
        self.known.fill(0);
        self.epoch = 1;
        self.set_clock(clock);
        self.status = Status::Ready;
        self.order.clear();
    }

    /// All lanes observe the same.
    pub(super) fn set_clock(&mut self, clock: &Clock) {
        for c in &mut self.clocks {
            *c = clock.clone();
        }
        self.uniform = true;
    }

    pub(super) fn reg(&self, slot: Slot) -> &Lanes {
        &self.regs[slot as usize]
    }

    /// Active lanes in which a predicate holds.
    pub(super) fn lanes(&self, predicate: Option<Slot>) -> u32 {
        match predicate {
            None => self.active,
            Some(p) => self.active & bits(self.reg(p)),
        }
    }

    /// Sets a slot in some lanes.
    pub(super) fn set(&mut self, slot: Slot, values: &Lanes, lanes: u32) {
        let dst = &mut self.regs[slot as usize];
        if lanes == u32::MAX {
            *dst = *values;
        } else {
            for lane in 0..32 {
                if lanes >> lane & 1 == 1 {
                    dst[lane] = values[lane];
                }
            }
        }
        if let Some(k) = self.known.get_mut(slot as usize) {
            *k |= lanes;
        }
    }

    /// Sets a slot in some lanes to what another has.
    fn copy(&mut self, to: Slot, from: Slot, lanes: u32) {
        if lanes == u32::MAX {
            self.regs.copy_within(from as usize..=from as usize, to as usize);
        } else {
            for lane in active_lanes(lanes) {
                self.regs[to as usize][lane] = self.regs[from as usize][lane];
            }
        }
        if let Some(k) = self.known.get_mut(to as usize) {
            *k |= lanes;
        }
    }

    /// First slot of `count` elements in each lane; one value if it is the same in all active lanes.
    pub(super) fn element_slots(&self, program: &Program, of: &ElementsOp, count: u32) -> Exec<Starts> {
        let at = self.reg(of.at);
        let within = |element: i64| element >= 0 && element + count as i64 <= of.len as i64;
        // Most indices are the same in all lanes.
        let all = signed(at[0], of.at_type);
        if self.active == u32::MAX && within(all) && at.iter().all(|index| *index == at[0]) {
            return Ok(Starts::Same(of.base + all as u32));
        }
        let mut starts = [0; 32];
        let mut first = None;
        let mut uniform = true;
        for lane in active_lanes(self.active) {
            let element = signed(at[lane], of.at_type);
            if !within(element) {
                let array = program.slot_name(of.base);
                return fault(TrapKind::ElementOutOfBounds { array, element, len: of.len }, lane);
            }
            starts[lane] = of.base + element as u32;
            uniform &= *first.get_or_insert(starts[lane]) == starts[lane];
        }
        Ok(if uniform { Starts::Same(first.unwrap_or(of.base)) } else { Starts::Each(Box::new(starts)) })
    }

    /// Traps where a lane never set a slot.
    pub(super) fn check(&self, program: &Program, slot: Slot, lanes: u32) -> Exec {
        let missing = lanes & !self.known[slot as usize];
        if missing == 0 {
            return Ok(());
        }
        fault(TrapKind::Uninitialised { what: program.slot_name(slot) }, missing.trailing_zeros() as usize)
    }

    pub(super) fn mark_known(&mut self, slot: Slot, lane: usize) {
        self.known[slot as usize] |= 1 << lane;
    }
}

/// Slots at which the elements of each lane start.
pub(super) enum Starts {
    Same(Slot),
    Each(Box<[Slot; 32]>),
}

impl Starts {
    pub(super) fn of(&self, lane: usize) -> Slot {
        match self {
            Starts::Same(s) => *s,
            Starts::Each(s) => s[lane],
        }
    }
}

/// Lanes of a mask, ascending.
pub(super) fn active_lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}

/// The mask of the lanes that hold true.
pub(super) fn bits(values: &Lanes) -> u32 {
    let mut mask = 0;
    for (lane, value) in values.iter().enumerate() {
        mask |= ((value & 1) as u32) << lane;
    }
    mask
}

/// An index as a signed number.
pub(super) fn signed(bits: u64, dtype: DType) -> i64 {
    match dtype {
        DType::I32 => bits as i32 as i64,
        DType::U32 => bits as u32 as i64,
        _ => Literal { dtype, bits }.to_i64(),
    }
}

/// How a slice of steps ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Pause {
    /// The slice is used up, or the warp waits for an mbarrier or for words.
    Slice,
    /// At a barrier of more than this warp.
    Barrier,
    /// Finished.
    Done,
}

/// A warp at work, with what it works on.
pub(super) struct Step<'s, 'a> {
    pub(super) core: &'s mut Core<'a>,
    pub(super) block: &'s mut Block,
    pub(super) warp: &'s mut Warp,
}

impl Step<'_, '_> {
    /// Runs up to `budget` operations.
    pub(super) fn run(&mut self, budget: u32) -> Exec<Pause> {
        let program = self.core.program;
        for _ in 0..budget {
            if self.core.fuel == 0 {
                return Err(Box::new(Fault { kind: TrapKind::FuelExhausted { fuel: self.core.options.fuel }, lane: None }));
            }
            self.core.fuel -= 1;
            let pc = self.warp.pc as usize;
            let op = &program.code[pc];
            if self.core.options.count {
                let class = program.class[pc] as usize;
                self.core.counters.warp[class] += 1;
                self.core.counters.thread[class] += self.warp.active.count_ones() as u64;
            }
            self.warp.pc += 1;
            if let Some(pause) = self.execute(program, op)? {
                return Ok(pause);
            }
        }
        Ok(Pause::Slice)
    }

    fn execute(&mut self, program: &Program, op: &Op) -> Exec<Option<Pause>> {
        match op {
            Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Ternary { .. }
            | Op::Compare { .. }
            | Op::Select { .. }
            | Op::Cast { .. }
            | Op::Bitcast { .. } => self.warp.pure(op),
            Op::Move { dst, a } => self.warp.copy(*dst, *a, self.warp.active),
            Op::Special { dst, special } => self.special(*dst, *special),
            Op::Check { slot } => self.warp.check(program, *slot, self.warp.active)?,
            Op::Forget { base, len } => {
                for slot in *base..base + len {
                    self.warp.known[slot as usize] &= !self.warp.active;
                }
            }
            Op::Fill { base, len, a } => {
                let values = *self.warp.reg(*a);
                for slot in *base..base + len {
                    self.warp.set(slot, &values, self.warp.active);
                }
            }
            Op::Element { dst, of } => self.element(program, *dst, of)?,
            Op::SetElement { of, a } => match self.warp.element_slots(program, of, 1)? {
                Starts::Same(slot) => self.warp.copy(slot, *a, self.warp.active),
                Starts::Each(slots) => {
                    let values = *self.warp.reg(*a);
                    for lane in active_lanes(self.warp.active) {
                        self.warp.set(slots[lane], &values, 1 << lane);
                    }
                }
            },
            Op::If { .. } | Op::Else { .. } | Op::EndIf | Op::Loop | Op::LoopTest { .. } | Op::Jump { .. } => self.warp.control(op),
            Op::StepCheck { step, dtype } => {
                for lane in active_lanes(self.warp.active) {
                    let step = signed(self.warp.reg(*step)[lane], *dtype);
                    if step <= 0 {
                        return fault(TrapKind::Misuse { found: format!("the loop's step is {step}") }, lane);
                    }
                }
            }
            Op::Shuffle(step) => self.shuffle(step)?,
            Op::Vote { dst, kind, value } => self.vote(*dst, *kind, *value)?,
            Op::End => {
                self.warp.status = Status::Done;
                return Ok(Some(Pause::Done));
            }
            Op::Barrier(barrier) => return self.barrier(*barrier),
            Op::MbarrierWait { barrier, parity } => return self.mbarrier_wait(barrier, *parity),
            Op::Load { .. } | Op::Store { .. } | Op::LoadVector { .. } | Op::StoreVector { .. } => self.memory(op)?,
            Op::Atomic(step) => self.atomic(step)?,
            Op::StoreRelaxed { access, value } => self.store_relaxed(access, *value)?,
            Op::LoadRelaxed { dst, access, wait } => return self.load_relaxed(*dst, access, *wait),
            Op::Fence { scope, order } => self.fence(*scope, *order),
            Op::AsyncCopy(step) => self.async_copy(step)?,
            Op::AsyncCommit => self.async_commit(),
            Op::AsyncWait { pending } => self.async_wait(*pending),
            Op::AsyncArrive { barrier } => self.async_arrive(barrier)?,
            Op::MbarrierInit { barrier, count } => self.mbarrier_init(barrier, *count)?,
            Op::MbarrierArrive { barrier, expect } => self.mbarrier_arrive(barrier, *expect)?,
            Op::BulkCopy(step) => self.bulk_copy(step)?,
            Op::Mma(step) => self.mma(step)?,
            Op::LoadMatrix(step) => self.load_matrix(step)?,
        }
        Ok(None)
    }

    fn special(&mut self, dst: Slot, special: Special) {
        let thread = self.warp.index * 32;
        let mut values = [0; 32];
        for (lane, value) in values.iter_mut().enumerate() {
            *value = match special {
                Special::Thread => thread + lane as u32,
                Special::Block => self.block.index,
                Special::GridDim => self.core.grid,
                Special::Lane => lane as u32,
                Special::Warp => self.warp.index,
            } as u64;
        }
        self.warp.regs[dst as usize] = values;
    }

    fn element(&mut self, program: &Program, dst: Slot, of: &ElementsOp) -> Exec {
        let starts = self.warp.element_slots(program, of, 1)?;
        match starts {
            Starts::Same(slot) => {
                self.warp.check(program, slot, self.warp.active)?;
                self.warp.regs.copy_within(slot as usize..=slot as usize, dst as usize);
            }
            Starts::Each(slots) => {
                for lane in active_lanes(self.warp.active) {
                    self.warp.check(program, slots[lane], 1 << lane)?;
                    self.warp.regs[dst as usize][lane] = self.warp.reg(slots[lane])[lane];
                }
            }
        }
        Ok(())
    }

    /// All lanes of the warp that exist must be here.
    pub(super) fn together(&self, what: &str) -> Exec {
        let warp = &*self.warp;
        if warp.active == warp.present {
            return Ok(());
        }
        let found = format!("lanes {:08x} of {:08x} reach the {what}", warp.active, warp.present);
        fault(TrapKind::Divergent { found }, (warp.present & !warp.active).trailing_zeros() as usize)
    }

    fn vote(&mut self, dst: Slot, kind: VoteKind, value: Slot) -> Exec {
        self.together("vote")?;
        let warp = &mut *self.warp;
        let values = *warp.reg(value);
        let ballot = active_lanes(warp.active).fold(0u32, |bits, lane| bits | u32::from(values[lane] != 0) << lane);
        let found = match kind {
            VoteKind::Any => u64::from(ballot != 0),
            VoteKind::All => u64::from(ballot == warp.active),
            VoteKind::Ballot => u64::from(ballot),
        };
        warp.set(dst, &[found; 32], warp.active);
        Ok(())
    }

    fn shuffle(&mut self, step: &ShuffleStep) -> Exec {
        self.together("shuffle")?;
        let warp = &mut *self.warp;
        let (values, operands) = (*warp.reg(step.value), *warp.reg(step.operand));
        let mut out = values;
        let width = step.width as i64;
        for lane in active_lanes(warp.active) {
            let operand = operands[lane] as i32 as i64;
            let (me, first) = (lane as i64, lane as i64 / width * width);
            let source = match step.kind {
                ShuffleKind::Xor => Some(me ^ (operand & 31)).filter(|s| *s < first + width),
                ShuffleKind::Up => Some(me - operand).filter(|s| *s >= first),
                ShuffleKind::Down => Some(me + operand).filter(|s| *s < first + width),
                ShuffleKind::Index => Some(first + operand.rem_euclid(width)),
            };
            let source = source.unwrap_or(me) as usize;
            if warp.active >> source & 1 == 0 {
                return fault(TrapKind::InactiveLane { lane: source as u32 }, lane);
            }
            out[lane] = values[source];
        }
        warp.set(step.dst, &out, warp.active);
        Ok(())
    }

    fn barrier(&mut self, barrier: Barrier) -> Exec<Option<Pause>> {
        self.together("barrier")?;
        let warp = &mut *self.warp;
        if barrier == Barrier::Warp {
            super::order::meet(&mut [warp]);
            return Ok(None);
        }
        // Each slice has a barrier of its own number.
        let barrier = match barrier {
            Barrier::Slice { threads } => Barrier::Named { id: 1 + warp.index * 32 / threads, threads },
            other => other,
        };
        self.core.counters.block_barriers += (self.core.options.count && barrier == Barrier::Block) as u64;
        warp.status = Status::At(barrier);
        Ok(Some(Pause::Barrier))
    }
}

impl Warp {
    /// Operations on registers alone; they set all lanes, active or not.
    fn pure(&mut self, op: &Op) {
        let mut out = [0u64; 32];
        let dst = match op {
            Op::Unary { f, dst, a } => {
                let a = self.reg(*a);
                for lane in 0..32 {
                    out[lane] = f(a[lane]);
                }
                dst
            }
            Op::Binary { f, dst, a, b } => {
                let (a, b) = (self.reg(*a), self.reg(*b));
                for lane in 0..32 {
                    out[lane] = f(a[lane], b[lane]);
                }
                dst
            }
            Op::Ternary { f, dst, a, b, c } => {
                let (a, b, c) = (self.reg(*a), self.reg(*b), self.reg(*c));
                for lane in 0..32 {
                    out[lane] = f(a[lane], b[lane], c[lane]);
                }
                dst
            }
            Op::Compare { f, dst, a, b } => {
                let (a, b) = (self.reg(*a), self.reg(*b));
                for lane in 0..32 {
                    out[lane] = f(a[lane], b[lane]) as u64;
                }
                dst
            }
            Op::Select { dst, c, a, b } => {
                let (c, a, b) = (self.reg(*c), self.reg(*a), self.reg(*b));
                for lane in 0..32 {
                    out[lane] = if c[lane] & 1 == 1 { a[lane] } else { b[lane] };
                }
                dst
            }
            Op::Cast { from: DType::I32, to: DType::I64, dst, a } => {
                let a = self.reg(*a);
                for lane in 0..32 {
                    out[lane] = a[lane] as i32 as i64 as u64;
                }
                dst
            }
            Op::Cast { from, to, dst, a } => {
                let a = self.reg(*a);
                for lane in 0..32 {
                    out[lane] = scalar::cast(*from, *to, a[lane]);
                }
                dst
            }
            Op::Bitcast { from, to, dst, a } => {
                let a = self.reg(*a);
                for lane in 0..32 {
                    out[lane] = scalar::bitcast(*from, *to, a[lane]);
                }
                dst
            }
            other => panic!("simulator: {other:?} is not pure"),
        };
        self.regs[*dst as usize] = out;
    }

    fn control(&mut self, op: &Op) {
        match op {
            Op::If { condition, otherwise } => {
                let then = self.active & bits(self.reg(*condition));
                self.stack.push((self.active, self.active & !then));
                self.active = then;
                if then == 0 {
                    self.active = self.stack.last().map_or(0, |s| s.1);
                    self.pc = *otherwise;
                }
            }
            Op::Else { end } => {
                self.active = self.stack.last().map_or(0, |s| s.1);
                if self.active == 0 {
                    self.pc = *end;
                }
            }
            Op::EndIf => self.active = self.stack.pop().map_or(0, |s| s.0),
            Op::Loop => self.stack.push((self.active, 0)),
            Op::LoopTest { condition, end } => {
                self.active &= bits(self.reg(*condition));
                if self.active == 0 {
                    self.active = self.stack.pop().map_or(0, |s| s.0);
                    self.pc = *end;
                }
            }
            Op::Jump { to } => self.pc = *to,
            other => panic!("simulator: {other:?} is no control flow"),
        }
    }
}

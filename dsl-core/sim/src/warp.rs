//! One warp: its registers and masks, arithmetic on them, and the stack of masks of its control flow.

use super::clock::Clock;
use super::decode::Program;
use super::group::Flights;
use super::op::{ElementsOp, Op, Slot};
use super::order::LaneOrder;
use super::trap::TrapKind;
use girih_ir::scalar;
use girih_ir::simt::Barrier;
use girih_ir::types::{DType, Literal};

/// Values of one slot in 32 lanes.
pub(super) use girih_ir::scalar::Lanes;

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
    pub(super) known: Vec<u32>,
    pub(super) epoch: u32,
    /// What each lane has observed.
    pub(super) clocks: Vec<Clock>,
    /// All lanes have the same clock.
    pub(super) uniform: bool,
    /// What a matrix unit sees of shared memory: what was observed before the last proxy fences.
    pub(super) proxy: Option<Clock>,
    /// Matrix instructions of the warp's group in flight.
    pub(super) flights: Flights,
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
            proxy: None,
            flights: Flights::default(),
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
        self.proxy = None;
        self.flights = Flights::default();
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
    pub(super) fn copy(&mut self, to: Slot, from: Slot, lanes: u32) {
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

/// What the values of these lanes come to.
pub(super) fn combined(values: &Lanes, lanes: u32, combine: scalar::BinaryFn) -> u64 {
    active_lanes(lanes).map(|lane| values[lane]).reduce(combine).unwrap_or(0)
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

/// Operations on registers alone; they set all lanes, active or not.
pub(super) fn pure(regs: &mut [Lanes], op: &Op) {
    let dst = match op {
        Op::Unary { dst, .. } | Op::Binary { dst, .. } | Op::Ternary { dst, .. } | Op::Compare { dst, .. } => *dst,
        Op::Select { dst, .. } | Op::Cast { dst, .. } | Op::Bitcast { dst, .. } => *dst,
        other => panic!("simulator: {other:?} is not pure"),
    } as usize;
    // The destination is none of the operands: those are in front of it or behind it.
    let (front, rest) = regs.split_at_mut(dst);
    let (out, behind) = rest.split_first_mut().expect("the destination is a register");
    let reg = |slot: &Slot| {
        let slot = *slot as usize;
        if slot < dst { &front[slot] } else { &behind[slot - dst - 1] }
    };
    match op {
        Op::Unary { f, a, .. } => each(out, reg(a), f),
        Op::Binary { f, a, b, .. } | Op::Compare { f, a, b, .. } => f(reg(a), reg(b), out),
        Op::Ternary { f, a, b, c, .. } => f(reg(a), reg(b), reg(c), out),
        Op::Select { c, a, b, .. } => {
            let (c, a, b) = (reg(c), reg(a), reg(b));
            for lane in 0..32 {
                out[lane] = if c[lane] & 1 == 1 { a[lane] } else { b[lane] };
            }
        }
        Op::Cast { from: DType::I32, to: DType::I64, a, .. } => each(out, reg(a), |a| a as i32 as i64 as u64),
        Op::Cast { from, to, a, .. } => each(out, reg(a), |a| scalar::cast(*from, *to, a)),
        Op::Bitcast { from, to, a, .. } => each(out, reg(a), |a| scalar::bitcast(*from, *to, a)),
        other => unreachable!("{other:?} has no destination"),
    }
}

#[inline]
fn each(out: &mut Lanes, a: &Lanes, f: impl Fn(u64) -> u64) {
    for lane in 0..32 {
        out[lane] = f(a[lane]);
    }
}

impl Warp {
    /// Operations on registers alone; they set all lanes, active or not.
    pub(super) fn pure(&mut self, op: &Op) {
        pure(&mut self.regs, op);
    }

    pub(super) fn control(&mut self, op: &Op) {
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

//! Operations one by one: counted, put in time, and carried out where their values are needed.

use super::super::{latency, tally};
use super::atomics::LAST;
use super::warp::Warp;
use super::{Machine, NONE, Uncounted};
use crate::decode::GROUP;
use crate::group::{LeftOp, WgmmaStep};
use crate::op::{Op, PlaceOp, ShuffleStep, Slot};
use crate::warp::{active_lanes, bits, combined, pure};
use girih_ir::fragments::{GroupAtom, Number, Operand};
use girih_ir::simt::{Barrier, ShuffleKind, Special};
use girih_ir::types::Scope;

/// Operations after which it is asked whether the count is late: less than a millisecond.
const GLANCE: u64 = 2048;

impl Machine<'_> {
    /// Runs a warp to its next barrier with others, or to its end.
    pub(super) fn advance(&mut self, warp: &mut Warp) -> Result<(), Uncounted> {
        let program = self.program;
        loop {
            if self.fuel == 0 || (self.fuel.is_multiple_of(GLANCE) && self.is_late.is_some_and(|is_late| is_late())) {
                return Err(Uncounted::TooMuch);
            }
            self.fuel -= 1;
            let pc = warp.pc as usize;
            let op = &program.code[pc];
            let info = &self.info[pc];
            let class = info.class as usize;
            self.count.numbers[tally::WARP + class] += warp.weight;
            self.count.numbers[tally::THREAD + class] += warp.weight * f64::from(warp.active.count_ones());
            warp.pc += 1;
            if info.plain {
                warp.plain(info);
                if info.carried_out {
                    self.carry_out(warp, op);
                    if self.division_at[pc] {
                        self.note_division(warp, op);
                    }
                }
                continue;
            }
            let carried_out = info.carried_out;
            match op {
                Op::If { .. } | Op::Else { .. } | Op::EndIf | Op::Loop | Op::LoopTest { .. } | Op::Jump { .. } => {
                    self.control(warp, op, pc)
                }
                // Which group multiplies first is not known.
                Op::Barrier(Barrier::Warp | Barrier::AwaitTurn { .. } | Barrier::PassTurn { .. }) => drop(warp.issue([])),
                Op::Barrier(barrier) => {
                    let wide = match barrier {
                        Barrier::Cluster => latency::CLUSTER,
                        Barrier::Grid { .. } => latency::GRID,
                        _ => 0.0,
                    };
                    warp.wait_until(warp.now() + wide);
                    match barrier {
                        Barrier::Block => self.count.numbers[tally::BARRIERS] += warp.weight,
                        Barrier::Named { .. } | Barrier::Slice { .. } => self.count.numbers[tally::NAMED] += warp.weight,
                        _ => {}
                    }
                    return Ok(());
                }
                Op::End => {
                    warp.done = true;
                    return Ok(());
                }
                Op::Fill { base, len, a } => {
                    let at = warp.ready[*a as usize];
                    warp.ready[*base as usize..(base + len) as usize].fill(at);
                    if carried_out {
                        let values = *warp.reg(*a);
                        (*base..base + len).for_each(|slot| warp.set(slot, &values, warp.active));
                    }
                }
                Op::Element { dst, of } => {
                    let slots = warp.elements(of, 1);
                    warp.ready[*dst as usize] = warp.ready[slots.start as usize];
                    if carried_out {
                        let values = std::array::from_fn(|lane| warp.reg(warp.element(of, lane))[lane]);
                        warp.set(*dst, &values, warp.active);
                    }
                }
                Op::SetElement { of, a } => {
                    let slots = warp.elements(of, 1);
                    warp.ready[slots.start as usize] = warp.ready[*a as usize];
                    if carried_out {
                        let values = *warp.reg(*a);
                        active_lanes(warp.active).for_each(|lane| warp.set(warp.element(of, lane), &values, 1 << lane));
                    }
                }
                Op::Fence { scope, .. } => {
                    let cost = if *scope > Scope::Block { latency::FENCE } else { 0.0 };
                    warp.wait_until(warp.now() + cost);
                }
                Op::AsyncCommit => {
                    let open = std::mem::take(&mut warp.open);
                    warp.groups.push_back(open);
                }
                Op::AsyncWait { pending } => {
                    while warp.groups.len() > *pending as usize {
                        let arrived = warp.groups.pop_front().unwrap_or(0.0);
                        warp.wait_until(arrived);
                    }
                }
                Op::AsyncArrive { barrier } => self.copies_arrive(warp, barrier),
                Op::MbarrierArrive { barrier, expect: Some(_) } => {
                    let at = warp.issue([]);
                    self.phases.entry(self.address(warp, barrier)).or_default().push(at);
                }
                // What frees a stage is not waited for: its copies are issued as if there were enough of them.
                Op::MbarrierInit { .. } | Op::MbarrierArrive { .. } | Op::MbarrierArriveAt { .. } => drop(warp.issue([])),
                Op::MbarrierWait { barrier, .. } => {
                    self.count.numbers[tally::PHASES] += warp.weight;
                    self.await_phase(warp, barrier);
                }
                Op::Mma(step) => {
                    let atom = &step.atom;
                    let reads = [(&step.a, Operand::A), (&step.b, Operand::B), (&step.c, Operand::Accumulator)];
                    let slots: Vec<Slot> = reads.into_iter().flat_map(|(of, operand)| warp.elements(of, atom.registers(operand))).collect();
                    let at = warp.issue(slots);
                    let sets = warp.elements(&step.d, atom.registers(Operand::Accumulator));
                    sets.for_each(|slot| warp.ready[slot as usize] = at + latency::of_class(crate::Class::Matrix));
                    self.count.numbers[place_of(atom.a)] += warp.weight * atom.multiply_adds() as f64;
                    self.count.guessed |= carried_out;
                }
                Op::Wgmma(step) => self.wgmma(warp, step),
                Op::WgmmaFence | Op::ProxyFence => drop(warp.issue([])),
                Op::WgmmaCommit => {
                    let multiplied = std::mem::take(&mut warp.multiplied);
                    warp.products.push_back(multiplied);
                }
                Op::WgmmaWait { pending, .. } => {
                    while warp.products.len() > *pending as usize {
                        let done = warp.products.pop_front().unwrap_or(0.0);
                        warp.wait_until(done);
                    }
                }
                other => self.access(warp, other, carried_out),
            }
        }
    }

    /// The copies of a warp so far arrive at a barrier of phases.
    fn copies_arrive(&mut self, warp: &mut Warp, barrier: &PlaceOp) {
        let place = self.address(warp, barrier);
        let phases = self.phases.entry(place).or_default();
        let stage = warp.stages.entry(place).or_default();
        phases.resize(phases.len().max(stage.arrived + 1), 0.0);
        phases[stage.arrived] = phases[stage.arrived].max(warp.open);
        stage.arrived += 1;
        stage.copies.push_back(warp.open);
    }

    /// A phase is over when its copies are there: the warp's own, or else those that others issued as its so manieth. What has not been issued by
    /// a warp that was run before is taken to be early.
    fn await_phase(&mut self, warp: &mut Warp, barrier: &PlaceOp) {
        let place = self.address(warp, barrier);
        let stage = warp.stages.entry(place).or_default();
        let others = self.phases.get(&place).and_then(|phases| phases.get(stage.passed)).copied();
        stage.passed += 1;
        if let Some(there) = stage.copies.pop_front().or(others) {
            warp.wait_until(there);
        }
    }

    /// The warp's part of an instruction of its group. The matrix unit takes one after the other, each some clocks for 8 columns.
    fn wgmma(&mut self, warp: &mut Warp, step: &WgmmaStep) {
        let atom = &step.atom;
        let read: Vec<Slot> = match &step.a {
            LeftOp::Shared(a) => vec![a.place.index],
            LeftOp::Registers(a) => warp.elements(a, atom.left_registers()).collect(),
        };
        let at = warp.issue(read.into_iter().chain([step.b.place.index]));
        warp.multiplied = warp.multiplied.max(at) + latency::EIGHT_COLUMNS * f64::from(atom.n / 8);
        let part = warp.weight * (atom.multiply_adds() / u64::from(GroupAtom::WARPS)) as f64;
        self.count.numbers[place_of(atom.a)] += part;
        self.count.numbers[tally::GROUPS] += part;
    }

    /// Operations on registers alone.
    fn carry_out(&mut self, warp: &mut Warp, op: &Op) {
        match op {
            Op::Move { dst, a } => {
                let values = *warp.reg(*a);
                warp.set(*dst, &values, warp.active);
            }
            Op::Special { dst, special } => {
                let thread = warp.index * 32;
                warp.regs[*dst as usize] = std::array::from_fn(|lane| match special {
                    Special::Thread => u64::from(thread) + lane as u64,
                    Special::Block => u64::from(self.block),
                    Special::GridDim => u64::from(self.grid),
                    Special::Lane => lane as u64,
                    Special::Warp => u64::from(warp.index),
                    Special::Elected => u64::from(lane == 0),
                });
            }
            Op::Shuffle(step) => shuffle(warp, step),
            Op::Vote { dst, kind, value } => {
                let values = *warp.reg(*value);
                warp.set(*dst, &kind.found(&values, warp.active), warp.active);
            }
            Op::WarpReduce { dst, combine, value } => {
                let found = combined(warp.reg(*value), warp.active, *combine);
                warp.set(*dst, &[found; 32], warp.active);
            }
            Op::Check { .. } | Op::Forget { .. } | Op::StepCheck { .. } => {}
            Op::Compare { dst, a, .. } if self.comes_last && warp.reg(*a)[0] == LAST + 1 => warp.set(*dst, &[1; 32], warp.active),
            other => pure(&mut warp.regs, other),
        }
    }

    fn note_division(&mut self, warp: &Warp, op: &Op) {
        let Op::Binary { a, b, .. } = op else { return };
        let (a, b) = (warp.reg(*a), warp.reg(*b));
        if a.iter().all(|x| *x == a[0]) && b.iter().all(|x| *x == b[0]) && self.divisions.len() < 64 {
            self.divisions.push((a[0], b[0]));
        }
    }

    /// Whether all that a turn of a loop has begun must have what it reads before the next one begins: compilers write out whole loops, or
    /// some turns at a time.
    fn turn_ends(&self, warp: &Warp, number: usize) -> bool {
        let l = &self.program.loops[number];
        let in_group = || warp.turns.last().is_some_and(|t| t.number == number && t.weight() == 1.0 && t.at % GROUP != GROUP - 1);
        !(l.written_out || l.grouped && in_group())
    }

    fn control(&mut self, warp: &mut Warp, op: &Op, pc: usize) {
        let number = self.loop_at[pc];
        match op {
            Op::If { condition, otherwise } => {
                let at = warp.issue([*condition]);
                warp.wait_until(at);
                let then = warp.active & bits(warp.reg(*condition));
                warp.stack.push((warp.active, warp.active & !then));
                warp.active = then;
                if then == 0 {
                    warp.active = warp.stack.last().map_or(0, |s| s.1);
                    warp.pc = *otherwise;
                }
            }
            Op::Else { end } => {
                warp.active = warp.stack.last().map_or(0, |s| s.1);
                if warp.active == 0 {
                    warp.pc = *end;
                }
            }
            Op::EndIf => warp.active = warp.stack.pop().map_or(0, |s| s.0),
            Op::Loop => {
                warp.stack.push((warp.active, 0));
                if number != NONE {
                    self.begin_loop(warp, number as usize);
                }
            }
            Op::LoopTest { condition, end } => {
                let counted = (number != NONE).then(|| &self.program.loops[number as usize]);
                if !counted.is_some_and(|l| l.written_out) {
                    let at = warp.issue([*condition]);
                    match counted {
                        Some(l) if l.grouped => warp.clock = warp.clock.max(at),
                        _ => warp.wait_until(at),
                    }
                }
                warp.active &= bits(warp.reg(*condition));
                if warp.active == 0 {
                    warp.active = warp.stack.pop().map_or(0, |s| s.0);
                    warp.pc = *end;
                    if number != NONE
                        && let Some(t) = warp.turns.pop()
                    {
                        warp.weight = t.outer;
                    }
                }
            }
            Op::Jump { to } => {
                warp.pc = *to;
                let issued = warp.clock;
                if number == NONE || self.turn_ends(warp, number as usize) {
                    warp.wait_until(warp.now());
                }
                if number != NONE {
                    self.turn(warp, number as usize, issued);
                }
            }
            other => panic!("counting: {other:?} is no control flow"),
        }
    }
}

/// Where multiply-adds of a format are counted.
fn place_of(number: Number) -> usize {
    match number {
        Number::F16 | Number::BF16 => tally::HALF,
        Number::Tf32 => tally::TF32,
        Number::I8 | Number::U8 => tally::INT8,
        Number::F8E4M3 | Number::F8E5M2 => tally::FLOAT8,
    }
}

fn shuffle(warp: &mut Warp, step: &ShuffleStep) {
    let (values, operands) = (*warp.reg(step.value), *warp.reg(step.operand));
    let width = i64::from(step.width);
    let out = std::array::from_fn(|lane| {
        let operand = i64::from(operands[lane] as i32);
        let (me, first) = (lane as i64, lane as i64 / width * width);
        let source = match step.kind {
            ShuffleKind::Xor => Some(me ^ (operand & 31)).filter(|s| *s < first + width),
            ShuffleKind::Up => Some(me - operand).filter(|s| *s >= first),
            ShuffleKind::Down => Some(me + operand).filter(|s| *s < first + width),
            ShuffleKind::Index => Some(first + operand.rem_euclid(width)),
        };
        values[source.unwrap_or(me).clamp(0, 31) as usize]
    });
    warp.set(step.dst, &out, warp.active);
}

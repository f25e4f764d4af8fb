//! A warp at work: its operations one after the other, and what its lanes do together: shuffles, votes, barriers.

use super::decode::Program;
use super::machine::{Block, Core};
use super::op::{ElementsOp, Op, ShuffleStep, Slot};
use super::trap::TrapKind;
use super::warp::{Exec, Fault, Starts, Status, Warp, active_lanes, combined, fault, signed};
use girih_ir::scalar::BinaryFn;
use girih_ir::simt::{Barrier, ShuffleKind, Special, VoteKind};

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
    /// The other blocks that are resident, those before it and those behind it.
    pub(super) others: [&'s mut [Block]; 2],
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
            Op::Special { dst, special } => {
                if *special == Special::Elected {
                    self.together("election")?;
                }
                self.special(*dst, *special);
            }
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
            Op::WarpReduce { dst, combine, value } => self.warp_reduce(*dst, *combine, *value)?,
            Op::End => {
                self.nothing_in_flight()?;
                self.warp.status = Status::Done;
                return Ok(Some(Pause::Done));
            }
            Op::Barrier(barrier) => return self.barrier(*barrier),
            Op::MbarrierWait { barrier, parity, scope } => return self.mbarrier_wait(barrier, *parity, *scope),
            Op::Load { .. } | Op::Store { .. } | Op::LoadVector { .. } | Op::StoreVector { .. } => self.memory(op)?,
            Op::Atomic(step) => self.atomic(step)?,
            Op::StoreRelaxed { access, value } => self.store_relaxed(access, *value)?,
            Op::LoadRelaxed { dst, access, wait } => return self.load_relaxed(*dst, access, *wait),
            Op::LoadFromBlock { dst, place, block } => self.load_from_block(*dst, place, *block)?,
            Op::Fence { scope, order } => self.fence(*scope, *order),
            Op::AsyncCopy(step) => self.async_copy(step)?,
            Op::AsyncCommit => self.async_commit(),
            Op::AsyncWait { pending } => self.async_wait(*pending),
            Op::AsyncArrive { barrier } => self.async_arrive(barrier)?,
            Op::MbarrierInit { barrier, count } => self.mbarrier_init(barrier, *count)?,
            Op::MbarrierArrive { barrier, expect } => self.mbarrier_arrive(barrier, *expect)?,
            Op::MbarrierArriveAt { barrier, block } => self.mbarrier_arrive_at(barrier, *block)?,
            Op::BulkCopy(step) => self.bulk_copy(step)?,
            Op::TensorCopy(step) => self.tensor_copy(step)?,
            Op::Mma(step) => self.mma(step)?,
            Op::LoadMatrix(step) => self.load_matrix(step)?,
            Op::Wgmma(step) => self.wgmma(step)?,
            Op::WgmmaFence => self.wgmma_fence()?,
            Op::WgmmaCommit => self.wgmma_commit()?,
            Op::WgmmaWait { pending, sums } => self.wgmma_wait(*pending, sums)?,
            Op::ProxyFence => self.proxy_fence(),
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
                Special::Elected => u32::from(lane == 0),
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
        warp.set(dst, &kind.found(&values, warp.active), warp.active);
        Ok(())
    }

    fn warp_reduce(&mut self, dst: Slot, combine: BinaryFn, value: Slot) -> Exec {
        self.together("reduction")?;
        let warp = &mut *self.warp;
        let found = combined(warp.reg(value), warp.active, combine);
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

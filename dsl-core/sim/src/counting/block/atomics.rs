//! Atomics, and what blocks tell each other by them: tickets, and words that are waited for.

use super::super::latency;
use super::warp::Warp;
use super::{Machine, Shares};
use crate::access::{Traffic, apply, normalise};
use crate::op::AtomicStep;
use crate::warp::{Lanes, active_lanes};
use girih_ir::simt::{ParamKind, Space};
use girih_ir::types::AtomicOp;

/// The ticket of a block that comes last: who compares the next number with how many come is told that they are the same.
pub(super) const LAST: u64 = 1 << 30;
/// A word of a workspace that is there: a value, and the flag above it or below. Of tiles that look back it says what all before it come to, so that
/// a block looks once.
pub(super) const ARRIVED: u64 = 1 << 32 | 1;

impl Machine<'_> {
    /// Counts an atomic, and does what it does where its result is needed.
    pub(super) fn atomic(&mut self, warp: &mut Warp, step: &AtomicStep, carried_out: bool) {
        let place = &step.access.place;
        let (lanes, addresses, at) = self.accessed(warp, &step.access, std::iter::once(step.value).chain(step.expected));
        let size = place.dtype.size();
        let takes = self.touch(warp, place.space, &addresses, lanes, size as u32, Traffic::Atomic);
        let global = matches!(place.space, Space::Global(_));
        if let Some(result) = step.result {
            let takes = if self.asks_a_word(step) {
                latency::WORD
            } else if global {
                latency::CACHE
            } else {
                takes
            };
            warp.ready[result as usize] = at + takes;
        }
        if !carried_out {
            return;
        }
        let (values, mut old) = (*warp.reg(step.value), [0; 32]);
        let ticket = self.ticket(step, lanes, &addresses, &values);
        // Nobody has added before.
        self.count.each_first |= global && lanes != 0 && ticket.is_none() && step.op == AtomicOp::Add && step.result.is_some();
        let expected = step.expected.map(|e| *warp.reg(e));
        for lane in active_lanes(lanes) {
            if let Some(ticket) = ticket {
                old[lane] = normalise(ticket, place.dtype);
                continue;
            }
            old[lane] = normalise(self.told(step, addresses[lane], size), place.dtype);
            let new = match (step.op, expected) {
                (AtomicOp::CompareSwap, Some(e)) if e[lane] == old[lane] => values[lane],
                (AtomicOp::CompareSwap | AtomicOp::Load, _) => old[lane],
                (op, _) => apply(op, place.dtype, old[lane], values[lane]),
            };
            self.set_value(place.space, addresses[lane], size, new);
        }
        if let Some(result) = step.result {
            warp.set(result, &old, lanes);
        }
    }

    /// Whether an atomic asks for a word that another block leaves.
    fn asks_a_word(&self, step: &AtomicStep) -> bool {
        let Space::Global(p) = step.access.place.space else { return false };
        let own = matches!(self.program.kernel.params[p].kind, ParamKind::Workspace { .. });
        step.op == AtomicOp::Load && (own || self.words.contains(&p))
    }

    /// What an atomic finds: a word that another block leaves has arrived.
    fn told(&mut self, step: &AtomicStep, at: u64, size: usize) -> u64 {
        let place = &step.access.place;
        if let Space::Global(p) = place.space
            && self.asks_a_word(step)
            && let Some(word) = self.contents.left(p, at - self.start(place.space), size)
        {
            self.count.asks_words = true;
            return word;
        }
        self.value(place.space, at, size)
    }

    /// The number that a block draws, if an atomic draws one: a counter of the compiler's own, or one that a lane counts up by one.
    fn ticket(&mut self, step: &AtomicStep, lanes: u32, addresses: &Lanes, values: &Lanes) -> Option<u64> {
        let (place, lane) = (&step.access.place, lanes.trailing_zeros() as usize % 32);
        let (Space::Global(p), size) = (place.space, place.dtype.size()) else { return None };
        if matches!(self.program.kernel.params[p].kind, ParamKind::Workspace { .. }) {
            return Some(match (step.op, step.result) {
                (AtomicOp::Load, _) => ARRIVED,
                (_, None) => 0,
                (_, Some(_)) => self.own_ticket(p, size),
            });
        }
        let by_one = step.op == AtomicOp::Add && step.result.is_some() && lanes.count_ones() == 1 && values[lane] == 1;
        by_one.then(|| {
            // Blocks take turns.
            let turn = self.drawn.entry((p, addresses[lane])).or_default();
            let number = u64::from(self.block) + *turn * u64::from(self.grid);
            *turn += 1;
            self.value(place.space, addresses[lane], size) + number
        })
    }

    /// The ticket that this block draws from a counter of the compiler's: its number among all blocks where these have one counter. With several,
    /// blocks that share a sum count themselves at its own, and the last one is whoever is run as that.
    fn own_ticket(&mut self, param: usize, size: usize) -> u64 {
        let counters = (self.bytes(param) as u64 / size as u64).max(1);
        if counters == 1 {
            return u64::from(self.block);
        }
        let drawn = self.shares.map_or(0, |s| s.drawn);
        self.shares = Some(Shares { counters, drawn: drawn + 1 });
        if self.comes_last { LAST } else { 0 }
    }
}

//! Vector clocks: which epochs of which threads a thread has observed.
//!
//! Every warp counts epochs; a thread's access carries its warp's epoch, and the epoch ends whenever the warp releases something. A
//! thread has observed another thread's access if its clock for that thread is at least the access's epoch. A thread's own accesses are
//! ordered by its program and need no clock. Clocks are shared between threads, since after a barrier all have the same one.
//!
//! Bulk copies are threads of their own: behind the block's warps, each mbarrier has a slot whose epoch is the phase that the copies
//! complete, plus one.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Observed epochs of the threads of one block, 32 per warp, and their minimum by warp (the quick answer).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    threads: Vec<u32>,
    warps: Vec<u32>,
}

impl Row {
    fn new(warps: usize) -> Row {
        Row { threads: vec![0; warps * 32], warps: vec![0; warps] }
    }

    /// Raises one slot to at least `epoch`. [`Row::settle`] must follow.
    fn raise(&mut self, slot: usize, epoch: u32) {
        self.threads[slot] = self.threads[slot].max(epoch);
    }

    /// Raises all lanes of a warp.
    fn raise_warp(&mut self, warp: usize, epoch: u32) {
        for t in &mut self.threads[warp * 32..warp * 32 + 32] {
            *t = (*t).max(epoch);
        }
        self.warps[warp] = self.warps[warp].max(epoch);
    }

    fn settle(&mut self, warp: usize) {
        self.warps[warp] = self.threads[warp * 32..warp * 32 + 32].iter().copied().min().unwrap_or(0);
    }

    fn join(&mut self, other: &Row) {
        for (a, b) in self.threads.iter_mut().zip(&other.threads) {
            *a = (*a).max(*b);
        }
        for w in 0..self.warps.len() {
            self.settle(w);
        }
    }
}

type Foreign = BTreeMap<u32, Rc<Row>>;

/// What a thread has observed, of its own block and of others.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    block: u32,
    own: Rc<Row>,
    foreign: Option<Rc<Foreign>>,
}

impl Clock {
    /// Nothing observed; `warps` counts the slots for bulk copies too.
    pub(super) fn new(block: u32, warps: usize) -> Clock {
        Clock { block, own: Rc::new(Row::new(warps)), foreign: None }
    }

    /// The block of the thread whose clock it is.
    pub(super) fn block(&self) -> u32 {
        self.block
    }

    fn row(&self, block: u32) -> Option<&Rc<Row>> {
        if block == self.block { Some(&self.own) } else { self.foreign.as_ref()?.get(&block) }
    }

    /// Whether all lanes' accesses of that epoch were observed.
    #[inline]
    pub(super) fn observed(&self, block: u32, warp: usize, lanes: u32, epoch: u32) -> bool {
        let Some(row) = self.row(block) else { return lanes == 0 };
        row.warps[warp] >= epoch || row.observed_lanes(warp, lanes, epoch)
    }

    /// Whether some lane's accesses of that epoch were observed.
    pub(super) fn observed_any(&self, block: u32, warp: usize, epoch: u32) -> bool {
        self.row(block).is_some_and(|row| row.threads[warp * 32..warp * 32 + 32].iter().any(|seen| *seen >= epoch))
    }

    /// Whether two clocks are one and the same object.
    pub(super) fn same(&self, other: &Clock) -> bool {
        let foreign = match (&self.foreign, &other.foreign) {
            (None, None) => true,
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        };
        foreign && self.block == other.block && Rc::ptr_eq(&self.own, &other.own)
    }

    /// Observes one slot (a lane, or a bulk copy's slot) up to `epoch`.
    pub(super) fn raise(&mut self, slot: usize, epoch: u32) {
        let row = Rc::make_mut(&mut self.own);
        row.raise(slot, epoch);
        row.settle(slot / 32);
    }

    /// Observes all lanes of a warp up to `epoch`.
    pub(super) fn raise_warp(&mut self, warp: usize, epoch: u32) {
        Rc::make_mut(&mut self.own).raise_warp(warp, epoch);
    }

    /// Observes what another clock, of this or another block, has observed.
    pub(super) fn join(&mut self, other: &Clock) {
        if self.same(other) {
            return;
        }
        self.join_row(other.block, &other.own);
        if let Some(rows) = &other.foreign {
            if self.foreign.is_none() && other.block == self.block {
                self.foreign = other.foreign.clone();
                return;
            }
            for (block, row) in rows.iter() {
                self.join_row(*block, row);
            }
        }
    }

    fn join_row(&mut self, block: u32, row: &Rc<Row>) {
        if block == self.block {
            if !Rc::ptr_eq(&self.own, row) {
                Rc::make_mut(&mut self.own).join(row);
            }
            return;
        }
        if self.foreign.as_ref().and_then(|f| f.get(&block)).is_some_and(|r| Rc::ptr_eq(r, row)) {
            return;
        }
        let rows = Rc::make_mut(self.foreign.get_or_insert_with(Rc::default));
        match rows.get_mut(&block) {
            Some(known) => Rc::make_mut(known).join(row),
            None => {
                rows.insert(block, row.clone());
            }
        }
    }

    /// The same knowledge, held by a thread of another block.
    pub(super) fn moved_to(&self, block: u32, own: &Clock) -> Clock {
        let mut clock = Clock { block, own: own.own.clone(), foreign: own.foreign.clone() };
        clock.join(self);
        clock
    }
}

impl Row {
    fn observed_lanes(&self, warp: usize, mut lanes: u32, epoch: u32) -> bool {
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            if self.threads[warp * 32 + lane] < epoch {
                return false;
            }
            lanes &= lanes - 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_across_blocks_carries_what_was_carried() {
        let mut a = Clock::new(0, 2);
        a.raise(5, 3);
        assert!(a.observed(0, 0, 1 << 5, 3) && !a.observed(0, 0, 1 << 5, 4) && !a.observed(0, 0, 3 << 5, 3));
        let mut b = Clock::new(1, 2);
        b.raise_warp(1, 7);
        b.join(&a);
        let mut c = Clock::new(2, 2);
        c.join(&b);
        assert!(c.observed(0, 0, 1 << 5, 3) && c.observed(1, 1, u32::MAX, 7) && !c.observed(1, 0, 1, 1));
        a.join(&c);
        assert!(a.observed(1, 1, u32::MAX, 7) && a.observed(0, 0, 1 << 5, 3));
    }
}

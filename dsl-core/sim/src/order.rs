//! What orders accesses: barriers, atomics and fences, asynchronous copies, mbarriers.

mod boxes;
mod clusters;
mod copies;
mod mbarriers;

use copies::InFlight;

use super::clock::Clock;
use super::machine::Location;
use super::step::Step;
use super::warp::{Warp, active_lanes};
use girih_ir::simt::Space;
use girih_ir::types::{MemoryOrder, Scope};
use std::collections::VecDeque;

/// Fences and asynchronous copies of one lane.
#[derive(Default)]
pub(super) struct LaneOrder {
    /// What the last release fence made publishable by relaxed atomics, and among whom.
    released: Option<(Clock, Scope)>,
    /// What relaxed atomics read, for an acquire fence to observe.
    acquirable: Option<Clock>,
    open: Vec<InFlight>,
    groups: VecDeque<Vec<InFlight>>,
}

fn acquires(order: MemoryOrder) -> bool {
    matches!(order, MemoryOrder::Acquire | MemoryOrder::AcquireRelease)
}

fn releases(order: MemoryOrder) -> bool {
    matches!(order, MemoryOrder::Release | MemoryOrder::AcquireRelease)
}

/// All lanes of the warps observe what any of them did.
pub(super) fn meet(warps: &mut [&mut Warp]) {
    let Some(first) = warps.first() else { return };
    let mut joined = first.clocks[0].clone();
    for w in warps.iter() {
        let distinct = if w.uniform { 1 } else { w.clocks.len() };
        w.clocks[..distinct].iter().for_each(|c| joined.join(c));
    }
    meet_by_proxy(warps);
    for w in warps.iter_mut() {
        joined.raise_warp(w.index as usize, w.epoch);
        w.epoch += 1;
    }
    for w in warps.iter_mut() {
        w.set_clock(&joined);
    }
}

/// What matrix units see of what any of them did.
fn meet_by_proxy(warps: &mut [&mut Warp]) {
    let mut seen = warps.iter().filter_map(|w| w.proxy.as_ref());
    let Some(mut joined) = seen.next().cloned() else { return };
    seen.for_each(|clock| joined.join(clock));
    warps.iter_mut().for_each(|w| w.proxy = Some(joined.clone()));
}

impl Location {
    /// A release by a thread of `block`.
    fn publish(&mut self, block: u32, clock: &Clock, scope: Scope) {
        self.blocks.entry(block).and_modify(|c| c.join(clock)).or_insert_with(|| clock.clone());
        if scope > Scope::Block {
            match &mut self.device {
                Some(c) => c.join(clock),
                None => self.device = Some(clock.clone()),
            }
        }
    }

    /// What a thread of `block` may observe.
    fn observe(&self, block: u32, scope: Scope, into: &mut Clock) {
        if let Some(c) = self.blocks.get(&block) {
            into.join(c);
        }
        if scope > Scope::Block
            && let Some(c) = &self.device
        {
            into.join(c);
        }
    }
}

impl Step<'_, '_> {
    /// A lane's clock with what the lane did itself.
    pub(super) fn published(&self, lane: usize) -> Clock {
        let mut clock = self.warp.clocks[lane].clone();
        clock.raise(self.warp.index as usize * 32 + lane, self.warp.epoch);
        clock
    }

    fn lane_order(&mut self, lane: usize) -> &mut LaneOrder {
        if self.warp.order.is_empty() {
            self.warp.order.resize_with(32, LaneOrder::default);
        }
        &mut self.warp.order[lane]
    }

    fn join(&mut self, lane: usize, clock: &Clock) {
        self.warp.clocks[lane].join(clock);
        self.warp.uniform = false;
    }

    /// What an atomic on a location orders.
    pub(super) fn synchronise(&mut self, space: Space, address: u64, lane: usize, scope: Scope, order: MemoryOrder) {
        let fenced = self.warp.order.get(lane).and_then(|o| o.released.clone());
        let locations = match space {
            Space::Shared(_) => &mut self.block.locations,
            Space::Global(_) | Space::Constant(_) => &mut self.core.locations,
        };
        let publishes = releases(order) || fenced.is_some();
        if !publishes && locations.is_empty() {
            return;
        }
        let key = match space {
            Space::Shared(_) => (usize::MAX, address),
            Space::Global(p) | Space::Constant(p) => (self.core.pointers[p].buffer, address),
        };
        let block = self.block.index;
        if let Some(location) = locations.get(&key) {
            let mut seen = self.warp.clocks[lane].clone();
            location.observe(block, scope, &mut seen);
            if acquires(order) {
                self.join(lane, &seen);
            } else {
                self.lane_order(lane).acquirable = Some(seen);
            }
        }
        if !publishes {
            return;
        }
        let (clock, scope) = match fenced {
            Some((clock, fence)) if !releases(order) => (clock, scope.min(fence)),
            _ => (self.published(lane), scope),
        };
        let locations = match space {
            Space::Shared(_) => &mut self.block.locations,
            Space::Global(_) | Space::Constant(_) => &mut self.core.locations,
        };
        locations.entry(key).or_default().publish(block, &clock, scope);
    }

    /// After a release, later accesses belong to a new epoch.
    pub(super) fn end_release(&mut self, order: MemoryOrder) {
        self.warp.epoch += releases(order) as u32;
    }

    pub(super) fn fence(&mut self, scope: Scope, order: MemoryOrder) {
        for lane in active_lanes(self.warp.active) {
            if acquires(order)
                && let Some(seen) = self.lane_order(lane).acquirable.take()
            {
                self.join(lane, &seen);
            }
            if releases(order) {
                let clock = self.published(lane);
                self.lane_order(lane).released = Some((clock, scope));
            }
        }
        self.end_release(order);
    }
}

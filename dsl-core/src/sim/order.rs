//! What orders accesses: barriers, atomics and fences, asynchronous copies, mbarriers.

use super::access::Traffic;
use super::clock::Clock;
use super::machine::{Location, Mbarrier};
use super::op::{BulkStep, CopyStep, PlaceOp, Slot};
use super::shadow::{Entry, Kind};
use super::step::{Pause, Step};
use super::trap::TrapKind;
use super::warp::{Exec, Status, Warp, active_lanes, fault, signed};
use crate::simt::Space;
use crate::types::{MemoryOrder, Scope};
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

/// An asynchronous copy that nobody has waited for.
struct InFlight {
    shared: (Space, u64),
    global: Option<(Space, u64)>,
    bytes: usize,
    issued: Entry,
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
    for w in warps.iter_mut() {
        joined.raise_warp(w.index as usize, w.epoch);
        w.epoch += 1;
    }
    for w in warps.iter_mut() {
        w.set_clock(&joined);
    }
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
    fn published(&self, lane: usize) -> Clock {
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
            Space::Global(_) => &mut self.core.locations,
        };
        let publishes = releases(order) || fenced.is_some();
        if !publishes && locations.is_empty() {
            return;
        }
        let key = match space {
            Space::Shared(_) => (usize::MAX, address),
            Space::Global(p) => (self.core.pointers[p].buffer, address),
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
            Space::Global(_) => &mut self.core.locations,
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

    pub(super) fn async_copy(&mut self, step: &CopyStep) -> Exec {
        let all = self.warp.active;
        let copied = self.warp.lanes(step.predicate);
        let targets = self.resolve(&step.shared, all, step.bytes)?;
        let sources = self.resolve(&step.global, copied, step.bytes)?;
        let len = step.bytes as usize;
        self.count(step.global.space, &sources, copied, step.bytes, Traffic::Async);
        self.count(step.shared.space, &targets, all, step.bytes, Traffic::Async);
        for lane in active_lanes(all) {
            let token = self.block.token();
            let issued = Entry { epoch: token, ..self.entry(1 << lane, Kind::AsyncWrite) };
            let mut global = None;
            let mut data = vec![0; len];
            if copied >> lane & 1 == 1 {
                let (space, at) = (step.global.space, sources[lane]);
                self.require_known(space, at, len, lane)?;
                self.touch(space, at, len, Entry { kind: Kind::AsyncRead, ..issued })?;
                data.copy_from_slice(&self.bytes(space).0.data[at as usize..at as usize + len]);
                global = Some((space, at));
            }
            let (space, at) = (step.shared.space, targets[lane]);
            self.touch(space, at, len, issued)?;
            self.bytes(space).0.write(at as usize, &data);
            self.lane_order(lane).open.push(InFlight { shared: (space, at), global, bytes: len, issued });
        }
        Ok(())
    }

    pub(super) fn async_commit(&mut self) {
        for lane in active_lanes(self.warp.active) {
            let order = self.lane_order(lane);
            let group = std::mem::take(&mut order.open);
            order.groups.push_back(group);
        }
    }

    pub(super) fn async_wait(&mut self, pending: u32) {
        for lane in active_lanes(self.warp.active) {
            while self.lane_order(lane).groups.len() > pending as usize {
                let group = self.lane_order(lane).groups.pop_front().unwrap_or_default();
                for copy in group {
                    let landed = Entry { pc: copy.issued.pc, ..self.entry(1 << lane, Kind::Write) };
                    self.land(&copy, landed);
                }
            }
        }
    }

    fn land(&mut self, copy: &InFlight, landed: Entry) {
        let (space, at) = copy.shared;
        if let (_, Some(shadow)) = self.bytes(space) {
            shadow.land(at as usize, copy.bytes, copy.issued, landed);
        }
        if let Some((space, at)) = copy.global
            && let (_, Some(shadow)) = self.bytes(space)
        {
            let issued = Entry { kind: Kind::AsyncRead, ..copy.issued };
            shadow.land(at as usize, copy.bytes, issued, Entry { kind: Kind::Read, ..landed });
        }
    }

    pub(super) fn mbarrier_init(&mut self, place: &PlaceOp, count: u32) -> Exec {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let entry = self.entry(1 << lane, Kind::Write);
            self.touch(place.space, addresses[lane], 8, entry)?;
            self.bytes(place.space).0.mark(addresses[lane] as usize, 8, true);
            let slot = self.block.mbarriers.len() as u32;
            let known = self.block.mbarriers.get(&addresses[lane]);
            let (slot, generation) = known.map_or((slot, 0), |m| (m.slot, m.generation));
            let barrier = Mbarrier { count, pending: count, expected: 0, phase: 0, generation, slot, arrived: None, completed: None };
            self.block.mbarriers.insert(addresses[lane], barrier);
        }
        Ok(())
    }

    /// Traps where there is no mbarrier, or it is not ordered after its initialisation.
    fn mbarrier(&mut self, place: &PlaceOp, address: u64, lane: usize) -> Exec<&mut Mbarrier> {
        if !self.block.mbarriers.contains_key(&address) {
            let what = format!("mbarrier {}", self.element_name(place.space, address as usize));
            return fault(TrapKind::Uninitialised { what }, lane);
        }
        let entry = self.entry(1 << lane, Kind::AtomicBlock);
        self.touch(place.space, address, 8, entry)?;
        Ok(self.block.mbarriers.get_mut(&address).expect("looked up above"))
    }

    pub(super) fn mbarrier_arrive(&mut self, place: &PlaceOp, expect: Option<Slot>) -> Exec {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let clock = self.published(lane);
            let expect = expect.map_or(0, |e| self.warp.reg(e)[lane] as i32 as i64);
            self.arrive(place, addresses[lane], lane, expect, &clock)?;
        }
        self.warp.epoch += 1;
        Ok(())
    }

    /// One arrival, which makes a clock's past observable to who waits for the phase.
    fn arrive(&mut self, place: &PlaceOp, address: u64, lane: usize, expect: i64, clock: &Clock) -> Exec {
        let m = self.mbarrier(place, address, lane)?;
        if m.pending == 0 {
            let found = format!("the phase of this mbarrier has its {} arrivals already", m.count);
            return fault(TrapKind::Misuse { found }, lane);
        }
        m.pending -= 1;
        m.expected += expect;
        m.observe(clock);
        self.complete(address);
        Ok(())
    }

    /// Each lane's arrival is that of its copies: they land at the end of the phase, for who waits for it. Of what else the lane did it says
    /// nothing.
    pub(super) fn async_arrive(&mut self, place: &PlaceOp) -> Exec {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let m = self.mbarrier(place, addresses[lane], lane)?;
            let (slot, generation) = (m.slot, m.generation);
            let order = self.lane_order(lane);
            let groups = order.groups.drain(..).flatten();
            let flying: Vec<InFlight> = groups.chain(order.open.drain(..)).collect();
            for copy in flying {
                let landed = self.landed_by(slot, generation, lane, copy.issued.pc);
                self.land(&copy, landed);
            }
            let seen = self.warp.clocks[lane].clone();
            self.arrive(place, addresses[lane], lane, 0, &seen)?;
        }
        Ok(())
    }

    /// The write of a copy that lands with a phase of an mbarrier: by an agent of its own, which only those who wait for the phase observe.
    fn landed_by(&self, slot: u32, generation: u32, lane: usize, pc: u32) -> Entry {
        let agent = self.core.program.kernel.launch.block.div_ceil(32) + slot / 32;
        Entry { warp: agent as u8, lanes: 1 << (slot % 32), epoch: generation + 1, pc, ..self.entry(1 << lane, Kind::Write) }
    }

    /// Ends an mbarrier's phase if all arrivals and bytes are there.
    fn complete(&mut self, address: u64) {
        let agents = self.core.program.kernel.launch.block.div_ceil(32) * 32;
        let Some(m) = self.block.mbarriers.get_mut(&address) else { return };
        if m.pending > 0 || m.expected != 0 {
            return;
        }
        m.generation += 1;
        m.phase ^= 1;
        m.pending = m.count;
        let mut clock = m.arrived.take().expect("a phase has arrivals");
        if m.slot < self.core.program.mbarriers as u32 {
            clock.raise((agents + m.slot) as usize, m.generation);
        }
        if let Some(earlier) = &m.completed {
            clock.join(earlier);
        }
        m.completed = Some(clock);
        self.block.wake = true;
    }

    pub(super) fn mbarrier_wait(&mut self, place: &PlaceOp, parity: Slot) -> Exec<Option<Pause>> {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let parity = (self.warp.reg(parity)[lane] & 1) as u32;
            if self.mbarrier(place, addresses[lane], lane)?.phase == parity {
                self.warp.pc -= 1;
                self.warp.status = Status::Mbarrier;
                return Ok(Some(Pause::Slice));
            }
        }
        let first = addresses[self.warp.active.trailing_zeros() as usize];
        let together = self.warp.uniform && self.warp.active == self.warp.present;
        if together && active_lanes(self.warp.active).all(|l| addresses[l] == first) {
            if let Some(completed) = self.block.mbarriers.get(&first).and_then(|m| m.completed.as_ref()) {
                let mut clock = self.warp.clocks[0].clone();
                clock.join(completed);
                self.warp.set_clock(&clock);
            }
            return Ok(None);
        }
        for lane in active_lanes(self.warp.active) {
            if let Some(clock) = self.block.mbarriers.get(&addresses[lane]).and_then(|m| m.completed.clone()) {
                self.join(lane, &clock);
            }
        }
        Ok(None)
    }

    pub(super) fn bulk_copy(&mut self, step: &BulkStep) -> Exec {
        let lanes = self.warp.active;
        let sizes = *self.warp.reg(step.bytes);
        for lane in active_lanes(lanes) {
            let bytes = signed(sizes[lane], crate::types::DType::I32);
            if bytes <= 0 || bytes % 16 != 0 {
                let found = format!("a bulk copy of {bytes} bytes; it moves a positive multiple of 16");
                return fault(TrapKind::Misuse { found }, lane);
            }
        }
        let targets = self.resolve_aligned(&step.shared, lanes, |l| sizes[l], 16)?;
        let sources = self.resolve_aligned(&step.global, lanes, |l| sizes[l], 16)?;
        let barriers = self.resolve(&step.barrier, lanes, 8)?;
        for lane in active_lanes(lanes) {
            let len = sizes[lane] as usize;
            self.count_bulk(step.global.space, sources[lane], len);
            let m = self.mbarrier(&step.barrier, barriers[lane], lane)?;
            let (slot, generation) = (m.slot, m.generation);
            let issued = Entry { epoch: self.block.token(), ..self.entry(1 << lane, Kind::AsyncWrite) };
            self.require_known(step.global.space, sources[lane], len, lane)?;
            self.touch(step.global.space, sources[lane], len, Entry { kind: Kind::AsyncRead, ..issued })?;
            self.touch(step.shared.space, targets[lane], len, issued)?;
            let from = sources[lane] as usize;
            let data = self.bytes(step.global.space).0.data[from..from + len].to_vec();
            self.bytes(step.shared.space).0.write(targets[lane] as usize, &data);
            let landed = self.landed_by(slot, generation, lane, issued.pc);
            let (shared, global) = ((step.shared.space, targets[lane]), Some((step.global.space, sources[lane])));
            self.land(&InFlight { shared, global, bytes: len, issued }, landed);
            if let Some(m) = self.block.mbarriers.get_mut(&barriers[lane]) {
                m.expected -= len as i64;
            }
            self.complete(barriers[lane]);
        }
        Ok(())
    }

    /// A bulk copy is one request, and reads whole sectors.
    fn count_bulk(&mut self, space: Space, at: u64, len: usize) {
        let Space::Global(p) = space else { return };
        if !self.core.options.count {
            return;
        }
        let (first, last) = (at >> 5, (at + len as u64 - 1) >> 5);
        let counter = &mut self.core.counters.global_async;
        counter.requests += 1;
        counter.sectors += last - first + 1;
        counter.bytes += len as u64;
        let unique = &mut self.core.sectors[self.core.pointers[p].buffer];
        for sector in first..=last {
            unique.touch(sector as usize, Traffic::Async);
        }
    }
}

impl Mbarrier {
    fn observe(&mut self, clock: &Clock) {
        match &mut self.arrived {
            Some(c) => c.join(clock),
            None => self.arrived = Some(clock.clone()),
        }
    }
}

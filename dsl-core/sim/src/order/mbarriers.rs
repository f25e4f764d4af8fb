//! Mbarriers: arrivals, phases, and who waits for them.

use super::InFlight;
use crate::clock::Clock;
use crate::machine::Mbarrier;
use crate::op::{PlaceOp, Slot};
use crate::shadow::Kind;
use crate::step::{Pause, Step};
use crate::trap::TrapKind;
use crate::warp::{Exec, Status, active_lanes, fault};

impl Step<'_, '_> {
    pub(crate) fn mbarrier_init(&mut self, place: &PlaceOp, count: u32) -> Exec {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let entry = self.entry(1 << lane, Kind::Write);
            self.touch(place.space, addresses[lane], 8, entry)?;
            self.bytes(place.space).0.mark(addresses[lane] as usize, 8, true);
            let slot = self.block.mbarriers.len() as u32;
            let known = self.block.mbarriers.get(&addresses[lane]);
            let (slot, generation) = known.map_or((slot, 0), |m| (m.slot, m.generation));
            let barrier = Mbarrier {
                count,
                pending: count,
                expected: 0,
                phase: 0,
                generation,
                slot,
                by_proxy: false,
                arrived: None,
                completed: None,
            };
            self.block.mbarriers.insert(addresses[lane], barrier);
        }
        Ok(())
    }

    /// Traps where there is no mbarrier, or it is not ordered after its initialisation.
    pub(super) fn mbarrier(&mut self, place: &PlaceOp, address: u64, lane: usize) -> Exec<&mut Mbarrier> {
        if !self.block.mbarriers.contains_key(&address) {
            let what = format!("mbarrier {}", self.element_name(place.space, address as usize));
            return fault(TrapKind::Uninitialised { what }, lane);
        }
        let entry = self.entry(1 << lane, Kind::AtomicBlock);
        self.touch(place.space, address, 8, entry)?;
        Ok(self.block.mbarriers.get_mut(&address).expect("looked up above"))
    }

    pub(crate) fn mbarrier_arrive(&mut self, place: &PlaceOp, expect: Option<Slot>) -> Exec {
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
    pub(crate) fn async_arrive(&mut self, place: &PlaceOp) -> Exec {
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

    /// Ends an mbarrier's phase if all arrivals and bytes are there.
    pub(super) fn complete(&mut self, address: u64) {
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

    pub(crate) fn mbarrier_wait(&mut self, place: &PlaceOp, parity: Slot) -> Exec<Option<Pause>> {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        for lane in active_lanes(self.warp.active) {
            let parity = (self.warp.reg(parity)[lane] & 1) as u32;
            if self.mbarrier(place, addresses[lane], lane)?.phase == parity {
                self.warp.pc -= 1;
                self.warp.status = Status::Mbarrier;
                return Ok(Some(Pause::Slice));
            }
        }
        active_lanes(self.warp.active).for_each(|lane| self.see_by_proxy(addresses[lane]));
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
}

impl Step<'_, '_> {
    /// What tensor maps have copied by the end of an mbarrier's last phase is there for matrix units.
    fn see_by_proxy(&mut self, address: u64) {
        let Some(m) = self.block.mbarriers.get(&address).filter(|m| m.by_proxy) else { return };
        let (slot, generation) = (m.slot, m.generation);
        let agents = self.core.program.kernel.launch.block.div_ceil(32) * 32;
        let nothing = self.nothing_observed();
        self.warp.proxy.get_or_insert(nothing).raise((agents + slot) as usize, generation);
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

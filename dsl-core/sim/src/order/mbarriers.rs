//! Mbarriers: arrivals, phases, and who waits for them.

use super::InFlight;
use crate::clock::Clock;
use crate::machine::{Known, Mbarrier};
use crate::op::{PlaceOp, Slot};
use crate::shadow::Kind;
use crate::step::{Pause, Step};
use crate::trap::TrapKind;
use crate::warp::{Exec, Status, active_lanes, fault, signed};
use girih_ir::types::{DType, Scope};

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
                arrived: Known::default(),
                completed: Known::default(),
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
        let kind = if self.clusters() { Kind::AtomicDevice } else { Kind::AtomicBlock };
        let entry = self.entry(1 << lane, kind);
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

    /// Each lane's arrival at the mbarrier of a block of the cluster.
    pub(crate) fn mbarrier_arrive_at(&mut self, place: &PlaceOp, block: Slot) -> Exec {
        let addresses = self.resolve(place, self.warp.active, 8)?;
        let numbers = *self.warp.reg(block);
        for lane in active_lanes(self.warp.active) {
            let clock = self.published(lane);
            let of = self.of_cluster(signed(numbers[lane], DType::I32), lane)?;
            self.in_block(of, lane, |there| there.arrive(place, addresses[lane], lane, 0, &clock))?;
        }
        self.warp.epoch += 1;
        Ok(())
    }

    /// Whether the launch has clusters.
    fn clusters(&self) -> bool {
        self.core.program.kernel.launch.cluster > 1
    }

    /// One arrival, which makes a clock's past observable to who waits for the phase.
    fn arrive(&mut self, place: &PlaceOp, address: u64, lane: usize, expect: i64, clock: &Clock) -> Exec {
        let blank = self.clusters().then(|| self.nothing_observed());
        let m = self.mbarrier(place, address, lane)?;
        if m.pending == 0 {
            let found = format!("the phase of this mbarrier has its {} arrivals already", m.count);
            return fault(TrapKind::Misuse { found }, lane);
        }
        m.pending -= 1;
        m.expected += expect;
        m.arrived.observe(clock, blank);
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
        let Some(m) = self.block.mbarriers.get_mut(&address).filter(|m| m.pending == 0 && m.expected == 0) else { return };
        m.generation += 1;
        m.phase ^= 1;
        m.pending = m.count;
        let copies = (m.slot < self.core.program.mbarriers as u32).then_some(((agents + m.slot) as usize, m.generation));
        let arrived = std::mem::take(&mut m.arrived);
        m.completed.complete(arrived, copies);
        self.block.wake = true;
    }

    pub(crate) fn mbarrier_wait(&mut self, place: &PlaceOp, parity: Slot, scope: Scope) -> Exec<Option<Pause>> {
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
            if let Some(completed) = self.block.mbarriers.get(&first).and_then(|m| m.completed.among(scope)) {
                let mut clock = self.warp.clocks[0].clone();
                clock.join(completed);
                self.warp.set_clock(&clock);
            }
            return Ok(None);
        }
        for lane in active_lanes(self.warp.active) {
            if let Some(clock) = self.block.mbarriers.get(&addresses[lane]).and_then(|m| m.completed.among(scope).cloned()) {
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

impl Known {
    /// What somebody knows who arrives; `blank` is a clock of the mbarrier's block, in a launch of clusters.
    fn observe(&mut self, clock: &Clock, blank: Option<Clock>) {
        let join = |known: &mut Option<Clock>, first: &dyn Fn() -> Clock| match known {
            Some(c) => c.join(clock),
            None => *known = Some(first()),
        };
        let Some(blank) = blank else { return join(&mut self.block, &|| clock.clone()) };
        let here = || {
            let mut all = blank.clone();
            all.join(clock);
            all
        };
        join(&mut self.cluster, &here);
        if clock.block() == blank.block() {
            join(&mut self.block, &here);
        } else {
            self.block.get_or_insert(blank);
        }
    }

    /// A phase ends: what its arrivals know, and the copies of this slot up to this generation.
    fn complete(&mut self, arrived: Known, copies: Option<(usize, u32)>) {
        let end = |known: &mut Option<Clock>, arrived: Option<Clock>| {
            let Some(mut clock) = arrived else { return };
            copies.iter().for_each(|(slot, generation)| clock.raise(*slot, *generation));
            known.iter().for_each(|earlier| clock.join(earlier));
            *known = Some(clock);
        };
        end(&mut self.block, arrived.block);
        end(&mut self.cluster, arrived.cluster);
    }

    /// What who waits with this scope comes to know.
    fn among(&self, scope: Scope) -> Option<&Clock> {
        if scope == Scope::Block { self.block.as_ref() } else { self.cluster.as_ref().or(self.block.as_ref()) }
    }
}

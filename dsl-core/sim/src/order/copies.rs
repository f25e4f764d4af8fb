//! Asynchronous copies and bulk copies: when their bytes are there, and for whom.

use crate::access::Traffic;
use crate::op::{BulkStep, CopyStep};
use crate::shadow::{Entry, Kind};
use crate::step::Step;
use crate::trap::TrapKind;
use crate::warp::{Exec, active_lanes, fault, signed};
use girih_ir::simt::Space;
use girih_ir::types::DType;

/// An asynchronous copy that nobody has waited for.
pub(super) struct InFlight {
    pub(super) shared: (Space, u64),
    pub(super) global: Option<(Space, u64)>,
    pub(super) bytes: usize,
    /// Bytes that are read.
    pub(super) read: usize,
    pub(super) issued: Entry,
}

impl Step<'_, '_> {
    pub(crate) fn async_copy(&mut self, step: &CopyStep) -> Exec {
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
            self.lane_order(lane).open.push(InFlight { shared: (space, at), global, bytes: len, read: len, issued });
        }
        Ok(())
    }

    pub(crate) fn async_commit(&mut self) {
        for lane in active_lanes(self.warp.active) {
            let order = self.lane_order(lane);
            let group = std::mem::take(&mut order.open);
            order.groups.push_back(group);
        }
    }

    pub(crate) fn async_wait(&mut self, pending: u32) {
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

    pub(super) fn land(&mut self, copy: &InFlight, landed: Entry) {
        let (space, at) = copy.shared;
        if let (_, Some(shadow)) = self.bytes(space) {
            shadow.land(at as usize, copy.bytes, copy.issued, landed);
        }
        if let Some((space, at)) = copy.global
            && let (_, Some(shadow)) = self.bytes(space)
        {
            let issued = Entry { kind: Kind::AsyncRead, ..copy.issued };
            shadow.land(at as usize, copy.read, issued, Entry { kind: Kind::Read, ..landed });
        }
    }

    /// The write of a copy that lands with a phase of an mbarrier: by an agent of its own, which only those who wait for the phase observe.
    pub(super) fn landed_by(&self, slot: u32, generation: u32, lane: usize, pc: u32) -> Entry {
        let agent = self.core.program.kernel.launch.block.div_ceil(32) + slot / 32;
        let own = self.entry(1 << lane, Kind::Write);
        Entry { block: self.block.index, warp: agent as u8, lanes: 1 << (slot % 32), epoch: generation + 1, pc, ..own }
    }

    pub(crate) fn bulk_copy(&mut self, step: &BulkStep) -> Exec {
        let lanes = self.warp.active;
        let sizes = *self.warp.reg(step.bytes);
        for lane in active_lanes(lanes) {
            let bytes = signed(sizes[lane], DType::I32);
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
            self.count_bulk(step.global.space, sources[lane], len, true);
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
            self.land(&InFlight { shared, global, bytes: len, read: len, issued }, landed);
            if let Some(m) = self.block.mbarriers.get_mut(&barriers[lane]) {
                m.expected -= len as i64;
            }
            self.complete(barriers[lane]);
        }
        Ok(())
    }

    /// A bulk copy is one request, and reads whole sectors; a part of one that is not its first is none.
    pub(super) fn count_bulk(&mut self, space: Space, at: u64, len: usize, first_part: bool) {
        let Space::Global(p) = space else { return };
        if !self.core.options.count {
            return;
        }
        let (first, last) = (at >> 5, (at + len as u64 - 1) >> 5);
        let counter = &mut self.core.counters.global_async;
        counter.requests += u64::from(first_part);
        counter.sectors += last - first + 1;
        counter.bytes += len as u64;
        let unique = &mut self.core.sectors[self.core.pointers[p].buffer];
        for sector in first..=last {
            unique.touch(sector as usize, Traffic::Async);
        }
    }
}

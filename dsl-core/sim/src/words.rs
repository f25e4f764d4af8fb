//! Words that blocks leave for the last block of the grid: relaxed stores, and the wait for them.

use super::access::Traffic;
use super::op::{AccessOp, Slot};
use super::shadow::Kind;
use super::step::{Pause, Step};
use super::trap::TrapKind;
use super::warp::{Exec, Status, active_lanes, fault};
use girih_ir::simt::Space;
use girih_ir::types::{MemoryOrder, Scope};

/// Bytes of a word.
pub(super) const WORD: usize = 8;

impl Step<'_, '_> {
    pub(super) fn store_relaxed(&mut self, access: &AccessOp, value: Slot) -> Exec {
        let (space, lanes) = (access.place.space, self.warp.lanes(access.predicate));
        let addresses = self.resolve(&access.place, lanes, WORD as u32)?;
        self.count(space, &addresses, lanes, WORD as u32, Traffic::Store);
        let values = *self.warp.reg(value);
        for lane in active_lanes(lanes) {
            let at = addresses[lane] as usize;
            self.require_known(space, addresses[lane], WORD, lane)?;
            let entry = self.entry(1 << lane, Kind::AtomicDevice);
            self.touch(space, addresses[lane], WORD, entry)?;
            if self.bytes(space).0.load(at, WORD) != 0 && values[lane] != 0 {
                let found = format!("{} is stored again before anybody has taken it", self.element_name(space, at));
                return fault(TrapKind::Misuse { found }, lane);
            }
            self.bytes(space).0.store(at, WORD, values[lane]);
            self.synchronise(space, addresses[lane], lane, Scope::Device, MemoryOrder::Relaxed);
        }
        self.core.wake = true;
        Ok(())
    }

    /// Goes on when the words of all lanes are there, where they are waited for; until then the warp stands before the wait.
    pub(super) fn load_relaxed(&mut self, dst: Slot, access: &AccessOp, wait: bool) -> Exec<Option<Pause>> {
        let (space, mut lanes) = (access.place.space, self.warp.lanes(access.predicate));
        let mut values = [0; 32];
        if wait {
            values = *self.warp.reg(dst);
            lanes = active_lanes(lanes).filter(|lane| values[*lane] == 0).fold(0, |all, lane| all | 1 << lane);
        }
        if wait && self.block.index + 1 != self.core.grid {
            let found = "a block waits for another one: only the last of the grid may, for which no other has to make room".to_string();
            return fault(TrapKind::Misuse { found }, self.warp.active.trailing_zeros() as usize);
        }
        let addresses = self.resolve(&access.place, lanes, WORD as u32)?;
        for lane in active_lanes(lanes) {
            self.require_known(space, addresses[lane], WORD, lane)?;
            let entry = self.entry(1 << lane, Kind::AtomicDevice);
            self.touch(space, addresses[lane], WORD, entry)?;
            values[lane] = self.bytes(space).0.load(addresses[lane] as usize, WORD);
        }
        if wait && active_lanes(lanes).any(|lane| values[lane] == 0) {
            self.warp.pc -= 1;
            self.warp.status = Status::Words;
            return Ok(Some(Pause::Slice));
        }
        if lanes != 0 {
            self.count(space, &addresses, lanes, WORD as u32, Traffic::Load);
        }
        for lane in active_lanes(lanes) {
            self.synchronise(space, addresses[lane], lane, Scope::Device, MemoryOrder::Relaxed);
            if let (true, Space::Global(p)) = (values[lane] != 0, space) {
                self.core.awaited.insert((p, addresses[lane]), self.warp.pc - 1);
            }
        }
        self.warp.set(dst, &values, self.warp.active);
        Ok(None)
    }
}

//! Reads of the shared memory of another block of the cluster.

use crate::machine::Block;
use crate::op::{PlaceOp, Slot};
use crate::shadow::Kind;
use crate::step::Step;
use crate::trap::{RaceSide, TrapKind};
use crate::warp::{Exec, active_lanes, fault, signed};
use girih_ir::types::DType;

impl Step<'_, '_> {
    /// Each active lane reads one element from the same array of a block of the cluster.
    pub(crate) fn load_from_block(&mut self, dst: Slot, place: &PlaceOp, block: Slot) -> Exec {
        let (lanes, size) = (self.warp.active, place.dtype.size());
        let addresses = self.resolve(place, lanes, size as u32)?;
        let numbers = *self.warp.reg(block);
        let mut values = [0; 32];
        for lane in active_lanes(lanes) {
            let of = self.of_cluster(signed(numbers[lane], DType::I32), lane)?;
            values[lane] = self.read_of(of, place, addresses[lane], lane)?;
        }
        self.count(place.space, &addresses, lanes, size as u32, crate::access::Traffic::Load);
        self.warp.set(dst, &values, lanes);
        Ok(())
    }

    /// The index in the grid of the block with a number in this block's cluster.
    fn of_cluster(&self, number: i64, lane: usize) -> Exec<u32> {
        let blocks = self.core.program.kernel.launch.cluster.max(1);
        match u32::try_from(number).ok().filter(|n| *n < blocks) {
            Some(n) => Ok(self.block.index / blocks * blocks + n),
            None => fault(TrapKind::Misuse { found: format!("a cluster of {blocks} blocks has no block {number}") }, lane),
        }
    }

    /// One element of a block's shared memory, which is there, was written, and is not written at the same time.
    fn read_of(&mut self, index: u32, place: &PlaceOp, address: u64, lane: usize) -> Exec<u64> {
        let (at, size) = (address as usize, place.dtype.size());
        let what = self.element_name(place.space, at);
        let entry = self.entry(1 << lane, Kind::Read);
        let clock = self.warp.clocks[lane].clone();
        let own = index == self.block.index;
        let found = if own { Some(&mut *self.block) } else { self.others.iter_mut().flat_map(|b| b.iter_mut()).find(|b| b.index == index) };
        let Some(block) = found.filter(|b: &&mut Block| own || !b.done()) else {
            return fault(TrapKind::Ended { found: format!("{what} of block {index} is read when that block has ended") }, lane);
        };
        if block.shared.first_unknown(at, size).is_some() {
            return fault(TrapKind::Uninitialised { what: format!("{what} of block {index}") }, lane);
        }
        let value = block.shared.load(at, size);
        match block.shadow.access(at, size, entry, &clock) {
            Ok(()) => Ok(value),
            Err((_, other)) => {
                let thread = Some(u32::from(other.warp) * 32 + other.lanes.trailing_zeros());
                let statement = self.core.program.statement(other.pc).0;
                let side = RaceSide { block: other.block, thread, access: other.kind.name(), statement };
                fault(TrapKind::Race { what: format!("{what} of block {index}"), access: Kind::Read.name(), other: side }, lane)
            }
        }
    }
}

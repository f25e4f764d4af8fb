//! What a block does in the shared memory of another block of its cluster.

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

    /// Does something in the shared memory of a block, for this warp.
    ///
    /// # Errors
    /// The block has ended.
    pub(super) fn in_block<R>(&mut self, index: u32, lane: usize, does: impl FnOnce(&mut Self) -> Exec<R>) -> Exec<R> {
        let own = self.block.index;
        if index == own {
            return does(self);
        }
        if self.other(index).is_none_or(|b| b.done()) {
            return fault(
                TrapKind::Ended { found: format!("the shared memory of block {index} is reached when that block has ended") },
                lane,
            );
        }
        self.change_places(index);
        let done = does(self);
        self.change_places(own);
        done
    }

    /// The blocks that receive what is copied to all of the cluster, or to this block alone.
    pub(super) fn receivers(&self, to_all: bool) -> std::ops::Range<u32> {
        let (own, blocks) = (self.block.index, self.core.program.kernel.launch.cluster.max(1));
        let first = own / blocks * blocks;
        if to_all { first..first + blocks } else { own..own + 1 }
    }

    fn other(&mut self, index: u32) -> Option<&mut Block> {
        self.others.iter_mut().flat_map(|b| b.iter_mut()).find(|b| b.index == index)
    }

    /// The block at hand and another one stand in each other's place.
    fn change_places(&mut self, index: u32) {
        let other = self.others.iter_mut().flat_map(|b| b.iter_mut()).find(|b| b.index == index);
        std::mem::swap(self.block, other.expect("the block is resident"));
    }

    /// The index in the grid of the block with a number in this block's cluster.
    pub(super) fn of_cluster(&self, number: i64, lane: usize) -> Exec<u32> {
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
        let found = if own { Some(&mut *self.block) } else { self.other(index) };
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

//! Ends of blocks whose shared memory others of their cluster read.

use super::{Block, Machine};
use crate::clock::Clock;
use crate::trap::{Trap, TrapKind};
use crate::warp::Fault;

impl Machine<'_> {
    /// A block that has finished has observed that all others have read what they read of its shared memory.
    pub(super) fn ends_behind_its_readers(&self, b: usize) -> Result<(), Box<Trap>> {
        let program = self.core.program;
        if program.kernel.launch.cluster <= 1 {
            return Ok(());
        }
        let block = &self.resident[b];
        let Some(last) = observed(block) else { return Ok(()) };
        let Some((_, reader)) = block.shadow.unobserved_of_others(block.index, &last) else { return Ok(()) };
        let thread = u32::from(reader.warp) * 32 + reader.lanes.trailing_zeros();
        let found = format!(
            "block {} ends, and nothing orders that block {} thread {thread} has read its shared memory",
            block.index, reader.block
        );
        let mut trap = self.trap(Fault { kind: TrapKind::Ended { found }, lane: None }, block.index, 0, reader.pc);
        trap.block = Some(reader.block);
        Err(trap)
    }
}

/// What the threads of a block have observed when the last of them ends.
fn observed(block: &Block) -> Option<Clock> {
    let mut clocks = block.warps().flat_map(|w| &w.clocks[..if w.uniform { 1 } else { w.clocks.len() }]);
    let mut last = clocks.next()?.clone();
    clocks.for_each(|clock| last.join(clock));
    Some(last)
}

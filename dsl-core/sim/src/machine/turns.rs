//! Warp groups that take turns: named barriers at which one group waits and the one before it arrives without waiting.

use super::Machine;
use crate::trap::{Trap, TrapKind};
use crate::warp::{Fault, Status, Warp};
use girih_ir::fragments::GroupAtom;
use girih_ir::simt::Barrier;

/// Named barriers of a block.
const BARRIERS: usize = 16;

/// How many warps have passed a turn on to each named barrier, and nobody has taken it yet.
#[derive(Default)]
pub(super) struct Passed([u32; BARRIERS]);

impl<'a> Machine<'a> {
    /// Warps that pass a turn on go on; a group whose turn has been passed on takes it. What was done before is not ordered by it.
    pub(super) fn turns(&mut self, b: usize) -> Result<(), Box<Trap>> {
        let block = &mut self.resident[b];
        for warp in block.warps.iter_mut().flatten() {
            let Status::At(Barrier::PassTurn { first, groups }) = warp.status else { continue };
            let next = (group(warp) + 1) % groups;
            let passed = &mut block.passed.0[(first + next) as usize];
            *passed += 1;
            warp.status = Status::Ready;
            if *passed > GroupAtom::WARPS {
                let found = "a turn is passed on again before it is taken".to_string();
                let (fault, index, at) = (Fault { kind: TrapKind::Misuse { found }, lane: Some(0) }, warp.index * 32, warp.pc - 1);
                let block = block.index;
                return Err(self.trap(fault, block, index, at));
            }
        }
        for number in 0..BARRIERS as u32 {
            let takes = |w: &Warp| matches!(w.status, Status::At(Barrier::AwaitTurn { first, .. }) if first + group(w) == number);
            let all = block.warps().filter(|w| takes(w)).count() as u32 == GroupAtom::WARPS;
            if all && block.passed.0[number as usize] == GroupAtom::WARPS {
                block.passed.0[number as usize] = 0;
                block.warps.iter_mut().flatten().filter(|w| takes(w)).for_each(|w| w.status = Status::Ready);
            }
        }
        Ok(())
    }
}

/// The group of a warp.
fn group(warp: &Warp) -> u32 {
    warp.index / GroupAtom::WARPS
}

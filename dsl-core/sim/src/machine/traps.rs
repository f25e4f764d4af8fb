//! Why a launch is given up: who waits for what in a deadlock, words that are left, and where a fault happened.

use super::Machine;
use crate::decode::Program;
use crate::trap::{Trap, TrapKind};
use crate::warp::{Fault, Status};
use crate::words::WORD;

impl<'a> Machine<'a> {
    pub(super) fn deadlock(&self) -> Box<Trap> {
        let mut waiting = Vec::new();
        let mut pc = 0;
        for block in &self.resident {
            for w in block.warps().filter(|w| w.status != Status::Done) {
                // A warp that waits for an mbarrier or a word stands before the wait, one at a barrier behind it.
                pc = if matches!(w.status, Status::Mbarrier | Status::Words) { w.pc } else { w.pc - 1 };
                waiting.push(format!("block {} warp {} waits at `{}`", block.index, w.index, self.core.program.statement(pc).0));
            }
        }
        let mut trap = self.trap(Fault { kind: TrapKind::Deadlock { waiting }, lane: None }, 0, 0, pc);
        trap.block = None;
        trap
    }

    /// Words that were waited for are zero again, or the next launch would not wait.
    pub(super) fn words_are_zero(&self) -> Result<(), Box<Trap>> {
        let left = |(p, at): &(usize, u64)| self.core.memory.buffers[self.core.pointers[*p].buffer].load(*at as usize, WORD) != 0;
        let Some(((p, at), pc)) = self.core.awaited.iter().find(|(word, _)| left(word)) else { return Ok(()) };
        let name = &self.core.program.kernel.params[*p].name;
        let element = (at - self.core.pointers[*p].offset) / WORD as u64;
        let found = format!("{name}[{element}] is not zero when the launch ends: the next one would not wait for it");
        let mut trap = self.trap(Fault { kind: TrapKind::Misuse { found }, lane: None }, 0, 0, *pc);
        trap.block = None;
        Err(trap)
    }

    pub(super) fn trap(&self, fault: Fault, block: u32, first: u32, pc: u32) -> Box<Trap> {
        let (statement, comment) = self.core.program.statement(pc);
        Box::new(Trap {
            kernel: self.core.program.kernel.name.clone(),
            block: Some(block),
            thread: fault.lane.map(|l| first + l),
            statement,
            comment,
            kind: fault.kind,
        })
    }
}

pub(super) fn launch_trap(program: &Program, kind: TrapKind) -> Trap {
    let kernel = program.kernel.name.clone();
    Trap { kernel, block: None, thread: None, statement: String::new(), comment: None, kind }
}

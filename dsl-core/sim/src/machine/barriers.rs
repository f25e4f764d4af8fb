//! Barriers at which several warps meet: of a block, of some of its warps, of a cluster, of the grid.

use super::Machine;
use crate::order::meet;
use crate::trap::{Trap, TrapKind};
use crate::warp::{Fault, Status, Warp};
use girih_ir::simt::Barrier;

impl<'a> Machine<'a> {
    /// Lets those go who have all met.
    pub(super) fn release(&mut self, b: usize) -> Result<(), Box<Trap>> {
        self.block_barrier(b)?;
        self.named_barriers(b);
        self.turns(b)?;
        let launch = &self.core.program.kernel.launch;
        let cluster = self.resident[b].index / launch.cluster.max(1);
        let size = launch.cluster.max(1);
        if launch.cluster > 1 {
            self.wide_barrier(|barrier| barrier == Barrier::Cluster, |block| block / size == cluster)?;
        }
        if launch.cooperative {
            self.wide_barrier(|barrier| matches!(barrier, Barrier::Grid { .. }), |_| true)?;
        }
        Ok(())
    }

    fn block_barrier(&mut self, b: usize) -> Result<(), Box<Trap>> {
        let block = &self.resident[b];
        let waits = |w: &&Warp| matches!(w.status, Status::At(Barrier::Block)) || self.alone(w);
        let Some(first) = block.warps().find(waits) else { return Ok(()) };
        if block.warps().any(|w| w.status == Status::Done) {
            return Err(self.divergent(b, first, "other threads of the block have finished"));
        }
        if !block.warps().all(|w| waits(&w)) {
            return Ok(());
        }
        if let Some(other) = block.warps().find(|w| w.pc != first.pc) {
            let text = self.core.program.statement(other.pc - 1);
            let found = format!("other threads of the block wait at another barrier, `{}` below `{}`", text.0, text.1.unwrap_or_default());
            return Err(self.divergent(b, first, &found));
        }
        let mut warps: Vec<&mut Warp> = self.resident[b].warps.iter_mut().flatten().map(|w| &mut **w).collect();
        meet(&mut warps);
        warps.iter_mut().for_each(|w| w.status = Status::Ready);
        Ok(())
    }

    /// A cluster barrier in a launch without clusters is a block barrier.
    fn alone(&self, warp: &Warp) -> bool {
        warp.status == Status::At(Barrier::Cluster) && self.core.program.kernel.launch.cluster <= 1
    }

    fn named_barriers(&mut self, b: usize) {
        let block = &mut self.resident[b];
        let named: Vec<Barrier> = block
            .warps()
            .filter_map(|w| match w.status {
                Status::At(named @ Barrier::Named { .. }) => Some(named),
                _ => None,
            })
            .collect();
        for barrier in named {
            let Barrier::Named { threads, .. } = barrier else { continue };
            let at = |w: &Warp| w.status == Status::At(barrier);
            if block.warps().filter(|w| at(w)).count() as u32 * 32 < threads {
                continue;
            }
            let mut warps: Vec<&mut Warp> = block.warps.iter_mut().flatten().map(|w| &mut **w).filter(|w| at(w)).collect();
            meet(&mut warps);
            warps.iter_mut().for_each(|w| w.status = Status::Ready);
        }
    }

    /// A barrier of several blocks.
    fn wide_barrier(&mut self, meant: impl Fn(Barrier) -> bool, member: impl Fn(u32) -> bool) -> Result<(), Box<Trap>> {
        let at = |w: &Warp| matches!(w.status, Status::At(barrier) if meant(barrier));
        let members: Vec<usize> = (0..self.resident.len()).filter(|b| member(self.resident[*b].index)).collect();
        let warps = || members.iter().flat_map(|b| self.resident[*b].warps().map(move |w| (*b, w)));
        let Some((b, first)) = warps().find(|(_, w)| at(w)) else { return Ok(()) };
        if warps().any(|(_, w)| w.status == Status::Done) {
            return Err(self.divergent(b, first, "other threads have finished"));
        }
        if !warps().all(|(_, w)| at(w)) {
            return Ok(());
        }
        if warps().any(|(_, w)| w.pc != first.pc) {
            return Err(self.divergent(b, first, "other blocks wait at another barrier"));
        }
        let mut clocks = Vec::new();
        for b in &members {
            let mut warps: Vec<&mut Warp> = self.resident[*b].warps.iter_mut().flatten().map(|w| &mut **w).collect();
            meet(&mut warps);
            clocks.push(warps[0].clocks[0].clone());
        }
        let mut all = clocks[0].clone();
        clocks.iter().for_each(|c| all.join(c));
        for (b, own) in members.iter().zip(&clocks) {
            let clock = all.moved_to(self.resident[*b].index, own);
            for w in self.resident[*b].warps.iter_mut().flatten() {
                w.set_clock(&clock);
                w.status = Status::Ready;
            }
        }
        Ok(())
    }

    fn divergent(&self, b: usize, warp: &Warp, found: &str) -> Box<Trap> {
        let fault = Fault { kind: TrapKind::Divergent { found: format!("a barrier is reached, but {found}") }, lane: Some(0) };
        self.trap(fault, self.resident[b].index, warp.index * 32, warp.pc - 1)
    }
}

//! Chains: what stands between taking and leaving is done by one warp after the other.

use super::EvalError;
use super::run::Machine;
use super::value::TileVal;
use crate::loc::SourceLoc;
use crate::tile::{SharedAccess, SharedId, SharedKind, Stmt, ValueId};

const LANES: usize = 32;

/// Which warp an element of a chain's tile belongs to: 32 neighbours along the last axis.
fn warp(shape: &[usize], element: usize) -> usize {
    element % shape.last().copied().unwrap_or(1) / LANES
}

impl Machine<'_, '_> {
    /// The first warp finds its elements of the value.
    pub(super) fn start_chain(&mut self, chain: SharedId, value: ValueId, loc: SourceLoc) -> Result<(), EvalError> {
        let tile = self.tile(value);
        let cell = |i| tile.at(i).ok_or_else(|| EvalError::Absent { what: "what a chain begins with".into(), loc });
        self.shared[chain.0 as usize] = (0..tile.data.len()).map(cell).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Runs the statements from taking a chain to leaving it. All warps run them at once, as often as there are warps: each time one more of
    /// them has had the right value to begin with.
    pub(super) fn chain(&mut self, stmts: &[Stmt]) -> Result<(), EvalError> {
        let (Some(Stmt::Shared(take)), Some(Stmt::Shared(leave))) = (stmts.first(), stmts.last()) else { panic!("eval: no chain") };
        let (&SharedKind::Take { result }, &SharedKind::Leave(value)) = (&take.kind, &leave.kind) else { panic!("eval: no chain") };
        let shape = self.extents(result);
        let warps = shape.last().copied().unwrap_or(1) / LANES;
        let SharedAccess { array, loc, .. } = *leave;
        let mut data = self.shared[array.0 as usize].clone();
        for now in 0..warps {
            self.set(result, TileVal { shape: shape.clone(), data: data.clone(), mask: None }.into());
            stmts[1..stmts.len() - 1].iter().try_for_each(|s| self.stmt(s))?;
            let left = self.tile(value);
            for i in (0..data.len()).filter(|i| warp(&shape, *i) == now) {
                let cell = left.at(i).ok_or_else(|| EvalError::Absent { what: "what a warp leaves for the next one".into(), loc })?;
                // Behind the last warp comes the first one, when it takes the chain again.
                let next = if now + 1 < warps { i + LANES } else { i - now * LANES };
                let to = if now + 1 < warps { &mut data } else { &mut self.shared[array.0 as usize] };
                to[next] = cell;
            }
        }
        self.changes += 1;
        Ok(())
    }
}

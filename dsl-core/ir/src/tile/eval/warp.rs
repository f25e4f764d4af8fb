//! What the lanes of a warp exchange: 32 elements along the last axis.

use super::EvalError;
use super::run::Machine;
use super::value::{TileVal, Val};
use crate::loc::SourceLoc;
use crate::tile::ValueId;
use crate::types::{ShuffleKind, VoteKind};
use std::rc::Rc;

/// Lanes of a warp.
const LANES: usize = 32;

impl Machine<'_, '_> {
    /// A tile whose last axis is cut into warps.
    fn in_warps(&self, value: ValueId, loc: SourceLoc) -> Result<Rc<TileVal>, EvalError> {
        let tile = self.tile(value);
        let extent = tile.shape.last().copied().unwrap_or(0);
        if extent % LANES == 0 {
            return Ok(tile);
        }
        let message = format!("a warp is {LANES} elements along the last axis, which has {extent}");
        Err(EvalError::Requirement { message, loc })
    }

    pub(super) fn shuffle(&self, value: ValueId, kind: ShuffleKind, lane: ValueId, loc: SourceLoc) -> Result<Val, EvalError> {
        let tile = self.in_warps(value, loc)?;
        let (numbers, dtype) = (self.val(lane).to_tile(&tile.shape), self.dtype(lane));
        let number = |i: usize| numbers.at(i).map_or(0, |cell| self.numbers.integer(dtype, cell)).rem_euclid(LANES as i64) as usize;
        let from = |i: usize| {
            let (first, me, n) = (i / LANES * LANES, i % LANES, number(i));
            let source = match kind {
                ShuffleKind::Xor => me ^ n,
                ShuffleKind::Up => me.checked_sub(n).unwrap_or(me),
                ShuffleKind::Down if me + n < LANES => me + n,
                ShuffleKind::Down => me,
                ShuffleKind::Index => n,
            };
            tile.at(first + source).unwrap_or(0)
        };
        let data = (0..tile.data.len()).map(from).collect();
        Ok(TileVal { shape: tile.shape.clone(), data, mask: None }.into())
    }

    pub(super) fn vote(&self, kind: VoteKind, mask: ValueId, loc: SourceLoc) -> Result<Val, EvalError> {
        let tile = self.in_warps(mask, loc)?;
        let brought = |i: usize| tile.at(i).unwrap_or(u64::from(kind == VoteKind::All));
        let mut data = Vec::new();
        for first in (0..tile.data.len()).step_by(LANES) {
            data.extend(kind.found(&std::array::from_fn(|l| brought(first + l)), u32::MAX));
        }
        Ok(TileVal { shape: tile.shape.clone(), data, mask: None }.into())
    }
}

//! Loops: over tiles, over numbers, and while a condition holds; and what they carry from turn to turn.

use super::Machine;
use crate::loc::SourceLoc;
use crate::schedule::Permutation;
use crate::tile::eval::EvalError;
use crate::tile::eval::value::Val;
use crate::tile::meetings::has_meeting;
use crate::tile::{Block, Carry, TileLoop, ValueId};
use crate::types::{BinaryOp, CompareOp, Scope};

impl Machine<'_, '_> {
    /// A turn that leaves everything as it was would be followed by the same turn for ever.
    pub(super) fn repeat(
        &mut self,
        carries: &[Carry],
        header: &Block,
        (condition, loc): (ValueId, SourceLoc),
        body: &Block,
    ) -> Result<(), EvalError> {
        self.enter(carries);
        loop {
            let before: Vec<Val> = carries.iter().map(|c| self.val(c.inner).clone()).collect();
            let changes = self.changes;
            self.block(header)?;
            if !self.goes_on(condition, loc)? {
                break;
            }
            self.block(body)?;
            self.advance(carries);
            if changes == self.changes && carries.iter().zip(&before).all(|(c, old)| self.val(c.inner).same(old)) {
                return Err(EvalError::Endless { loc });
            }
        }
        self.leave(carries);
        Ok(())
    }

    /// One turn, if the condition holds for some element.
    pub(super) fn perhaps(
        &mut self,
        carries: &[Carry],
        header: &Block,
        (condition, loc): (ValueId, SourceLoc),
        body: &Block,
    ) -> Result<(), EvalError> {
        self.enter(carries);
        self.block(header)?;
        if self.goes_on(condition, loc)? {
            self.block(body)?;
            self.advance(carries);
        }
        self.leave(carries);
        Ok(())
    }

    /// Whether a `while` has another turn: on a tile, if it has one for some element.
    pub(super) fn goes_on(&self, condition: ValueId, loc: SourceLoc) -> Result<bool, EvalError> {
        if self.kernel.ty(condition).shape().is_none() {
            return Ok(self.cell(condition, "the condition", loc)? != 0);
        }
        let tile = self.tile(condition);
        Ok((0..tile.data.len()).any(|i| tile.at(i).is_some_and(|cell| cell != 0)))
    }

    pub(super) fn range(
        &mut self,
        var: ValueId,
        start: ValueId,
        end: ValueId,
        carries: &[Carry],
        body: &Block,
        loc: SourceLoc,
    ) -> Result<(), EvalError> {
        let dtype = self.dtype(var);
        let less = self.numbers.compare(CompareOp::Lt, dtype);
        let next = self.numbers.binary(BinaryOp::Add, dtype);
        let (mut i, end) = (self.cell(start, "the loop's start", loc)?, self.cell(end, "the loop's end", loc)?);
        self.enter(carries);
        while less(i, end) != 0 {
            self.set(var, Val::Scalar(Some(i)));
            self.block(body)?;
            self.advance(carries);
            i = next(i, 1);
        }
        self.leave(carries);
        Ok(())
    }

    pub(super) fn tiles(&mut self, l: &TileLoop) -> Result<(), EvalError> {
        let (mut counts, mut firsts) = (Vec::new(), Vec::new());
        for var in &l.vars {
            let ((first, end), size) = (self.walked(*var, l.loc)?, self.extent(*var));
            let tile = first / size;
            counts.push(if first < end { (end + size - 1) / size - tile } else { 0 });
            firsts.push(tile);
        }
        let total: i64 = counts.iter().product();
        let grid = self.kernel.grid_loop().is_some_and(|g| std::ptr::eq(g, l));
        let shuffle = self.options.shuffle.filter(|_| grid && l.carries.is_empty() && !l.in_order);
        let order = shuffle.map(|seed| Permutation::new(total as u64, seed));
        let tile_of = |turn: u64| {
            let mut index = order.as_ref().map_or(turn, |o| o.at(turn)) as i64;
            let mut tile = firsts.clone();
            for (at, count) in tile.iter_mut().zip(&counts).rev() {
                *at += index % count;
                index /= count;
            }
            tile
        };
        if grid && l.body.iter().any(has_meeting) {
            return self.tiles_together(l, &(0..total as u64).map(tile_of).collect::<Vec<_>>());
        }
        self.enter(&l.carries);
        for turn in 0..total as u64 {
            l.vars.iter().zip(tile_of(turn)).for_each(|(var, at)| self.set(*var, Val::Index(at)));
            if grid {
                // Turns follow each other, or run in different blocks.
                self.epoch = self.epoch.next(Scope::Block);
            }
            self.block(&l.body)?;
            self.advance(&l.carries);
        }
        self.leave(&l.carries);
        Ok(())
    }

    pub(super) fn enter(&mut self, carries: &[Carry]) {
        let vals: Vec<Val> = carries.iter().map(|c| self.val(c.init).clone()).collect();
        carries.iter().zip(vals).for_each(|(c, v)| self.set(c.inner, v));
    }

    /// All values are read before any is set: they may be exchanged. Where a new value is absent the old one stays.
    pub(super) fn advance(&mut self, carries: &[Carry]) {
        let vals: Vec<Val> = carries.iter().map(|c| self.val(c.next).after(self.val(c.inner))).collect();
        carries.iter().zip(vals).for_each(|(c, v)| self.set(c.inner, v));
    }

    pub(super) fn leave(&mut self, carries: &[Carry]) {
        for c in carries {
            let val = self.val(c.inner).clone();
            self.set(c.result, val);
        }
    }
}

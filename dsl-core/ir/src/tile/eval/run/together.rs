//! Blocks of a grid that meet: what stands between two meetings is done by one block after the other, and a loop or choice around a meeting
//! by all of them together, who must decide alike.

use super::Machine;
use crate::loc::SourceLoc;
use crate::tile::eval::EvalError;
use crate::tile::eval::by_hand::{Epoch, Marks};
use crate::tile::eval::runs::Copies;
use crate::tile::eval::value::Val;
use crate::tile::meetings::has_meeting;
use crate::tile::{Branch, Carry, Stmt, TileLoop, ValueId};
use crate::types::{BinaryOp, CompareOp, Scope};
use std::collections::HashMap;
use std::mem::swap;

/// What each block has of its own.
struct Own {
    env: Vec<Option<Val>>,
    shared: Vec<Vec<u64>>,
    unwritten: Vec<Vec<bool>>,
    marks: Vec<Vec<Marks>>,
    epoch: Epoch,
    copies: Copies,
    totals: HashMap<ValueId, Vec<u64>>,
}

impl Machine<'_, '_> {
    /// The grid's loop, where blocks meet in it. `tiles` are the tile indices of its blocks, in the order in which they run.
    pub(super) fn tiles_together(&mut self, l: &TileLoop, tiles: &[Vec<i64>]) -> Result<(), EvalError> {
        let mut blocks = Vec::new();
        for tile in tiles {
            l.vars.iter().zip(tile).for_each(|(var, at)| self.set(*var, Val::Index(*at)));
            blocks.push(Own {
                env: self.env.clone(),
                shared: self.shared.clone(),
                unwritten: self.unwritten.clone(),
                marks: self.marks.clone(),
                epoch: self.epoch.next(Scope::Block),
                copies: Copies::default(),
                totals: self.totals.clone(),
            });
        }
        self.together(&l.body, &mut blocks)
    }

    fn together(&mut self, body: &[Stmt], blocks: &mut [Own]) -> Result<(), EvalError> {
        let mut at = 0;
        while at < body.len() {
            let alone = body[at..].iter().take_while(|s| !has_meeting(s)).count();
            if alone > 0 {
                self.each(blocks, |machine| machine.block(&body[at..at + alone]))?;
                at += alone;
            } else {
                self.met(&body[at], blocks)?;
                at += 1;
            }
        }
        Ok(())
    }

    /// What one block after the other does.
    fn each<T>(&mut self, blocks: &mut [Own], mut does: impl FnMut(&mut Self) -> Result<T, EvalError>) -> Result<Vec<T>, EvalError> {
        let mut found = Vec::new();
        for own in blocks {
            self.change_to(own);
            let done = does(self);
            self.change_to(own);
            found.push(done?);
        }
        Ok(found)
    }

    fn change_to(&mut self, own: &mut Own) {
        swap(&mut self.env, &mut own.env);
        swap(&mut self.shared, &mut own.shared);
        swap(&mut self.unwritten, &mut own.unwritten);
        swap(&mut self.marks, &mut own.marks);
        swap(&mut self.epoch, &mut own.epoch);
        swap(&mut self.copies, &mut own.copies);
        swap(&mut self.totals, &mut own.totals);
    }

    /// What all blocks find, who must find the same.
    fn agreed<T: PartialEq>(
        &mut self,
        blocks: &mut [Own],
        loc: SourceLoc,
        does: impl FnMut(&mut Self) -> Result<T, EvalError>,
    ) -> Result<Option<T>, EvalError> {
        let mut found = self.each(blocks, does)?;
        if found.iter().any(|f| *f != found[0]) { Err(EvalError::Apart { loc }) } else { Ok(found.pop()) }
    }

    /// A meeting, or a statement with one inside.
    fn met(&mut self, stmt: &Stmt, blocks: &mut [Own]) -> Result<(), EvalError> {
        match stmt {
            Stmt::Barrier { .. } => {
                blocks.iter_mut().for_each(|own| own.epoch = own.epoch.next(Scope::Block));
                // What was scattered before may be scattered to again.
                self.scattered.clear();
                Ok(())
            }
            Stmt::Range { var, start, end, carries, body, loc } => self.range_together((*var, *start, *end), carries, body, *loc, blocks),
            // Blocks meet under a scalar condition alone, and that is asked again.
            Stmt::While { carries, header, condition, body, loc, once: _ } => {
                self.repeat_together(carries, header, (*condition, *loc), body, blocks)
            }
            Stmt::If { condition, then, otherwise, results, loc } => {
                let holds = self.agreed(blocks, *loc, |m| Ok(m.cell(*condition, "the condition", *loc)? != 0))?;
                let holds = holds.unwrap_or(false);
                self.together(if holds { then } else { otherwise }, blocks)?;
                self.each(blocks, |m| {
                    for Branch { then, otherwise, result } in results {
                        let val = m.val(if holds { *then } else { *otherwise }).clone();
                        m.set(*result, val);
                    }
                    Ok(())
                })?;
                Ok(())
            }
            other => panic!("eval: blocks meet in {other:?}"),
        }
    }

    fn range_together(
        &mut self,
        (var, start, end): (ValueId, ValueId, ValueId),
        carries: &[Carry],
        body: &[Stmt],
        loc: SourceLoc,
        blocks: &mut [Own],
    ) -> Result<(), EvalError> {
        let dtype = self.dtype(var);
        let less = self.numbers.compare(CompareOp::Lt, dtype);
        let next = self.numbers.binary(BinaryOp::Add, dtype);
        let ends = self.agreed(blocks, loc, |m| {
            m.enter(carries);
            Ok((m.cell(start, "the loop's start", loc)?, m.cell(end, "the loop's end", loc)?))
        })?;
        let Some((mut i, end)) = ends else { return Ok(()) };
        while less(i, end) != 0 {
            self.each(blocks, |m| {
                m.set(var, Val::Scalar(Some(i)));
                Ok(())
            })?;
            self.together(body, blocks)?;
            self.turned(carries, blocks)?;
            i = next(i, 1);
        }
        self.left(carries, blocks)
    }

    fn repeat_together(
        &mut self,
        carries: &[Carry],
        header: &[Stmt],
        (condition, loc): (ValueId, SourceLoc),
        body: &[Stmt],
        blocks: &mut [Own],
    ) -> Result<(), EvalError> {
        self.each(blocks, |m| {
            m.enter(carries);
            Ok(())
        })?;
        loop {
            let changes = self.changes;
            let carried = |m: &mut Self| Ok(carries.iter().map(|c| m.val(c.inner).clone()).collect::<Vec<Val>>());
            let before = self.each(blocks, carried)?;
            self.together(header, blocks)?;
            if self.agreed(blocks, loc, |m| m.goes_on(condition, loc))? != Some(true) {
                break;
            }
            self.together(body, blocks)?;
            self.turned(carries, blocks)?;
            let after = self.each(blocks, carried)?;
            let stays = before.iter().flatten().zip(after.iter().flatten()).all(|(old, new)| new.same(old));
            if stays && changes == self.changes {
                return Err(EvalError::Endless { loc });
            }
        }
        self.left(carries, blocks)
    }

    fn turned(&mut self, carries: &[Carry], blocks: &mut [Own]) -> Result<(), EvalError> {
        self.each(blocks, |m| {
            m.advance(carries);
            Ok(())
        })
        .map(drop)
    }

    fn left(&mut self, carries: &[Carry], blocks: &mut [Own]) -> Result<(), EvalError> {
        self.each(blocks, |m| {
            m.leave(carries);
            Ok(())
        })
        .map(drop)
    }
}

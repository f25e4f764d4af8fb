//! Combination over the grid: every block leaves its part in a workspace, the last block combines them and runs the rest of the body, or a
//! launch of its own does (`second_launch`), or blocks add their parts to totals (`totals`). The parts are combined in the blocks' order, so the result does not depend on when they come.
//!
//! Who is last is decided in one of two ways. Where each part fits a word with a flag (`words`), it is the block with the highest number,
//! which waits for the words of the others. Otherwise it is the one that finishes last, which a counter tells: each block takes a ticket.

mod left;
mod ticket;

pub(super) use left::Left;

use super::combine::int;
use super::context::{Lowered, Lowering};
use super::index::compare;
use crate::plan::finish::is_over_grid;
use girih_ir::schedule::words::FinishPath;
use girih_ir::simt::{Expr, ParamKind, Special, Stmt};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, Combine, Form, ValueId};
use girih_ir::types::{BinaryOp, CompareOp, DType};
use std::collections::HashSet;

/// The end of a body: what can be done before any block is known to be the last, the combinations over the grid, what follows them.
pub(super) struct Split<'k> {
    before: Vec<&'k tile::Stmt>,
    combines: Vec<&'k Combine>,
    pub(super) after: Vec<&'k tile::Stmt>,
}

impl Lowering<'_> {
    /// Lowers a body from its first combination over the grid on.
    pub fn finish_grid(&mut self, rest: &[tile::Stmt]) -> Lowered<()> {
        let Split { before, combines, after } =
            split(rest).map_err(|c| self.unsupported(c.loc, "a combination over the grid of what was combined over the grid"))?;
        for stmt in &before {
            self.lower_block(std::slice::from_ref(*stmt))?;
        }
        if self.kernel.grid_loop().is_none() {
            return self.single_block(&combines, &after);
        }
        if self.plan.finish == FinishPath::SecondLaunch {
            return self.finish_in_second_launch(&combines, &after);
        }
        let all_blocks = self.kernel.body.iter().take_while(|s| !is_over_grid(s)).chain(before);
        let passed_on = self.memory_is_passed_on(all_blocks, &after);
        if self.plan.finish == FinishPath::Atomics {
            return self.finish_by_atomics(&combines, &after, passed_on);
        }
        let words = self.parts_are_words(&combines) && !passed_on;
        self.comment(match words {
            true => "leave this block's part and a flag in one word; the last block waits for all of them",
            false => "leave this block's part; the last block to do so goes on",
        });
        let left = self.leave_parts_of(&combines, words)?;
        if passed_on {
            // The thread that takes the ticket speaks for what all threads have read and written.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let total = self.declare_let("parts", DType::I32, Expr::Special(Special::GridDim));
        let counter = (!words).then(|| self.workspace("arrived", DType::U32, HostExpr::Const(1)));
        let last = match counter {
            Some(counter) => self.take_ticket(counter, int(0), &total),
            None => self.has_highest_number(&total),
        };
        self.open();
        let outer = self.values.clone();
        for l in &left {
            self.combine_parts(l, &total)?;
        }
        for stmt in after {
            self.lower_block(std::slice::from_ref(stmt))?;
        }
        if let Some(counter) = counter {
            self.clear_counter(counter, int(0));
        }
        let then = self.close();
        self.values = outer;
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
        Ok(())
    }

    /// As [`Self::finish_grid`], where blocks add their parts to totals.
    fn finish_by_atomics(&mut self, combines: &[&Combine], after: &[&tile::Stmt], passed_on: bool) -> Lowered<()> {
        let blocks = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let (last, totals) = self.add_to_totals(combines, passed_on, &blocks)?;
        self.open();
        let outer = self.values.clone();
        self.take_totals(&totals)?;
        after.iter().try_for_each(|stmt| self.lower_block(std::slice::from_ref(*stmt)))?;
        self.clear_totals(&totals);
        let then = self.close();
        self.values = outer;
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
        Ok(())
    }

    /// A kernel of one block has combined everything already.
    fn single_block(&mut self, combines: &[&Combine], after: &[&tile::Stmt]) -> Lowered<()> {
        for c in combines {
            for (input, result) in c.inputs.iter().zip(&c.results) {
                let rep = self.rep(*input).clone();
                self.set(*result, rep);
            }
        }
        after.iter().try_for_each(|stmt| self.lower_block(std::slice::from_ref(*stmt)))
    }

    /// Memory of the kernel's own, so many elements.
    pub fn workspace(&mut self, name: &str, dtype: DType, len: HostExpr) -> usize {
        let taken = |n: &str| self.params.iter().any(|p| p.name == n);
        let name = (0..).map(|k| if k == 0 { name.to_string() } else { format!("{name}{k}") }).find(|n| !taken(n));
        let name = name.expect("finish: some number is free");
        self.params.push(girih_ir::simt::Param { name, kind: ParamKind::Workspace { dtype, len } });
        self.params.len() - 1
    }

    /// `thread == 0`, unless there is no other.
    pub fn is_first_thread(&self) -> Option<Expr> {
        (self.plan.threads > 1).then(|| compare(CompareOp::Eq, self.thread32(), int(0)))
    }

    /// The number of this block, as an index.
    pub fn block_number(&self) -> Expr {
        self.block.clone().unwrap_or_else(|| panic!("finish: a combination over the grid before the grid loop"))
    }
}

/// What can be done before any block is known to be the last, the combinations over the grid, and what follows them; or a combination of
/// what was combined over the grid.
pub(super) fn split<'k>(rest: &'k [tile::Stmt]) -> Result<Split<'k>, &'k Combine> {
    let mut late: HashSet<ValueId> = HashSet::new();
    let (mut before, mut combines, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for stmt in rest {
        match stmt {
            tile::Stmt::Combine(c) if c.form == Form::Grid => {
                if c.inputs.iter().any(|v| late.contains(v)) {
                    return Err(c);
                }
                late.extend(&c.results);
                combines.push(c);
            }
            tile::Stmt::Combine(c) if !c.inputs.iter().any(|v| late.contains(v)) => before.push(stmt),
            tile::Stmt::Let(_, op) if !super::uses::operands(op).iter().any(|v| late.contains(v)) => before.push(stmt),
            other => {
                late.extend(super::uses::defined(std::iter::once(other)));
                after.push(other);
            }
        }
    }
    Ok(Split { before, combines, after })
}

/// An i32 index that is surely one.
pub(crate) fn at_least_one(blocks: HostExpr) -> HostExpr {
    HostExpr::binary(BinaryOp::Max, blocks, HostExpr::Const(1))
}

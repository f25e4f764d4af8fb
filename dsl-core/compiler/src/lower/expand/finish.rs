//! Combination over the grid: every block leaves its part in a workspace, the last block combines them and runs the rest of the body, or a
//! launch of its own does (`second_launch`), or blocks add their parts to totals (`totals`). The parts are combined in the blocks' order, so the result does not depend on when they come.
//!
//! Who is last is decided in one of two ways. Where each part fits a word with a flag (`words`), it is the block with the highest number,
//! which waits for the words of the others. Otherwise it is the one that finishes last, which a counter tells: each block takes a ticket.

mod left;
mod ticket;

pub(super) use left::Left;

use super::combine::int;
use super::context::{Expanded, Expander};
use super::index::compare;
use crate::block::HostExpr;
use crate::block::{self, Combine, Finish, FinishWay};
use girih_ir::simt::{Expr, ParamKind, Special, Stmt};
use girih_ir::types::{CompareOp, DType};

impl Expander<'_> {
    /// Writes out the end of a kernel from its first combination over the grid on.
    pub fn finish_grid(&mut self, finish: &Finish) -> Expanded<()> {
        self.lower_block(&finish.before)?;
        let (combines, after) = (&finish.combines[..], &finish.after[..]);
        match &finish.way {
            FinishWay::SingleBlock => self.single_block(combines, after),
            FinishWay::SecondLaunch { again } => self.finish_in_second_launch(combines, after, again),
            FinishWay::Atomics { passed_on } => self.finish_by_atomics(combines, after, *passed_on),
            FinishWay::LastBlock { words, passed_on } => self.finish_in_last_block(combines, after, *words, *passed_on),
        }
    }

    fn finish_in_last_block(&mut self, combines: &[Combine], after: &[block::Stmt], words: bool, passed_on: bool) -> Expanded<()> {
        self.comment(match words {
            true => "leave this block's part and a flag in one word; the last block waits for all of them",
            false => "leave this block's part; the last block to do so goes on",
        });
        let left = self.leave_parts_of(combines, words, true)?;
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
        self.lower_block(after)?;
        if let Some(counter) = counter {
            self.clear_counter(counter, int(0));
        }
        let then = self.close();
        self.values = outer;
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
        Ok(())
    }

    /// As [`Self::finish_in_last_block`], where blocks add their parts to totals.
    fn finish_by_atomics(&mut self, combines: &[Combine], after: &[block::Stmt], passed_on: bool) -> Expanded<()> {
        let blocks = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let (last, totals) = self.add_to_totals(combines, passed_on, &blocks)?;
        self.open();
        let outer = self.values.clone();
        self.take_totals(&totals)?;
        self.lower_block(after)?;
        self.clear_totals(&totals);
        let then = self.close();
        self.values = outer;
        self.emit(Stmt::If { condition: last, then, otherwise: vec![] });
        Ok(())
    }

    /// A kernel of one block has combined everything already.
    fn single_block(&mut self, combines: &[Combine], after: &[block::Stmt]) -> Expanded<()> {
        for c in combines {
            for (input, result) in c.inputs.iter().zip(&c.results) {
                let rep = self.rep(*input).clone();
                self.set(*result, rep);
            }
        }
        self.lower_block(after)
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
        (self.team.threads > 1).then(|| compare(CompareOp::Eq, self.thread32(), int(0)))
    }

    /// The number of this block, as an index.
    pub fn block_number(&self) -> Expr {
        self.block.clone().unwrap_or_else(|| panic!("finish: a combination over the grid before the grid loop"))
    }
}

//! Agreement on a condition: where the threads of a block meet at barriers below it, all must take the same way.
//!
//! A scalar of the author's is the same in all threads but for few ([`crate::block::uniform`]). A condition of these goes through shared
//! memory, where thread 0 says what holds.

use super::context::Expander;
use super::index::{compare, literal};
use crate::block::ValueId;
use girih_ir::simt::visit::inner_blocks;
use girih_ir::simt::{Barrier, Expr, Place, Space, Stmt};
use girih_ir::types::{CompareOp, DType};

impl Expander<'_> {
    /// The condition, which is this value, as all threads read it, if threads meet in one of the blocks below it and might differ about it.
    pub fn agreed(&mut self, value: ValueId, condition: Expr, below: &[&[Stmt]]) -> Expr {
        if !self.differing.contains(&value) && !has_elements(&condition) || !below.iter().any(|b| meets(b)) {
            return condition;
        }
        let id = self.new_shared("goes_on", DType::I32, 1);
        let place = || Place { space: Space::Shared(id), dtype: DType::I32, index: literal(DType::I32, 0) };
        let bit = Expr::Select(Box::new(condition), Box::new(literal(DType::I32, 1)), Box::new(literal(DType::I32, 0)));
        let first = compare(CompareOp::Eq, self.thread.clone(), self.ix.lit(0));
        self.comment("threads meet below: all go by what holds for thread 0");
        self.emit(Stmt::Barrier(self.team_barrier()));
        self.emit(Stmt::Store { place: place(), value: bit, predicate: Some(first), cache: Default::default() });
        self.emit(Stmt::Barrier(self.team_barrier()));
        let read = Expr::Load { place: Box::new(place()), predicate: None, cache: Default::default() };
        let agreed = self.declare_let("agreed", DType::I32, read);
        compare(CompareOp::Ne, agreed, literal(DType::I32, 0))
    }
}

/// Threads meet at a barrier of the block.
pub(super) fn meets(block: &[Stmt]) -> bool {
    let here = |stmt: &Stmt| matches!(stmt, Stmt::Barrier(barrier) if *barrier != Barrier::Warp);
    block.iter().any(|stmt| here(stmt) || inner_blocks(stmt).into_iter().any(meets))
}

/// Of an array's elements it is not known which are the same in all threads.
fn has_elements(e: &Expr) -> bool {
    let mut found = matches!(e, Expr::Element(..));
    girih_ir::simt::visit::children(&mut e.clone(), &mut |child| found |= has_elements(child));
    found
}

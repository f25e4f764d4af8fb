//! Which word is published by those who waited for another one: the block need not meet before that.
//!
//! A release comes after everything that any thread of the block has done. Where that is no more than what the first thread has done, what was
//! done before the block met, and what nobody else writes, those who waited may release at once. A relaxed word publishes nothing but itself, and
//! never has to wait for the block.

use super::Waits;
use crate::block::{Block, Op, Stmt, Ty, Update, ValueId, ViewId, operands};
use girih_ir::types::{AtomicOp, MemoryOrder, Scope};

/// What the statements of a block, taken one after the other, have left to publish.
pub(super) struct Unpublished {
    /// Nothing that other threads have done.
    nothing: bool,
    /// No thread has done anything that the statements do not say.
    known: bool,
}

impl Unpublished {
    /// Before the first statement: `alone` says that no other thread of the block has done anything yet.
    pub(super) fn before(alone: bool) -> Unpublished {
        Unpublished { nothing: true, known: alone }
    }

    /// Whether a release here has nothing of other threads to publish.
    pub(super) fn is_nothing(&self) -> bool {
        self.nothing && self.known
    }

    /// Goes on behind a statement.
    pub(super) fn pass(&mut self, waits: &Waits, stmt: &Stmt) {
        let orders = |order: &MemoryOrder| matches!(order, MemoryOrder::Release | MemoryOrder::AcquireRelease);
        let releases = if let Stmt::Atomic { order, .. } = stmt { orders(order) } else { false };
        // The block meets: what was done before is done.
        if releases || matches!(stmt, Stmt::Barrier(Scope::Block)) {
            *self = Unpublished { nothing: true, known: true };
        } else {
            self.nothing = self.nothing && waits.keeps_to_itself(stmt);
        }
    }
}

impl Waits<'_> {
    /// Whether a statement touches no memory that other blocks see, but for what nobody writes and what the first thread does.
    fn keeps_to_itself(&self, stmt: &Stmt) -> bool {
        let all = |block: &Block| block.iter().all(|stmt| self.keeps_to_itself(stmt));
        match stmt {
            Stmt::Let(_, Op::Gather(view, _) | Op::GatherInside(view, _)) => self.is_unwritten(*view),
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Together(_) | Stmt::Shared { .. } | Stmt::Barrier(_) | Stmt::Meet(_) => true,
            Stmt::Load(_, access) => self.is_unwritten(access.view),
            Stmt::Window(_, window) => self.is_unwritten(window.tile.view),
            Stmt::Atomic { update, .. } => self.is_of_scalars(update),
            Stmt::Range { body, .. } | Stmt::Where { body, .. } => all(body),
            Stmt::While { header, body, .. } => all(header) && all(body),
            Stmt::If { then, otherwise, .. } => all(then) && all(otherwise),
            Stmt::Alone(_) => true,
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::OverCluster(_) | Stmt::Copies { .. } | Stmt::Loop(_) | Stmt::Finish(_) => {
                false
            }
        }
    }

    /// Takes the publishing of one word out of the statements behind a wait, if it is the first thing that they do: totals that it needs, which
    /// are known before the wait, and the word with copies of what it is computed of. `own` says that a release has nothing of other threads to
    /// publish.
    pub(super) fn take_published(&self, rest: &mut Block, own: bool) -> [Block; 2] {
        let is_total = |stmt: &Stmt| matches!(stmt, Stmt::Let(v, Op::Total { .. }) if self.is_scalar(*v));
        let first = rest.iter().position(|stmt| !self.is_number(stmt) && !is_total(stmt));
        let Some(at) = first.filter(|at| self.publishes(&rest[*at], own)) else { return [vec![], vec![]] };
        let word = rest.remove(at);
        let (totals, numbers): (Block, Block) = rest.drain(..at).partition(is_total);
        let published = numbers.iter().cloned().chain([word]).collect();
        rest.splice(..0, numbers);
        [totals, published]
    }

    fn publishes(&self, stmt: &Stmt, own: bool) -> bool {
        let Stmt::Atomic { update, order, .. } = stmt else { return false };
        let at_once = match order {
            MemoryOrder::Release => own,
            MemoryOrder::Relaxed => true,
            MemoryOrder::Acquire | MemoryOrder::AcquireRelease => false,
        };
        at_once && update.result.is_none() && update.op != AtomicOp::Load && self.is_of_scalars(update)
    }

    /// Whether a statement computes a scalar of scalars.
    fn is_number(&self, stmt: &Stmt) -> bool {
        let Stmt::Let(v, op) = stmt else { return false };
        let reads = matches!(op, Op::Gather(..) | Op::GatherInside(..) | Op::Load(..) | Op::Near(..) | Op::Total { .. });
        !reads && self.is_scalar(*v) && operands(op).into_iter().all(|v| self.is_scalar(v))
    }

    /// Whether one thread does it, the first one.
    fn is_of_scalars(&self, update: &Update) -> bool {
        update.uses().into_iter().all(|v| self.is_scalar(v))
    }

    fn is_scalar(&self, value: ValueId) -> bool {
        matches!(self.page.ty(value), Ty::Scalar(_) | Ty::TileIndex(_))
    }

    fn is_unwritten(&self, view: ViewId) -> bool {
        !self.page.is_written(self.page.view(view).param)
    }
}

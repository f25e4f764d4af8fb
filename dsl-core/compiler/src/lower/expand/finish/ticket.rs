//! Tickets: a block's number at a counter, which says who comes last.

use crate::block::HostExpr;
use crate::block::Tickets;
use crate::lower::expand::combine::int;
use crate::lower::expand::context::Expander;
use crate::lower::expand::index::{Index, binary, compare, literal};
use girih_ir::simt::{Expr, Place, Space, Special, Stmt};
use girih_ir::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope};

/// The bit at which the launch's number begins in a ticket that has it.
const LAUNCH: i64 = 32;

impl Expander<'_> {
    /// Sets a counter of blocks to zero, as the next launch needs it.
    pub fn clear_counter(&mut self, counter: usize, index: Expr) {
        self.comment("ready for the next launch");
        let place = Place { space: Space::Global(counter), dtype: DType::U32, index };
        let value = Expr::Literal(Literal::u32(0));
        self.emit(Stmt::Store { place, value, predicate: self.is_first_thread(), cache: Default::default() });
    }

    /// The number of this block among those that have begun: its tile's. Who takes the last one leaves the first one for the next launch.
    pub fn tile_by_ticket(&mut self, tickets: Tickets) -> Expr {
        let counts = tickets == Tickets::OfLaunches;
        let dtype = if counts { DType::U64 } else { DType::U32 };
        let counter = self.workspace("tickets", dtype, HostExpr::Const(1));
        let place = Place { space: Space::Global(counter), dtype, index: int(0) };
        let told = Place { space: Space::Shared(self.new_shared("tile_told", dtype, 1)), dtype, index: int(0) };
        let ticket = self.new_var("ticket", dtype, None);
        let atomic = |result, op, value, predicate| Stmt::Atomic {
            result,
            op,
            place: place.clone(),
            value,
            expected: None,
            predicate,
            scope: Scope::Device,
            order: MemoryOrder::Relaxed,
        };
        let blocks = self.declare_let("blocks", DType::I32, Expr::Special(Special::GridDim));
        let blocks = Index { dtype: DType::U32 }.cast(DType::I32, blocks);
        let number = if counts { Expr::Cast(DType::U32, Box::new(Expr::Var(ticket))) } else { Expr::Var(ticket) };
        let is_last = compare(CompareOp::Eq, binary(BinaryOp::Add, number, literal(DType::U32, 1)), blocks);
        let shifted = |op, e| binary(op, e, literal(DType::U64, LAUNCH));
        let next = match tickets {
            Tickets::OfBlocks => literal(dtype, 0),
            Tickets::OfLaunches => {
                let next = binary(BinaryOp::Add, shifted(BinaryOp::Shr, Expr::Var(ticket)), literal(dtype, 1));
                shifted(BinaryOp::Shl, next)
            }
        };
        self.comment("tiles are taken in the order in which blocks begin; the last one is ready for the next launch");
        let then = vec![
            Stmt::Declare { var: ticket, init: None },
            atomic(Some(ticket), AtomicOp::Add, literal(dtype, 1), None),
            atomic(None, AtomicOp::Exchange, next, Some(is_last)),
            Stmt::Store { place: told.clone(), value: Expr::Var(ticket), predicate: None, cache: Default::default() },
        ];
        let condition = self.is_first_thread().unwrap_or(Expr::Literal(Literal::bool(true)));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.team_barrier()));
        let read = Expr::Load { place: Box::new(told), predicate: None, cache: Default::default() };
        if counts {
            let launch = Expr::Cast(DType::U32, Box::new(shifted(BinaryOp::Shr, read.clone())));
            self.launch_tag = Some(binary(BinaryOp::Shl, launch, literal(DType::U32, 2)));
        }
        let tile = self.declare_let("tile_taken", DType::I32, Expr::Cast(DType::I32, Box::new(read)));
        let block = self.ix.cast(DType::I32, tile);
        self.block = Some(block.clone());
        block
    }

    /// Counts this block at a counter; whether it is the last one of so many. What all of them left is visible to it.
    pub fn take_ticket(&mut self, counter: usize, index: Expr, total: &Expr) -> Expr {
        self.take_ticket_behind(vec![], counter, index, total)
    }

    /// As [`Self::take_ticket`], behind what the thread that takes it does first.
    pub fn take_ticket_behind(&mut self, first: Vec<Stmt>, counter: usize, index: Expr, total: &Expr) -> Expr {
        let flag = self.new_shared("is_last", DType::U32, 1);
        let ticket = self.new_var("ticket", DType::U32, None);
        let one = Expr::Literal(Literal::u32(1));
        self.open();
        first.into_iter().for_each(|stmt| self.emit(stmt));
        self.emit(Stmt::Declare { var: ticket, init: None });
        self.emit(Stmt::Atomic {
            result: Some(ticket),
            op: AtomicOp::Add,
            place: Place { space: Space::Global(counter), dtype: DType::U32, index },
            value: one.clone(),
            expected: None,
            predicate: None,
            scope: Scope::Device,
            order: MemoryOrder::AcquireRelease,
        });
        let arrived = binary(BinaryOp::Add, Expr::Var(ticket), one.clone());
        let all_there = compare(CompareOp::Eq, arrived, Index { dtype: DType::U32 }.cast(DType::I32, total.clone()));
        let value = Expr::Select(Box::new(all_there), Box::new(one.clone()), Box::new(Expr::Literal(Literal::u32(0))));
        let place = Place { space: Space::Shared(flag), dtype: DType::U32, index: int(0) };
        self.emit(Stmt::Store { place: place.clone(), value, predicate: None, cache: Default::default() });
        let then = self.close();
        let condition = self.is_first_thread().unwrap_or(Expr::Literal(Literal::bool(true)));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.team_barrier()));
        let read = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        compare(CompareOp::Eq, self.declare_let("last", DType::U32, read), one)
    }
}

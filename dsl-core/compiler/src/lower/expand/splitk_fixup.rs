//! The parts of sums that several blocks share, in workspaces: left by each block, added up by the last.

use super::context::{Data, Expander, TileRep};
use super::elements::unrolled;
use super::index::{Index, binary};
use crate::block::HostExpr;
use crate::block::{Loop, ValueId};
use girih_ir::simt::{Barrier, Expr, Place, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType};

/// Places in workspaces: with several parts of each element these outgrow the indices of tensors.
const WIDE: Index = Index { dtype: DType::I64 };
/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

/// The parts of a tile's sum. Each has a slot in the workspaces.
pub(crate) struct Parts {
    /// The tile's number, in index arithmetic.
    pub tile: Expr,
    /// The slot of this block's part.
    pub own: Expr,
    /// How many parts there are (i32).
    pub count: Expr,
    /// The slot of the first one.
    pub first: Expr,
}

/// A sum that the loop carries: its variable, and the workspace of its parts.
pub(crate) struct Sum {
    var: VarId,
    name: String,
    dtype: DType,
    registers: i64,
    /// Elements per access of the workspace.
    lanes: i64,
    space: usize,
}

impl Expander<'_> {
    /// The sum that a value is, with room for so many parts.
    pub fn sum(&mut self, result: ValueId, slots: &HostExpr) -> Sum {
        let TileRep { layout: Some(layout), data: Data::Array(var) | Data::One(Expr::Var(var)), .. } = self.tile(result).clone() else {
            panic!("parts: {result:?} is in no variable in\n{}", self.kernel)
        };
        let (dtype, registers) = (self.register_type(result), layout.registers);
        let name = format!("{}_parts", self.name_of(result, "sum"));
        let len = HostExpr::binary(BinaryOp::Mul, slots.clone(), HostExpr::Const(registers * self.team.threads));
        let space = self.workspace(&name, dtype, len);
        let lanes = [4, 2, 1].into_iter().find(|n| registers % n == 0).unwrap_or(1);
        Sum { var, name, dtype, registers, lanes, space }
    }

    /// Runs `body` for every run of so many registers, with its number.
    pub fn each_run(&mut self, registers: i64, lanes: i64, body: &mut dyn FnMut(&mut Self, Expr)) {
        if registers == lanes {
            return body(self, LOCAL.lit(0));
        }
        let (var, e) = self.loop_var("e");
        self.ranges.insert(var, (0, registers / lanes - 1));
        self.open();
        body(self, e);
        let inner = self.close();
        self.emit(unrolled(var, registers / lanes, inner));
    }

    /// Where a thread's elements of a slot begin: lanes of neighbouring threads lie side by side.
    fn slot_begin(&mut self, sum: &Sum, slot: Expr) -> Expr {
        let thread = WIDE.cast(DType::I32, LOCAL.mul(self.thread32(), LOCAL.lit(sum.lanes)));
        let slot = WIDE.mul(WIDE.mul(slot, WIDE.lit(self.team.threads)), WIDE.lit(sum.registers));
        self.declare_let("at", DType::I64, WIDE.add(slot, thread))
    }

    /// Where a run of a thread's elements lies.
    fn slot_place(&self, sum: &Sum, begin: &Expr, run: &Expr) -> Place {
        let index = WIDE.add(begin.clone(), WIDE.cast(DType::I32, LOCAL.mul(run.clone(), LOCAL.lit(sum.lanes * self.team.threads))));
        Place { space: Space::Global(sum.space), dtype: sum.dtype, index }
    }

    /// Leaves this block's part, and counts it: whether it is the last one of its tile, and the counters.
    pub fn leave_parts(&mut self, l: &Loop, parts: &Parts, sums: &[Sum]) -> (Expr, usize) {
        self.comment("leave this block's part of the sum; the last block to do so goes on");
        for sum in sums {
            let begin = self.slot_begin(sum, WIDE.cast(self.ix.dtype, parts.own.clone()));
            self.each_run(sum.registers, sum.lanes, &mut |cx, run| {
                let place = cx.slot_place(sum, &begin, &run);
                cx.store_run(sum, place, run);
            });
        }
        // Thread 0 speaks for all of them.
        self.emit(Stmt::Barrier(Barrier::Block));
        let counter = self.workspace("arrived", DType::U32, super::grid::grid_of(l).total.clone());
        (self.take_ticket(counter, parts.tile.clone(), &parts.count), counter)
    }

    /// Adds all parts of a tile in the order of the turns. `later` has the slot of a part behind the first.
    pub fn add_parts(&mut self, parts: &Parts, sums: &[Sum], later: &dyn Fn(Expr) -> Expr) {
        self.comment("add up what the blocks left, in the order of the turns");
        for sum in sums {
            let begin = self.slot_begin(sum, WIDE.cast(self.ix.dtype, parts.first.clone()));
            self.each_run(sum.registers, sum.lanes, &mut |cx, run| {
                let place = cx.slot_place(sum, &begin, &run);
                cx.load_run(sum, place, run);
            });
        }
        let part = self.new_var("p", DType::I32, None);
        self.open();
        for sum in sums {
            let begin = self.slot_begin(sum, later(Expr::Var(part)));
            self.each_run(sum.registers, sum.lanes, &mut |cx, run| {
                let place = cx.slot_place(sum, &begin, &run);
                cx.add_run(sum, place, run);
            });
        }
        let body = self.close();
        self.emit(Stmt::For { var: part, start: LOCAL.lit(1), end: parts.count.clone(), step: LOCAL.lit(1), unroll: false, body });
    }

    /// Stores a run of registers of the sum.
    fn store_run(&mut self, sum: &Sum, place: Place, run: Expr) {
        let at = (sum.registers > 1).then(|| LOCAL.mul(run, LOCAL.lit(sum.lanes)));
        self.store_registers(sum.var, place, at, sum.lanes);
    }

    /// Stores `lanes` registers of an array from register `at` on, or a variable of one register.
    pub fn store_registers(&mut self, var: VarId, place: Place, at: Option<Expr>, lanes: i64) {
        let cache = Default::default();
        self.emit(match at {
            Some(at) if lanes > 1 => Stmt::StoreVector { place, var, at, lanes: lanes as u32, predicate: None, cache },
            at => Stmt::Store { place, value: self.slot(var, at.as_ref()), predicate: None, cache },
        });
    }

    /// Loads a run of registers of the sum.
    fn load_run(&mut self, sum: &Sum, place: Place, run: Expr) {
        let cache = Default::default();
        if sum.lanes == 1 {
            let value = Expr::Load { place: Box::new(place), predicate: None, cache };
            return self.emit(Stmt::Assign { var: sum.var, index: (sum.registers > 1).then_some(run), value });
        }
        let at = LOCAL.mul(run, LOCAL.lit(sum.lanes));
        self.emit(Stmt::LoadVector { var: sum.var, at, place, lanes: sum.lanes as u32, predicate: None, cache });
    }

    /// Adds what lies at a place to a run of registers of the sum.
    fn add_run(&mut self, sum: &Sum, place: Place, run: Expr) {
        let at = (sum.registers > 1).then(|| LOCAL.mul(run, LOCAL.lit(sum.lanes)));
        self.add_registers(sum.var, sum.name.trim_end_matches('s'), place, at, sum.lanes);
    }

    /// Adds what lies at a place to `lanes` registers of an array from register `at` on, or to a variable of one register. `part` is what
    /// those that are read together are called.
    pub fn add_registers(&mut self, var: VarId, part: &str, place: Place, at: Option<Expr>, lanes: i64) {
        let (dtype, cache) = (place.dtype, Default::default());
        let plus = |cx: &Self, register: Option<Expr>, part: Expr| {
            let value = binary(BinaryOp::Add, cx.slot(var, register.as_ref()), part);
            Stmt::Assign { var, index: register, value }
        };
        let Some(at) = at.clone().filter(|_| lanes > 1) else {
            let part = Expr::Load { place: Box::new(place), predicate: None, cache };
            let add = plus(self, at, part);
            return self.emit(add);
        };
        let part = self.new_var(part, dtype, Some(lanes as u32));
        self.emit(Stmt::Declare { var: part, init: None });
        self.emit(Stmt::LoadVector { var: part, at: LOCAL.lit(0), place, lanes: lanes as u32, predicate: None, cache });
        let (counter, lane) = self.loop_var("u");
        let add = plus(self, Some(LOCAL.add(at, lane.clone())), Expr::Element(part, Box::new(lane)));
        self.emit(unrolled(counter, lanes, vec![add]));
    }
}

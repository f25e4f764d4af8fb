//! Turns whose last product runs beside the first one of the next turn (`RingPlan::products_overlap`): warp groups start the next turn's first
//! product, then the last one of the turn before, and compute what lies between the two while that is still on its way.
//! (FlashAttention-3 calls it pipelining within a warp group.)
//!
//! The first turn stands before the loop, the last product behind it. A stage is free a turn later than elsewhere.

use super::context::{Expanded, Expander, Rep};
use super::index::{binary, compare};
use super::mma::{Fed, Left, Product};
use super::multistage::Pipelined;
use super::stages::{Stages, filled};
use super::turns::Turns;
use crate::block::{Op, Stmt as Statement, ValueId, Warps};
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// The product that is late: its place in the body, its operands, and where they are.
struct Late<'k> {
    /// The place behind the first product, and that of the late one.
    first: usize,
    at: usize,
    dot: ValueId,
    a: ValueId,
    b: ValueId,
    acc: ValueId,
    /// The carried variable that it adds to.
    sums: VarId,
    left: Fed,
    warps: &'k Warps,
}

impl Expander<'_> {
    /// The turns of a consumer.
    pub fn overlapped_turns(&mut self, p: &Pipelined, stages: &Stages) -> Expanded<()> {
        let carried = self.start_carries(&p.walked.carries)?;
        self.start_shared(p.walked, &carried);
        self.begin_dots(&p.walked.body);
        let turns = self.own_turns(p);
        let warps = self.kernel.launch.units.clone().unwrap_or_else(|| panic!("overlap: no matrix units"));
        let (at, dot) = p.walked.last_product().unwrap_or_else(|| panic!("overlap: no product in\n{}", self.kernel));
        let Some(Op::Dot { a, b, acc, .. }) = self.op(dot).cloned() else { panic!("overlap: {dot:?} is no product") };
        let carry = p.walked.carries.iter().position(|c| c.next == dot).unwrap_or_else(|| panic!("overlap: {dot:?} is not carried"));
        let first = p.walked.first_product().map_or(at, |at| at + 1);
        let left = self.declare_fed(a);
        let late = Late { first, at, dot, a, b, acc, sums: carried[carry].var, left, warps: &warps };
        self.comment("the first turn; its last product runs beside the next turn's first one");
        let one = self.ix.add(turns.start.clone(), self.ix.lit(1));
        let begun = binary(BinaryOp::Min, one.clone(), turns.end.clone());
        self.turns_between((p, stages), &late, (&turns, [turns.start.clone(), begun]), &carried, false)?;
        self.turns_between((p, stages), &late, (&turns, [one, turns.end.clone()]), &carried, true)?;
        self.open();
        let stage = self.stage_before(stages);
        self.emit(Stmt::WgmmaFence);
        self.late_product(p, &late, &stage)?;
        self.emit(Stmt::WgmmaWait { pending: 0, sums: vec![late.sums] });
        self.release_at(stages, &stage);
        let then = self.close();
        let any = compare(CompareOp::Lt, turns.start.clone(), turns.end.clone());
        self.emit(Stmt::If { condition: any, then, otherwise: vec![] });
        self.finish_carries(&p.walked.carries, &carried)?;
        Ok(())
    }

    /// Some of the turns, each with the last product of the one before (`behind`), or without. A turn waits for the copies of the next one.
    fn turns_between(
        &mut self,
        (p, stages): (&Pipelined, &Stages),
        late: &Late,
        (turns, [start, end]): (&Turns, [Expr; 2]),
        carried: &[super::control::Carried],
        behind: bool,
    ) -> Expanded<()> {
        let var = self.new_var("turn", self.ix.dtype, None);
        let outer = self.enter_turn();
        if !behind {
            self.await_stage(stages).into_iter().for_each(|s| self.emit(s));
        }
        self.set_turn(p.walked, turns, Expr::Var(var));
        self.in_flight = Some(Vec::new());
        self.lower_statements(p, &stages.stage(), 0..late.first)?;
        let sums = self.in_flight.take().unwrap_or_default();
        let before = behind.then(|| self.stage_before(stages));
        if let Some(stage) = &before {
            // The fence of the first product is this one's, too.
            self.late_product(p, late, stage)?;
        }
        self.emit(Stmt::WgmmaWait { pending: u32::from(behind), sums });
        self.lower_statements(p, &stages.stage(), late.first..late.at)?;
        // Waited for here: ptxas would lift the wait for the product over what is computed, were there no way around between them.
        let further = compare(CompareOp::Lt, self.ix.add(Expr::Var(var), self.ix.lit(1)), turns.end.clone());
        let then = self.await_next_stage(stages);
        self.emit(Stmt::If { condition: further, then, otherwise: vec![] });
        if let Some(stage) = &before {
            self.emit(Stmt::WgmmaWait { pending: 0, sums: vec![late.sums] });
            self.release_at(stages, stage);
        }
        self.fill_fed(late.a, &late.left)?;
        let sums = self.accumulator(late.dot, late.acc)?;
        self.set_sum(late.dot, late.acc, sums);
        self.lower_statements(p, &stages.stage(), late.at + 1..p.walked.body.len())?;
        self.end_carries(&p.walked.carries, carried)?;
        self.next_stage(stages).into_iter().for_each(|s| self.emit(s));
        let body = self.leave_turn(outer);
        self.emit(Stmt::For { var, start, end, step: self.ix.lit(1), unroll: false, body });
        Ok(())
    }

    /// Starts the late product behind a fence, of what a stage holds.
    fn late_product(&mut self, p: &Pipelined, late: &Late, stage: &Expr) -> Expanded<()> {
        let loaded = self.kernel.dots.operand(late.b).unwrap_or_else(|| panic!("overlap: {:?} was not loaded", late.b));
        let at = p.ahead.windows.iter().position(|(v, _)| *v == loaded.load);
        let at = at.unwrap_or_else(|| panic!("overlap: {:?} is not in the ring", loaded.load));
        let (value, copied) = p.ahead.windows[at];
        let mut window = self.window_anywhere(value, copied);
        window.copy = Some(p.rings[at].at_stage(stage));
        self.set(value, Rep::Window(Box::new(window)));
        let right = self.operand(late.b, late.acc, false)?;
        let shape = self.own_layout(late.acc).shape();
        let product = Product { acc: late.sums, left: Left::Fed(late.left.clone()), right, from_zeros: false };
        self.in_flight = Some(Vec::new());
        self.multiply_behind_fence(&[product], [shape[0], shape[1]], late.warps)?;
        self.in_flight = None;
        Ok(())
    }

    /// The stage that the turn before has read.
    fn stage_before(&mut self, stages: &Stages) -> Expr {
        self.declare_let("before", DType::I32, filled(stages.stage(), stages.ring.stages))
    }
}

impl crate::block::Loop {
    /// The place of the loop's first product, or of the statement that holds it.
    fn first_product(&self) -> Option<usize> {
        self.body.iter().position(Statement::has_dot)
    }
}

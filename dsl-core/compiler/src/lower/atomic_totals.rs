//! Totals: what blocks have is combined over the grid by atomics (`finish = Atomics`), in the order in which they come. The block that
//! comes last takes the total and leaves it empty for the next launch.
//!
//! A kernel's own memory is zero at first, so zero is what an empty total holds. Sums begin there. A minimum or maximum goes as the maximum
//! of unsigned numbers, in whose order zero lies below every value ([`Total::key`]).
//!
//! The sum of integers of at most 32 bits shares a word with the number of blocks that have come: one atomic does it all. Elsewhere a
//! ticket says who is last, and orders the totals.

use super::combine::{int, operator_word};
use super::context::{Lowered, Lowering, Rep};
use super::index::{binary, compare, literal};
use crate::plan::legality::{Broken, Rule};
use girih_ir::schedule::ScheduleError;
use girih_ir::simt::{Expr, Place, Space, Stmt};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{Combine, Kernel, KnobId, Operator, Ty};
use girih_ir::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope, UnaryOp};

/// The bit of a counted total at which the sum begins; the number of blocks lies below.
const SUM: i64 = 32;

/// How the total of values of a type is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Total {
    /// The values in registers.
    value: DType,
    /// The total in memory.
    kept: DType,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sum,
    Least,
    Most,
}

impl Total {
    /// The total of an operator, where memory has an atomic for it.
    fn of(operator: &Operator, value: DType) -> Option<Total> {
        let kind = match operator {
            Operator::Sum if value != DType::Bool => Kind::Sum,
            Operator::Min if value != DType::Bool => Kind::Least,
            Operator::Max if value != DType::Bool => Kind::Most,
            _ => return None,
        };
        let wide = value.size() == 8;
        let kept = match (kind, value) {
            (Kind::Sum, DType::F32) => DType::F32,
            _ if wide => DType::U64,
            _ => DType::U32,
        };
        Some(Total { value, kept, kind })
    }

    fn op(self) -> AtomicOp {
        if self.kind == Kind::Sum { AtomicOp::Add } else { AtomicOp::Max }
    }

    /// The upper bit.
    fn sign(self) -> Expr {
        bits(self.kept, 1 << (8 * self.kept.size() - 1))
    }

    /// What goes into the total for the bits of a value, in a variable; `value` is the value.
    fn key(self, value: &Expr, own: Expr) -> Expr {
        let order = match self.value {
            _ if self.kind == Kind::Sum => return own,
            // Negative floats lie the other way round, below the others.
            DType::F32 => select(self.negative(own.clone()), not(own.clone()), binary(BinaryOp::Xor, own, self.sign())),
            DType::I8 | DType::I32 | DType::I64 => binary(BinaryOp::Xor, own, self.sign()),
            _ => own,
        };
        let order = if self.kind == Kind::Least { not(order) } else { order };
        match self.value {
            // No number goes past a NaN.
            DType::F32 => select(compare(CompareOp::Ne, value.clone(), value.clone()), bits(self.kept, u32::MAX.into()), order),
            _ => order,
        }
    }

    /// The value in the order of a total (a variable): the inverse of [`Self::key`].
    fn value_of(self, order: Expr) -> Expr {
        match self.value {
            DType::F32 if self.kind == Kind::Sum => order,
            DType::F32 => {
                let own = select(self.negative(order.clone()), binary(BinaryOp::Xor, order.clone(), self.sign()), not(order));
                Expr::Bitcast(DType::F32, Box::new(own))
            }
            DType::I8 | DType::I32 | DType::I64 if self.kind != Kind::Sum => cast(self.value, binary(BinaryOp::Xor, order, self.sign())),
            _ => cast(self.value, order),
        }
    }

    /// Whether the upper bit of a total is set.
    fn negative(self, total: Expr) -> Expr {
        compare(CompareOp::Ge, total, self.sign())
    }
}

/// Why what a kernel's blocks have can't be combined by atomics.
pub(crate) fn check<'k>(kernel: &Kernel, combines: impl Iterator<Item = &'k Combine>, knob: KnobId) -> Result<(), ScheduleError> {
    let refused = |broken: Broken| Err(crate::plan::illegal(kernel, &[knob], "Atomics".into(), broken));
    for c in combines {
        let dtype = kernel.ty(c.inputs[0]).dtype().unwrap_or(DType::I64).compute();
        let name = kernel.value(c.results[0]).name.as_ref().map_or("a value".to_string(), |n| format!("`{n}`"));
        let by = match &c.operator {
            Operator::User { .. } => "an operator of the author's",
            Operator::Product => "a product",
            _ => "an operator on bool",
        };
        match Total::of(&c.operator, dtype) {
            None => return refused(Rule::AtomicsOperator.with(&[&name, &by])),
            Some(total) if kernel.deterministic && total.kept == DType::F32 => {
                return refused(Rule::AtomicsOrder.with(&[&name]));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Where the total of one component of a combination over the grid is.
pub(super) struct Kept<'k> {
    combine: &'k Combine,
    total: Total,
    space: usize,
    /// Each thread keeps its own elements of a tile.
    tile: bool,
}

/// The totals of a kernel.
pub(super) enum Totals<'k> {
    /// A sum and the number of blocks in one word, as the block found it; the last one has emptied it.
    Counted { combine: &'k Combine, found: Expr },
    /// Totals, and the counter of blocks.
    Ticket { all: Vec<Kept<'k>>, counter: usize },
}

impl Lowering<'_> {
    /// Adds what this block has to the totals; whether it is the last of so many.
    pub(super) fn add_to_totals<'k>(&mut self, combines: &[&'k Combine], passed_on: bool, blocks: &Expr) -> Lowered<(Expr, Totals<'k>)> {
        let counted = |c: &Combine| {
            let sum = Total::of(&c.operator, self.register_type(c.inputs[0])).is_some_and(|t| t.kind == Kind::Sum && t.kept == DType::U32);
            sum && matches!(self.kernel.ty(c.inputs[0]), Ty::Scalar(_)) && !passed_on
        };
        if let [one] = combines
            && counted(one)
        {
            return Ok(self.add_and_count(one, blocks));
        }
        self.comment("add this block's part to the total; the last block to do so goes on");
        let all: Vec<Kept> = combines.iter().map(|c| self.new_total(c)).collect();
        for kept in all.iter().filter(|k| k.tile) {
            self.add_tile(kept)?;
        }
        self.open();
        for kept in all.iter().filter(|k| !k.tile) {
            let value = self.scalar(kept.combine.inputs[0]);
            self.add_part(kept, value, self.ix.lit(0));
        }
        let first = self.close();
        if passed_on || all.iter().any(|k| k.tile) {
            // The thread that takes the ticket speaks for what all threads have read and written.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let counter = self.workspace("arrived", DType::U32, HostExpr::Const(1));
        let last = self.take_ticket_behind(first, counter, int(0), blocks);
        Ok((last, Totals::Ticket { all, counter }))
    }

    /// Takes the totals, in the last block.
    pub(super) fn take_totals(&mut self, totals: &Totals) -> Lowered<()> {
        match totals {
            Totals::Counted { combine, found } => {
                let sum = cast(DType::U32, binary(BinaryOp::Shr, found.clone(), literal(DType::U64, SUM)));
                let total = Total { value: self.register_type(combine.inputs[0]), kept: DType::U32, kind: Kind::Sum };
                self.set_total(combine, total.value_of(sum));
            }
            Totals::Ticket { all, .. } => {
                self.comment("take what all blocks have added");
                for kept in all {
                    if kept.tile {
                        self.take_tile(kept)?;
                    } else {
                        let found = self.load_total(kept, self.ix.lit(0));
                        self.set_total(kept.combine, kept.total.value_of(found));
                    }
                }
            }
        }
        Ok(())
    }

    /// Leaves totals and counter as the next launch needs them, behind everything that the last block does.
    pub(super) fn clear_totals(&mut self, totals: &Totals) {
        let Totals::Ticket { all, counter } = totals else { return };
        if all.iter().any(|k| !k.tile) {
            // All threads have read the totals.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        self.clear_counter(*counter, int(0));
        for kept in all.iter().filter(|k| !k.tile) {
            self.empty(kept, self.ix.lit(0), self.is_first_thread());
        }
    }

    fn new_total<'k>(&mut self, c: &'k Combine) -> Kept<'k> {
        let total = Total::of(&c.operator, self.register_type(c.inputs[0])).expect("totals: the plan has checked the operator");
        let tile = !matches!(self.kernel.ty(c.inputs[0]), Ty::Scalar(_));
        let slots = if tile { self.layout_of(c.inputs[0]).registers * self.plan.threads } else { 1 };
        let space = self.workspace(&self.total_name(c), total.kept, HostExpr::Const(slots));
        Kept { combine: c, total, space, tile }
    }

    fn total_name(&self, c: &Combine) -> String {
        format!("{}_total", self.name_of(c.results[0], &self.name_of(c.inputs[0], "block")))
    }

    fn total_place(&self, space: usize, dtype: DType, index: Expr) -> Place {
        Place { space: Space::Global(space), dtype, index }
    }

    /// Where a thread keeps an element of its own.
    fn own_slot(&self, flat: Expr) -> Expr {
        self.ix.add(self.ix.mul(self.ix.cast(DType::I32, flat), self.ix.lit(self.plan.threads)), self.thread.clone())
    }

    fn add_tile(&mut self, kept: &Kept) -> Lowered<()> {
        let input = kept.combine.inputs[0];
        let layout = self.layout_of(input);
        self.for_elements(&[input], &layout, false, &mut |cx, at, mut elements| {
            let slot = cx.own_slot(at.flat.clone());
            cx.add_part(kept, elements.remove(0), slot);
            Ok(())
        })
    }

    fn add_part(&mut self, kept: &Kept, value: Expr, index: Expr) {
        let total = kept.total;
        let value = if let Expr::Var(_) = value { value } else { self.declare_let("part", total.value, value) };
        let own = match (total.value, total.kind) {
            (DType::F32, Kind::Sum) => value.clone(),
            (DType::F32, _) => self.declare_let("bits", DType::U32, Expr::Bitcast(DType::U32, Box::new(value.clone()))),
            _ => cast(total.kept, value.clone()),
        };
        self.emit(Stmt::Atomic {
            result: None,
            op: total.op(),
            place: self.total_place(kept.space, total.kept, index),
            value: total.key(&value, own),
            expected: None,
            predicate: None,
            scope: Scope::Device,
            order: MemoryOrder::Relaxed,
        });
    }

    /// Adds a block's sum and counts the block in the same word.
    fn add_and_count<'k>(&mut self, c: &'k Combine, blocks: &Expr) -> (Expr, Totals<'k>) {
        self.comment("add this block's part and count the block in one word; the last block to do so goes on");
        let total = Total { value: self.register_type(c.inputs[0]), kept: DType::U32, kind: Kind::Sum };
        let word = self.workspace(&self.total_name(c), DType::U64, HostExpr::Const(1));
        let found = self.new_shared("found", DType::U64, 1);
        let place = Place { space: Space::Shared(found), dtype: DType::U64, index: int(0) };
        let part = self.scalar(c.inputs[0]);
        self.open();
        let part = cast(DType::U64, cast(total.kept, part));
        let counted = binary(BinaryOp::Or, binary(BinaryOp::Shl, part, literal(DType::U64, SUM)), literal(DType::U64, 1));
        let part = self.declare_let("part", DType::U64, counted);
        let before = self.new_var("before", DType::U64, None);
        self.emit(Stmt::Declare { var: before, init: None });
        self.emit(Stmt::Atomic {
            result: Some(before),
            op: AtomicOp::Add,
            place: self.total_place(word, DType::U64, self.ix.lit(0)),
            value: part.clone(),
            expected: None,
            predicate: None,
            scope: Scope::Device,
            order: MemoryOrder::Relaxed,
        });
        let all = self.declare_let("all", DType::U64, binary(BinaryOp::Add, Expr::Var(before), part));
        self.emit(Stmt::Store { place: place.clone(), value: all.clone(), predicate: None, cache: Default::default() });
        self.comment("the last one leaves the word ready for the next launch");
        let last = |all: Expr| compare(CompareOp::Eq, cast(DType::I32, all), blocks.clone());
        let (word, zero) = (self.total_place(word, DType::U64, self.ix.lit(0)), literal(DType::U64, 0));
        self.emit(Stmt::StoreRelaxed { place: word, value: zero, predicate: Some(last(all)) });
        let then = self.close();
        let condition = self.is_first_thread().unwrap_or(Expr::Literal(Literal::bool(true)));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.team_barrier()));
        let read = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        let found = self.declare_let("all", DType::U64, read);
        (last(found.clone()), Totals::Counted { combine: c, found })
    }

    fn set_total(&mut self, c: &Combine, value: Expr) {
        let name = self.name_of(c.results[0], operator_word(&c.operator));
        let dtype = self.register_type(c.inputs[0]);
        let value = if let Expr::Var(_) = value { value } else { self.declare_let(&name, dtype, value) };
        self.set(c.results[0], Rep::Scalar(value));
    }

    /// A total, in the order of its values.
    fn load_total(&mut self, kept: &Kept, index: Expr) -> Expr {
        let place = self.total_place(kept.space, kept.total.kept, index);
        let read = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        let found = self.declare_let("found", kept.total.kept, read);
        match kept.total.kind {
            Kind::Least => self.declare_let("order", kept.total.kept, not(found)),
            Kind::Sum | Kind::Most => found,
        }
    }

    fn empty(&mut self, kept: &Kept, index: Expr, predicate: Option<Expr>) {
        let place = self.total_place(kept.space, kept.total.kept, index);
        let value = Expr::Literal(Literal::from_i64(kept.total.kept, 0));
        self.emit(Stmt::Store { place, value, predicate, cache: Default::default() });
    }

    /// Each thread takes what it keeps, and empties it.
    fn take_tile(&mut self, kept: &Kept) -> Lowered<()> {
        let c = kept.combine;
        let layout = self.layout_of(c.inputs[0]);
        let var = self.component_vars(c, layout.registers, false)[0];
        self.each_slot(layout.registers, &mut |cx, slot| {
            let own = cx.own_slot(slot.cloned().unwrap_or(int(0)));
            let found = cx.load_total(kept, own.clone());
            cx.assign_components(&[var], slot, vec![kept.total.value_of(found)]);
            cx.empty(kept, own, None);
            Ok(())
        })?;
        self.set_combined(c.results[0], var, &layout);
        Ok(())
    }
}

fn bits(dtype: DType, bits: u64) -> Expr {
    Expr::Literal(Literal { dtype, bits })
}

fn cast(to: DType, e: Expr) -> Expr {
    Expr::Cast(to, Box::new(e))
}

fn not(e: Expr) -> Expr {
    Expr::Unary(UnaryOp::Not, Box::new(e))
}

fn select(condition: Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(condition), Box::new(a), Box::new(b))
}

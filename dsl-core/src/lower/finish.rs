//! Combination over the grid: every block leaves its part in a workspace, the last block combines them and runs the rest of the body, or a
//! launch of its own does (`second_launch`), or blocks add their parts to totals (`totals`). The parts are combined in the blocks' order, so the result does not depend on when they come.
//!
//! Who is last is decided in one of two ways. Where each part fits a word with a flag (`words`), it is the block with the highest number,
//! which waits for the words of the others. Otherwise it is the one that finishes last, which a counter tells: each block takes a ticket.

use super::combine::{Partial, int, steps};
use super::context::{Lowered, Lowering, Rep};
use super::index::{binary, compare};
use crate::layout::Layout;
use crate::schedule::{Choice, KnobKind, Schedule, ScheduleError};
use crate::simt::{Expr, ParamKind, Place, Space, Special, Stmt};
use crate::tile::host::HostExpr;
use crate::tile::{self, Combine, Form, Ty, ValueId};
use crate::types::{AtomicOp, BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope};
use std::collections::HashSet;

/// A combination over the grid and where its blocks leave their parts: one workspace per component.
pub(super) struct Left<'k> {
    pub(super) combine: &'k Combine,
    pub(super) spaces: Vec<usize>,
    /// The layout of tiles; none for scalars.
    layout: Option<Layout>,
    /// The parts are words with a flag.
    words: bool,
}

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
        if self.plan.finish == Finish::SecondLaunch {
            return self.finish_in_second_launch(&combines, &after);
        }
        let all_blocks = self.kernel.body.iter().take_while(|s| !is_over_grid(s)).chain(before);
        let passed_on = self.memory_is_passed_on(all_blocks, &after);
        if self.plan.finish == Finish::Atomics {
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
            self.emit(Stmt::Barrier(self.everyone()));
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
        self.params.push(crate::simt::Param { name, kind: ParamKind::Workspace { dtype, len } });
        self.params.len() - 1
    }

    /// `thread == 0`, unless there is no other.
    pub fn is_first_thread(&self) -> Option<Expr> {
        (self.plan.threads > 1).then(|| compare(CompareOp::Eq, self.thread32(), int(0)))
    }

    /// Values of a thread of a combination's component: one for scalars.
    fn part_registers(&self, c: &Combine) -> i64 {
        match self.kernel.ty(c.inputs[0]) {
            Ty::Scalar(_) => 1,
            _ => self.layout_of(c.inputs[0]).registers,
        }
    }

    /// The number of this block, as an index.
    pub fn block_number(&self) -> Expr {
        self.block.clone().unwrap_or_else(|| panic!("finish: a combination over the grid before the grid loop"))
    }

    pub(super) fn leave_parts_of<'k>(&mut self, combines: &[&'k Combine], words: bool) -> Lowered<Vec<Left<'k>>> {
        let blocks = super::grid_size(self.kernel, self.plan, self);
        let block = self.block_number();
        combines.iter().map(|c| if words { Ok(self.leave_words(c, &blocks)) } else { self.leave_part(c, &blocks, &block) }).collect()
    }

    /// The name of the workspace for a component's parts.
    fn parts_name(&self, c: &Combine, component: usize) -> String {
        format!("{}_parts", self.name_of(c.results[component], &self.name_of(c.inputs[component], "block")))
    }

    /// Leaves the scalars of a combination in words, each with a flag.
    fn leave_words<'k>(&mut self, c: &'k Combine, blocks: &HostExpr) -> Left<'k> {
        let names: Vec<String> = (0..c.inputs.len()).map(|k| self.parts_name(c, k)).collect();
        let spaces: Vec<usize> = names.iter().map(|name| self.workspace(name, DType::U64, blocks.clone())).collect();
        for (input, space) in c.inputs.iter().zip(&spaces) {
            let value = self.scalar(*input);
            self.leave_word(*space, value);
        }
        Left { combine: c, spaces, layout: None, words: true }
    }

    fn leave_part<'k>(&mut self, c: &'k Combine, blocks: &HostExpr, block: &Expr) -> Lowered<Left<'k>> {
        let scalar = matches!(self.kernel.ty(c.inputs[0]), Ty::Scalar(_));
        let threads = self.plan.threads;
        let each = if scalar { 1 } else { self.part_registers(c) * threads };
        let len = HostExpr::binary(BinaryOp::Mul, blocks.clone(), HostExpr::Const(each));
        let mut spaces = Vec::new();
        for (k, input) in c.inputs.iter().enumerate() {
            let (dtype, name) = (self.register_type(*input), self.parts_name(c, k));
            spaces.push(self.workspace(&name, dtype, len.clone()));
        }
        if scalar {
            for (input, space) in c.inputs.iter().zip(&spaces) {
                let (value, dtype) = (self.scalar(*input), self.register_type(*input));
                let place = Place { space: Space::Global(*space), dtype, index: block.clone() };
                self.emit(Stmt::Store { place, value, predicate: self.is_first_thread(), cache: Default::default() });
            }
            return Ok(Left { combine: c, spaces, layout: None, words: false });
        }
        let layout = self.layout_of(c.inputs[0]);
        let (ix, thread) = (self.ix, self.thread.clone());
        for (input, space) in c.inputs.iter().zip(&spaces) {
            let (space, dtype) = (*space, self.register_type(*input));
            self.for_elements(&[*input], &layout, false, &mut |cx, at, mut elements| {
                let flat = ix.cast(DType::I32, at.flat.clone());
                let own = ix.add(ix.mul(flat, ix.lit(threads)), thread.clone());
                let index = ix.add(ix.mul(block.clone(), ix.lit(each)), own);
                let place = Place { space: Space::Global(space), dtype, index };
                cx.emit(Stmt::Store { place, value: elements.remove(0), predicate: None, cache: Default::default() });
                Ok(())
            })?;
        }
        if self.plan.finish == Finish::LastBlock {
            // Thread 0 speaks for all of them.
            self.emit(Stmt::Barrier(self.everyone()));
        }
        Ok(Left { combine: c, spaces, layout: Some(layout), words: false })
    }

    /// Sets a counter of blocks to zero, as the next launch needs it.
    pub fn clear_counter(&mut self, counter: usize, index: Expr) {
        self.comment("ready for the next launch");
        let place = Place { space: Space::Global(counter), dtype: DType::U32, index };
        let value = Expr::Literal(Literal::u32(0));
        self.emit(Stmt::Store { place, value, predicate: self.is_first_thread(), cache: Default::default() });
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
        let all_there = compare(CompareOp::Eq, arrived, super::index::Index { dtype: DType::U32 }.cast(DType::I32, total.clone()));
        let value = Expr::Select(Box::new(all_there), Box::new(one.clone()), Box::new(Expr::Literal(Literal::u32(0))));
        let place = Place { space: Space::Shared(flag), dtype: DType::U32, index: int(0) };
        self.emit(Stmt::Store { place: place.clone(), value, predicate: None, cache: Default::default() });
        let then = self.close();
        let condition = self.is_first_thread().unwrap_or(Expr::Literal(Literal::bool(true)));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.everyone()));
        let read = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        compare(CompareOp::Eq, self.declare_let("last", DType::U32, read), one)
    }

    pub(super) fn combine_parts(&mut self, left: &Left, total: &Expr) -> Lowered<()> {
        let c = left.combine;
        self.comment(match left.words {
            true => "combine what all blocks leave; their words are empty for the next launch",
            false => "combine what all blocks left",
        });
        let Some(layout) = &left.layout else { return self.combine_scalars(left, total) };
        // Each thread combines its own registers, block after block.
        let vars = self.component_vars(c, layout.registers, true);
        let (threads, each) = (self.plan.threads, layout.registers * self.plan.threads);
        let block = self.new_var("b", DType::I32, None);
        let (ix, thread) = (self.ix, self.thread.clone());
        self.open();
        self.each_slot(layout.registers, &mut |cx, slot| {
            let flat = ix.cast(DType::I32, slot.cloned().unwrap_or(int(0)));
            let own = ix.add(ix.mul(flat, ix.lit(threads)), thread.clone());
            let index = ix.add(ix.mul(ix.cast(DType::I32, Expr::Var(block)), ix.lit(each)), own);
            cx.take_part(left, &vars, slot, index)
        })?;
        let body = self.close();
        self.emit(Stmt::For { var: block, start: int(0), end: total.clone(), step: int(1), unroll: false, body });
        for (value, var) in c.results.iter().zip(&vars) {
            self.set_combined(*value, *var, layout);
        }
        Ok(())
    }

    /// The threads share out the blocks' scalars, then combine what they have.
    fn combine_scalars(&mut self, left: &Left, total: &Expr) -> Lowered<()> {
        let (c, threads) = (left.combine, self.plan.threads);
        let vars = self.component_vars(c, 1, true);
        let ix32 = super::index::Index { dtype: DType::I32 };
        let thread = self.thread32();
        let (start, end, step) = if c.operator.commutative() {
            (thread, total.clone(), threads)
        } else {
            let chunk = self.declare_let("chunk", DType::I32, ix32.div(ix32.add(total.clone(), int(threads - 1)), threads));
            let start = self.declare_let("first", DType::I32, ix32.mul(thread, chunk.clone()));
            (start.clone(), binary(BinaryOp::Min, ix32.add(start, chunk), total.clone()), 1)
        };
        if left.words {
            self.combine_words(left, &vars, [start, end], step)?;
        } else {
            let part = self.new_var("b", DType::I32, None);
            self.open();
            let index = self.ix.cast(DType::I32, Expr::Var(part));
            self.take_part(left, &vars, None, index)?;
            let body = self.close();
            self.emit(Stmt::For { var: part, start, end, step: int(step), unroll: false, body });
        }
        let mut partial = Partial { vars, layout: self.one_each() };
        let steps = steps(&partial.layout, &[0], c.operator.commutative());
        self.take_steps(c, &mut partial, steps)?;
        for (value, var) in c.results.iter().zip(&partial.vars) {
            self.set(*value, Rep::Scalar(Expr::Var(*var)));
        }
        Ok(())
    }

    /// Combines one block's part into `vars`.
    fn take_part(&mut self, left: &Left, vars: &[crate::simt::VarId], slot: Option<&Expr>, index: Expr) -> Lowered<()> {
        let c = left.combine;
        let part = |(space, input): (&usize, &ValueId)| {
            let place = Place { space: Space::Global(*space), dtype: self.register_type(*input), index: index.clone() };
            Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() }
        };
        let right = left.spaces.iter().zip(&c.inputs).map(part).collect();
        self.join_part(c, vars, slot, right)
    }

    /// Combines a part into `vars`.
    pub fn join_part(&mut self, c: &Combine, vars: &[crate::simt::VarId], slot: Option<&Expr>, part: Vec<Expr>) -> Lowered<()> {
        let right = self.settled(&c.operator, part);
        let mine = vars.iter().map(|v| self.slot(*v, slot)).collect();
        let new = self.apply_operator(&c.operator, mine, right)?;
        self.assign_components(vars, slot, new);
        Ok(())
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

/// Whether the body combines something over the grid: it then runs in at least one block, however few tiles there are.
pub(crate) fn combines_grid(kernel: &tile::Kernel) -> bool {
    kernel.body.iter().any(is_over_grid)
}

/// How a combination over the grid ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finish {
    /// The last block combines what all have left, in the blocks' order.
    LastBlock,
    /// Each block adds its part to a total by an atomic.
    Atomics,
    /// One block of a launch behind this one combines what all have left, in the blocks' order.
    SecondLaunch,
}

/// How the schedule has a combination over the grid end.
pub(crate) fn finish(kernel: &tile::Kernel, schedule: &Schedule) -> Result<Finish, ScheduleError> {
    let Some(at) = kernel.knobs.iter().position(|k| k.kind == KnobKind::Finish) else { return Ok(Finish::LastBlock) };
    match &schedule.choices[at] {
        Choice::Word(w) if w == "Atomics" => {
            let over_grid = kernel.body.iter().filter_map(|s| match s {
                tile::Stmt::Combine(c) if c.form == Form::Grid => Some(c),
                _ => None,
            });
            super::totals::check(kernel, over_grid, tile::KnobId(at as u32))?;
            Ok(Finish::Atomics)
        }
        Choice::Word(w) if w == "SecondLaunch" => {
            super::second_launch::check(kernel, tile::KnobId(at as u32))?;
            Ok(Finish::SecondLaunch)
        }
        _ => Ok(Finish::LastBlock),
    }
}

/// Whether what blocks have must be combined in the order of the tiles.
pub(crate) fn keeps_order(kernel: &tile::Kernel) -> bool {
    kernel.body.iter().any(|s| matches!(s, tile::Stmt::Combine(c) if c.form == Form::Grid && !c.operator.commutative()))
}

pub(super) fn is_over_grid(stmt: &tile::Stmt) -> bool {
    matches!(stmt, tile::Stmt::Combine(c) if c.form == Form::Grid)
}

/// An i32 index that is surely one.
pub(crate) fn at_least_one(blocks: HostExpr) -> HostExpr {
    HostExpr::binary(BinaryOp::Max, blocks, HostExpr::Const(1))
}

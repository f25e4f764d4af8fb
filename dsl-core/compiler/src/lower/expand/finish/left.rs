//! What blocks leave of a combination over the grid: their parts, and how these are combined.

use crate::block::HostExpr;
use crate::block::steps::steps;
use crate::block::{Combine, Ty, ValueId};
use crate::lower::expand::combine::{Partial, int};
use crate::lower::expand::context::{Expanded, Expander, Rep};
use crate::lower::expand::index::{Index, binary};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Place, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType};

/// A combination over the grid and where its blocks leave their parts: one workspace per component.
pub(crate) struct Left<'k> {
    pub(in crate::lower::expand) combine: &'k Combine,
    pub(in crate::lower::expand) spaces: Vec<usize>,
    /// The layout of tiles; none for scalars.
    layout: Option<Layout>,
    /// The parts are words with a flag.
    words: bool,
}

impl Expander<'_> {
    /// Values of a thread of a combination's component: one for scalars.
    fn part_registers(&self, c: &Combine) -> i64 {
        match self.kernel.ty(c.inputs[0]) {
            Ty::Scalar(_) => 1,
            _ => self.layout_of(c.inputs[0]).registers,
        }
    }

    pub(in crate::lower::expand) fn leave_parts_of<'k>(
        &mut self,
        combines: &'k [Combine],
        words: bool,
        by_ticket: bool,
    ) -> Expanded<Vec<Left<'k>>> {
        let blocks = self.kernel.launch.grid.clone();
        let block = self.block_number();
        combines
            .iter()
            .map(|c| if words { Ok(self.leave_words(c, &blocks)) } else { self.leave_part(c, &blocks, &block, by_ticket) })
            .collect()
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

    fn leave_part<'k>(&mut self, c: &'k Combine, blocks: &HostExpr, block: &Expr, by_ticket: bool) -> Expanded<Left<'k>> {
        let scalar = matches!(self.kernel.ty(c.inputs[0]), Ty::Scalar(_));
        let threads = self.team.threads;
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
        if by_ticket {
            // Thread 0 speaks for all of them.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        Ok(Left { combine: c, spaces, layout: Some(layout), words: false })
    }

    pub(in crate::lower::expand) fn combine_parts(&mut self, left: &Left, total: &Expr) -> Expanded<()> {
        let c = left.combine;
        self.comment(match left.words {
            true => "combine what all blocks leave; their words are empty for the next launch",
            false => "combine what all blocks left",
        });
        let Some(layout) = &left.layout else { return self.combine_scalars(left, total) };
        // Each thread combines its own registers, block after block.
        let vars = self.component_vars(c, layout.registers, true);
        let (threads, each) = (self.team.threads, layout.registers * self.team.threads);
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
    fn combine_scalars(&mut self, left: &Left, total: &Expr) -> Expanded<()> {
        let (c, threads) = (left.combine, self.team.threads);
        let vars = self.component_vars(c, 1, true);
        let ix32 = Index { dtype: DType::I32 };
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
    fn take_part(&mut self, left: &Left, vars: &[VarId], slot: Option<&Expr>, index: Expr) -> Expanded<()> {
        let c = left.combine;
        let part = |(space, input): (&usize, &ValueId)| {
            let place = Place { space: Space::Global(*space), dtype: self.register_type(*input), index: index.clone() };
            Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() }
        };
        let right = left.spaces.iter().zip(&c.inputs).map(part).collect();
        self.join_part(c, vars, slot, right)
    }

    /// Combines a part into `vars`.
    pub fn join_part(&mut self, c: &Combine, vars: &[VarId], slot: Option<&Expr>, part: Vec<Expr>) -> Expanded<()> {
        let right = self.settled(&c.operator, part);
        let mine = vars.iter().map(|v| self.slot(*v, slot)).collect();
        let new = self.apply_operator(&c.operator, mine, right)?;
        self.assign_components(vars, slot, new);
        Ok(())
    }
}

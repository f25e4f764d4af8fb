//! Which scalars may differ between the threads of a block. Divergence analysis from its sources down (after Karrenberg and Hack, "Improving
//! performance of OpenCL on CPUs", 2012): what a scalar is computed of is the same in all threads unless it comes from one of these.
//!
//! - what a thread has of a tile: a picked element, what its warp voted, what a window holds beside it;
//! - a load from a tensor that the kernel also writes, or that may be the same memory as one of these; or from an array that the author keeps by hand: threads read at times of their own;
//! - what the last block finds of all others, and what the threads of a block hand on in order;
//! - what loops and branches leave whose conditions differ.
//!
//! Results of reductions and of atomics are told to all threads. Loads from other tensors and arrays read one place, to which nobody writes
//! meanwhile: that would be a race.

use super::{Block, Branch, Carry, Combine, Index, Kernel, Op, Param, ParamKind, SharedKind, Stmt, ValueId};
use girih_ir::tile::access::operands;
use std::collections::HashSet;

/// The scalars of a page that may differ between the threads of a block.
pub(crate) struct Differing<'k> {
    page: &'k Kernel,
    /// Parameters that the kernel writes, or that may be the same memory as one of these.
    written: HashSet<usize>,
    values: HashSet<ValueId>,
}

impl Differing<'_> {
    pub fn of(page: &Kernel) -> HashSet<ValueId> {
        let is = |p: &Param, also: fn(bool, bool) -> bool| matches!(p.kind, ParamKind::Tensor { written, restrict, .. } if also(written, restrict));
        // What is written may be any tensor that is not known to lie apart.
        let may_meet = page.params.iter().any(|p| is(p, |written, restrict| written && !restrict));
        let changes = |p: &Param| is(p, |written, _| written) || may_meet && is(p, |_, restrict| !restrict);
        let written = (0..page.params.len()).filter(|p| changes(&page.params[*p])).collect();
        let mut all = Differing { page, written, values: HashSet::new() };
        loop {
            let before = all.values.len();
            all.block(&page.body);
            if all.values.len() == before {
                return all.values;
            }
        }
    }

    fn differs(&self, value: ValueId) -> bool {
        self.values.contains(&value)
    }

    fn set(&mut self, value: ValueId, differs: bool) {
        if differs && self.page.ty(value).shape().is_none() {
            self.values.insert(value);
        }
    }

    fn block(&mut self, block: &Block) {
        block.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let(value, op) => self.set(*value, self.op_differs(op)),
            Stmt::Load(value, access) => {
                let at = |i: &Index| matches!(i, Index::Tile(v) | Index::At(v) if self.differs(*v));
                self.set(*value, self.written.contains(&self.page.view(access.view).param) || access.index.iter().any(at));
            }
            Stmt::Shared { array, kind, .. } => self.shared(self.page.shared_array(*array).by_hand, kind),
            Stmt::Loop(l) => {
                let ends = l.span.is_some_and(|span| self.differs(span.first) || self.differs(span.end));
                self.turns(&l.carries, ends, &[&l.body]);
            }
            Stmt::Range { var, start, end, carries, body } => {
                let ends = self.differs(*start) || self.differs(*end);
                self.set(*var, ends);
                self.turns(carries, ends, &[body]);
            }
            Stmt::While { carries, header, condition, body, .. } => {
                self.block(header);
                self.turns(carries, self.differs(*condition), &[body]);
            }
            Stmt::If { condition, then, otherwise, results } => {
                self.block(then);
                self.block(otherwise);
                for Branch { then, otherwise, result } in results {
                    self.set(*result, self.differs(*condition) || self.differs(*then) || self.differs(*otherwise));
                }
            }
            Stmt::Where { body, .. } => self.block(body),
            Stmt::Alone(alone) => {
                self.block(&alone.again);
                self.block(&alone.body);
                // The others are told.
                self.values.retain(|v| !alone.gives.contains(v));
            }
            Stmt::Finish(finish) => {
                self.block(&finish.before);
                let results = |c: &Combine| c.results.clone();
                finish.combines.iter().flat_map(results).for_each(|v| self.set(v, true));
                self.block(&finish.after);
            }
            Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            Stmt::Combine(_) | Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Barrier(_) | Stmt::Meet(_) | Stmt::Copies { .. } => {}
        }
    }

    fn op_differs(&self, op: &Op) -> bool {
        let of_a_thread = match op {
            Op::Pick { .. } | Op::Vote(..) | Op::Shuffle { .. } | Op::Near(..) => true,
            Op::Gather(view, _) | Op::GatherInside(view, _) => self.written.contains(&self.page.view(*view).param),
            Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Iota | Op::Unary(..) | Op::Binary(..) => false,
            Op::Ternary(..) | Op::Compare(..) | Op::Select(..) | Op::Cast(_) | Op::Bitcast(_) | Op::Splat(_) | Op::Like { .. } => false,
            Op::Or { .. } | Op::Total { .. } | Op::Within(..) | Op::Broadcast(..) | Op::Transpose(..) | Op::Stack(_) => false,
            Op::Coordinates(_) | Op::Start(_) | Op::End(_) | Op::Number(_) | Op::Load(..) | Op::Window { .. } | Op::Dot { .. } => false,
        };
        of_a_thread || operands(op).into_iter().any(|v| self.differs(v))
    }

    fn shared(&mut self, by_hand: bool, kind: &SharedKind) {
        match kind {
            SharedKind::Gather { indices, result, .. } => {
                self.set(*result, by_hand || indices.iter().any(|v| self.differs(*v)));
            }
            SharedKind::GatherRun { result, .. } | SharedKind::Take { result } => self.set(*result, true),
            SharedKind::Fill(_) | SharedKind::Empty | SharedKind::Scatter { .. } | SharedKind::Atomic(_) => {}
            SharedKind::ScatterRun { .. } | SharedKind::Copy { .. } | SharedKind::Start(_) | SharedKind::Leave(_) => {}
        }
    }

    /// The turns of a loop, of whose number threads may have ideas of their own.
    fn turns(&mut self, carries: &[Carry], number_differs: bool, blocks: &[&Block]) {
        for c in carries {
            self.set(c.inner, number_differs || self.differs(c.init) || self.differs(c.next));
        }
        blocks.iter().for_each(|b| self.block(b));
        for c in carries {
            self.set(c.result, number_differs || self.differs(c.init) || self.differs(c.next));
        }
    }
}

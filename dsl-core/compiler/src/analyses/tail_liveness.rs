//! Which absent elements nobody looks at: those of a carried tile that is only computed with element by element and stored where the
//! store leaves the same elements out. Such an element need not keep its value when the next one is absent.

use girih_ir::tile::{Block, Carry, Index, Kernel, Op, Stmt, Ty, ValueId};
use std::collections::HashSet;

/// The axes and tile indices of a carried tile beyond whose walked length no element is ever stored or combined with others.
pub(crate) fn unobserved(kernel: &Kernel, carry: &Carry) -> Vec<(usize, ValueId)> {
    let rank = kernel.ty(carry.init).shape().map_or(0, <[_]>::len);
    let indices = (0..kernel.values.len() as u32).map(ValueId).filter(|v| matches!(kernel.ty(*v), Ty::TileIdx(_)));
    indices
        .flat_map(|index| (0..rank).map(move |axis| (axis, index)))
        .filter(|(axis, index)| !is_observed(kernel, carry, *axis, *index))
        .collect()
}

fn is_observed(kernel: &Kernel, carry: &Carry, axis: usize, index: ValueId) -> bool {
    let mut flow = Flow { axis, index, tracked: HashSet::from([carry.inner, carry.result]), observed: false };
    loop {
        let before = flow.tracked.len();
        flow.block(&kernel.body);
        if flow.observed || flow.tracked.len() == before {
            return flow.observed;
        }
    }
}

/// The values that elements of a tile flow into.
struct Flow {
    axis: usize,
    index: ValueId,
    tracked: HashSet<ValueId>,
    observed: bool,
}

impl Flow {
    fn any(&self, values: &[ValueId]) -> bool {
        values.iter().any(|v| self.tracked.contains(v))
    }

    fn carries(&mut self, carries: &[Carry]) {
        for c in carries {
            if self.any(&[c.init, c.next]) {
                self.tracked.extend([c.inner, c.result]);
            }
        }
    }

    fn block(&mut self, block: &Block) {
        block.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let(v, op) => {
                if self.any(&super::uses::operands(op)) {
                    match op {
                        Op::Unary(..)
                        | Op::Binary(..)
                        | Op::Ternary(..)
                        | Op::Compare(..)
                        | Op::Select(..)
                        | Op::Cast(_)
                        | Op::Bitcast(_)
                        | Op::Within(..) => {
                            self.tracked.insert(*v);
                        }
                        // Where the elements exist, not what they are.
                        Op::Like { .. } => {}
                        _ => self.observed = true,
                    }
                }
            }
            Stmt::Store { index, value, .. } => {
                let tiles: Vec<&Index> = index.iter().filter(|i| !matches!(i, Index::At(_))).collect();
                let leaves_out = tiles.get(self.axis).is_some_and(|i| **i == Index::Tile(self.index));
                self.observed |= self.any(&[*value]) && !leaves_out;
            }
            Stmt::Scatter { indices, value, .. } => self.observed |= self.any(&[*value]) || self.any(indices),
            Stmt::Atomic { update, .. } => self.observed |= self.any(&update.uses()),
            Stmt::Shared(access) => self.observed |= self.any(&access.kind.operands()),
            Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Combine(c) => self.observed |= self.any(&c.inputs),
            Stmt::Tiles(l) => {
                self.carries(&l.carries);
                self.block(&l.body);
            }
            Stmt::Range { carries, body, .. } => {
                self.carries(carries);
                self.block(body);
            }
            Stmt::While { carries, header, body, .. } => {
                self.carries(carries);
                self.block(header);
                self.block(body);
            }
            Stmt::If { then, otherwise, results, .. } => {
                self.block(then);
                self.block(otherwise);
                for r in results {
                    if self.any(&[r.then, r.otherwise]) {
                        self.tracked.insert(r.result);
                    }
                }
            }
            Stmt::Where { mask, body, .. } => {
                self.observed |= self.any(&[*mask]);
                self.block(body);
            }
        }
    }
}

//! How often and where each value is used: decides what is inlined and what gets a variable.

pub(crate) use girih_ir::tile::access::operands;

use girih_ir::tile::access::index_values;
use girih_ir::tile::{Block, Kernel, Op, Operator, Stmt, ValueId, ViewId};
use std::collections::HashSet;

/// Where a value is defined and used.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Uses {
    pub count: u32,
    pub def_block: u32,
    /// Some use lies in another block than the definition.
    pub escapes: bool,
}

/// Which tensor parameters the kernel writes.
pub(crate) fn written_params(kernel: &Kernel) -> Vec<bool> {
    let mut written = vec![false; kernel.params.len()];
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| stored_tensor(kernel, stmt).into_iter().for_each(|p| written[p] = true));
    written
}

/// The tensor that a statement itself stores to.
pub(crate) fn stored_tensor(kernel: &Kernel, stmt: &Stmt) -> Option<usize> {
    match stmt {
        Stmt::Store { view, .. } | Stmt::Scatter { view, .. } | Stmt::Atomic { view, .. } => Some(kernel.view(*view).param),
        _ => None,
    }
}

/// The tensor that a statement itself loads from.
pub(crate) fn loaded_tensor(kernel: &Kernel, stmt: &Stmt) -> Option<usize> {
    match stmt {
        Stmt::Let(_, op) => loaded_view(op).map(|view| kernel.view(view).param),
        _ => None,
    }
}

/// The view that an operation loads from.
fn loaded_view(op: &Op) -> Option<ViewId> {
    match op {
        Op::Load(view, _) | Op::Gather(view, _) | Op::GatherInside(view, _) | Op::Window { view, .. } => Some(*view),
        _ => None,
    }
}

struct Counter<'a> {
    kernel: &'a Kernel,
    uses: Vec<Uses>,
    next_block: u32,
}

/// Counts every use of every value.
pub(crate) fn count(kernel: &Kernel) -> Vec<Uses> {
    let mut counter = Counter { kernel, uses: vec![Uses::default(); kernel.values.len()], next_block: 0 };
    counter.block(&kernel.body);
    counter.uses
}

/// The values that statements make.
pub(crate) fn defined<'k>(block: impl Iterator<Item = &'k Stmt>) -> HashSet<ValueId> {
    let mut found = Vec::new();
    block.for_each(|stmt| girih_ir::tile::print::definitions(std::slice::from_ref(stmt), &mut found));
    found.into_iter().map(|(value, _)| value).collect()
}

/// The values that statements use, their own among them.
pub(crate) fn used_by<'k>(kernel: &Kernel, block: impl Iterator<Item = &'k Stmt>) -> Vec<ValueId> {
    let mut counter = Counter { kernel, uses: vec![Uses::default(); kernel.values.len()], next_block: 1 };
    block.for_each(|stmt| counter.statements(std::slice::from_ref(stmt), 0));
    (0..kernel.values.len()).filter(|v| counter.uses[*v].count > 0).map(|v| ValueId(v as u32)).collect()
}

impl Counter<'_> {
    fn uses(&mut self, values: &[ValueId], block: u32) {
        for v in values {
            let entry = &mut self.uses[v.0 as usize];
            entry.count += 1;
            entry.escapes |= entry.def_block != block;
        }
    }

    fn view(&mut self, view: girih_ir::tile::ViewId, block: u32) {
        let v = self.kernel.view(view);
        let values: Vec<ValueId> = v.axes.iter().flat_map(|a| [a.len, a.stride]).chain([v.offset]).collect();
        self.uses(&values, block);
    }

    /// Counts in a block of its own; returns its number.
    fn block(&mut self, body: &Block) -> u32 {
        let block = self.next_block;
        self.next_block += 1;
        self.statements(body, block);
        block
    }

    fn statements(&mut self, body: &[Stmt], block: u32) {
        for stmt in body {
            match stmt {
                Stmt::Let(v, op) => {
                    self.uses[v.0 as usize].def_block = block;
                    if let Some(view) = loaded_view(op) {
                        self.view(view, block);
                    }
                    self.uses(&operands(op), block);
                }
                Stmt::Store { view, index, value, .. } => {
                    self.view(*view, block);
                    self.uses(&index_values(index), block);
                    self.uses(&[*value], block);
                }
                Stmt::Scatter { view, indices, value, .. } => {
                    self.view(*view, block);
                    self.uses(indices, block);
                    self.uses(&[*value], block);
                }
                Stmt::Atomic { update, view, .. } => {
                    self.view(*view, block);
                    self.uses(&update.uses(), block);
                    update.result.iter().for_each(|r| self.uses[r.0 as usize].def_block = block);
                }
                Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
                Stmt::Shared(access) => {
                    access.kind.view().iter().for_each(|view| self.view(*view, block));
                    self.uses(&access.kind.operands(), block);
                    access.kind.result().iter().for_each(|r| self.uses[r.0 as usize].def_block = block);
                }
                Stmt::Combine(c) => {
                    self.uses(&c.inputs, block);
                    c.results.iter().for_each(|r| self.uses[r.0 as usize].def_block = block);
                    if let Operator::User { body, results, .. } = &c.operator {
                        let own = self.block(body);
                        self.uses(results, own);
                    }
                }
                Stmt::Tiles(l) => {
                    l.span.iter().for_each(|s| self.uses(&[s.first, s.end], block));
                    self.enter(&l.carries, block);
                    let turn = self.block(&l.body);
                    self.leave(&l.carries, turn);
                }
                Stmt::Range { start, end, carries, body, .. } => {
                    self.uses(&[*start, *end], block);
                    self.enter(carries, block);
                    let turn = self.block(body);
                    self.leave(carries, turn);
                }
                Stmt::While { carries, header, condition, body, .. } => {
                    self.enter(carries, block);
                    let test = self.block(header);
                    self.uses(&[*condition], test);
                    let turn = self.block(body);
                    self.leave(carries, turn);
                }
                Stmt::If { condition, then, otherwise, results, .. } => {
                    self.uses(&[*condition], block);
                    let sides = (self.block(then), self.block(otherwise));
                    for r in results {
                        self.uses(&[r.then], sides.0);
                        self.uses(&[r.otherwise], sides.1);
                    }
                }
                // Transparent: its values belong to the block around it. The mask is used by each access inside.
                Stmt::Where { mask, body, .. } => {
                    self.uses(&[*mask, *mask], block);
                    self.statements(body, block);
                }
            }
        }
    }

    /// First values of carried variables.
    fn enter(&mut self, carries: &[girih_ir::tile::Carry], block: u32) {
        carries.iter().for_each(|c| self.uses(&[c.init], block));
    }

    /// Last values of a turn.
    fn leave(&mut self, carries: &[girih_ir::tile::Carry], turn: u32) {
        carries.iter().for_each(|c| self.uses(&[c.next], turn));
    }
}

//! Leaves out what nobody reads: the old values that atomics give, what loops carry, what branches choose, and combinations. What these are
//! computed of goes with them, since nobody asks for it any more.

use crate::analyses::uses::operands;
use girih_ir::tile::{Block, Branch, Carry, Combine, Form, Kernel, Operator, SharedAccess, SharedKind, Stmt, TileLoop, ValueId};
use std::borrow::Cow;
use std::collections::HashSet;

/// The kernel without what nobody reads.
pub(crate) fn drop_unread(kernel: &Kernel) -> Cow<'_, Kernel> {
    let mut read = Read { values: vec![false; kernel.values.len()], more: true };
    for view in &kernel.views {
        read.reads(&[view.offset]);
        view.axes.iter().for_each(|axis| read.reads(&[axis.len, axis.stride]));
    }
    while std::mem::take(&mut read.more) {
        read.block(&kernel.body);
    }
    let mut left_out = false;
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| left_out |= read.has_unread(stmt));
    if !left_out {
        return Cow::Borrowed(kernel);
    }
    let mut kernel = kernel.clone();
    read.clear(&mut kernel.body, &mut HashSet::new());
    Cow::Owned(kernel)
}

/// The values that somebody reads: what leaves the kernel, decides what it does, or is part of such a value.
struct Read {
    values: Vec<bool>,
    /// Something new was found: what loops carry depends on what their turns make of it.
    more: bool,
}

impl Read {
    fn reads(&mut self, values: &[ValueId]) {
        for v in values {
            let known = &mut self.values[v.0 as usize];
            self.more |= !*known;
            *known = true;
        }
    }

    fn is_read(&self, value: ValueId) -> bool {
        self.values[value.0 as usize]
    }

    /// Backwards, so that a body takes few walks.
    fn block(&mut self, block: &Block) {
        block.iter().rev().for_each(|stmt| self.stmt(stmt));
    }

    fn carries(&mut self, carries: &[Carry]) {
        for c in carries {
            if self.is_read(c.inner) || self.is_read(c.result) {
                self.reads(&[c.init, c.inner, c.next, c.result]);
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let(v, op) => {
                if self.is_read(*v) {
                    self.reads(&operands(op));
                }
            }
            Stmt::Store { index, value, .. } => {
                self.reads(&girih_ir::tile::access::index_values(index));
                self.reads(&[*value]);
            }
            Stmt::Scatter { indices, value, .. } => {
                self.reads(indices);
                self.reads(&[*value]);
            }
            Stmt::Atomic { update, .. } => self.reads(&update.uses()),
            Stmt::Shared(access) => self.reads(&access.kind.operands()),
            Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Combine(c) => {
                if self.stays(c) {
                    self.reads(&c.inputs);
                    if let Operator::User { body, results, .. } = &c.operator {
                        self.reads(results);
                        self.block(body);
                    }
                }
            }
            Stmt::Tiles(TileLoop { span, carries, body, .. }) => {
                self.carries(carries);
                span.iter().for_each(|s| self.reads(&[s.first, s.end]));
                self.block(body);
            }
            Stmt::Range { start, end, carries, body, .. } => {
                self.carries(carries);
                self.reads(&[*start, *end]);
                self.block(body);
            }
            Stmt::While { carries, header, condition, body, .. } => {
                self.carries(carries);
                self.reads(&[*condition]);
                self.block(body);
                self.block(header);
            }
            Stmt::If { condition, then, otherwise, results, .. } => {
                self.reads(&[*condition]);
                for Branch { then, otherwise, result } in results {
                    if self.is_read(*result) {
                        self.reads(&[*then, *otherwise]);
                    }
                }
                self.block(then);
                self.block(otherwise);
            }
            Stmt::Where { mask, body, .. } => {
                self.reads(&[*mask]);
                self.block(body);
            }
        }
    }

    /// What all blocks have is combined where all of them meet.
    fn stays(&self, c: &Combine) -> bool {
        c.form == Form::Grid || c.results.iter().any(|r| self.is_read(*r))
    }

    fn stays_carried(&self, c: &Carry) -> bool {
        self.is_read(c.inner) || self.is_read(c.result)
    }

    fn has_unread(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Atomic { update, .. } | Stmt::Shared(SharedAccess { kind: SharedKind::Atomic(update), .. }) => {
                update.result.is_some_and(|r| !self.is_read(r))
            }
            Stmt::Combine(c) => !self.stays(c),
            Stmt::Tiles(TileLoop { carries, .. }) | Stmt::Range { carries, .. } | Stmt::While { carries, .. } => {
                carries.iter().any(|c| !self.stays_carried(c))
            }
            Stmt::If { results, .. } => results.iter().any(|r| !self.is_read(r.result)),
            Stmt::Let(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Shared(_) | Stmt::Where { .. } => false,
            Stmt::Barrier { .. } | Stmt::Copies { .. } => false,
        }
    }

    /// `gone` are the values that nothing makes any more.
    fn clear(&self, block: &mut Block, gone: &mut HashSet<ValueId>) {
        for mut stmt in std::mem::take(block) {
            match &mut stmt {
                Stmt::Let(v, op) if operands(op).iter().any(|o| gone.contains(o)) => {
                    gone.insert(*v);
                    continue;
                }
                Stmt::Combine(c) if !self.stays(c) => {
                    gone.extend(&c.results);
                    continue;
                }
                Stmt::Atomic { update, .. } | Stmt::Shared(SharedAccess { kind: SharedKind::Atomic(update), .. }) => {
                    gone.extend(update.result.take_if(|r| !self.is_read(*r)));
                }
                Stmt::Tiles(TileLoop { carries, body, .. }) | Stmt::Range { carries, body, .. } => {
                    self.clear_carries(carries, gone);
                    self.clear(body, gone);
                }
                Stmt::While { carries, header, body, .. } => {
                    self.clear_carries(carries, gone);
                    self.clear(header, gone);
                    self.clear(body, gone);
                }
                Stmt::If { then, otherwise, results, .. } => {
                    gone.extend(results.extract_if(.., |r| !self.is_read(r.result)).map(|r| r.result));
                    self.clear(then, gone);
                    self.clear(otherwise, gone);
                }
                Stmt::Where { body, .. } => self.clear(body, gone),
                Stmt::Let(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Shared(_) | Stmt::Combine(_) => {}
                Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            }
            block.push(stmt);
        }
    }

    fn clear_carries(&self, carries: &mut Vec<Carry>, gone: &mut HashSet<ValueId>) {
        gone.extend(carries.extract_if(.., |c| !self.stays_carried(c)).flat_map(|c| [c.inner, c.result]));
    }
}

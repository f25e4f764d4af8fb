//! Puts an end to what has none: where elements of made tiles are looked at in the body of the grid loop, those beyond the grid's tensor
//! are left out ([`Op::Within`]). `tile/presence.rs` has the rule.

use girih_ir::tile::presence::Presence;
use girih_ir::tile::{Block, Carry, Combine, Form, Kernel, Op, SharedKind, Stmt, TileLoop, Ty, Value, ValueId, ViewId};

/// Inserts what a kernel needs.
pub(crate) fn insert(kernel: &mut Kernel) {
    let seen = kernel.clone();
    let mut ends = Ends { presence: Presence::of(&seen), values: std::mem::take(&mut kernel.values), sides: Vec::new(), made: Vec::new() };
    for stmt in &mut kernel.body {
        if let Stmt::Tiles(l) = stmt {
            ends.grid(l);
            break;
        }
    }
    kernel.values = ends.values;
}

struct Ends<'k> {
    presence: Presence<'k>,
    values: Vec<Value>,
    /// The conditions of the choices around the statement at hand.
    sides: Vec<ValueId>,
    /// To stand before it.
    made: Block,
}

impl Ends<'_> {
    fn grid(&mut self, l: &mut TileLoop) {
        self.block(&mut l.body);
        for c in &mut l.carries {
            self.update(c);
        }
        l.body.append(&mut self.made);
    }

    /// What is carried over the grid keeps what it had beyond the end.
    fn update(&mut self, c: &mut Carry) {
        let ends = self.presence.ends(&[c.next], &[], true);
        self.bound(&mut c.next, ends);
    }

    fn block(&mut self, block: &mut Block) {
        for mut stmt in std::mem::take(block) {
            self.stmt(&mut stmt);
            block.append(&mut self.made);
            block.push(stmt);
        }
    }

    fn stmt(&mut self, stmt: &mut Stmt) {
        match stmt {
            Stmt::Combine(c) => self.combine(c),
            Stmt::Scatter { view, indices, run: Some(_), .. } => {
                let ends = self.accessed(indices, Some((*view, indices)));
                self.bound_first(indices.iter_mut(), ends);
            }
            Stmt::Scatter { view, indices, value, .. } => {
                let uses: Vec<ValueId> = indices.iter().copied().chain([*value]).collect();
                let ends = self.accessed(&uses, Some((*view, indices)));
                self.bound_first([value].into_iter().chain(indices.iter_mut()), ends);
            }
            Stmt::Atomic { update, view, .. } => {
                let ends = self.accessed(&update.uses(), Some((*view, &update.indices)));
                self.bound_first([&mut update.value].into_iter().chain(&mut update.indices).chain(&mut update.expected), ends);
            }
            Stmt::Shared(access) => match &mut access.kind {
                SharedKind::Scatter { indices, value } => {
                    let uses: Vec<ValueId> = indices.iter().copied().chain([*value]).collect();
                    let ends = self.accessed(&uses, None);
                    self.bound_first([value].into_iter().chain(indices.iter_mut()), ends);
                }
                SharedKind::Atomic(update) => {
                    let ends = self.accessed(&update.uses(), None);
                    self.bound_first([&mut update.value].into_iter().chain(&mut update.indices).chain(&mut update.expected), ends);
                }
                _ => {}
            },
            Stmt::Let(_, Op::GatherInside(view, indices)) => {
                let ends = self.accessed(indices, Some((*view, indices)));
                self.bound_first(indices.iter_mut(), ends);
            }
            Stmt::Let(..) | Stmt::Store { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Tiles(TileLoop { body, .. }) => {
                let sides = std::mem::take(&mut self.sides);
                self.block(body);
                self.sides = sides;
            }
            Stmt::Range { body, .. } => self.block(body),
            Stmt::While { header, condition, body, .. } => {
                self.block(header);
                if matches!(self.values[condition.0 as usize].ty, Ty::Tile(..)) {
                    let ends = self.presence.ends(&[*condition], &[], false);
                    self.bound(condition, ends);
                    header.append(&mut self.made);
                }
                self.block(body);
            }
            Stmt::If { then, otherwise, .. } => {
                self.block(then);
                self.block(otherwise);
            }
            Stmt::Where { mask, body, .. } => {
                self.sides.push(*mask);
                self.block(body);
                self.sides.pop();
            }
        }
    }

    /// Only along the axes where elements meet.
    fn combine(&mut self, c: &mut Combine) {
        let mut ends = self.presence.ends(&c.inputs, &[], false);
        for (axis, end) in ends.iter_mut().enumerate() {
            let meet = match &c.form {
                Form::Reduce { axes } => axes.contains(&axis),
                Form::Scan { axis: along, .. } => *along == axis,
                Form::Before | Form::Grid => false,
            };
            *end = end.filter(|_| meet);
        }
        for input in &mut c.inputs {
            self.bound(input, ends.clone());
        }
    }

    /// The ends of what is accessed at computed positions.
    fn accessed(&self, uses: &[ValueId], place: Option<(ViewId, &Vec<ValueId>)>) -> Vec<Option<ValueId>> {
        let mut ends = self.presence.ends(uses, &self.sides, false);
        for end in &mut ends {
            *end = end.filter(|e| !place.is_some_and(|(view, indices)| self.presence.ends_by_position(view, indices, *e)));
        }
        ends
    }

    fn bound_first<'v>(&mut self, values: impl IntoIterator<Item = &'v mut ValueId>, ends: Vec<Option<ValueId>>) {
        let first = values.into_iter().find(|v| matches!(self.values[v.0 as usize].ty, Ty::Tile(..)));
        if let Some(value) = first {
            self.bound(value, ends);
        }
    }

    fn bound(&mut self, value: &mut ValueId, ends: Vec<Option<ValueId>>) {
        if ends.iter().all(Option::is_none) {
            return;
        }
        let Value { ty, loc, .. } = self.values[value.0 as usize].clone();
        self.values.push(Value { ty, name: None, loc });
        let bounded = ValueId(self.values.len() as u32 - 1);
        self.made.push(Stmt::Let(bounded, Op::Within(*value, ends)));
        *value = bounded;
    }
}

//! Where elements of a tile exist along the axes of the grid, beyond what its mask says.
//!
//! What is made rather than loaded (a constant, coordinates, what is computed from these) has no end of its own: beside a loaded tile it
//! is absent where that is, and alone it ends with the grid's tensor, where its elements are looked at one by one or together. What
//! belongs to the block (positions, shared arrays, what lanes exchange) is present everywhere, and so is what is computed with it.

use super::host::HostExpr;
use super::{Branch, Carry, Combine, Form, Index, Kernel, Op, SharedKind, Size, Stmt, TileLoop, Ty, Update, ValueId, ViewId, access};
use std::collections::HashMap;

/// What is known of a tile along one of its axes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Along {
    /// It is present by its own right, whatever the grid's tensor.
    own: bool,
    /// It is carried over the grid: beyond the end it keeps what it had.
    kept: bool,
    /// The grid's tile index whose elements these are.
    at: Option<ValueId>,
    /// Its mask leaves out what lies beyond the grid's tensor.
    ends: bool,
}

impl Along {
    const OWN: Along = Along { own: true, kept: false, at: None, ends: false };

    /// Of what is computed from both, element by element.
    fn with(self, other: Along) -> Along {
        let clash = self.at.zip(other.at).is_some_and(|(a, b)| a != b);
        Along {
            own: self.own || other.own || clash,
            kept: self.kept || other.kept,
            at: self.at.or(other.at),
            ends: self.ends || other.ends,
        }
    }
}

/// One entry per axis.
type Axes = Vec<Along>;

fn join(all: impl IntoIterator<Item = Axes>) -> Option<Axes> {
    all.into_iter().reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.with(b)).collect())
}

fn with_ends(axes: Axes, ends: impl Fn(usize) -> bool) -> Axes {
    axes.into_iter().enumerate().map(|(k, a)| Along { ends: ends(k), ..a }).collect()
}

/// What is known of all tiles of a kernel.
pub struct Presence<'k> {
    kernel: &'k Kernel,
    /// The grid's tile indices.
    grid: Vec<ValueId>,
    lengths: HashMap<ValueId, ValueId>,
    ops: HashMap<ValueId, &'k Op>,
    axes: Vec<Option<Axes>>,
    /// The conditions of the per-element choices around the statement at hand.
    sides: Vec<ValueId>,
    changed: bool,
}

impl<'k> Presence<'k> {
    /// Looks at all values of a kernel.
    pub fn of(kernel: &'k Kernel) -> Presence<'k> {
        let ops = access::operations(kernel);
        let grid = kernel.grid_loop().map(|l| l.vars.clone()).unwrap_or_default();
        let axes = vec![None; kernel.values.len()];
        let mut presence = Presence { kernel, grid, lengths: access::loop_lengths(kernel), ops, axes, sides: Vec::new(), changed: true };
        // What loops carry depends on what their turns make of it.
        while std::mem::take(&mut presence.changed) {
            presence.block(&kernel.body);
        }
        presence
    }

    /// The grid's tile indices beyond whose tensor the elements of these tiles (of one shape; scalars aside) do not exist although no mask
    /// says so, by axis; nothing where they need no end. `sides` are the conditions of the choices around, and `updates` a carried value.
    pub fn ends(&self, values: &[ValueId], sides: &[ValueId], updates: bool) -> Vec<Option<ValueId>> {
        let Some((shape, axes)) = self.together(values, sides) else { return vec![] };
        let open = |a: &Along| !a.own && !a.ends && (updates || !a.kept);
        let index = |(k, a): (usize, &Along)| if open(a) { a.at.or_else(|| self.by_size(&shape, k)) } else { None };
        axes.iter().enumerate().map(index).collect()
    }

    /// Whether every element of a tile that a block updates or scatters surely lies inside of the grid's tensor along all of its axes.
    pub fn accesses_end(&self, block: &[Stmt], sides: &[ValueId]) -> bool {
        block.iter().all(|stmt| match stmt {
            Stmt::Scatter { view, indices, run: Some(_), .. } => self.inside(*view, indices, &[], sides),
            Stmt::Scatter { view, indices, value, .. } => self.inside(*view, indices, &[*value], sides),
            Stmt::Atomic { view, update, .. } => self.inside(*view, &update.indices, &update.operands(), sides),
            Stmt::Where { mask, body, .. } => self.accesses_end(body, &[sides, &[*mask]].concat()),
            Stmt::Range { body, .. } | Stmt::Tiles(TileLoop { body, .. }) => self.accesses_end(body, sides),
            Stmt::While { header: one, body: other, .. } | Stmt::If { then: one, otherwise: other, .. } => {
                self.accesses_end(one, sides) && self.accesses_end(other, sides)
            }
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Store { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => true,
        })
    }

    fn inside(&self, view: ViewId, indices: &[ValueId], operands: &[ValueId], sides: &[ValueId]) -> bool {
        let Some((_, axes)) = self.together(&[indices, operands].concat(), sides) else { return true };
        let ends = |g: &ValueId| axes.iter().any(|a| a.ends && a.at == Some(*g)) || self.ends_by_position(view, indices, *g);
        self.grid.iter().all(ends)
    }

    fn together(&self, values: &[ValueId], sides: &[ValueId]) -> Option<(Vec<Size>, Axes)> {
        let shape = values.iter().find_map(|v| self.kernel.ty(*v).shape())?;
        let alike = values.iter().chain(sides).filter(|v| self.kernel.ty(**v).shape() == Some(shape));
        Some((shape.to_vec(), join(alike.map(|v| self.axes_of(*v)))?))
    }

    /// The grid's tile index of this size, if only one has it, and one axis.
    fn by_size(&self, shape: &[Size], axis: usize) -> Option<ValueId> {
        let mut of_size = self.grid.iter().filter(|g| *access::tile_size(self.kernel, **g) == shape[axis]);
        let index = of_size.next().filter(|_| of_size.next().is_none())?;
        (shape.iter().filter(|s| **s == shape[axis]).count() == 1).then_some(*index)
    }

    /// Whether a position along an axis of a view is a coordinate of the grid beyond whose end the view has nothing either.
    pub fn ends_by_position(&self, view: ViewId, indices: &[ValueId], end: ValueId) -> bool {
        let host = |v: ValueId| HostExpr::of_value(self.kernel, v);
        self.kernel.view(view).axes.iter().zip(indices).any(|(axis, index)| {
            let mut at = *index;
            while let Some(Op::Broadcast(of, _)) = self.ops.get(&at) {
                at = *of;
            }
            matches!(self.ops.get(&at), Some(Op::Coordinates(g)) if *g == end)
                && host(axis.len).is_some_and(|l| Some(l) == host(self.lengths[&end]))
        })
    }

    fn axes_of(&self, value: ValueId) -> Axes {
        let rank = match self.kernel.ty(value) {
            Ty::Tile(_, shape) => shape.len(),
            Ty::Window(_, reach) => reach.len(),
            Ty::Scalar(_) | Ty::TileIdx(_) => 0,
        };
        self.axes[value.0 as usize].clone().unwrap_or_else(|| vec![Along::default(); rank])
    }

    fn set(&mut self, value: ValueId, axes: Axes) {
        let slot = &mut self.axes[value.0 as usize];
        if slot.as_ref() != Some(&axes) {
            self.changed = true;
            *slot = Some(axes);
        }
    }

    /// Of what is computed from tiles, element by element.
    fn meet(&self, values: &[ValueId]) -> Option<Axes> {
        let tiles = values.iter().filter(|v| matches!(self.kernel.ty(**v), Ty::Tile(..)));
        join(tiles.map(|v| self.axes_of(*v)))
    }

    /// The elements of a tile of this index.
    fn at(&self, index: ValueId, ends: bool) -> Along {
        if self.grid.contains(&index) { Along { at: Some(index), ends, ..Along::default() } } else { Along::OWN }
    }

    fn block(&mut self, block: &'k [Stmt]) {
        block.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &'k Stmt) {
        match stmt {
            Stmt::Let(v, op) => {
                if let Some(axes) = self.op(*v, op) {
                    self.set(*v, axes);
                }
            }
            Stmt::Combine(c) => self.combine(c),
            Stmt::Atomic { update, .. } => self.update(update),
            Stmt::Shared(access) => match &access.kind {
                SharedKind::Gather { indices, result, .. } => self.accessed(indices, *result),
                SharedKind::Atomic(update) => self.update(update),
                // A run lies inside of its array, and a chain has all elements.
                _ => {}
            },
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Tiles(l) => {
                let sides = std::mem::take(&mut self.sides);
                let grid = l.vars == self.grid;
                self.carries(&l.carries, grid);
                self.block(&l.body);
                self.sides = sides;
            }
            Stmt::Range { carries, body, .. } => {
                self.carries(carries, false);
                self.block(body);
            }
            Stmt::While { carries, header, body, .. } => {
                self.carries(carries, false);
                self.block(header);
                self.block(body);
            }
            Stmt::If { then, otherwise, results, .. } => {
                self.block(then);
                self.block(otherwise);
                for Branch { then, otherwise, result } in results {
                    let (a, b) = (self.axes_of(*then), self.axes_of(*otherwise));
                    let both: Vec<bool> = a.iter().zip(&b).map(|(a, b)| a.ends && b.ends).collect();
                    let either = join([a, b]).unwrap_or_default();
                    self.set(*result, with_ends(either, |k| both[k]));
                }
            }
            Stmt::Where { mask, body, .. } => {
                self.sides.push(*mask);
                self.block(body);
                self.sides.pop();
            }
        }
    }

    /// What is absent before a loop stays absent, and the rest is present.
    fn carries(&mut self, carries: &[Carry], grid: bool) {
        for c in carries {
            let (init, next) = (self.axes_of(c.init), self.axes_of(c.next));
            let ends: Vec<bool> = init.iter().map(|a| a.ends).collect();
            let either = join([init, next]).unwrap_or_default();
            let axes: Axes = either.into_iter().zip(ends).map(|(a, ends)| Along { ends, kept: a.kept || grid, ..a }).collect();
            // Behind the grid its tensor has no end.
            let result = if grid { vec![Along::OWN; axes.len()] } else { axes.clone() };
            self.set(c.inner, axes);
            self.set(c.result, result);
        }
    }

    fn combine(&mut self, c: &Combine) {
        let Some(all) = self.meet(&c.inputs) else { return };
        for (input, result) in c.inputs.iter().zip(&c.results) {
            let axes = match &c.form {
                // Of the identity, where there is nothing: present.
                Form::Reduce { axes } => {
                    all.iter().enumerate().filter(|(k, _)| !axes.contains(k)).map(|(_, a)| Along { ends: false, ..*a }).collect()
                }
                Form::Scan { .. } => {
                    let own = self.axes_of(*input);
                    with_ends(all.clone(), |k| own[k].ends)
                }
                Form::Before | Form::Grid => self.axes_of(*input),
            };
            self.set(*result, axes);
        }
    }

    fn update(&mut self, update: &Update) {
        if let Some(result) = update.result {
            self.accessed(&update.uses(), result);
        }
    }

    /// What is read at computed positions exists where they do, and where the choices around are made.
    fn accessed(&mut self, uses: &[ValueId], result: ValueId) {
        if let Some((_, axes)) = self.together(uses, &self.sides) {
            self.set(result, axes);
        }
    }

    fn op(&self, value: ValueId, op: &Op) -> Option<Axes> {
        let rank = self.axes_of(value).len();
        Some(match op {
            Op::Splat(_) => vec![Along::default(); rank],
            Op::Iota | Op::Shuffle { .. } | Op::Vote(..) => vec![Along::OWN; rank],
            Op::Coordinates(index) => vec![self.at(*index, false)],
            Op::Like { model, .. } => self.axes_of(*model),
            // Of the scalar, where there is nothing: present.
            Op::Or { tile, .. } => with_ends(self.axes_of(*tile), |_| false),
            Op::Total { scan, axis } => {
                let mut axes = with_ends(self.axes_of(*scan), |_| false);
                axes.remove(*axis);
                axes
            }
            Op::Within(tile, ends) => {
                let axes = self.axes_of(*tile).into_iter().zip(ends);
                axes.map(|(a, end)| end.map_or(a, |g| Along { at: Some(g), ends: true, ..a })).collect()
            }
            Op::Load(_, index) => {
                let tiles = index.iter().filter(|i| !matches!(i, Index::At(_)));
                tiles.map(|i| if let Index::Tile(v) = i { self.at(*v, true) } else { Along::OWN }).collect()
            }
            Op::Gather(_, indices) | Op::GatherInside(_, indices) => self.together(indices, &self.sides)?.1,
            Op::Window { index, .. } => index.iter().map(|v| self.at(*v, true)).collect(),
            Op::Near(window, _) => self.axes_of(*window),
            Op::Select(c, a, b) => {
                let [known, a, b] = [c, a, b].map(|v| self.axes_of(*v));
                let ends: Vec<bool> = (0..rank).map(|k| known[k].ends || (a[k].ends && b[k].ends)).collect();
                with_ends(join([known, a, b])?, |k| ends[k])
            }
            Op::Broadcast(a, from) => {
                let old = self.axes_of(*a);
                from.iter().map(|f| f.map_or(Along::default(), |k| old[k])).collect()
            }
            Op::Transpose(a, perm) => {
                let old = self.axes_of(*a);
                perm.iter().map(|k| old[*k]).collect()
            }
            Op::Pick { tile, axis, .. } => {
                let mut axes = self.axes_of(*tile);
                axes.remove(*axis);
                axes
            }
            Op::Stack(parts) => {
                let all: Vec<Axes> = parts.iter().map(|p| self.axes_of(*p)).collect();
                let mut axes = with_ends(self.meet(parts)?, |k| all.iter().all(|a| a[k].ends));
                axes.push(Along::OWN);
                axes
            }
            Op::Dot { a, b, acc, .. } => {
                let (a, b, acc) = (self.axes_of(*a), self.axes_of(*b), self.axes_of(*acc));
                let ends = [acc[0].ends, acc[1].ends];
                with_ends(vec![acc[0].with(a[0]), acc[1].with(b[1])], |k| ends[k])
            }
            Op::Unary(_, a) | Op::Cast(a) | Op::Bitcast(a) => self.meet(&[*a])?,
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => self.meet(&[*a, *b])?,
            Op::Ternary(_, a, b, c) => self.meet(&[*a, *b, *c])?,
            Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) | Op::Start(_) | Op::End(_) | Op::Number(_) => return None,
        })
    }
}

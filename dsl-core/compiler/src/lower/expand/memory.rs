//! Global memory: which elements of an access lie together, how wide it may be, and what guards it.

use super::context::{Expanded, Expander, Mode};
use super::elements::unrolled;
use super::index::{all, as_literal, compare};
use super::mask::Mask;
use super::values::At;
use crate::block::{Access, Cut, Cuts, Index, ParamKind, ValueId, ViewId};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, Place, Space};
use girih_ir::types::{CompareOp, DType};

/// What is done for every instruction of an access: its first register, its address and its guard.
pub(crate) type EachAccess<'b, L> = &'b mut dyn FnMut(&mut L, &At, Expr, Option<Expr>) -> Expanded<()>;

/// One axis of an accessed tile: its tile index (none for a whole axis) and extent.
pub(crate) type TileAxis = (Option<ValueId>, i64);

impl Expander<'_> {
    /// The axes of the tile at `index`.
    pub fn tile_axes(&self, index: &[Index]) -> Vec<TileAxis> {
        let of = |i: &Index| match i {
            Index::Tile(v) => Some((Some(*v), self.kernel.tile_size(*v))),
            Index::All(n) => Some((None, *n)),
            Index::At(_) => None,
        };
        index.iter().filter_map(of).collect()
    }

    /// The layout of an access. The strides that it asks for are parameters from here on.
    pub fn layout_at(&mut self, access: &Access) -> Layout {
        for (at, axis) in access.index.iter().zip(&self.kernel.view(access.view).axes) {
            if matches!(at, Index::Tile(_)) {
                self.index_of(axis.stride);
            }
        }
        access.dealt().clone()
    }

    /// A thread's first coordinate along each axis of a tile.
    pub fn base_coordinates(&mut self, axes: &[TileAxis], layout: &Layout) -> Vec<Expr> {
        (0..axes.len())
            .map(|k| match axes[k].0 {
                Some(index) => self.base_coordinate(index, layout, k),
                None => self.ix.lit(0),
            })
            .collect()
    }

    /// The element index of these coordinates, relative to the parameter's pointer.
    pub fn address(&mut self, view: ViewId, index: &[Index], coordinates: &[Expr]) -> Expr {
        let v = self.kernel.view(view);
        let mut coordinates = coordinates.iter();
        let mut terms: Vec<(Expr, Expr)> = Vec::new();
        for (at, axis) in index.iter().zip(&v.axes) {
            let coordinate = match at {
                Index::At(v) => self.index_of(*v),
                _ => coordinates.next().cloned().unwrap_or_else(|| panic!("memory: too few coordinates")),
            };
            terms.push((coordinate, self.index_of(axis.stride)));
        }
        let offset = self.index_of(v.offset);
        self.linear(offset, terms)
    }

    /// `offset + Σ coordinate · stride`, mirrored axes subtracted from the offset.
    pub fn linear(&self, offset: Expr, terms: Vec<(Expr, Expr)>) -> Expr {
        let (down, up): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(_, s)| as_literal(s) == Some(-1));
        let mut sum = self.ix.lit(0);
        for (c, s) in up {
            let term = self.ix.mul(c, s);
            sum = self.ix.add(sum, term);
        }
        sum = self.ix.add(offset, sum);
        down.into_iter().fold(sum, |sum, (c, _)| self.ix.sub(sum, c))
    }

    /// Begins to access a tile: its first coordinates have their variables from here on, and what its addresses take are parameters.
    pub fn begin_access(&mut self, access: &Access, layout: &Layout, mask: &Mask) {
        if mask.sides.is_empty() {
            let whole = access.index.iter().zip(&self.kernel.view(access.view).axes).filter(|(at, _)| matches!(at, Index::All(_)));
            whole.rev().for_each(|(_, axis)| drop(self.index_of(axis.stride)));
            let axes = self.tile_axes(&access.index);
            let base = self.base_coordinates(&axes, layout);
            self.address(access.view, &access.index, &base);
        }
    }

    /// What addresses of a view take besides coordinates along its axis `along` are parameters from here on.
    pub fn begin_copy_of(&mut self, view: ViewId, along: usize) {
        let view = self.kernel.view(view);
        self.index_of(view.offset);
        for (_, axis) in view.axes.iter().enumerate().filter(|(k, _)| *k != along) {
            self.index_of(axis.stride);
        }
    }

    /// The instructions of an access in the text at hand.
    pub fn cut_of(&self, access: &Access) -> Cut {
        self.text_of(access.cuts.as_ref().unwrap_or_else(|| panic!("memory: nobody has cut an access in\n{}", self.kernel)))
    }

    /// Elements per access of a copy to shared memory; of what is read where it is, 1.
    pub fn copied_width(&self, access: &Access) -> i64 {
        access.cuts.map_or(1, |cuts| cuts.checked.width)
    }

    /// Elements per instruction of a gather in the text at hand.
    pub fn gathered_width(&self, value: ValueId) -> i64 {
        self.kernel.gathers.get(&value).map_or(1, |cuts| self.text_of(cuts).width)
    }

    /// Those of the text at hand.
    pub fn text_of(&self, cuts: &Cuts) -> Cut {
        match self.mode {
            Mode::Full => cuts.full,
            Mode::Tail => cuts.checked,
        }
    }

    /// Runs `body` for every instruction of a tile access with its first register, its address and its guard.
    pub fn accesses(
        &mut self,
        view: ViewId,
        index: &[Index],
        layout: &Layout,
        mask: &Mask,
        cut: Cut,
        body: EachAccess<Self>,
    ) -> Expanded<()> {
        let axes = self.tile_axes(index);
        let base = self.base_coordinates(&axes, layout);
        if cut.width == 1 {
            return self.nest(layout, true, &mut |cx, at| {
                let coordinates: Vec<Expr> = base.iter().enumerate().map(|(k, b)| cx.ix.add(b.clone(), at.register_part(cx, k))).collect();
                let guard = cx.bounds_hold(mask, &coordinates, at);
                let address = cx.address(view, index, &coordinates);
                body(cx, at, address, guard)
            });
        }
        // The run's registers become positions that step by whole instructions.
        let ix = super::index::Index { dtype: DType::I32 };
        let list = layout.register_digits();
        let outer: Vec<_> = list.iter().filter(|(_, d)| d.stride >= cut.run).copied().collect();
        let inner = merged(list.iter().filter(|(_, d)| d.stride < cut.run).copied());
        let fast = layout.fast_axis();
        let (mut known, mut loops, mut flat) = (Vec::new(), Vec::new(), ix.lit(0));
        for (axis, d) in &outer {
            let (var, e) = self.loop_var(if *axis == fast { "u" } else { "r" });
            flat = ix.add(flat, ix.mul(e.clone(), ix.lit(d.stride)));
            known.push((*axis, d.place, e));
            loops.push((var, d.extent));
            self.open();
        }
        let (whole, mut offset) = (inner.last().is_none_or(|(_, d)| d.extent % cut.width != 0), ix.lit(0));
        if whole && cut.run > cut.width {
            // An instruction spans several axes: all elements of the run exist or none does, so only the address steps.
            let (var, e) = self.loop_var("v");
            offset = ix.mul(e, ix.lit(cut.width));
            flat = ix.add(flat, offset.clone());
            loops.push((var, cut.run / cut.width));
            self.open();
        }
        for (axis, d) in inner.iter().filter(|_| !whole) {
            let unit = if d.stride == 1 { cut.width } else { 1 };
            if d.extent > unit {
                let (var, e) = self.loop_var(if *axis == fast { "v" } else { "r" });
                let part = ix.mul(e, ix.lit(unit));
                flat = ix.add(flat, ix.mul(part.clone(), ix.lit(d.stride)));
                known.push((*axis, d.place, part));
                loops.push((var, d.extent / unit));
                self.open();
            }
        }
        let at = At { layout: layout.clone(), flat, digits: known, axes: (0..layout.axes.len()).collect() };
        let coordinates: Vec<Expr> = base.iter().enumerate().map(|(k, b)| self.ix.add(b.clone(), at.register_part(self, k))).collect();
        let guard = self.bounds_hold(mask, &coordinates, &at);
        let mut address = self.address(view, index, &coordinates);
        if as_literal(&offset).is_none() {
            let offset = self.ix.cast(DType::I32, offset);
            address = if cut.reversed { self.ix.sub(address, offset) } else { self.ix.add(address, offset) };
        }
        if cut.reversed {
            address = self.ix.sub(address, self.ix.lit(cut.width - 1));
        }
        body(self, &at, address, guard)?;
        for (var, extent) in loops.into_iter().rev() {
            let turn = self.close();
            self.emit(unrolled(var, extent, turn));
        }
        Ok(())
    }

    /// The place of an element of a view.
    pub fn place(&self, view: ViewId, address: Expr) -> Place {
        let v = self.kernel.view(view);
        let constant = matches!(self.kernel.params[v.param].kind, ParamKind::Tensor { constant: Some(_), .. });
        let space = if constant { Space::Constant(v.param) } else { Space::Global(v.param) };
        Place { space, dtype: v.dtype, index: address }
    }

    /// Where several threads hold one element: the condition of the one that acts, whose other digits are all zero.
    pub fn first_replica(&self, layout: &Layout) -> Option<Expr> {
        let mut held: Vec<(i64, i64)> =
            layout.axes.iter().flatten().filter(|d| d.source == Source::Thread).map(|d| (d.stride, d.stride * d.extent)).collect();
        held.sort_unstable();
        held.push((layout.threads, layout.threads));
        let mut terms = Vec::new();
        let mut below = 1;
        for (start, end) in held {
            if start > below {
                terms.push(match start == layout.threads {
                    true => compare(CompareOp::Lt, self.thread.clone(), self.ix.lit(below)),
                    false => {
                        let digit = self.ix.rem(self.ix.div(self.thread.clone(), below), start / below);
                        compare(CompareOp::Eq, digit, self.ix.lit(0))
                    }
                });
            }
            below = end;
        }
        all(terms)
    }

    pub fn rep_kind(&self, value: ValueId) -> Kind {
        match self.kernel.ty(value) {
            crate::block::Ty::Tile(..) => Kind::Tile,
            _ => Kind::Scalar,
        }
    }
}

/// Register digits, slowest first, with those that continue one another along an axis made one.
fn merged(digits: impl Iterator<Item = (usize, Digit)>) -> Vec<(usize, Digit)> {
    let mut all: Vec<(usize, Digit)> = Vec::new();
    for (axis, d) in digits {
        match all.last_mut() {
            Some((before, slow)) if *before == axis && slow.place == d.place * d.extent && slow.stride == d.stride * d.extent => {
                *slow = Digit { extent: slow.extent * d.extent, ..d };
            }
            _ => all.push((axis, d)),
        }
    }
    all
}

/// Tile or scalar.
pub(crate) enum Kind {
    Tile,
    Scalar,
}

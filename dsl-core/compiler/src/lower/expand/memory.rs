//! Global memory: which elements of an access lie together, how wide it may be, and what guards it.

use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::index::{all, as_literal, compare};
use super::mask::Mask;
use super::values::At;
use crate::block::gcd;
use crate::block::{Access, Index, ValueId, ViewId};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, Place, Space};
use girih_ir::types::{CompareOp, DType};

/// How a tile access is cut into instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Neighbouring registers that are neighbours in memory.
    pub run: i64,
    /// Elements per instruction; divides `run`.
    pub width: i64,
    /// Memory runs against the registers.
    pub reversed: bool,
}

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

    /// Position of each tile axis among the view's axes.
    pub fn view_axes(index: &[Index]) -> Vec<usize> {
        (0..index.len()).filter(|k| !matches!(index[*k], Index::At(_))).collect()
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

    /// How wide the instructions of a tile access may be, by layout, strides, alignment, divisibility and bounds.
    pub fn cut(&mut self, view: ViewId, index: &[Index], layout: &Layout, mask: &Mask) -> Cut {
        let single = Cut { run: 1, width: 1, reversed: false };
        if !mask.sides.is_empty() {
            return single;
        }
        let v = self.kernel.view(view);
        let (dtype, param) = (v.dtype, v.param);
        let strides: Vec<ValueId> = Self::view_axes(index).iter().map(|k| self.kernel.view(view).axes[*k].stride).collect();
        let (mut run, mut reversed, mut digits) = (1, false, Vec::new());
        for (axis, d) in layout.register_digits().into_iter().rev() {
            let Some(stride) = self.constant(strides[axis]) else { break };
            let step = stride * d.place;
            if step.abs() != run || d.stride != run || (run > 1 && (step < 0) != reversed) {
                break;
            }
            (reversed, run) = (step < 0, run * d.extent);
            digits.push((axis, d.extent));
        }
        let align = self.kernel.params[param].align();
        let mut widest = 16.min(align) / dtype.size() as i64;
        if self.kernel.launch.blocked {
            // A thread's run is as long as its coarsening; the vector knob cuts it.
            widest = widest.min(self.kernel.launch.vector);
        }
        let axes = self.tile_axes(index);
        let base = self.base_coordinates(&axes, layout);
        let start = self.address(view, index, &base);
        // The lowest address of a mirrored access is `start - (width - 1)`.
        let low = if reversed { self.ix.add(start, self.ix.lit(1)) } else { start };
        let mut aligned = self.multiple(&low);
        for (axis, d) in layout.register_digits() {
            if d.stride >= run {
                let stride = self.index_of(strides[axis]);
                let step = self.ix.mul(stride, self.ix.lit(d.place));
                aligned = gcd(aligned, self.multiple(&step));
            }
        }
        let mut width = 1;
        while width * 2 <= widest && run % (width * 2) == 0 && aligned % (width * 2) == 0 && self.uniform(mask, &digits, width * 2) {
            width *= 2;
        }
        if width == 1 { single } else { Cut { run, width, reversed } }
    }

    /// Whether the elements of one instruction all exist or all don't.
    fn uniform(&mut self, mask: &Mask, digits: &[(usize, i64)], width: i64) -> bool {
        let unit = if digits.first().is_some_and(|d| d.1 % width == 0) { vec![(digits[0].0, width)] } else { digits.to_vec() };
        self.open_bounds(mask).iter().all(|b| {
            let extent: i64 = unit.iter().filter(|(axis, _)| *axis == b.axis).map(|d| d.1).product();
            self.bound_multiple(b) % extent == 0
        })
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
        Place { space: Space::Global(v.param), dtype: v.dtype, index: address }
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

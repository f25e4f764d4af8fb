//! Which elements of a tile exist, and what the code has to check of it.

use super::context::{Lowered, Lowering, Mode};
use super::index::{all, compare};
use super::values::{At, not};
use crate::layout::Layout;
use crate::simt::Expr;
use crate::tile::host::HostExpr;
use crate::tile::{Index, ValueId, ViewId};
use crate::types::{BinaryOp, CompareOp};
use std::collections::HashMap;

/// Which elements of a tile exist: coordinates along an axis below a length, and sides of per-element choices.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Mask {
    pub bounds: Vec<Bound>,
    /// What must hold per element: all of them.
    pub sides: Vec<Side>,
}

/// A test of an element: a bool tile holds, or does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Test {
    pub condition: ValueId,
    pub holds: bool,
    /// Which axis of the masked tile each axis of the condition is.
    pub axes: Vec<usize>,
}

/// An element exists where one of the tests succeeds: it lies on its side of a choice, a gather found it, or nobody chose it.
pub(crate) type Side = Vec<Test>;

/// Elements of `axis` exist where the coordinate of tile index `index` is below the length value `len`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    pub axis: usize,
    pub index: ValueId,
    pub len: ValueId,
}

impl Mask {
    /// Present where both are.
    pub fn and(&mut self, other: &Mask) {
        for b in &other.bounds {
            if !self.bounds.contains(b) {
                self.bounds.push(*b);
            }
        }
        for side in &other.sides {
            if !self.sides.contains(side) {
                self.sides.push(side.clone());
            }
        }
    }
}

impl Lowering<'_> {
    /// Which elements of a tile at `index` exist.
    pub fn mask_at(&self, view: ViewId, index: &[Index]) -> Mask {
        let mut mask = Mask { bounds: Vec::new(), sides: self.sides.clone() };
        let mut axis = 0;
        for (at, own) in index.iter().zip(&self.kernel.view(view).axes) {
            if let Index::Tile(v) = at {
                let walked = self.lengths[v];
                let host = |l| HostExpr::of_value(self.kernel, l);
                // Where the host can compute both, launches prove them equal.
                let len = if host(own.len).is_some() && host(walked).is_some() { walked } else { own.len };
                mask.bounds.push(Bound { axis, index: *v, len });
                if len != walked {
                    mask.bounds.push(Bound { axis, index: *v, len: walked });
                }
            }
            axis += usize::from(!matches!(at, Index::At(_)));
        }
        mask
    }

    /// The bounds of a mask that the code has to check.
    pub fn open_bounds(&mut self, mask: &Mask) -> Vec<Bound> {
        let full = |cx: &Self, b: &Bound| cx.mode == Mode::Full && cx.grid_vars.contains(&b.index) && b.len == cx.lengths[&b.index];
        mask.bounds.iter().copied().filter(|b| !full(self, b) && !self.surely_full(b)).collect()
    }

    /// Whether every tile of a loop lies inside: its length is a multiple of the tile. Of the tiles that are dealt to a block, some are
    /// loaded ahead of their turn, and need not be there; nor need the first one, where one block runs in any case.
    fn surely_full(&mut self, bound: &Bound) -> bool {
        let dealt = self.grid_vars.contains(&bound.index) && self.plan.grid > 0;
        if dealt || bound.len != self.lengths[&bound.index] {
            return false;
        }
        let size = self.plan.size(crate::tile::access::tile_size(self.kernel, bound.index));
        let len = self.index_of(bound.len);
        let lies_there = !(self.grid_vars.contains(&bound.index) && super::finish::combines_grid(self.kernel));
        self.multiple(&len) % size == 0 && lies_there
    }

    /// The condition under which the element with these coordinates exists; sides of choices excepted.
    pub fn bounds_hold(&mut self, mask: &Mask, coordinates: &[Expr]) -> Option<Expr> {
        let bounds = self.open_bounds(mask);
        let terms: Vec<Expr> = bounds
            .iter()
            .map(|b| {
                let len = self.index_of(b.len);
                compare(CompareOp::Lt, coordinates[b.axis].clone(), len)
            })
            .collect();
        all(terms)
    }

    /// The condition under which an element exists, if there is one to check.
    pub fn present(&mut self, mask: &Mask, base: &[Expr], at: &At) -> Option<Expr> {
        let coordinates: Vec<Expr> = (0..base.len()).map(|k| self.deciding_coordinate(mask, k, &base[k], at)).collect();
        let bounds = self.bounds_hold(mask, &coordinates);
        let sides = self.sides_hold(mask, at);
        all(bounds.into_iter().chain(sides))
    }

    /// The coordinate that decides whether an element exists. Where neighbours in a run exist all or none, because the length and where
    /// the run starts are multiples of how long it is, that is where the run starts: one comparison serves them all.
    fn deciding_coordinate(&mut self, mask: &Mask, axis: usize, base: &Expr, at: &At) -> Expr {
        let run = at.digits.iter().position(|(k, place, digit)| *k == axis && *place == 1 && matches!(digit, Expr::Var(_)));
        let whole = self.ix.add(base.clone(), at.register_part(self, axis));
        let Some(run) = run else { return whole };
        let mut starts = at.clone();
        let (_, _, digit) = starts.digits.remove(run);
        let start = self.ix.add(base.clone(), starts.register_part(self, axis));
        let Some((0, last)) = self.range_of(&digit) else { return whole };
        let lengths: Vec<ValueId> = self.open_bounds(mask).iter().filter(|b| b.axis == axis).map(|b| b.len).collect();
        let divides = |cx: &Self, e: &Expr| cx.multiple(e) % (last + 1) == 0;
        let all_or_none = divides(self, &start)
            && lengths.into_iter().all(|len| {
                let len = self.index_of(len);
                divides(self, &len)
            });
        if all_or_none { start } else { whole }
    }

    /// The sides of enclosing choices on which an element must lie, given what is known of it.
    pub fn sides_hold(&mut self, mask: &Mask, at: &At) -> Option<Expr> {
        let mut terms = Vec::new();
        for side in &mask.sides {
            let tests: Vec<Expr> = side.iter().map(|t| self.test_holds(t, at)).collect();
            terms.extend(tests.into_iter().reduce(|a, b| super::index::binary(BinaryOp::Or, a, b)));
        }
        all(terms)
    }

    fn test_holds(&mut self, test: &Test, at: &At) -> Expr {
        let at = At { axes: test.axes.iter().map(|k| at.axes[*k]).collect(), ..at.clone() };
        let e = self.element(test.condition, &at, &HashMap::new());
        if test.holds { e } else { not(e) }
    }

    /// Makes the tests of a mask evaluable for elements dealt by `layout`.
    pub fn prepare_sides(&mut self, mask: &Mask, layout: &Layout) -> Lowered<()> {
        mask.sides.iter().flatten().try_for_each(|t| self.prepare_through(t.condition, layout, &t.axes))
    }
}

//! Which elements of a tile exist, and what the code has to check of it.

use super::context::{Expanded, Expander, Mode};
use super::index::all;
use super::values::{At, not};
pub(crate) use crate::block::mask::{Bound, Mask, Test};
use crate::block::{Access, ValueId};
use girih_ir::layout::Layout;
use girih_ir::simt::Expr;
use girih_ir::types::BinaryOp;
use std::collections::HashMap;

impl Expander<'_> {
    /// Where elements of a tile of this form lie on the sides of enclosing per-element choices: of those that choose among such tiles.
    pub fn sides_of(&self, form: Option<u32>) -> Mask {
        let mut mask = Mask::default();
        let alike = self.sides.iter().filter(|(condition, _)| self.kernel.value(*condition).form == form);
        alike.for_each(|(_, side)| mask.and(side));
        mask
    }

    /// Which elements of a tile of some form exist at a place.
    pub fn mask_at(&self, at: &Access, form: Option<u32>) -> Mask {
        let mut mask = self.kernel.mask_at(at);
        mask.and(&self.sides_of(form));
        mask
    }

    /// The bounds of a mask that the code has to check.
    pub fn open_bounds(&mut self, mask: &Mask) -> Vec<Bound> {
        mask.bounds.iter().copied().filter(|b| self.is_open(b)).collect()
    }

    /// Whether the code has to check a bound.
    pub fn is_open(&mut self, bound: &Bound) -> bool {
        let full = self.mode == Mode::Full && self.grid_vars.contains(&bound.index) && bound.len == self.length(bound.index);
        !full && !self.surely_full(bound)
    }

    /// Whether every tile of a loop lies inside: its length is a multiple of the tile, or both ends of the positions to which it keeps are.
    /// Of the tiles that are dealt to a block, some are loaded ahead of their turn, and need not be there; nor need the first one, where
    /// one block runs in any case.
    fn surely_full(&mut self, bound: &Bound) -> bool {
        let dealt = self.grid_vars.contains(&bound.index) && self.kernel.launch.dealt > 0;
        if dealt || bound.len != self.length(bound.index) {
            return false;
        }
        let size = self.kernel.tile_size(bound.index);
        let lies_there = !(self.grid_vars.contains(&bound.index) && self.runs_anyway());
        self.bound_multiple(bound) % size == 0 && lies_there
    }

    /// The condition under which the element with these coordinates exists; sides of choices excepted. They are coordinates of the tile
    /// index that the mask names first for their axis; where loops over other tiles meet, an axis has several.
    pub fn bounds_hold(&mut self, mask: &Mask, coordinates: &[Expr], at: &At) -> Option<Expr> {
        let bounds = self.open_bounds(mask);
        let terms: Vec<Expr> = bounds
            .iter()
            .map(|b| {
                let first = mask.bounds.iter().find(|other| other.axis == b.axis).map(|other| other.index);
                let named_first = first == Some(b.index);
                let coordinate = if named_first { coordinates[b.axis].clone() } else { self.coordinate(b.index, at, b.axis) };
                self.bound_holds(b, coordinate)
            })
            .collect();
        all(terms)
    }

    /// The condition under which an element exists, if there is one to check.
    pub fn present(&mut self, mask: &Mask, base: &[Expr], at: &At) -> Option<Expr> {
        let coordinates: Vec<Expr> = (0..base.len()).map(|k| self.deciding_coordinate(mask, k, &base[k], at)).collect();
        let bounds = self.bounds_hold(mask, &coordinates, at);
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
        let divides = |multiple: i64| multiple % (last + 1) == 0;
        let bounds = self.open_bounds(mask).into_iter().filter(|b| b.axis == axis);
        let all_or_none = divides(self.multiple(&start)) && bounds.into_iter().all(|b| divides(self.bound_multiple(&b)));
        if all_or_none { start } else { whole }
    }

    /// The sides of enclosing choices on which an element must lie, given what is known of it.
    pub fn sides_hold(&mut self, mask: &Mask, at: &At) -> Option<Expr> {
        let mut terms = Vec::new();
        for side in &mask.sides {
            let tests: Option<Vec<Expr>> = side.iter().map(|t| self.test_holds(t, at)).collect();
            terms.extend(tests.and_then(|all| all.into_iter().reduce(|a, b| super::index::binary(BinaryOp::Or, a, b))));
        }
        all(terms)
    }

    /// Whether the sides of a mask depend on where among a thread's elements an element is, not only on which register it lies in.
    pub fn sides_need_digits(&self, mask: &Mask, layout: &Layout) -> bool {
        mask.sides.iter().flatten().any(|t| match t {
            Test::Is { condition, .. } => self.needs_digits(*condition, layout),
            Test::Below(_) => true,
            Test::Went { .. } => false,
        })
    }

    /// Where an element lies along an axis of the layout that a tile index walks.
    fn coordinate(&mut self, index: ValueId, at: &At, axis: usize) -> Expr {
        let base = self.base_coordinate(index, &at.layout, axis);
        self.ix.add(base, at.register_part(self, axis))
    }

    /// `None` where the test holds for every element.
    fn test_holds(&mut self, test: &Test, at: &At) -> Option<Expr> {
        match test {
            Test::Is { condition, holds, axes } => {
                let at = At { axes: axes.iter().map(|k| at.axes[*k]).collect(), ..at.clone() };
                let e = self.element(*condition, &at, &HashMap::new());
                Some(if *holds { e } else { not(e) })
            }
            Test::Below(bound) if self.is_open(bound) => {
                let coordinate = self.coordinate(bound.index, at, at.axes[bound.axis]);
                Some(self.bound_holds(bound, coordinate))
            }
            Test::Below(_) => None,
            Test::Went { result, then } => {
                let taken = Expr::Var(self.taken_ways[result]);
                Some(if *then { taken } else { not(taken) })
            }
        }
    }

    /// Makes the tests of a mask evaluable for elements dealt by `layout`.
    pub fn prepare_sides(&mut self, mask: &Mask, layout: &Layout) -> Expanded<()> {
        mask.sides.iter().flatten().try_for_each(|t| match t {
            Test::Is { condition, axes, .. } => {
                self.prepare_through(*condition, layout, axes)?;
                self.compute_large(*condition, &crate::block::layouts::projected(layout, axes))
            }
            Test::Went { .. } => Ok(()),
            Test::Below(bound) => {
                // Named here, where all elements may use it.
                self.base_coordinate(bound.index, layout, bound.axis);
                Ok(())
            }
        })
    }
}

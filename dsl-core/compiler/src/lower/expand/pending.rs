//! Values that are computed where they are used: which of them several elements share, and what is better computed once.
//!
//! An element is a tree of expressions while values are a graph. So a value that several others use gets a variable of its own, and so does
//! what has much below it where nobody looks for shared values: conditions of masks, and what is spread along other axes.

use super::context::{Data, Expanded, Expander, Rep};
use super::index::literal;
use super::values::At;
use crate::block::operands;
use crate::block::{Op, Ty, ValueId};
use girih_ir::layout::Layout;
use girih_ir::simt::Expr;
use girih_ir::types::DType;
use std::collections::{HashMap, HashSet};

/// Operations below a value that are written out wherever it is used.
const WRITTEN_OUT: usize = 16;

impl Expander<'_> {
    /// The tiles of which an element that is computed where it is used is made, if it is.
    fn pending(&self, value: ValueId) -> Option<(&Op, Vec<ValueId>)> {
        let Data::Pending(op) = &self.tile(value).data else { return None };
        Some((op, operands(op).into_iter().filter(|v| matches!(self.kernel.ty(*v), Ty::Tile(..))).collect()))
    }

    /// Pending values that the graph below `values` uses more than once, operands first; and whether all their uses are inside.
    pub fn shared_values(&self, values: &[ValueId]) -> Vec<(ValueId, bool)> {
        let mut order = Vec::new();
        let mut inside: HashMap<ValueId, u32> = HashMap::new();
        for v in values {
            self.walk_pending(*v, &mut order, &mut inside);
        }
        order
            .into_iter()
            .filter_map(|v| {
                let (n, all) = (inside[&v], self.used(v).count);
                let roots = values.iter().filter(|r| **r == v).count() as u32;
                let total_inside = n + roots;
                // A root is used by the sink; it gets a variable only if something else uses it too.
                if all <= 1 || (roots > 0 && n == 0 && all <= roots) { None } else { Some((v, total_inside >= all)) }
            })
            .collect()
    }

    fn walk_pending(&self, value: ValueId, order: &mut Vec<ValueId>, inside: &mut HashMap<ValueId, u32>) {
        if inside.contains_key(&value) {
            return;
        }
        // Elements below a broadcast belong to another tile: they are computed in place.
        let Some((op, tiles)) = self.pending(value) else { return };
        if matches!(op, Op::Broadcast(..) | Op::Pick { .. }) {
            return;
        }
        inside.insert(value, 0);
        for operand in tiles {
            self.walk_pending(operand, order, inside);
            if let Some(n) = inside.get_mut(&operand) {
                *n += 1;
            }
        }
        order.push(value);
    }

    /// Whether an element depends on more than its register index.
    pub fn needs_digits(&self, value: ValueId, layout: &Layout) -> bool {
        self.asks_for_digits(value, layout, &mut HashSet::new())
    }

    fn asks_for_digits(&self, value: ValueId, layout: &Layout, seen: &mut HashSet<ValueId>) -> bool {
        let rep = self.tile(value);
        match &rep.data {
            Data::One(_) | Data::Splat(_) => false,
            Data::Array(_) => rep.layout.as_ref() != Some(layout),
            Data::Coordinates(_) | Data::Iota | Data::Moved { .. } => true,
            Data::Pending(Op::Broadcast(..)) => true,
            Data::Pending(Op::Pick { .. }) => false,
            // What lies in another layout may be read there.
            Data::Pending(_) if rep.elsewhere.iter().any(|(l, _)| l != layout) => true,
            Data::Pending(_) => {
                let tiles = self.pending(value).map(|(_, tiles)| tiles).unwrap_or_default();
                seen.insert(value) && tiles.into_iter().any(|v| self.asks_for_digits(v, layout, seen))
            }
        }
    }

    /// Computes a value with much below it once, for elements dealt by `layout`; others are computed where they are used.
    pub fn compute_large(&mut self, value: ValueId, layout: &Layout) -> Expanded<()> {
        if self.tile(value).lies_in(layout) && self.pending(value).is_none() || !self.is_large(value) {
            return Ok(());
        }
        self.compute_once(value, layout)
    }

    /// Computes a float of coordinates alone once for all that use it. Integers and conditions of coordinates are written out where they are
    /// used: they are part of addresses and tests, and cost little.
    pub fn compute_repeated(&mut self, value: ValueId, layout: &Layout) -> Expanded<()> {
        let made = self.tile(value).layout.is_none()
            && self.pending(value).is_some_and(|(op, _)| !matches!(op, Op::Broadcast(..) | Op::Pick { .. }));
        let one = layout.registers == 1 && self.used(value).count > 1 && self.register_type(value).is_float();
        if made && one { self.compute_once(value, layout) } else { Ok(()) }
    }

    /// Computes a value for elements dealt by `layout`, if that was not done.
    fn compute_once(&mut self, value: ValueId, layout: &Layout) -> Expanded<()> {
        if self.tile(value).elsewhere.iter().any(|(l, _)| l == layout) {
            return Ok(());
        }
        let name = self.name_of(value, "t");
        let data = if layout.registers == 1 {
            let mut single = None;
            self.for_elements(&[value], layout, false, &mut |_, _, mut elements| {
                single = elements.pop();
                Ok(())
            })?;
            let e = single.unwrap_or_else(|| literal(self.register_type(value), 0));
            Data::One(self.declare_let(&name, self.register_type(value), e))
        } else {
            Data::Array(self.fill_array(value, layout, &name, self.register_type(value))?)
        };
        let mut rep = self.tile(value).clone();
        rep.elsewhere.push((layout.clone(), data));
        self.set(value, Rep::Tile(rep));
        Ok(())
    }

    /// Whether more operations lie below a value than are written out again and again.
    fn is_large(&self, value: ValueId) -> bool {
        let (mut stack, mut count) = (vec![value], 0);
        while let Some(v) = stack.pop() {
            let Some((_, tiles)) = self.pending(v) else { continue };
            count += 1;
            if count > WRITTEN_OUT {
                return true;
            }
            stack.extend(tiles);
        }
        false
    }

    /// The one element of a tile in a layout of one register.
    pub fn only_element(&mut self, value: ValueId, layout: &Layout) -> Expr {
        self.element(value, &At::only(layout, literal(DType::I32, 0)), &HashMap::new())
    }
}

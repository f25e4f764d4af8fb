//! Tiles without absent elements: a scalar in the place of what is not there.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::mask::Mask;
use crate::block::{Op, ValueId};
use girih_ir::simt::{Expr, Stmt};

impl Expander<'_> {
    /// A tile or a scalar, by whether elements are absent. Where all exist, and where zero stands for absent ones that are zeros anyway,
    /// the elements are the tile's own.
    pub fn or(&mut self, value: ValueId, op: &Op, tile: ValueId, absent: ValueId) -> Expanded<()> {
        let absent = self.scalar(absent);
        let zero = matches!(&absent, Expr::Literal(l) if l.bits == 0);
        let mut mask = self.tile(tile).mask.clone();
        // Zeros that were read under the conditions of choices and gathers need no second look at these.
        if zero && self.zero_beside_bounds(tile) {
            mask.sides.clear();
        }
        let none = mask.sides.is_empty() && self.open_bounds(&mask).is_empty();
        if none || zero && self.zero_where_absent(tile) {
            let own = TileRep { mask: Mask::default(), ..self.tile(tile).clone() };
            if !matches!(own.data, Data::Pending(_)) {
                self.set(value, Rep::Tile(own));
                return Ok(());
            }
            return self.set_pending(value, TileRep { elsewhere: vec![], data: Data::Pending(op.clone()), ..own });
        }
        let layout = self.layout_of(tile);
        self.prepare(tile, &layout)?;
        self.prepare_sides(&mask, &layout)?;
        let axes = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&axes, &layout);
        let (name, dtype) = (self.name_of(value, "filled"), self.register_type(value));
        let array = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = array {
            self.emit(Stmt::Declare { var, init: None });
        }
        let mut single = None;
        self.for_elements(&[tile], &layout, true, &mut |cx, at, mut elements| {
            let own = elements.remove(0);
            let filled = match cx.present(&mask, &base, at) {
                Some(present) => Expr::Select(Box::new(present), Box::new(own), Box::new(absent.clone())),
                None => own,
            };
            match array {
                Some(var) => cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value: filled }),
                None => single = Some(cx.declare_let(&name, dtype, filled)),
            }
            Ok(())
        })?;
        let data = array.map(Data::Array).or(single.map(Data::One)).unwrap_or_else(|| panic!("absent: a tile without elements"));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask: Mask::default(), data }));
        Ok(())
    }
}

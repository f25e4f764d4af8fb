//! Gathers whose positions the author asserts to lie inside: an element is read where its position exists, and nothing is compared.

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::mask::Mask;
use crate::block::{ValueId, ViewId};
use girih_ir::simt::{Expr, Stmt};

impl Expander<'_> {
    /// Loads a tile from positions that lie inside of a tensor wherever they exist.
    pub fn gather_inside(&mut self, value: ValueId, view: ViewId, indices: &[ValueId]) -> Expanded<()> {
        let (tiles, cache) = (self.tiles_of(indices), self.kernel.launch.load_cache);
        let (layout, mask) = self.meeting(Memory::View(view), &tiles)?;
        let axes = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&axes, &layout);
        let dtype = self.kernel.view(view).dtype;
        let name = self.name_of(value, &format!("{}_gathered", self.kernel.params[self.kernel.view(view).param].name));
        let array = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = array {
            self.emit(Stmt::Declare { var, init: None });
        }
        let digits = mask != Mask::default();
        let mut single = None;
        self.for_elements(&tiles, &layout, digits, &mut |cx, at, elements| {
            let positions = cx.positions(indices, elements);
            let place = cx.place_inside(view, indices, &positions);
            let predicate = cx.present(&mask, &base, at).map(Box::new);
            let load = Expr::Load { place: Box::new(place), predicate, cache };
            match array {
                Some(var) => cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value: load }),
                None => {
                    let e = cx.load_register(Some(dtype), load);
                    single = Some(cx.declare_let(&name, dtype.compute(), e));
                }
            }
            Ok(())
        })?;
        // What is absent was not read.
        self.zero_filled.extend(array);
        if let Some(Expr::Var(var)) = single {
            self.zero_filled.insert(var);
        }
        let data = array.map(Data::Array).or(single.map(Data::One)).unwrap_or_else(|| panic!("memory: a gather without elements"));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data }));
        Ok(())
    }
}

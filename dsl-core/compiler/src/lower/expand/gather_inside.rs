//! Gathers whose positions the author asserts to lie inside: an element is read where its position exists, and nothing is compared.

use super::computed::{Memory, Read};
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::mask::Mask;
use crate::block::ValueId;
use girih_ir::simt::{Expr, Stmt};

impl Expander<'_> {
    /// Reads a tile from positions that lie inside of a tensor or of a shared array wherever they exist.
    pub fn gather_inside(&mut self, value: ValueId, memory: Memory, indices: &[ValueId], read: Read) -> Expanded<()> {
        let tiles = self.tiles_of(indices);
        let (layout, mask) = self.meeting(memory, &tiles)?;
        let axes = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&axes, &layout);
        let dtype = self.memory_type(memory);
        let name = self.name_of(value, &self.gathered_name(memory));
        let array = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = array {
            self.emit(Stmt::Declare { var, init: None });
        }
        let digits = mask != Mask::default();
        let mut single = None;
        self.for_elements(&tiles, &layout, digits, &mut |cx, at, elements| {
            let positions = cx.positions(indices, elements);
            let place = match memory {
                Memory::View(view) => cx.place_inside(view, indices, &positions),
                Memory::Shared(_) => cx.computed_place(memory, indices, &positions).0,
            };
            let present = cx.present(&mask, &base, at);
            let load = read(cx, place, present);
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

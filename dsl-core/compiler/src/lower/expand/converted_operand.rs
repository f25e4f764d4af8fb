//! Left operands that are computed in registers: each thread brings its elements of what was copied to shared memory there, in the order in
//! which matrix instructions take what is made of them.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::window::WindowRep;
use crate::block::{Op, ValueId};
use girih_ir::simt::Stmt;

impl Expander<'_> {
    /// Brings what an operation reads to registers, if left operands are computed from it there: by now it has landed in shared memory.
    ///
    /// # Errors
    /// A copy whose rows a tensor map cannot swizzle.
    pub fn take_converted(&mut self, op: &Op) -> Expanded<()> {
        for load in crate::block::operands(op).into_iter().filter(|v| self.kernel.dots.is_converted(*v)) {
            if let Rep::Window(window) = self.rep(load).clone() {
                self.take(load, &window)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, load: ValueId, window: &WindowRep) -> Expanded<()> {
        let Some(copy) = &window.copy else { panic!("converted: {load:?} has no copy") };
        let access = self.loads.get(&load).copied().unwrap_or_else(|| panic!("converted: {load:?} is no load"));
        let dtype = self.kernel.view(window.view).dtype;
        super::wgmma::check_panels(copy, dtype)?;
        let (layout, mask) = (self.layout_at(access), self.mask_at(access, self.kernel.value(load).form));
        let name = self.fragment_name(load, window.view);
        let var = self.new_var(&name, dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.read_elements(var, &layout, dtype, copy);
        if window.unseen.is_none() {
            self.zero_filled.insert(var);
        }
        self.set(load, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::Array(var) }));
        Ok(())
    }
}

//! Picks: the elements at one position of a tile's axis.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::index::literal;
use crate::block::{Op, ValueId};
use crate::lower::refusal::Refusal;
use girih_ir::layout::{Digit, Source};
use girih_ir::simt::{Stmt, VarId};
use girih_ir::types::DType;

impl Expander<'_> {
    /// The elements at one position of an axis. Where the axis does not lie in the registers of a thread, the tile is brought to a layout
    /// in which it does.
    pub fn pick(&mut self, value: ValueId, tile: ValueId, axis: usize, at: i64) -> Expanded<()> {
        let mask = &self.tile(tile).mask;
        if mask.bounds.iter().any(|b| b.axis == axis) || mask.sides.iter().flatten().any(|t| t.axes().contains(&axis)) {
            return Err(Refusal::Pick { value, axis });
        }
        let extent = self.kernel.ty(tile).shape().expect("a tile has a shape")[axis];
        let whole = [Digit { source: Source::Register, stride: 1, extent, place: 1 }];
        let own = self.tile(tile).layout.clone().filter(|l| extent == 1 || l.axes[axis] == whole);
        let in_place = own.is_some();
        let layout = own.unwrap_or_else(|| self.natural_layout(value).with_register_axis(axis, extent));
        let var = self.in_array(tile, &layout)?;
        let mut rest = layout.without(axis);
        for d in rest.axes.iter_mut().flatten().filter(|d| d.source == Source::Register) {
            d.stride /= extent;
        }
        rest.registers /= extent;
        let mut mask = self.tile(tile).mask.clone();
        mask.renumber(|k| (k != axis).then_some(k - usize::from(k > axis)));
        let data = match rest.registers {
            1 => Data::One(self.register(var, literal(DType::I32, at))),
            _ if in_place => Data::Pending(Op::Pick { tile, axis, at }),
            registers => Data::Array(self.picked(value, var, registers, (extent, at))),
        };
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(rest), mask, data }));
        Ok(())
    }

    /// An array of the registers at position `at` of the axis of `extent` elements that varies fastest in `from`.
    fn picked(&mut self, value: ValueId, from: VarId, registers: i64, (extent, at): (i64, i64)) -> VarId {
        let var = self.new_var(&self.name_of(value, "picked"), self.register_type(value), Some(registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        for r in 0..registers {
            let value = self.register(from, literal(DType::I32, r * extent + at));
            self.emit(Stmt::Assign { var, index: Some(literal(DType::I32, r)), value });
        }
        var
    }
}

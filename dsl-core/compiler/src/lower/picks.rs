//! Picks: the elements at one position of a tile's axis.

use super::context::{Data, Lowered, Lowering, Rep, TileRep};
use super::index::literal;
use super::mask::Test;
use girih_ir::error::{CompileError, Diagnostic};
use girih_ir::layout::{Digit, Source};
use girih_ir::simt::{Stmt, VarId};
use girih_ir::tile::{Op, ValueId};
use girih_ir::types::DType;

impl Lowering<'_> {
    /// The elements at one position of an axis. Where the axis does not lie in the registers of a thread, the tile is brought to a layout
    /// in which it does.
    pub fn pick(&mut self, value: ValueId, tile: ValueId, axis: usize, at: i64) -> Lowered<()> {
        let mask = &self.tile(tile).mask;
        if mask.bounds.iter().any(|b| b.axis == axis) || mask.sides.iter().flatten().any(|t| t.axes().contains(&axis)) {
            return Err(self.picked_from_some(value, axis));
        }
        let extent = self.plan.size(&self.kernel.ty(tile).shape().expect("a tile has a shape")[axis]);
        let whole = [Digit { source: Source::Register, stride: 1, extent, place: 1 }];
        let own = self.tile(tile).layout.clone().filter(|l| extent == 1 || l.axes[axis] == whole);
        let in_place = own.is_some();
        let layout = own.unwrap_or_else(|| self.layouts().natural(value).with_register_axis(axis, extent));
        let var = self.in_array(tile, &layout)?;
        let mut rest = layout.without(axis);
        for d in rest.axes.iter_mut().flatten().filter(|d| d.source == Source::Register) {
            d.stride /= extent;
        }
        rest.registers /= extent;
        let mut mask = self.tile(tile).mask.clone();
        mask.bounds.retain(|b| b.axis != axis);
        mask.bounds.iter_mut().filter(|b| b.axis > axis).for_each(|b| b.axis -= 1);
        mask.sides.iter_mut().flatten().flat_map(Test::axes_mut).filter(|a| **a > axis).for_each(|a| *a -= 1);
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

    /// Whether an element is there must not depend on which position is picked.
    fn picked_from_some(&self, value: ValueId, axis: usize) -> CompileError {
        let message = format!(
            "a pick along axis {axis} of a tile of which some positions may be absent: it goes along the tiles of a loop, or an `if` per element loaded it"
        );
        let help = "pick from an axis that is loaded whole (`x.load((..4, t))`, with the number of its elements), from `stack`, or from what is computed; \
                    load outside of an `if` per element and choose with `select`";
        let d = Diagnostic::new(self.kernel.value(value).loc, message).help(help);
        CompileError::Kernel(vec![d.with_source(&self.kernel.source, self.kernel.loc)])
    }
}

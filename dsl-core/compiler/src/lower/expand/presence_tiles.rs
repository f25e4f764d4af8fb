//! What gathers and atomics found: an element at a position out of range is absent, and whoever consumes the tile has to know which ones are.
//! And what a branch on a scalar chose: an element of its result exists where the taken side's does. And what lies side by side in a stack.
//! And where many tests would have to be made anew at every use of a value: presence is computed once then, like any other value.
//!
//! Expander keeps that as a bool tile beside the tile itself. It is a value like the author's own, so that it takes part in changes of
//! layout; such values are numbered behind the kernel's.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::mask::{Mask, Test};
use super::values::At;
use crate::block::ValueId;
use girih_ir::layout::Layout;
use girih_ir::simt::{self, Expr, VarId};
use girih_ir::types::DType;

/// Tests of a mask that are made at every use. More of them become a value.
const MADE_AGAIN: usize = 4;

/// Which elements of a tile were at positions in range, while it is read.
pub(super) struct Found {
    /// For each register; a tile of one register has no array.
    pub(super) array: Option<VarId>,
    single: Option<Expr>,
    /// Some position was checked.
    pub(super) checked: bool,
}

impl Found {
    /// Of a tile in a layout.
    pub fn new(cx: &mut Expander, name: &str, layout: &Layout) -> Found {
        let array = (layout.registers > 1).then(|| cx.new_var(&format!("{name}_found"), DType::Bool, Some(layout.registers as u32)));
        if let Some(var) = array {
            cx.emit(simt::Stmt::Declare { var, init: None });
        }
        Found { array, single: None, checked: false }
    }

    /// Keeps an element's check, and reads it back.
    pub fn keep(&mut self, cx: &mut Expander, at: &At, guard: Option<Expr>) -> Option<Expr> {
        self.checked = guard.is_some();
        let guard = guard?;
        if let Some(var) = self.array {
            cx.emit(simt::Stmt::Assign { var, index: Some(at.flat.clone()), value: guard });
            return Some(Expr::Element(var, Box::new(at.flat.clone())));
        }
        self.single = Some(cx.declare_let("found", DType::Bool, guard));
        self.single.clone()
    }

    /// Whether what is known of the tile before goes into what is kept, because there is much of it.
    pub fn takes(mask: &Mask) -> bool {
        mask.tests() >= MADE_AGAIN
    }

    /// Says so of the tile: elements that were not found are absent, and zeros in the array of the tile's elements.
    pub fn end(self, cx: &mut Expander, value: ValueId, layout: &Layout, mask: &mut Mask, elements: Option<VarId>) {
        let (true, Some(condition)) = (self.checked, cx.kernel.value(value).found) else { return };
        let bits = self.array.map(Data::Array).or(self.single.map(Data::One));
        let data = bits.unwrap_or_else(|| panic!("found: nothing says which elements were"));
        cx.set(condition, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask: Mask::default(), data }));
        if mask.bounds.is_empty() {
            cx.zero_filled.extend(elements);
        }
        mask.sides.push(vec![Test::of(condition, true, layout.axes.len())]);
    }
}

impl Expander<'_> {
    /// The mask of a value that is computed element by element, with one test in the place of many.
    pub fn few_tests(&mut self, value: ValueId, mut mask: Mask, layout: Option<&Layout>) -> Expanded<Mask> {
        let Some(condition) = self.kernel.value(value).found.filter(|_| mask.tests() > MADE_AGAIN) else { return Ok(mask) };
        let layout = layout.cloned().unwrap_or_else(|| self.natural_layout(value));
        let sides = Mask { bounds: vec![], sides: std::mem::take(&mut mask.sides) };
        let data = if layout.registers == 1 {
            self.prepare_sides(&sides, &layout)?;
            let at = At::only(&layout, super::index::literal(DType::I32, 0));
            let Some(there) = self.sides_hold(&sides, &at) else { return Ok(mask) };
            Data::One(self.declare_let("there", DType::Bool, there))
        } else {
            let var = self.new_var("there", DType::Bool, Some(layout.registers as u32));
            self.emit(simt::Stmt::Declare { var, init: None });
            self.set_present(&sides, var, &layout, (1, 0))?;
            Data::Array(var)
        };
        mask.sides.push(vec![Test::of(condition, true, layout.axes.len())]);
        self.set(condition, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask: Mask::default(), data }));
        Ok(mask)
    }
}

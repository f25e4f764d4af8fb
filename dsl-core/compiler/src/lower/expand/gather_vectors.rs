//! Gathers of which a thread's neighbouring registers are neighbours in memory: a vector at each run of them, all of it there or none.

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::Index;
use super::presence_tiles::Found;
use super::values::At;
use crate::block::{ValueId, ViewId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Stmt};
use girih_ir::types::DType;
use std::collections::HashMap;

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

impl Expander<'_> {
    /// Loads a tile from computed positions of a tensor, `width` elements at once; with `inside` no position is compared.
    pub fn gather_vectors(&mut self, value: ValueId, view: ViewId, indices: &[ValueId], inside: bool, width: i64) -> Expanded<()> {
        let (tiles, cache) = (self.tiles_of(indices), self.kernel.launch.load_cache);
        let (layout, mut mask) = self.meeting(Memory::View(view), &tiles)?;
        tiles.iter().try_for_each(|v| self.prepare(*v, &layout))?;
        let bounded = if inside { self.bound_axes(&mask, &layout) } else { vec![] };
        let base = self.base_coordinates(&bounded, &layout);
        let v = self.kernel.view(view);
        let name = self.name_of(value, &format!("{}_gathered", self.kernel.params[v.param].name));
        let var = self.new_var(&name, v.dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        let mut found = Found::new(self, &name, &layout);
        self.for_runs(&layout, width, &mut |cx, at| {
            let elements = tiles.iter().map(|v| cx.element(*v, at, &HashMap::new())).collect();
            let mut positions = cx.positions(indices, elements);
            // The guard and the address read each of them.
            for e in positions.iter_mut().filter(|e| !inside && !matches!(e, Expr::Var(_) | Expr::Literal(_) | Expr::Param(_))) {
                *e = cx.declare_let("position", cx.dtype_of(e), e.clone());
            }
            let (place, predicate) = match inside {
                true => (cx.place_inside(view, indices, &positions), cx.present(&mask, &base, at)),
                false => {
                    let (place, guard) = cx.place_in_view(view, indices, &positions, false);
                    (place, found.keep_run(cx, at, width, guard))
                }
            };
            cx.emit(Stmt::LoadVector { var, at: at.flat.clone(), place, lanes: width as u32, predicate, cache });
            Ok(())
        })?;
        let zeros = if inside { &mut self.zero_filled } else { &mut self.zero_inside };
        zeros.insert(var);
        found.end(self, value, &layout, &mut mask, Some(var));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::Array(var) }));
        Ok(())
    }

    /// Runs `body` for the first of every `width` neighbouring registers.
    fn for_runs(&mut self, layout: &Layout, width: i64, body: &mut dyn FnMut(&mut Self, &At) -> Expanded<()>) -> Expanded<()> {
        let (fast, mut flat) = (layout.fast_axis(), LOCAL.lit(0));
        let (mut digits, mut loops) = (Vec::new(), Vec::new());
        for (axis, d) in layout.register_digits() {
            let unit = if d.stride == 1 { width } else { 1 };
            if d.extent == unit {
                digits.push((axis, d.place, LOCAL.lit(0)));
                continue;
            }
            let (var, e) = self.loop_var(if axis == fast { "u" } else { "r" });
            self.ranges.insert(var, (0, d.extent / unit - 1));
            let part = LOCAL.mul(e, LOCAL.lit(unit));
            flat = LOCAL.add(flat, LOCAL.mul(part.clone(), LOCAL.lit(d.stride)));
            digits.push((axis, d.place, part));
            loops.push((var, d.extent / unit));
            self.open();
        }
        let at = At { layout: layout.clone(), flat, digits, axes: (0..layout.axes.len()).collect() };
        body(self, &at)?;
        for (var, extent) in loops.into_iter().rev() {
            let turn = self.close();
            self.emit(unrolled(var, extent, turn));
        }
        Ok(())
    }
}

impl Found {
    /// Keeps the check of a run, which is that of each of its elements, and reads it back.
    fn keep_run(&mut self, cx: &mut Expander, at: &At, width: i64, guard: Option<Expr>) -> Option<Expr> {
        self.checked = guard.is_some();
        let (guard, Some(var)) = (guard?, self.array) else { panic!("found: a run of one element") };
        let there = cx.declare_let("found", DType::Bool, guard);
        let (e, index) = cx.loop_var("e");
        let turn = vec![Stmt::Assign { var, index: Some(LOCAL.add(at.flat.clone(), index)), value: there.clone() }];
        cx.emit(unrolled(e, width, turn));
        Some(there)
    }
}

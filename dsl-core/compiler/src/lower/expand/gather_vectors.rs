//! Gathers and scatters of which a thread's neighbouring registers are neighbours in memory: a vector at each run of them, all of it there or
//! none.

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::{Index, all};
use super::presence_tiles::Found;
use super::values::{At, is_at_hand};
use crate::block::ValueId;
use girih_ir::layout::Layout;
use girih_ir::simt::{CacheHint, Expr, Place, Stmt, VarId};
use girih_ir::types::DType;
use std::collections::HashMap;

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

impl Expander<'_> {
    /// Loads a tile from computed positions, `width` elements at once; with `inside` no position in a tensor is compared.
    pub fn gather_vectors(&mut self, value: ValueId, memory: Memory, indices: &[ValueId], inside: bool, width: i64) -> Expanded<()> {
        let tiles = self.tiles_of(indices);
        let cache = self.vector_cache(memory, self.kernel.launch.load_cache);
        let (layout, mut mask) = self.meeting(memory, &tiles)?;
        tiles.iter().try_for_each(|v| self.prepare(*v, &layout))?;
        let bounded = if inside { self.bound_axes(&mask, &layout) } else { vec![] };
        let base = self.base_coordinates(&bounded, &layout);
        let name = self.name_of(value, &self.gathered_name(memory));
        let var = self.new_var(&name, self.memory_type(memory), Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        let mut found = Found::new(self, &name, &layout);
        self.for_runs(&layout, width, &mut |cx, at| {
            let (place, guard) = cx.run_place(memory, indices, &tiles, at, inside);
            let predicate = if inside { cx.present(&mask, &base, at) } else { found.keep_run(cx, at, width, guard) };
            cx.emit(Stmt::LoadVector { var, at: at.flat.clone(), place, lanes: width as u32, predicate, cache });
            Ok(())
        })?;
        let zeros = if inside { &mut self.zero_filled } else { &mut self.zero_inside };
        zeros.insert(var);
        found.end(self, value, &layout, &mut mask, Some(var));
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::Array(var) }));
        Ok(())
    }

    /// Stores a tile to computed positions, `width` elements at once.
    pub fn scatter_vectors(&mut self, memory: Memory, indices: &[ValueId], value: ValueId, width: i64) -> Expanded<()> {
        let (dtype, cache) = (self.memory_type(memory), self.vector_cache(memory, self.kernel.launch.store_cache));
        let positions = self.tiles_of(indices);
        let tiles = self.tiles_of(&[indices, &[value]].concat());
        let (layout, mask) = self.meeting(memory, &tiles)?;
        let var = self.registers_of(value, dtype, &layout)?;
        positions.iter().try_for_each(|v| self.prepare(*v, &layout))?;
        let bounded = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&bounded, &layout);
        let only = self.first_replica(&layout);
        self.for_runs(&layout, width, &mut |cx, at| {
            let (place, guard) = cx.run_place(memory, indices, &positions, at, false);
            let present = cx.present(&mask, &base, at);
            let predicate = all(present.into_iter().chain(guard).chain(only.clone()));
            cx.emit(Stmt::StoreVector { place, var, at: at.flat.clone(), lanes: width as u32, predicate, cache });
            Ok(())
        })
    }

    /// Caches that loads or stores keep to; shared memory has none.
    fn vector_cache(&self, memory: Memory, cache: CacheHint) -> CacheHint {
        match memory {
            Memory::View(_) => cache,
            Memory::Shared(_) => CacheHint::default(),
        }
    }

    /// The registers with a tile's elements as memory has them: its own where they are that.
    fn registers_of(&mut self, value: ValueId, dtype: DType, layout: &Layout) -> Expanded<VarId> {
        if let Rep::Tile(TileRep { layout: Some(own), data: Data::Array(var), .. }) = self.rep(value)
            && own == layout
            && self.vars[var.0 as usize].dtype == dtype
        {
            return Ok(*var);
        }
        if self.register_type(value) == dtype {
            return self.in_array(value, layout);
        }
        let name = self.name_of(value, "stored");
        self.fill_array(value, layout, &name, dtype)
    }

    /// The place of a run, and the condition under which it lies inside; with `inside` there is none.
    fn run_place(&mut self, memory: Memory, indices: &[ValueId], tiles: &[ValueId], at: &At, inside: bool) -> (Place, Option<Expr>) {
        let elements = tiles.iter().map(|v| self.element(*v, at, &HashMap::new())).collect();
        let mut positions = self.positions(indices, elements);
        match memory {
            Memory::View(view) if inside => (self.place_inside(view, indices, &positions), None),
            Memory::View(_) => {
                // The guard and the address read each of them.
                for e in positions.iter_mut().filter(|e| !(is_at_hand(e) || matches!(e, Expr::Literal(_) | Expr::Param(_)))) {
                    *e = self.declare_let("position", self.dtype_of(e), e.clone());
                }
                self.computed_place(memory, indices, &positions)
            }
            Memory::Shared(_) => self.computed_place(memory, indices, &positions),
        }
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

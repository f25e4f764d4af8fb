//! Gathers, scatters and atomics: accesses at computed positions.

use super::context::{Data, Lowered, Lowering, Mask, Rep, TileRep};
use super::index::{all, compare};
use super::memory::{Kind, TileAxis};
use crate::layout::Layout;
use crate::simt::{Expr, Place, Stmt};
use crate::tile::{ValueId, ViewId};
use crate::types::{AtomicOp, CompareOp, DType, MemoryOrder, Scope};

impl Lowering<'_> {
    /// Address and guard of computed positions: one integer element per axis of the view.
    fn computed_place(&mut self, view: ViewId, indices: &[ValueId], elements: &[Expr]) -> (Place, Option<Expr>) {
        let v = self.kernel.view(view).clone();
        let mut terms = Vec::new();
        let mut guards = Vec::new();
        for ((value, e), axis) in indices.iter().zip(elements).zip(&v.axes) {
            let dtype = self.register_type(*value);
            let len = self.index_of(axis.len);
            guards.extend(self.in_range(dtype, e, len));
            let stride = self.index_of(axis.stride);
            terms.push((self.ix.cast(dtype, e.clone()), stride));
        }
        let offset = self.index_of(v.offset);
        let address = self.linear(offset, terms);
        (self.place(view, address), all(guards))
    }

    /// `0 <= e < len`, compared in a type that holds both.
    fn in_range(&self, dtype: DType, e: &Expr, len: Expr) -> Vec<Expr> {
        let common = if dtype == self.ix.dtype {
            dtype
        } else if dtype == DType::U32 && self.ix.dtype == DType::I32 {
            DType::U32
        } else {
            DType::I64
        };
        let to = super::index::Index { dtype: common };
        let (e, len) = (to.cast(dtype, e.clone()), to.cast(self.ix.dtype, len));
        let below = compare(CompareOp::Lt, e.clone(), len);
        if dtype.is_signed() || dtype == DType::U64 { vec![compare(CompareOp::Ge, e, to.lit(0)), below] } else { vec![below] }
    }

    /// Loads a tile from computed positions; absent where a position is out of range.
    pub fn gather_tile(&mut self, value: ValueId, view: ViewId, indices: &[ValueId]) -> Lowered<()> {
        let tiles: Vec<ValueId> = indices.iter().copied().filter(|v| matches!(self.rep_kind(*v), Kind::Tile)).collect();
        let mut mask = Mask { bounds: vec![], wheres: self.wheres.clone() };
        tiles.iter().for_each(|v| mask.and(&self.tile(*v).mask.clone()));
        let layout = tiles.iter().find_map(|v| self.tile(*v).layout.clone()).unwrap_or_else(|| self.anchor_layout());
        for (v, _) in mask.wheres.clone() {
            self.prepare(v, &layout)?;
        }
        let dtype = self.kernel.view(view).dtype;
        let cache = self.plan.load_cache;
        let name = self.name_of(value, &format!("{}_gathered", self.kernel.params[self.kernel.view(view).param].name));
        let var = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = var {
            self.emit(Stmt::Declare { var, init: None });
        }
        let mut single = None;
        self.for_elements(&tiles, &layout, false, &mut |cx, at, elements| {
            let positions = cx.positions(indices, elements);
            let (place, guard) = cx.computed_place(view, indices, &positions);
            let sides = cx.sides_hold(&mask, at);
            let load = Expr::Load { place: Box::new(place), predicate: all(guard.into_iter().chain(sides)).map(Box::new), cache };
            match var {
                Some(var) => cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value: load }),
                None => {
                    let e = cx.load_register(Some(dtype), load);
                    single = Some(cx.declare_let(&name, dtype.compute(), e));
                }
            }
            Ok(())
        })?;
        let data = var.map(Data::Array).or(single.map(Data::One)).unwrap_or_else(|| panic!("memory: a gather without elements"));
        self.set(value, Rep::Tile(TileRep { layout: Some(layout), mask, data }));
        Ok(())
    }

    fn positions(&mut self, indices: &[ValueId], mut tiles: Vec<Expr>) -> Vec<Expr> {
        indices.iter().map(|v| if matches!(self.rep_kind(*v), Kind::Tile) { tiles.remove(0) } else { self.scalar(*v) }).collect()
    }

    /// Stores to, or updates, computed positions.
    pub fn scatter(
        &mut self,
        view: ViewId,
        indices: &[ValueId],
        value: ValueId,
        atomic: Option<(AtomicOp, Scope, MemoryOrder)>,
    ) -> Lowered<()> {
        let all_values: Vec<ValueId> = indices.iter().copied().chain([value]).collect();
        let tiles: Vec<ValueId> = all_values.iter().copied().filter(|v| matches!(self.rep_kind(*v), Kind::Tile)).collect();
        let mut mask = Mask { bounds: vec![], wheres: self.wheres.clone() };
        tiles.iter().for_each(|v| mask.and(&self.tile(*v).mask.clone()));
        let layout = tiles.iter().find_map(|v| self.tile(*v).layout.clone()).unwrap_or_else(|| self.anchor_layout());
        let layout = if tiles.is_empty() { Layout { axes: vec![], threads: self.plan.threads, registers: 1 } } else { layout };
        for (v, _) in mask.wheres.clone() {
            self.prepare(v, &layout)?;
        }
        // Coordinates of the tile, for its bounds.
        let axes = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&axes, &layout);
        let replicas = self.first_replica(&layout);
        let (dtype, cache) = (self.kernel.view(view).dtype, self.plan.store_cache);
        self.for_elements(&tiles, &layout, true, &mut |cx, at, elements| {
            let all_elements = cx.positions(&all_values, elements);
            let (place, guard) = cx.computed_place(view, indices, &all_elements[..indices.len()]);
            let coordinates: Vec<Expr> = base.iter().enumerate().map(|(k, b)| cx.ix.add(b.clone(), at.register_part(cx, k))).collect();
            let bounds = cx.bounds_hold(&mask, &coordinates);
            let sides = cx.sides_hold(&mask, at);
            let predicate = all(bounds.into_iter().chain(sides).chain(guard).chain(replicas.clone()));
            let operand = cx.to_storage(dtype, all_elements[indices.len()].clone());
            cx.emit(match atomic {
                Some((op, scope, order)) => {
                    Stmt::Atomic { result: None, op, place, value: operand, expected: None, predicate, scope, order }
                }
                None => Stmt::Store { place, value: operand, predicate, cache },
            });
            Ok(())
        })
    }

    pub fn bound_axes(&self, mask: &Mask, layout: &Layout) -> Vec<TileAxis> {
        let shape = layout.shape();
        (0..shape.len()).map(|k| (mask.bounds.iter().find(|b| b.axis == k).map(|b| b.index), shape[k])).collect()
    }
}

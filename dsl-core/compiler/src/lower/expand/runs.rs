//! Runs of neighbours in shared arrays: read by one instruction, and filled by asynchronous copies.

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::index::{Index, all, literal};
use super::mask::Mask;
use crate::block::{SharedId, ValueId, ViewId};
use girih_ir::simt::{Expr, Place, Stmt};
use girih_ir::types::DType;

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

impl Expander<'_> {
    /// Reads a run at each position; it lies inside of the array, and where its length asks for.
    pub fn gather_runs(&mut self, result: ValueId, id: SharedId, indices: &[ValueId]) -> Expanded<()> {
        let memory = Memory::Shared(id);
        let tiles = self.tiles_of(indices);
        let (own, _) = self.meeting(memory, &tiles)?;
        let dtype = self.array(id).dtype;
        let run = self.kernel.ty(result).shape().map_or(1, |s| s[0]);
        let layout = own.with_register_axis(0, run);
        let name = self.name_of(result, "run");
        let var = self.new_var(&name, dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.for_elements(&tiles, &own, true, &mut |cx, at, elements| {
            let positions = cx.positions(indices, elements);
            let (place, _) = cx.computed_place(memory, indices, &positions);
            let at = LOCAL.mul(at.flat.clone(), LOCAL.lit(run));
            cx.emit(match run {
                1 => {
                    let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
                    Stmt::Assign { var, index: Some(at), value }
                }
                _ => Stmt::LoadVector { var, at, place, lanes: run as u32, predicate: None, cache: Default::default() },
            });
            Ok(())
        })?;
        self.set(result, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask: Mask::default(), data: Data::Array(var) }));
        Ok(())
    }

    /// Starts to copy a run to each position of an array, so many elements at once.
    pub fn copy_runs(
        &mut self,
        id: SharedId,
        indices: &[ValueId],
        (view, from): (ViewId, &[ValueId]),
        [run, width]: [i64; 2],
    ) -> Expanded<()> {
        let values = [indices, from].concat();
        let tiles = self.tiles_of(&values);
        let (layout, _) = self.meeting(Memory::Shared(id), &tiles)?;
        self.begin_runs(view, width);
        let only = self.first_replica(&layout);
        let last = from.len() - 1;
        self.for_elements(&tiles, &layout, true, &mut |cx, _, elements| {
            let positions = cx.positions(&values, elements);
            let (to, from_at) = positions.split_at(indices.len());
            let (shared, _) = cx.computed_place(Memory::Shared(id), indices, to);
            cx.open();
            for k in (0..run).step_by(width as usize) {
                let mut at = from_at.to_vec();
                let ix = Index { dtype: cx.dtype_of(&at[last]) };
                at[last] = ix.add(at[last].clone(), ix.lit(k));
                let (global, guard) = cx.place_in_view(view, from, &at, true);
                let shared = Place { index: LOCAL.add(shared.index.clone(), LOCAL.lit(k)), ..shared.clone() };
                cx.copy_one(shared, global, width, guard);
            }
            let copies = cx.close();
            match &only {
                Some(condition) => cx.emit(Stmt::If { condition: condition.clone(), then: copies, otherwise: vec![] }),
                None => copies.into_iter().for_each(|s| cx.emit(s)),
            }
            Ok(())
        })
    }

    /// Stores runs to computed positions; to a tensor so many elements at once.
    pub fn scatter_runs(&mut self, memory: Memory, indices: &[ValueId], value: ValueId, width: i64) -> Expanded<()> {
        let run = self.kernel.ty(value).shape().map_or(1, |s| s[0]);
        let tiles = self.tiles_of(indices);
        let (own, mask) = self.meeting(memory, &tiles)?;
        let (dtype, width, name, cache) = match memory {
            Memory::View(view) => {
                let v = self.kernel.view(view);
                let (dtype, name) = (v.dtype, self.kernel.params[v.param].name.clone());
                self.begin_runs(view, width);
                (dtype, width, name, self.kernel.launch.store_cache)
            }
            Memory::Shared(id) => {
                let array = self.array(id);
                (array.dtype, run, self.shared[array.id.0 as usize].name.clone(), Default::default())
            }
        };
        let layout = own.with_register_axis(0, run);
        let var = self.new_var(&format!("{name}_run"), dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.for_elements(&[value], &layout, false, &mut |cx, at, mut elements| {
            let value = cx.to_storage(dtype, elements.remove(0));
            cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value });
            Ok(())
        })?;
        let bounded = self.bound_axes(&mask, &own);
        let base = self.base_coordinates(&bounded, &own);
        let only = self.first_replica(&own);
        let last = indices.len() - 1;
        self.for_elements(&tiles, &own, true, &mut |cx, register, elements| {
            let positions = cx.positions(indices, elements);
            let present = cx.present(&mask, &base, register);
            let first = LOCAL.mul(register.flat.clone(), LOCAL.lit(run));
            for k in (0..run).step_by(width as usize) {
                let mut at = positions.clone();
                let ix = Index { dtype: cx.dtype_of(&at[last]) };
                at[last] = ix.add(at[last].clone(), ix.lit(k));
                let (place, guard) = match memory {
                    Memory::View(view) => cx.place_in_view(view, indices, &at, true),
                    Memory::Shared(_) => (cx.computed_place(memory, indices, &at).0, None),
                };
                let predicate = all(present.clone().into_iter().chain(guard).chain(only.clone()));
                let from = LOCAL.add(first.clone(), LOCAL.lit(k));
                cx.emit(match width {
                    1 => Stmt::Store { place, value: Expr::Element(var, Box::new(from)), predicate, cache },
                    _ => Stmt::StoreVector { place, var, at: from, lanes: width as u32, predicate, cache },
                });
            }
            Ok(())
        })
    }

    /// What addresses of runs take are parameters from here on.
    fn begin_runs(&mut self, view: ViewId, width: i64) {
        let last = self.kernel.view(view).axes.len() - 1;
        if width > 1 {
            self.index_of(self.kernel.view(view).axes[last].len);
            self.begin_copy_of(view, last);
        }
    }

    /// One copy; zeros where the guard does not hold.
    fn copy_one(&mut self, shared: Place, global: Place, width: i64, predicate: Option<Expr>) {
        let dtype = global.dtype;
        let bytes = width * dtype.size() as i64;
        if self.kernel.launch.has_async && bytes >= 4 {
            return self.emit(Stmt::AsyncCopy { shared, global, bytes: bytes as u32, predicate });
        }
        let cache = self.kernel.launch.load_cache;
        if width == 1 {
            let value = Expr::Load { place: Box::new(global), predicate: predicate.map(Box::new), cache };
            return self.emit(Stmt::Store { place: shared, value, predicate: None, cache: Default::default() });
        }
        let name = format!("{}_part", self.shared_name(&shared));
        let var = self.new_var(&name, dtype, Some(width as u32));
        let (at, lanes) = (literal(DType::I32, 0), width as u32);
        self.emit(Stmt::Declare { var, init: None });
        self.emit(Stmt::LoadVector { var, at: at.clone(), place: global, lanes, predicate, cache });
        self.emit(Stmt::StoreVector { place: shared, var, at, lanes, predicate: None, cache: Default::default() });
    }

    fn shared_name(&self, place: &Place) -> String {
        match place.space {
            girih_ir::simt::Space::Shared(id) => self.shared[id.0 as usize].name.clone(),
            _ => panic!("runs: a copy to another memory"),
        }
    }

    /// Closes a thread's group of copies, or waits for groups. Where copies are stores there is nothing to wait for.
    pub fn copy_groups(&mut self, pending: Option<u32>) {
        if self.kernel.launch.has_async {
            self.emit(pending.map_or(Stmt::AsyncCommit, |pending| Stmt::AsyncWait { pending }));
        }
    }
}

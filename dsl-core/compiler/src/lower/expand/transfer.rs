//! Loads and stores of tiles at tile indices.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::{all, compare, literal};
use super::mask::Mask;
use super::memory::Kind;
use super::values::At;
use super::window::Copied;
use crate::block::Key;
use crate::block::{Access, Cut, Index, Rows, Ty, ValueId, ViewId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};
use std::collections::BTreeSet;

impl Expander<'_> {
    /// Loads one scalar.
    pub fn scalar_load(&mut self, view: ViewId, index: &[Index]) -> Expr {
        let address = self.address(view, index, &[]);
        let place = self.place(view, address);
        let dtype = place.dtype;
        let e = Expr::Load { place: Box::new(place), predicate: None, cache: self.kernel.launch.load_cache };
        self.load_register(Some(dtype), e)
    }

    /// Loads a tile, or a scalar; what dots alone read is copied, or read where it is.
    pub fn load(&mut self, value: ValueId, access: &Access) -> Expanded<()> {
        match self.kernel.ty(value) {
            Ty::Scalar(_) => {
                let e = self.scalar_load(access.view, &access.index);
                let name = self.name_of(value, "s");
                let e = self.declare_let(&name, self.register_type(value), e);
                self.set(value, Rep::Scalar(e));
                Ok(())
            }
            _ if self.kernel.dots.is_load(value) => self.open_copied(value, Copied::Operand(access)),
            _ => self.load_tile(value, access),
        }
    }

    /// Loads a tile in the layout that suits its memory.
    fn load_tile(&mut self, value: ValueId, access: &Access) -> Expanded<()> {
        if self.load_staged(value, access)? {
            return Ok(());
        }
        let Access { view, ref index, .. } = *access;
        let layout = self.layout_at(access);
        self.accessed(Key::Load(value), &layout);
        let mask = self.mask_at(access, self.kernel.value(value).form);
        self.prepare_sides(&mask, &layout)?;
        if layout.registers == 1 {
            return self.load_single(value, view, index, layout, mask);
        }
        let name = self.fragment_name(value, view);
        let var = self.new_var(&name, self.kernel.view(view).dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.load_array(var, access, &layout, &mask)?;
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::Array(var) }));
        Ok(())
    }

    fn load_single(&mut self, value: ValueId, view: ViewId, index: &[Index], layout: Layout, mask: Mask) -> Expanded<()> {
        let axes = self.tile_axes(index);
        let base = self.base_coordinates(&axes, &layout);
        let at = At::only(&layout, literal(DType::I32, 0));
        let guard = self.bounds_hold(&mask, &base, &at);
        let sides = self.sides_hold(&mask, &at);
        let address = self.address(view, index, &base);
        let place = self.place(view, address);
        let (dtype, param) = (place.dtype, self.kernel.view(view).param);
        let load = Expr::Load {
            place: Box::new(place),
            predicate: all(guard.into_iter().chain(sides)).map(Box::new),
            cache: self.kernel.launch.load_cache,
        };
        let e = self.load_register(Some(dtype), load);
        let uses = self.used(value);
        let inline = uses.count == 1 && !uses.escapes && self.kernel.value(value).name.is_none() && !self.kernel.is_written(param);
        let e = if inline {
            e
        } else {
            let name = self.name_of(value, &format!("{}_value", self.kernel.params[param].name));
            self.declare_let(&name, dtype.compute(), e)
        };
        if let Expr::Var(var) = &e {
            self.zero_filled.insert(*var);
        }
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::One(e) }));
        Ok(())
    }

    /// What a loaded tile's array is called: by the author's name, else by its tensor.
    pub fn fragment_name(&self, value: ValueId, view: ViewId) -> String {
        let tensor = &self.kernel.params[self.kernel.view(view).param].name;
        self.kernel.value(value).name.clone().unwrap_or_else(|| format!("{tensor}_frag"))
    }

    /// Loads a tile into an array of its storage type. Where a loop keeps to positions that begin or end within a vector of a tensor that
    /// nobody writes, the vector is loaded as a whole: then absent elements hold what lies there.
    pub fn load_array(&mut self, var: VarId, access: &Access, layout: &Layout, mask: &Mask) -> Expanded<()> {
        let Access { view, ref index, .. } = *access;
        self.begin_access(access, layout, mask);
        let cut = self.cut_of(access);
        if cut.beyond {
            return self.in_whole_vectors(|cx| cx.load_cut(var, view, index, layout, mask, cut));
        }
        self.zero_filled.insert(var);
        self.load_cut(var, view, index, layout, mask, cut)
    }

    fn load_cut(&mut self, var: VarId, view: ViewId, index: &[Index], layout: &Layout, mask: &Mask, cut: Cut) -> Expanded<()> {
        let dtype = self.kernel.view(view).dtype;
        let mut target = var;
        if cut.reversed {
            let name = format!("{}_mirrored", self.vars[var.0 as usize].name);
            target = self.new_var(&name, dtype, Some(layout.registers as u32));
            self.emit(Stmt::Declare { var: target, init: None });
        }
        let cache = self.kernel.launch.load_cache;
        self.accesses(view, index, layout, mask, cut, &mut |cx, at, address, guard| {
            let place = cx.place(view, address);
            let sides = cx.sides_hold(mask, at);
            let predicate = all(guard.into_iter().chain(sides));
            cx.emit(if cut.width == 1 {
                let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
                Stmt::Assign { var: target, index: Some(at.flat.clone()), value }
            } else {
                Stmt::LoadVector { var: target, at: at.flat.clone(), place, lanes: cut.width as u32, predicate, cache }
            });
            Ok(())
        })?;
        if cut.reversed {
            self.mirror(target, var, layout.registers, cut.width);
        }
        Ok(())
    }

    /// Copies an array with the elements of each instruction in reverse.
    pub fn mirror(&mut self, from: VarId, to: VarId, registers: i64, width: i64) {
        let (e, index) = self.loop_var("e");
        let flipped = super::index::binary(BinaryOp::Xor, index.clone(), literal(DType::I32, width - 1));
        let turn = vec![Stmt::Assign { var: to, index: Some(index), value: Expr::Element(from, Box::new(flipped)) }];
        self.emit(unrolled(e, registers, turn));
    }

    /// Stores a tile or scalar: from the layout of the access, or from another one.
    pub fn store(&mut self, to: &Access, value: ValueId, from: Option<&Layout>, rows: Option<&Rows>) -> Expanded<()> {
        let Access { view, ref index, .. } = *to;
        let dtype = self.kernel.view(view).dtype;
        if !matches!(self.rep_kind(value), Kind::Tile) {
            let e = self.scalar(value);
            let address = self.address(view, index, &[]);
            let (place, cache) = (self.place(view, address), self.kernel.launch.store_cache);
            let predicate = (self.team.threads > 1).then(|| compare(CompareOp::Eq, self.thread.clone(), self.ix.lit(0)));
            let value = self.to_storage(dtype, e);
            self.emit(Stmt::Store { place, value, predicate, cache });
            return Ok(());
        }
        let wanted = self.layout_at(to);
        if let Some(rows) = rows {
            let mask = self.stored_mask(to, value);
            self.begin_access(to, &rows.layout, &mask);
        }
        // What matrix instructions left is stored with longer runs: in whole rows, or in those that lanes get by shuffles.
        let own = self.tile(value).layout.clone();
        let (layout, cut) = match (rows, own) {
            (Some(rows), Some(own)) if self.through_shared(view, value, &own, &rows.layout)? => {
                (rows.layout.clone(), self.text_of(&rows.cuts))
            }
            _ => (from.cloned().unwrap_or(wanted), self.cut_of(to)),
        };
        self.accessed(Key::Store(view, value), &layout);
        self.prepare(value, &layout)?;
        let mask = self.stored_mask(to, value);
        self.prepare_sides(&mask, &layout)?;
        self.begin_access(to, &layout, &mask);
        if cut.width == 1 {
            self.store_elements(view, index, value, &layout, &mask)
        } else {
            self.store_vectors(view, index, value, &layout, &mask, cut)
        }
    }

    /// Whether other threads of the block may have been, since they last met, where a load or store goes. What a thread has done in the same
    /// layout is its own; where a store changes the layout first, the block meets for that.
    pub fn others_have_been_there(&mut self, key: Key, access: &Access, earlier: &BTreeSet<Key>) -> bool {
        let own = match key {
            _ if self.team.threads == 1 => return false,
            Key::Load(value) if matches!(self.kernel.ty(value), Ty::Tile(..)) => {
                // A run of whole rows is read by all threads.
                if self.stages_rows(access) {
                    return true;
                }
                self.layout_at(access)
            }
            Key::Store(_, value) if matches!(self.rep_kind(value), Kind::Tile) => {
                let layout = self.tile(value).layout.clone();
                layout.unwrap_or_else(|| self.layout_at(access))
            }
            Key::Load(_) | Key::Store(..) => return true,
        };
        own.distinct_threads() < own.threads || earlier.iter().any(|key| self.accessed_in.get(key) != Some(&own))
    }

    /// Remembers in which layout a tensor is accessed that may be accessed again.
    pub fn accessed(&mut self, key: Key, layout: &Layout) {
        self.accessed_in.insert(key, layout.clone());
    }

    /// Which elements of a tile are stored.
    pub fn stored_mask(&self, to: &Access, value: ValueId) -> Mask {
        let mut mask = self.mask_at(to, None);
        mask.sides.clear();
        mask.and(&self.tile(value).mask);
        mask
    }

    fn store_elements(&mut self, view: ViewId, index: &[Index], value: ValueId, layout: &Layout, mask: &Mask) -> Expanded<()> {
        let (dtype, cache) = (self.kernel.view(view).dtype, self.kernel.launch.store_cache);
        let axes = self.tile_axes(index);
        let base = self.base_coordinates(&axes, layout);
        let replicas = self.first_replica(layout);
        self.for_elements(&[value], layout, true, &mut |cx, at, mut elements| {
            let coordinates: Vec<Expr> = base.iter().enumerate().map(|(k, b)| cx.ix.add(b.clone(), at.register_part(cx, k))).collect();
            let guard = cx.bounds_hold(mask, &coordinates, at);
            let sides = cx.sides_hold(mask, at);
            let address = cx.address(view, index, &coordinates);
            let place = cx.place(view, address);
            let value = cx.to_storage(dtype, elements.remove(0));
            cx.emit(Stmt::Store { place, value, predicate: all(guard.into_iter().chain(sides).chain(replicas.clone())), cache });
            Ok(())
        })
    }

    fn store_vectors(&mut self, view: ViewId, index: &[Index], value: ValueId, layout: &Layout, mask: &Mask, cut: Cut) -> Expanded<()> {
        let (dtype, cache) = (self.kernel.view(view).dtype, self.kernel.launch.store_cache);
        let ready = match self.tile(value).data {
            Data::Array(var) if self.vars[var.0 as usize].dtype == dtype => Some(var),
            _ => None,
        };
        let name = format!("{}_out", self.kernel.params[self.kernel.view(view).param].name);
        let mut var = match ready {
            Some(var) => var,
            None => self.fill_array(value, layout, &name, dtype)?,
        };
        if cut.reversed {
            let mirrored = self.new_var(&format!("{name}_mirrored"), dtype, Some(layout.registers as u32));
            self.emit(Stmt::Declare { var: mirrored, init: None });
            self.mirror(var, mirrored, layout.registers, cut.width);
            var = mirrored;
        }
        let replicas = self.first_replica(layout);
        self.accesses(view, index, layout, mask, cut, &mut |cx, at, address, guard| {
            let place = cx.place(view, address);
            let predicate = all(guard.into_iter().chain(replicas.clone()));
            cx.emit(Stmt::StoreVector { place, var, at: at.flat.clone(), lanes: cut.width as u32, predicate, cache });
            Ok(())
        })
    }
}

//! Gathers, scatters and atomics: accesses of tensors and shared arrays at computed positions.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::index::{Index, all, compare, literal};
use super::mask::Mask;
use super::memory::{Kind, TileAxis};
use super::presence_tiles::Found;
use super::values::At;
use crate::block::layouts::{by_lanes, with_rows};
use crate::block::{Op, SharedId, Ty, Update, ValueId, ViewId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Place, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, MemoryOrder, Scope};

/// What is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    View(ViewId),
    Shared(SharedId),
}

/// Reads an element at a place, if the guard holds.
pub(crate) type Read<'r> = &'r dyn Fn(&mut Expander, Place, Option<Expr>) -> Expr;

impl Expander<'_> {
    pub fn memory_type(&self, memory: Memory) -> DType {
        match memory {
            Memory::View(view) => self.kernel.view(view).dtype,
            Memory::Shared(id) => self.kernel.shared_array(id).dtype,
        }
    }

    /// Address and guard of computed positions: one integer element per axis.
    pub fn computed_place(&mut self, memory: Memory, indices: &[ValueId], elements: &[Expr]) -> (Place, Option<Expr>) {
        match memory {
            Memory::View(view) => self.place_in_view(view, indices, elements, false),
            Memory::Shared(id) => self.place_in_array(id, indices, elements),
        }
    }

    /// `inside`: scalar coordinates are known to lie inside.
    pub fn place_in_view(&mut self, view: ViewId, indices: &[ValueId], elements: &[Expr], inside: bool) -> (Place, Option<Expr>) {
        let v = self.kernel.view(view).clone();
        let mut terms = Vec::new();
        let mut guards = Vec::new();
        for ((value, e), axis) in indices.iter().zip(elements).zip(&v.axes) {
            let (dtype, e) = self.narrowed(self.register_type(*value), e);
            let len = self.index_of(axis.len);
            if !(inside && matches!(self.rep_kind(*value), Kind::Scalar)) {
                guards.extend(self.in_range(dtype, &e, len, self.ix));
            }
            let stride = self.index_of(axis.stride);
            terms.push((self.ix.cast(dtype, e), stride));
        }
        let offset = self.index_of(v.offset);
        let address = self.linear(offset, terms);
        (self.place(view, address), all(guards))
    }

    /// The address of computed positions that lie inside of a view.
    pub fn place_inside(&mut self, view: ViewId, indices: &[ValueId], elements: &[Expr]) -> Place {
        let v = self.kernel.view(view).clone();
        let mut terms = Vec::new();
        for ((value, e), axis) in indices.iter().zip(elements).zip(&v.axes) {
            let (dtype, e) = self.narrowed(self.register_type(*value), e);
            let stride = self.index_of(axis.stride);
            terms.push((self.ix.cast(dtype, e), stride));
        }
        let offset = self.index_of(v.offset);
        let address = self.linear(offset, terms);
        self.place(view, address)
    }

    /// The first copy of an element of a shared array.
    fn place_in_array(&mut self, id: SharedId, indices: &[ValueId], elements: &[Expr]) -> (Place, Option<Expr>) {
        let array = self.array(id);
        let ix = Index { dtype: DType::I32 };
        let mut address = ix.lit(0);
        let mut guards = Vec::new();
        for ((value, e), len) in indices.iter().zip(elements).zip(&array.lens) {
            let (dtype, e) = self.narrowed(self.register_type(*value), e);
            guards.extend(self.in_range(dtype, &e, ix.lit(*len), ix));
            address = ix.add(ix.mul(address, ix.lit(*len)), ix.cast(dtype, e));
        }
        let index = ix.mul(address, ix.lit(array.copies));
        (Place { space: Space::Shared(array.id), dtype: array.dtype, index }, all(guards))
    }

    /// A position of 64 bits that was widened from 32, or a constant that 32 hold, as it was before.
    fn narrowed(&self, dtype: DType, e: &Expr) -> (DType, Expr) {
        match e {
            Expr::Cast(DType::I64, inner) if self.dtype_of(inner) == DType::I32 => (DType::I32, (**inner).clone()),
            Expr::Literal(l) if dtype == DType::I64 && i32::try_from(l.to_i64()).is_ok() => (DType::I32, literal(DType::I32, l.to_i64())),
            _ => (dtype, e.clone()),
        }
    }

    /// `0 <= e < len`, compared in a type that holds both, as far as it is not known. Where nothing is, one comparison tells both: as an unsigned
    /// number, what is below 0 lies above every length.
    fn in_range(&self, dtype: DType, e: &Expr, len: Expr, ix: Index) -> Vec<Expr> {
        let common = if dtype == ix.dtype {
            dtype
        } else if dtype == DType::U32 && ix.dtype == DType::I32 {
            DType::U32
        } else {
            DType::I64
        };
        let (known, limit) = (self.range_of(e), self.range_of(&len));
        let to = Index { dtype: common };
        let (e, len) = (to.cast(dtype, e.clone()), to.cast(ix.dtype, len));
        let low = (dtype.is_signed() || dtype == DType::U64) && known.is_none_or(|(least, _)| least < 0);
        let high = known.zip(limit).is_none_or(|((_, most), (fewest, _))| most >= fewest);
        let unsigned = |e: Expr| Index { dtype: if common == DType::I64 { DType::U64 } else { DType::U32 } }.cast(common, e);
        match (low, high) {
            (true, true) => vec![compare(CompareOp::Lt, unsigned(e), unsigned(len))],
            (true, false) => vec![compare(CompareOp::Ge, e, to.lit(0))],
            (false, true) => vec![compare(CompareOp::Lt, e, len)],
            (false, false) => vec![],
        }
    }

    /// Loads a tile from computed positions of a tensor; absent where a position is out of range, which none is if the author says so.
    pub fn gather_tile(&mut self, value: ValueId, view: ViewId, indices: &[ValueId], inside: bool) -> Expanded<()> {
        let cache = self.kernel.launch.load_cache;
        let read =
            |_: &mut Expander, place, guard: Option<Expr>| Expr::Load { place: Box::new(place), predicate: guard.map(Box::new), cache };
        match inside {
            true => self.gather_inside(value, Memory::View(view), indices, &read),
            false => self.gather(value, Memory::View(view), indices, &read),
        }
    }

    /// Reads elements at computed positions: a tile, or a scalar where all positions are.
    pub fn gather(&mut self, value: ValueId, memory: Memory, indices: &[ValueId], read: Read) -> Expanded<()> {
        let tiles = self.tiles_of(indices);
        let dtype = self.memory_type(memory);
        if tiles.is_empty() {
            let positions = self.positions(indices, vec![]);
            let (place, guard) = self.computed_place(memory, indices, &positions);
            let e = read(self, place, guard);
            let (e, name) = (self.load_register(Some(dtype), e), self.name_of(value, "element"));
            let e = self.declare_let(&name, dtype.compute(), e);
            self.set(value, Rep::Scalar(e));
            return Ok(());
        }
        let (layout, mut mask) = self.meeting(memory, &tiles)?;
        let name = self.name_of(value, &self.gathered_name(memory));
        let var = (layout.registers > 1).then(|| self.new_var(&name, dtype, Some(layout.registers as u32)));
        if let Some(var) = var {
            self.emit(Stmt::Declare { var, init: None });
        }
        let mut single = None;
        let mut found = Found::new(self, &name, &layout);
        let takes = Found::takes(&mask);
        let digits = self.sides_need_digits(&mask, &layout);
        self.for_elements(&tiles, &layout, digits, &mut |cx, at, elements| {
            let mut positions = cx.positions(indices, elements);
            // The guard and the address read each of them.
            for e in positions.iter_mut().filter_map(|e| divides(e).then_some(e)) {
                *e = cx.declare_let("position", cx.dtype_of(e), e.clone());
            }
            let (place, guard) = cx.computed_place(memory, indices, &positions);
            let sides = cx.sides_hold(&mask, at);
            let (guard, sides) = if takes { (all(guard.into_iter().chain(sides)), None) } else { (guard, sides) };
            let guard = found.keep(cx, at, guard);
            let load = read(cx, place, all(guard.into_iter().chain(sides)));
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
        if takes {
            mask.sides.clear();
        }
        // Whatever is absent inside of the mask's bounds was not read.
        self.zero_inside.extend(var);
        if let Data::One(Expr::Var(one)) = data {
            self.zero_inside.insert(one);
        }
        found.end(self, value, &layout, &mut mask, var);
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data }));
        Ok(())
    }

    /// What elements that are read at computed positions are called where the author gave them no name.
    pub fn gathered_name(&self, memory: Memory) -> String {
        match memory {
            Memory::View(view) => format!("{}_gathered", self.kernel.params[self.kernel.view(view).param].name),
            Memory::Shared(_) => "element".into(),
        }
    }

    pub fn tiles_of(&self, values: &[ValueId]) -> Vec<ValueId> {
        values.iter().copied().filter(|v| matches!(self.rep_kind(*v), Kind::Tile)).collect()
    }

    /// The layout in which these tiles meet (that of a scalar if there is none), and where all of them are present.
    pub fn meeting(&mut self, memory: Memory, tiles: &[ValueId]) -> Expanded<(Layout, Mask)> {
        let form = tiles.first().and_then(|v| self.kernel.value(*v).form);
        let mut mask = self.sides_of(form);
        tiles.iter().for_each(|v| mask.and(&self.tile(*v).mask.clone()));
        let known = tiles.iter().find_map(|v| self.tile(*v).layout.clone());
        let known = known.or_else(|| self.rows_at(*tiles.first()?));
        let layout = match (known, tiles.first()) {
            (Some(layout), _) => layout,
            (None, Some(v)) => self.natural_layout(*v),
            (None, None) => Layout { axes: vec![], threads: self.team.threads, registers: 1 },
        };
        // The author's barriers count on it that an element is always the same thread's, and 32 neighbours one warp's.
        let by_hand = matches!(memory, Memory::Shared(id) if self.kernel.shared_array(id).by_hand);
        let layout = if by_hand { by_lanes(layout.clone(), self.team.threads).unwrap_or(layout) } else { layout };
        self.prepare_sides(&mask, &layout)?;
        Ok((layout, mask))
    }

    /// Where positions lie that are repeated for the elements of short rows.
    fn rows_at(&self, positions: ValueId) -> Option<Layout> {
        let Some(Op::Broadcast(of, from)) = self.op(positions) else { return None };
        with_rows(self.tile(*of).layout.as_ref()?, from, self.kernel.ty(positions).shape()?)
    }

    pub fn positions(&mut self, indices: &[ValueId], mut tiles: Vec<Expr>) -> Vec<Expr> {
        indices.iter().map(|v| if matches!(self.rep_kind(*v), Kind::Tile) { tiles.remove(0) } else { self.scalar(*v) }).collect()
    }

    /// Stores to computed positions.
    pub fn scatter(&mut self, memory: Memory, indices: &[ValueId], value: ValueId) -> Expanded<()> {
        let (dtype, cache) = (self.memory_type(memory), self.kernel.launch.store_cache);
        let values: Vec<ValueId> = indices.iter().copied().chain([value]).collect();
        let cache = if matches!(memory, Memory::Shared(_)) { Default::default() } else { cache };
        self.each_position(memory, &values, indices.len(), None, &mut |cx, _, place, operands, predicate| {
            let value = cx.to_storage(dtype, operands[0].clone());
            cx.emit(Stmt::Store { place, value, predicate, cache });
            Ok(())
        })
        .map(|_| ())
    }

    /// Updates computed positions.
    pub fn update(&mut self, memory: Memory, update: &Update, scope: Scope, order: MemoryOrder) -> Expanded<()> {
        let dtype = self.memory_type(memory);
        let copies = match memory {
            Memory::Shared(id) => self.array(id).copies,
            Memory::View(_) => 1,
        };
        // One thread's release or acquire is the block's: what others did before is done, what they do afterwards is later.
        let single = self.alone && self.team.threads == 1;
        if matches!(order, MemoryOrder::Release | MemoryOrder::AcquireRelease) && !single {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let mut old = match update.result {
            Some(result) => Some(self.declare_old(memory, result, &update.uses())?),
            None => None,
        };
        let ix = Index { dtype: DType::I32 };
        let (one_of, found) = old.as_mut().map_or((None, None), |old| (Some((old.var, old.array)), old.found.as_mut()));
        let (layout, mut mask) =
            self.each_position(memory, &update.uses(), update.indices.len(), found, &mut |cx, at, mut place, operands, predicate| {
                if copies > 1 {
                    let own = cx.own_copy(copies);
                    place.index = ix.add(place.index, own);
                }
                let mut operands = operands.iter().map(|e| cx.to_storage(dtype, e.clone())).collect::<Vec<_>>().into_iter();
                let value = operands.next().unwrap_or_else(|| panic!("computed: an atomic without operand"));
                let expected = operands.next();
                let (target, copy) = match one_of {
                    Some((var, true)) => {
                        let one = cx.new_var("old", dtype, None);
                        cx.emit(Stmt::Declare { var: one, init: Some(Expr::Literal(zero(dtype))) });
                        (Some(one), Some(var))
                    }
                    Some((var, false)) => (Some(var), None),
                    None => (None, None),
                };
                cx.emit(Stmt::Atomic { result: target, op: update.op, place, value, expected, predicate, scope, order });
                if let (Some(one), Some(array)) = (target, copy) {
                    cx.emit(Stmt::Assign { var: array, index: Some(at.flat.clone()), value: Expr::Var(one) });
                }
                Ok(())
            })?;
        // One thread that runs alone is ordered by itself.
        if matches!(order, MemoryOrder::Acquire | MemoryOrder::AcquireRelease) && !single {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let (Some(result), Some(Old { var, array, found })) = (update.result, old) else { return Ok(()) };
        let rep = match self.rep_kind(result) {
            Kind::Scalar => Rep::Scalar(Expr::Var(var)),
            Kind::Tile => {
                let data = if array { Data::Array(var) } else { Data::One(Expr::Var(var)) };
                if let Some(found) = found {
                    found.end(self, result, &layout, &mut mask, array.then_some(var));
                }
                Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask, data })
            }
        };
        self.set(result, rep);
        self.spread_results(&layout, result)
    }

    fn declare_old(&mut self, memory: Memory, result: ValueId, uses: &[ValueId]) -> Expanded<Old> {
        let tiles = self.tiles_of(uses);
        let (layout, _) = self.meeting(memory, &tiles)?;
        let (dtype, name) = (self.register_type(result), self.name_of(result, "old"));
        let array = layout.registers > 1;
        let var = self.new_var(&name, dtype, array.then_some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: (!array).then(|| Expr::Literal(zero(dtype))) });
        let found = matches!(self.kernel.ty(result), Ty::Tile(..)).then(|| Found::new(self, &name, &layout));
        Ok(Old { var, array, found })
    }

    /// Runs `body` for each element of `values`, of which the first `axes` are positions: with its place, the other values' elements
    /// and the condition under which it is accessed. Where it is asked, says which positions were in range.
    fn each_position(
        &mut self,
        memory: Memory,
        values: &[ValueId],
        axes: usize,
        mut found: Option<&mut Found>,
        body: EachPosition,
    ) -> Expanded<(Layout, Mask)> {
        let tiles = self.tiles_of(values);
        let (layout, mut mask) = self.meeting(memory, &tiles)?;
        let takes = found.is_some() && Found::takes(&mask);
        let bounds = Mask { bounds: mask.bounds.clone(), sides: vec![] };
        // Coordinates of the tile, for its bounds.
        let bounded = self.bound_axes(&mask, &layout);
        let base = self.base_coordinates(&bounded, &layout);
        let replicas = self.first_replica(&layout);
        self.for_elements(&tiles, &layout, true, &mut |cx, at, elements| {
            let elements = cx.positions(values, elements);
            let (place, guard) = cx.computed_place(memory, &values[..axes], &elements[..axes]);
            let sides = if takes { cx.sides_hold(&mask, at) } else { None };
            let guard = match &mut found {
                Some(found) => found.keep(cx, at, all(guard.into_iter().chain(sides))),
                None => guard,
            };
            let present = cx.present(if takes { &bounds } else { &mask }, &base, at);
            let predicate = all(present.into_iter().chain(guard).chain(replicas.clone()));
            body(cx, at, place, &elements[axes..], predicate)
        })?;
        if takes {
            mask.sides.clear();
        }
        Ok((layout, mask))
    }

    pub fn bound_axes(&self, mask: &Mask, layout: &Layout) -> Vec<TileAxis> {
        let shape = layout.shape();
        (0..shape.len()).map(|k| (mask.bounds.iter().find(|b| b.axis == k).map(|b| b.index), shape[k])).collect()
    }
}

/// An atomic's old values.
struct Old {
    /// Zero where nothing is updated.
    var: VarId,
    array: bool,
    /// Where there is a position; of a tile only.
    found: Option<Found>,
}

/// What is done at each computed position.
type EachPosition<'b> = &'b mut dyn FnMut(&mut Expander, &At, Place, &[Expr], Option<Expr>) -> Expanded<()>;

fn zero(dtype: DType) -> girih_ir::types::Literal {
    girih_ir::types::Literal::from_i64(dtype, 0)
}

/// Whether an expression divides by what is not a constant.
fn divides(e: &mut Expr) -> bool {
    if matches!(e, Expr::Binary(BinaryOp::Div | BinaryOp::Rem, _, by) if !matches!(**by, Expr::Literal(_))) {
        return true;
    }
    let mut found = false;
    girih_ir::simt::visit::children(e, &mut |e| found |= divides(e));
    found
}

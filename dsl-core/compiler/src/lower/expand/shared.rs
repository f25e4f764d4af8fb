//! Shared arrays: allocation, copies against contention, fills and reads.

use super::computed::Memory;
use super::context::{Data, Expanded, Expander, Rep};
use super::index::{Index, binary, compare, literal};
use super::memory::Kind;
use super::values::At;
use crate::block::{SharedId, SharedKind, ValueId};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, Place, SharedId as ArrayId, Space, Special, Stmt};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, MemoryOrder, Scope};

/// Index arithmetic of shared memory.
const IX: Index = Index { dtype: DType::I32 };

/// A shared array during lowering.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub id: ArrayId,
    pub dtype: DType,
    pub lens: Vec<i64>,
    /// Copies of each element, side by side: lane `l` updates copy `l % copies`.
    pub copies: i64,
    /// With which the copies of an element are combined, and what they start with.
    pub join: Option<(BinaryOp, Literal)>,
}

impl Expander<'_> {
    /// The array, allocated at its first access.
    pub fn array(&mut self, id: SharedId) -> Array {
        if let Some(known) = self.arrays.get(&id) {
            return known.clone();
        }
        let declared = self.kernel.shared_array(id).clone();
        let lens = declared.shape.clone();
        let join = declared.join;
        let copies = if join.is_some() { self.kernel.launch.copies } else { 1 };
        let name = declared.name.unwrap_or_else(|| "shared".into());
        let len = lens.iter().product::<i64>() * copies;
        self.shared.push(girih_ir::simt::SharedArray { name, dtype: declared.dtype, len: len as u32, align: 16, at: None });
        let array = Array { id: ArrayId(self.shared.len() as u32 - 1), dtype: declared.dtype, lens, copies, join };
        self.arrays.insert(id, array.clone());
        array
    }

    /// Lowers one access.
    pub fn shared_access(&mut self, array: SharedId, kind: &SharedKind, width: i64) -> Expanded<()> {
        match kind {
            SharedKind::Fill(value) => self.fill_shared(array, *value),
            SharedKind::Empty => Ok(()),
            SharedKind::Gather { indices, result, inside } if width > 1 => {
                self.gather_vectors(*result, Memory::Shared(array), indices, *inside, width)
            }
            SharedKind::Gather { indices, result, inside } => self.gather_shared(*result, array, indices, *inside),
            SharedKind::Scatter { indices, value } if width > 1 => self.scatter_vectors(Memory::Shared(array), indices, *value, width),
            SharedKind::Scatter { indices, value } => self.scatter(Memory::Shared(array), indices, *value),
            SharedKind::Atomic(update) => self.update(Memory::Shared(array), update, Scope::Block, MemoryOrder::Relaxed),
            SharedKind::GatherRun { indices, result } => self.gather_runs(*result, array, indices),
            SharedKind::ScatterRun { indices, value } => self.scatter_runs(Memory::Shared(array), indices, *value, 1),
            SharedKind::Copy { indices, view, from, run } => self.copy_runs(array, indices, (*view, from), [*run, width]),
            SharedKind::Start(value) => self.start_chain(array, *value),
            SharedKind::Take { result } => {
                self.take_chain(array, *result);
                Ok(())
            }
            SharedKind::Leave(value) => self.leave_chain(array, *value),
        }
    }

    /// Which copy of an element this thread updates; none where there is one.
    pub fn own_copy(&mut self, copies: i64) -> Expr {
        if copies == 1 {
            return IX.lit(0);
        }
        let thread = self.thread_i32();
        binary(BinaryOp::And, thread, IX.lit(copies - 1))
    }

    /// The thread's number as i32.
    pub fn thread_i32(&self) -> Expr {
        match &self.thread {
            Expr::Cast(_, inner) => (**inner).clone(),
            Expr::Special(Special::Thread) => panic!("shared: the thread has no variable yet"),
            other => other.clone(),
        }
    }

    fn fill_shared(&mut self, id: SharedId, value: ValueId) -> Expanded<()> {
        let array = self.array(id);
        let value = self.scalar(value);
        let len = array.lens.iter().product::<i64>() * array.copies;
        let thread = self.thread_i32();
        let mut stored = self.to_storage(array.dtype, value.clone());
        let first_of_copies = array.join.filter(|(_, identity)| array.copies > 1 && stored != Expr::Literal(*identity));
        let width = fill_width(len, self.team.threads, array.dtype);
        if first_of_copies.is_none() && width > 1 {
            self.fill_by_vectors(&array, stored, len, width);
            return Ok(());
        }
        // At most one element per thread needs no loop.
        let var = (len > self.team.threads).then(|| self.new_var("i", DType::I32, None));
        let i = var.map_or(thread.clone(), Expr::Var);
        if let Some((_, identity)) = first_of_copies {
            let first = compare(CompareOp::Eq, binary(BinaryOp::And, i.clone(), IX.lit(array.copies - 1)), IX.lit(0));
            stored = Expr::Select(Box::new(first), Box::new(stored), Box::new(Expr::Literal(identity)));
        }
        let place = Place { space: Space::Shared(array.id), dtype: array.dtype, index: i };
        let predicate = (len < self.team.threads).then(|| compare(CompareOp::Lt, thread.clone(), IX.lit(len)));
        let store = Stmt::Store { place, value: stored, predicate, cache: Default::default() };
        if array.copies > 1 {
            self.comment(format!("{} copies of each element against contention", array.copies));
        }
        let step = IX.lit(self.team.threads);
        self.emit(match var {
            None => store,
            Some(var) => Stmt::For { var, start: thread, end: IX.lit(len), step, unroll: false, body: vec![store] },
        });
        Ok(())
    }

    /// Fills an array with one value, `width` elements at once.
    fn fill_by_vectors(&mut self, array: &Array, value: Expr, len: i64, width: i64) {
        let name = format!("{}_fill", self.shared[array.id.0 as usize].name);
        let filled = self.new_var(&name, array.dtype, Some(width as u32));
        self.emit(Stmt::Declare { var: filled, init: Some(value) });
        if array.copies > 1 {
            self.comment(format!("{} copies of each element against contention", array.copies));
        }
        let (thread, step) = (self.thread_i32(), self.team.threads * width);
        let start = IX.mul(thread, IX.lit(width));
        let store = |index: Expr| Stmt::StoreVector {
            place: Place { space: Space::Shared(array.id), dtype: array.dtype, index },
            var: filled,
            at: IX.lit(0),
            lanes: width as u32,
            predicate: None,
            cache: Default::default(),
        };
        if len == step {
            return self.emit(store(start));
        }
        let var = self.new_var("i", DType::I32, None);
        let body = vec![store(Expr::Var(var))];
        self.emit(Stmt::For { var, start, end: IX.lit(len), step: IX.lit(step), unroll: false, body });
    }

    /// Reads elements of a shared array; several copies of an element are combined.
    fn gather_shared(&mut self, value: ValueId, id: SharedId, indices: &[ValueId], inside: bool) -> Expanded<()> {
        let array = self.array(id);
        let memory = Memory::Shared(id);
        let read = |cx: &mut Expander, place: Place, guard: Option<Expr>| {
            let load = |index: Expr| {
                let place = Place { index, ..place.clone() };
                Expr::Load { place: Box::new(place), predicate: guard.clone().map(Box::new), cache: Default::default() }
            };
            let (Some((op, identity)), true) = (array.join, array.copies > 1) else { return load(place.index.clone()) };
            // Each thread starts at another copy, so that neighbours read from different banks.
            let sum = cx.new_var("joined", array.dtype, None);
            cx.emit(Stmt::Declare { var: sum, init: Some(Expr::Literal(identity)) });
            let (copy, c) = cx.loop_var("copy");
            let thread = cx.thread_i32();
            let own = binary(BinaryOp::And, IX.add(c, thread), IX.lit(array.copies - 1));
            let next = binary(op, Expr::Var(sum), load(IX.add(place.index.clone(), own)));
            let body = vec![Stmt::Assign { var: sum, index: None, value: next }];
            cx.emit(super::elements::unrolled(copy, array.copies, body));
            Expr::Var(sum)
        };
        if inside { self.gather_inside(value, memory, indices, &read) } else { self.gather(value, memory, indices, &read) }
    }

    /// Makes what the first of several threads with the same element has known to all of them, through shared memory.
    pub fn spread_results(&mut self, layout: &Layout, value: ValueId) -> Expanded<()> {
        if self.first_replica(layout).is_none() {
            return Ok(());
        }
        if self.alone {
            self.spread_in_warp(layout, value);
            return Ok(());
        }
        let dtype = self.register_type(value);
        let shape = layout.shape();
        let len: i64 = shape.iter().product();
        let id = self.new_shared("old", dtype, len);
        if self.repeated {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let first = self.first_replica(layout);
        let scalar = matches!(self.rep_kind(value), Kind::Scalar);
        let place = |cx: &mut Expander, at: &At| {
            let mut index = IX.lit(0);
            for (axis, extent) in shape.iter().enumerate() {
                let base = cx.base_coordinate(None, layout, axis);
                let coordinate = cx.ix.add(base, at.register_part(cx, axis));
                let coordinate = if cx.ix.dtype == DType::I32 { coordinate } else { Expr::Cast(DType::I32, Box::new(coordinate)) };
                index = IX.add(IX.mul(index, IX.lit(*extent)), coordinate);
            }
            Place { space: Space::Shared(id), dtype, index }
        };
        if scalar {
            let at = At::only(layout, literal(DType::I32, 0));
            let e = self.scalar(value);
            let place = place(self, &at);
            self.emit(Stmt::Store { place: place.clone(), value: e, predicate: first, cache: Default::default() });
            self.emit(Stmt::Barrier(self.team_barrier()));
            let name = self.name_of(value, "old");
            let e = self.declare_let(&name, dtype, Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() });
            self.set(value, Rep::Scalar(e));
            return Ok(());
        }
        self.for_elements(&[value], layout, true, &mut |cx, at, mut elements| {
            let place = place(cx, at);
            cx.emit(Stmt::Store { place, value: elements.remove(0), predicate: first.clone(), cache: Default::default() });
            Ok(())
        })?;
        self.emit(Stmt::Barrier(self.team_barrier()));
        let mut rep = self.tile(value).clone();
        let load = |place| Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
        if layout.registers == 1 {
            let at = At::only(layout, literal(DType::I32, 0));
            let place = place(self, &at);
            rep.data = Data::One(self.declare_let("old", dtype, load(place)));
        } else {
            let var = self.new_var("old", dtype, Some(layout.registers as u32));
            self.emit(Stmt::Declare { var, init: None });
            self.nest(layout, true, &mut |cx, at| {
                let value = load(place(cx, at));
                cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value });
                Ok(())
            })?;
            rep.data = Data::Array(var);
        }
        self.set(value, Rep::Tile(rep));
        Ok(())
    }
}

/// Elements of a shared array that a thread fills at once: as many as one store takes, where every thread has so many.
fn fill_width(len: i64, threads: i64, dtype: DType) -> i64 {
    let mut width = 16 / dtype.size() as i64;
    while width > 1 && (len % width != 0 || len < threads * width) {
        width /= 2;
    }
    width
}

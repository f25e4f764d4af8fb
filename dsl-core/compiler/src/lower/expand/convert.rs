//! Conversion of a tile from one layout to another, through shared memory.

use super::context::{Data, Expanded, Expander, Rep};
use super::elements::unrolled;
use super::index::{as_literal, binary, literal};
use super::values::At;
use crate::block::ValueId;
use crate::block::exchange::chosen;
use girih_ir::layout::{Layout, SharedLayout, SharedUse, wavefronts};
use girih_ir::simt::{Expr, Place, SharedId, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType};

/// How a tile of two axes lies in shared memory, and which layout writes it there or reads it.
pub(crate) struct Lying<'l> {
    pub id: SharedId,
    pub dtype: DType,
    pub flat: &'l Layout,
    pub shared: &'l SharedLayout,
    /// Variables of the row and the column at which a thread begins, if they have any.
    pub first: Option<[Expr; 2]>,
}

/// The rows in which a tile goes through shared memory.
struct Rows {
    /// How they are written, and how they are read.
    flat: [Layout; 2],
    rows: i64,
    columns: i64,
    shared: SharedLayout,
}

impl Rows {
    /// Those of the tile; or shorter ones, as long as what a thread has side by side, where these spare wavefronts: padding and swizzles
    /// are for rows, so a line of one row has none.
    fn choose(flat: [Layout; 2], width: [i64; 2], bytes: i64) -> Rows {
        let run = flat[0].run(1).max(flat[1].run(1));
        let whole = Rows::of(flat, width, bytes);
        // Elements that are written one by one lie as the tile's own axes say.
        if width[0] == 1 || run >= whole.columns || whole.columns % run != 0 {
            return whole;
        }
        let cut = [whole.flat[0].cut(run), whole.flat[1].cut(run)];
        match cut {
            [Some(from), Some(to)] => {
                let shorter = Rows::of([from, to], width, bytes);
                if shorter.wavefronts(width, bytes) < whole.wavefronts(width, bytes) { shorter } else { whole }
            }
            _ => whole,
        }
    }

    fn of(flat: [Layout; 2], width: [i64; 2], bytes: i64) -> Rows {
        let shape = flat[0].shape();
        let uses = |i: usize| SharedUse { layout: &flat[i], width: width[i] };
        let shared = SharedLayout::choose(shape[0], shape[1], bytes, uses(0), uses(1));
        Rows { rows: shape[0], columns: shape[1], shared, flat }
    }

    fn wavefronts(&self, width: [i64; 2], bytes: i64) -> i64 {
        (0..2).map(|i| wavefronts(&self.shared, SharedUse { layout: &self.flat[i], width: width[i] }, bytes)).sum()
    }
}

impl Expander<'_> {
    /// Moves a tile into another layout: every thread writes its elements to shared memory, all meet, every thread reads its new ones.
    pub fn convert(&mut self, value: ValueId, to: &Layout) -> Expanded<()> {
        let from = self.tile(value).layout.clone().unwrap_or_else(|| panic!("convert: {value:?} has no layout"));
        assert_eq!(from.shape(), to.shape(), "convert: layouts of different tiles");
        if self.kernel.can_exchange(&from, to) {
            return self.exchange_lanes(value, &from, to);
        }
        if let Some(digits) = chosen(&from, to) {
            return self.convert_by_choice(value, [&from, to], &digits);
        }
        let shape = from.shape();
        let (flat_from, flat_to) = (flattened(&from), flattened(to));
        let (register, dtype) = (self.register_type(value), self.moved_type(value, &flat_from));
        let bytes = dtype.size() as i64;
        let width = |l: &Layout| {
            let run = l.run(1);
            [16, 8, 4, 2].into_iter().map(|w| w / bytes).find(|w| *w > 1 && run % w == 0).unwrap_or(1)
        };
        let (w, r) = (width(&flat_from), width(&flat_to));
        let Rows { flat: [flat_from, flat_to], rows, columns, shared } = Rows::choose([flat_from, flat_to], [w, r], bytes);
        let name = self.name_of(value, "tile");
        let id = self.new_shared(&format!("{name}_smem"), dtype, shared.len(rows));
        self.comment(describe(&shape, &shared, columns));
        if self.repeated {
            // Some threads may still read what the last turn left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let lies = |flat| Lying { id, dtype, flat, shared: &shared, first: None };
        if w > 1 {
            let source = if dtype == register { self.in_array(value, &from)? } else { self.array_of(value) };
            self.shared_vectors(source, &lies(&flat_from), w, true);
        } else {
            self.write_elements(value, id, dtype, &from, &flat_from, &shared)?;
        }
        self.emit(Stmt::Barrier(self.team_barrier()));
        let var = self.new_var(&name, dtype, Some(to.registers as u32));
        if to.registers > 1 {
            self.emit(Stmt::Declare { var, init: None });
        }
        let data = if to.registers == 1 {
            let at = At::only(&flat_to, literal(DType::I32, 0));
            let place = self.shared_place(id, dtype, &flat_to, &shared, &at, None);
            let e = self.load_register(Some(dtype), load(place));
            Data::One(self.declare_let(&name, register, e))
        } else {
            self.shared_vectors(var, &lies(&flat_to), r, false);
            Data::Array(var)
        };
        let mut rep = self.tile(value).clone();
        let (before, lay) = (std::mem::replace(&mut rep.data, data), rep.layout.replace(to.clone()));
        if let (Data::Array(_) | Data::One(_), Some(layout)) = (&before, lay) {
            rep.elsewhere.push((layout, before));
        }
        self.set(value, Rep::Tile(rep));
        Ok(())
    }

    /// A tile has moved from one layout to another, where these are its elements; those where it lay stay known.
    pub fn lies_now(&mut self, value: ValueId, [from, to]: [&Layout; 2], data: Data) {
        let mut rep = self.tile(value).clone();
        rep.lie_in(from);
        let before = std::mem::replace(&mut rep.data, data);
        rep.elsewhere.push((from.clone(), before));
        rep.layout = Some(to.clone());
        self.set(value, Rep::Tile(rep));
    }

    /// As what a tile's elements move. One that still lies as it was read keeps its storage type, f16 moves as 16 bits; so does one whose elements
    /// are written one by one, for they are rounded already.
    fn moved_type(&self, value: ValueId, flat: &Layout) -> DType {
        let register = self.register_type(value);
        let storage = self.kernel.ty(value).dtype().filter(|d| d.size() < register.size() && flat.run(1) == 1);
        match self.tile(value).data {
            Data::Array(var) if self.vars[var.0 as usize].dtype != register => self.vars[var.0 as usize].dtype,
            _ => storage.unwrap_or(register),
        }
    }

    fn array_of(&self, value: ValueId) -> VarId {
        match self.tile(value).data {
            Data::Array(var) => var,
            ref other => panic!("convert: {value:?} is no array but {other:?}"),
        }
    }

    fn write_elements(
        &mut self,
        value: ValueId,
        id: SharedId,
        dtype: DType,
        from: &Layout,
        flat: &Layout,
        shared: &SharedLayout,
    ) -> Expanded<()> {
        let axes = from.axes.len();
        let writes = self.first_replica(from);
        self.for_elements(&[value], from, true, &mut |cx, at, mut elements| {
            // The same registers, seen as rows and columns.
            let digits = at
                .digits
                .iter()
                .map(
                    |(axis, place, e)| {
                        if *axis + 1 == axes { (1, *place, e.clone()) } else { (0, row_place(from, *axis) * place, e.clone()) }
                    },
                )
                .collect();
            let at = At { layout: flat.clone(), flat: at.flat.clone(), digits, axes: vec![0, 1] };
            let place = cx.shared_place(id, dtype, flat, shared, &at, None);
            let value = cx.to_storage(dtype, elements.remove(0));
            cx.emit(Stmt::Store { place, value, predicate: writes.clone(), cache: Default::default() });
            Ok(())
        })
    }

    /// Moves all registers of an array to or from shared memory, `width` elements at a time.
    pub fn shared_vectors(&mut self, var: VarId, lies: &Lying, width: i64, write: bool) {
        let (dtype, flat) = (lies.dtype, lies.flat);
        let ix = super::index::Index { dtype: DType::I32 };
        let (mut known, mut loops, mut register) = (Vec::new(), Vec::new(), ix.lit(0));
        for (axis, d) in flat.register_digits() {
            let vector = width > 1 && d.stride == 1;
            let (extent, step) = if vector { (d.extent / width, width) } else { (d.extent, 1) };
            if extent > 1 {
                let (v, e) = self.loop_var(if axis == 1 { "u" } else { "r" });
                let digit = ix.mul(e, ix.lit(step));
                register = ix.add(register, ix.mul(digit.clone(), ix.lit(d.stride)));
                known.push((axis, d.place, digit));
                loops.push((v, extent));
                self.open();
            }
        }
        let at = At { layout: flat.clone(), flat: register.clone(), digits: known, axes: vec![0, 1] };
        let place = match &lies.first {
            Some(first) => Place { space: Space::Shared(lies.id), dtype, index: shared_index(lies.shared, first.clone(), &at) },
            None => self.shared_place(lies.id, dtype, flat, lies.shared, &at, None),
        };
        let cache = Default::default();
        let predicate = if write { self.first_replica(flat) } else { None };
        self.emit(match (width, write) {
            (1, true) => Stmt::Store { place, value: Expr::Element(var, Box::new(register)), predicate, cache },
            (1, false) => Stmt::Assign { var, index: Some(register), value: load(place) },
            (_, true) => Stmt::StoreVector { place, var, at: register, lanes: width as u32, predicate, cache },
            (_, false) => Stmt::LoadVector { var, at: register, place, lanes: width as u32, predicate: None, cache },
        });
        for (v, extent) in loops.into_iter().rev() {
            let turn = self.close();
            self.emit(unrolled(v, extent, turn));
        }
    }

    /// The row or the column at which a thread begins in a tile of two axes.
    pub fn first_of_thread(&self, flat: &Layout, axis: usize) -> Expr {
        let ix = super::index::Index { dtype: DType::I32 };
        let thread = self.thread32();
        flat.axes[axis].iter().filter(|d| d.source == girih_ir::layout::Source::Thread).fold(ix.lit(0), |sum, d| {
            let quotient = ix.div(thread.clone(), d.stride);
            let digit = if d.stride * d.extent == flat.threads { quotient } else { ix.rem(quotient, d.extent) };
            ix.add(sum, ix.mul(digit, ix.lit(d.place)))
        })
    }

    /// The address of an element in shared memory. `stage` adds whole tiles (a ring of buffers).
    pub fn shared_place(
        &mut self,
        id: SharedId,
        dtype: DType,
        flat: &Layout,
        shared: &SharedLayout,
        at: &At,
        stage: Option<Expr>,
    ) -> Place {
        let ix = super::index::Index { dtype: DType::I32 };
        let first = [self.first_of_thread(flat, 0), self.first_of_thread(flat, 1)];
        let mut index = shared_index(shared, first, at);
        if let Some(stage) = stage {
            index = ix.add(stage, index);
        }
        Place { space: Space::Shared(id), dtype, index }
    }
}

/// The index of an element in shared memory, from the row and the column at which the thread begins.
fn shared_index(shared: &SharedLayout, first: [Expr; 2], at: &At) -> Expr {
    let ix = super::index::Index { dtype: DType::I32 };
    let own = |axis: usize, first: Expr| {
        let digits = at.digits.iter().filter(|(a, _, _)| *a == axis);
        digits.fold(first, |sum, (_, place, e)| ix.add(sum, ix.mul(e.clone(), ix.lit(*place))))
    };
    let [row, column] = first;
    let (row, column) = (own(0, row), own(1, column));
    let column = swizzled(shared, &row, column);
    ix.add(ix.mul(row, ix.lit(shared.pitch)), column)
}

/// The column at which an element of this row and column lies.
pub(crate) fn swizzled(shared: &SharedLayout, row: &Expr, column: Expr) -> Expr {
    let ix = super::index::Index { dtype: DType::I32 };
    if shared.mask == 0 {
        return column;
    }
    let flip = match as_literal(row) {
        Some(row) => ix.lit(shared.address(row, 0) - row * shared.pitch),
        None => {
            let shifted = if shared.shift == 0 { row.clone() } else { binary(BinaryOp::Shr, row.clone(), ix.lit(shared.shift as i64)) };
            let bits = binary(BinaryOp::And, shifted, ix.lit(shared.mask));
            if shared.chunk == 0 { bits } else { binary(BinaryOp::Shl, bits, ix.lit(shared.chunk as i64)) }
        }
    };
    exclusive_or(column, flip)
}

/// `a ^ b`.
pub(crate) fn exclusive_or(a: Expr, b: Expr) -> Expr {
    match (as_literal(&a), as_literal(&b)) {
        (Some(x), Some(y)) => literal(DType::I32, x ^ y),
        (Some(0), None) => b,
        (None, Some(0)) => a,
        _ => binary(BinaryOp::Xor, a, b),
    }
}

fn load(place: Place) -> Expr {
    Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() }
}

/// A layout of two axes: all axes but the last one flattened to rows.
pub(crate) fn flattened(layout: &Layout) -> Layout {
    let last = layout.axes.len() - 1;
    let mut rows = Vec::new();
    for axis in (0..last).rev() {
        let scale = row_place(layout, axis);
        rows.extend(layout.axes[axis].iter().map(|d| girih_ir::layout::Digit { place: d.place * scale, ..*d }));
    }
    Layout { axes: vec![rows, layout.axes[last].clone()], ..layout.clone() }
}

/// Rows per step along a leading axis.
fn row_place(layout: &Layout, axis: usize) -> i64 {
    let shape = layout.shape();
    shape[axis + 1..shape.len() - 1].iter().product()
}

fn describe(shape: &[i64], shared: &SharedLayout, columns: i64) -> String {
    format!("change the layout of the {} tile through shared memory, {}", dimensions(shape), describe_rows(shared, columns))
}

/// The extents of a tile, in words.
pub(crate) fn dimensions(shape: &[i64]) -> String {
    shape.iter().map(i64::to_string).collect::<Vec<_>>().join(" x ")
}

/// How rows lie in shared memory, in words.
pub(crate) fn describe_rows(shared: &SharedLayout, columns: i64) -> String {
    if shared.mask != 0 {
        "columns swizzled by the row against bank conflicts".to_string()
    } else if shared.pitch > columns {
        format!("rows padded by {} against bank conflicts", shared.pitch - columns)
    } else {
        "rows as they are".to_string()
    }
}

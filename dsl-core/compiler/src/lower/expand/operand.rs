//! Operands of dots: where they lie, and the fragments that a thread reads of them.
//!
//! A copy in shared memory keeps the order that the tensor has: its contiguous axis stays contiguous, so that copies are as wide as the
//! facts allow. Where the schedule transposes operands, the axis that the result has, too, is the contiguous one. `operand_rows` says where
//! rows lie; `computed_operand` brings operands there that were computed.

use super::context::{Expanded, Expander, Rep};
use super::elements::unrolled;
use super::fold::Absent;
use super::index::{Index as Ix, literal};
use super::operand_rows::Rows;
use super::window::{Outside, WindowCopy, WindowRep, index_values};
use crate::block::{Access, Boundary, Op, ValueId};
use crate::block::{Loaded, Reader};
use girih_ir::layout::{Digit, Source};
use girih_ir::simt::{Expr, Place, Stmt, VarId};
use girih_ir::types::{DType, Literal};

/// Index arithmetic in shared memory.
const LOCAL: Ix = Ix { dtype: DType::I32 };

/// Where an operand lies.
#[derive(Clone, Debug)]
pub(crate) enum Lies {
    /// In shared memory.
    Shared(WindowCopy),
    /// In global memory, around these tile indices.
    Global(Box<WindowRep>),
}

/// An operand as a thread reads it.
#[derive(Clone)]
pub(crate) struct Operand {
    /// The operand, and the load that it comes from if it does.
    pub value: ValueId,
    pub load: Option<ValueId>,
    pub lies: Lies,
    /// The type that its elements have where they lie, and the one that the dot takes.
    pub dtype: DType,
    pub taken: DType,
    /// What is done to each element in between.
    pub chain: Vec<ValueId>,
    /// What stands for elements that are absent, where these are not the zeros that are read.
    pub absent: Option<Absent>,
    /// The author's name of it.
    pub name: String,
    /// Axes of the place where it lies, the one that the result has, too, and the one of the sum.
    pub rank: usize,
    pub outer: usize,
    pub inner: usize,
    /// Extent of the axis of the sum.
    pub extent: i64,
    /// A thread's first position along the outer axis.
    pub base: Expr,
    /// Its other positions.
    pub digits: Vec<Digit>,
    /// Neighbours per access along the outer axis.
    pub width: i64,
    /// Neighbours per access along the inner axis.
    pub depth: i64,
    /// The left operand beside it is made of accumulators: it is read in the order of their columns.
    pub beside_sums: bool,
}

impl Operand {
    /// Elements of the outer axis that a thread owns.
    pub fn own(&self) -> i64 {
        self.digits.iter().map(|d| d.extent).product()
    }
}

/// What a thread has of an operand.
pub(crate) enum Fragment {
    /// One element.
    One(Expr),
    /// An array in the type that is computed with: the outer axis' elements, each with its neighbours along the inner one.
    Array(VarId),
}

impl Expander<'_> {
    /// An operand without its place: as a window without a halo.
    pub fn operand_anywhere(&mut self, access: &Access) -> WindowRep {
        let layout = self.layout_at(access);
        let index = index_values(&access.index);
        WindowRep {
            view: access.view,
            index,
            boundary: Boundary::Zero,
            shift: vec![],
            halo: vec![],
            layout,
            copy: None,
            unseen: None,
            read: access.read,
            width: self.copied_width(access),
        }
    }

    /// The axis of a copied operand behind whose end anything may lie: one of the result's, of which only what is stored within the grid's
    /// tensor is looked at. Only where stages are handed over by mbarriers: fewer tests among the products gain 1 % there, and lose as much
    /// where turns end with a barrier.
    pub fn unseen_axis(&mut self, load: ValueId, window: &WindowRep) -> Option<usize> {
        if !window.read.mbarriers || !self.kernel.dots.only_stored() {
            return None;
        }
        let axis = self.tile_positions(window)[self.kernel.dots.outer_axis(load)?];
        (self.grid_vars.contains(&window.index[axis]) && self.walks_itself(window, axis)).then_some(axis)
    }

    /// The view's axes that are tiles.
    fn tile_positions(&self, window: &WindowRep) -> Vec<usize> {
        (0..window.index.len()).filter(|k| self.kernel.is_tile_index(window.index[*k])).collect()
    }

    /// The axis along which a copy is contiguous: the tensor's.
    fn contiguous(&mut self, window: &WindowRep) -> usize {
        let strides: Vec<ValueId> = self.kernel.view(window.view).axes.iter().map(|a| a.stride).collect();
        let tiles = self.tile_positions(window);
        let packed = tiles.iter().rev().copied().find(|k| self.constant(strides[*k]) == Some(1));
        packed.unwrap_or(tiles[tiles.len() - 1])
    }

    /// Lays an operand out in shared memory, with room for so many copies one after the other.
    fn place_operand(&mut self, reader: Reader, window: &WindowRep, name: &str, copies: i64) -> WindowCopy {
        let dtype = self.kernel.view(window.view).dtype;
        let extents: Vec<i64> = (0..window.index.len()).map(|k| self.window_size(window, k)).collect();
        let (lies, tiles) = (self.contiguous(window), self.tile_positions(window));
        let outer = tiles[reader.outer()];
        let transposed = window.read.transposed && outer != lies;
        let fast = if transposed { outer } else { lies };
        let slow = if tiles[0] == fast { tiles[1] } else { tiles[0] };
        let asynchronous = window.read.asynchronous;
        self.place_rows(reader, &Rows { dtype, extents, fast, slow, outer_is_fast: outer == fast, transposed, asynchronous }, name, copies)
    }

    /// A thread's registers along the axis that the result has, too.
    pub fn outer_digits(&self, reader: Reader) -> Vec<Digit> {
        let (layout, axis) = (self.own_layout(reader.acc), usize::from(!reader.left));
        layout.axes[axis].iter().filter(|d| d.source == Source::Register).copied().collect()
    }

    /// A thread's first position along that axis.
    fn outer_base(&mut self, reader: Reader) -> Expr {
        let layout = self.own_layout(reader.acc);
        let base = self.base_coordinate(None, &layout, usize::from(!reader.left));
        LOCAL.cast(self.ix.dtype, base)
    }

    /// An operand of a dot: where it was loaded to or from, or where it is brought to now.
    pub fn operand(&mut self, value: ValueId, acc: ValueId, left: bool) -> Expanded<Operand> {
        match self.kernel.dots.operand(value) {
            Some(loaded) => Ok(self.loaded_operand(value, loaded, acc, left)),
            None => {
                let zero = Literal::from_i64(self.register_type(value), 0);
                self.computed_operand(value, acc, left, zero)
            }
        }
    }

    pub fn loaded_operand(&mut self, value: ValueId, loaded: Loaded, acc: ValueId, left: bool) -> Operand {
        let Rep::Window(window) = self.rep(loaded.load).clone() else { panic!("operand: {:?} was not opened", loaded.load) };
        let reader = Reader { acc, left, transposed: loaded.transposed };
        let tiles = self.tile_positions(&window);
        let (outer, inner) = (tiles[reader.outer()], tiles[1 - reader.outer()]);
        let extent = self.window_size(&window, inner);
        let view = self.kernel.view(window.view);
        let (dtype, name) = (view.dtype, self.kernel.params[view.param].name.clone());
        let rank = window.index.len();
        let (width, depth) = match &window.copy {
            Some(copy) => self.read_widths(reader, extent, copy.fast == outer, dtype.size() as i64),
            None => (1, 1),
        };
        let lies = match window.copy.clone() {
            Some(copy) => Lies::Shared(copy),
            None => Lies::Global(window),
        };
        let (base, digits) = (self.outer_base(reader), self.outer_digits(reader));
        let taken = self.kernel.ty(value).dtype().unwrap_or(dtype);
        let load = Some(loaded.load);
        let (chain, beside_sums) = (loaded.chain, self.is_beside_sums(reader));
        Operand {
            value,
            load,
            lies,
            dtype,
            taken,
            chain,
            absent: None,
            name,
            rank,
            outer,
            inner,
            extent,
            base,
            digits,
            width,
            depth,
            beside_sums,
        }
    }

    /// An operand in a copy of two axes that is its own.
    pub fn operand_in(&mut self, value: ValueId, copy: WindowCopy, reader: Reader) -> Operand {
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::F32);
        let (outer, inner) = (reader.outer(), 1 - reader.outer());
        let extent = copy.axes[inner].extent;
        let (width, depth) = self.read_widths(reader, extent, copy.fast == outer, dtype.size() as i64);
        let (base, digits) = (self.outer_base(reader), self.outer_digits(reader));
        let name = self.name_of(value, "operand");
        Operand {
            value,
            load: None,
            lies: Lies::Shared(copy),
            dtype,
            taken: dtype,
            chain: vec![],
            absent: None,
            name,
            rank: 2,
            outer,
            inner,
            extent,
            base,
            digits,
            width,
            depth,
            beside_sums: self.is_beside_sums(reader),
        }
    }

    /// Whether an operand is the right one beside a left one that is made of accumulators.
    pub fn is_beside_sums(&self, reader: Reader) -> bool {
        !reader.left && self.kernel.is_sum_fed(reader.acc)
    }

    /// Reads a thread's fragment at position `k` of the inner axis: `own × depth` elements.
    pub fn read_fragment(&mut self, operand: &Operand, k: &Expr) -> Expanded<Fragment> {
        let (dtype, name) = (operand.dtype, format!("{}_frag", operand.name));
        let lanes = operand.width.max(operand.depth);
        let len = operand.own() * operand.depth;
        if len == 1 {
            let (place, predicate) = self.operand_place(operand, LOCAL.lit(0), k);
            let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache: Default::default() };
            let taken = self.taken_element(operand, value);
            return Ok(Fragment::One(self.or_absent(operand, LOCAL.lit(0), k, taken)));
        }
        let var = self.new_var(&name, dtype, Some(len as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.each_owned(operand, &mut |cx, offset, flat| {
            let at = LOCAL.mul(flat, LOCAL.lit(operand.depth));
            let (place, predicate) = cx.operand_place(operand, offset, k);
            cx.emit(match lanes {
                1 => {
                    let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache: Default::default() };
                    Stmt::Assign { var, index: Some(at), value }
                }
                _ => Stmt::LoadVector { var, at, place, lanes: lanes as u32, predicate, cache: Default::default() },
            });
            Ok(())
        })?;
        if dtype == operand.taken.compute() && operand.chain.is_empty() {
            self.fill_absent(operand, k, var)?;
            return Ok(Fragment::Array(var));
        }
        // Converted once, and not at every product.
        let wide = self.new_var(&format!("{name}_{}", operand.taken.compute()), operand.taken.compute(), Some(len as u32));
        self.emit(Stmt::Declare { var: wide, init: None });
        let (counter, e) = self.loop_var("e");
        let value = self.taken_element(operand, Expr::Element(var, Box::new(e.clone())));
        self.emit(unrolled(counter, len, vec![Stmt::Assign { var: wide, index: Some(e), value }]));
        self.fill_absent(operand, k, wide)?;
        Ok(Fragment::Array(wide))
    }

    /// An element that was just read, as the dot takes it, in its register type.
    pub fn taken_element(&mut self, operand: &Operand, read: Expr) -> Expr {
        let first = self.load_register(Some(operand.dtype), read);
        let mut made: Vec<(ValueId, Expr)> = Vec::new();
        for v in &operand.chain {
            let op = self.op(*v).unwrap_or_else(|| panic!("operand: {v:?} is made by no operation"));
            let from = crate::block::operands(op).into_iter();
            // What no operation of the chain made is the element itself, or the element in a tile with its axes exchanged.
            let from = from.map(|o| made.iter().find(|(v, _)| *v == self.untransposed(o)).map_or(&first, |(_, e)| e).clone()).collect();
            let e = self.apply(*v, op, from);
            made.push((*v, e));
        }
        made.pop().map_or(first, |(_, e)| e)
    }

    /// A tile before its axes were exchanged.
    fn untransposed(&self, value: ValueId) -> ValueId {
        match self.op(value) {
            Some(Op::Transpose(from, _)) => self.untransposed(*from),
            _ => value,
        }
    }

    /// Loops over a thread's positions along the outer axis, one access at a time: position from its first one, and number.
    pub fn each_owned(&mut self, operand: &Operand, body: &mut dyn FnMut(&mut Self, Expr, Expr) -> Expanded<()>) -> Expanded<()> {
        let (mut offset, mut flat, mut stride) = (LOCAL.lit(0), LOCAL.lit(0), 1);
        let mut loops = Vec::new();
        for (n, d) in operand.digits.iter().enumerate() {
            let unit = if n == 0 { operand.width } else { 1 };
            if d.extent > unit {
                let (var, e) = self.loop_var("i");
                offset = LOCAL.add(offset, LOCAL.mul(e.clone(), LOCAL.lit(d.place * unit)));
                flat = LOCAL.add(flat, LOCAL.mul(e, LOCAL.lit(stride * unit)));
                loops.push((var, d.extent / unit));
            }
            stride *= d.extent;
        }
        loops.iter().for_each(|_| self.open());
        body(self, offset, flat)?;
        for (var, extent) in loops {
            let turn = self.close();
            self.emit(unrolled(var, extent, turn));
        }
        Ok(())
    }

    /// The place of an operand's element, `offset` after the thread's first along the outer axis and at `k` along the inner one.
    fn operand_place(&mut self, operand: &Operand, offset: Expr, k: &Expr) -> (Place, Option<Expr>) {
        let mut local = vec![LOCAL.lit(0); operand.rank];
        local[operand.outer] = LOCAL.add(operand.base.clone(), offset);
        local[operand.inner] = k.clone();
        let window = match &operand.lies {
            Lies::Shared(copy) => return (copy.place(operand.dtype, &local), None),
            Lies::Global(window) => window,
        };
        let (global, upper) = self.operand_in_tensor(window, local);
        let negative = vec![false; global.len()];
        self.outside_place(window, &Outside { at: &global, tested: &global, negative: &negative, upper: &upper, inside: None })
    }

    /// The element of a fragment at number `flat` along the outer axis and `k` along the inner one.
    pub fn fragment_element(&self, operand: &Operand, fragment: &Fragment, flat: Expr, k: Expr) -> Expr {
        match fragment {
            Fragment::One(e) => e.clone(),
            Fragment::Array(var) => {
                let inner = if operand.depth > 1 { k } else { literal(DType::I32, 0) };
                let index = LOCAL.add(LOCAL.mul(flat, LOCAL.lit(operand.depth)), inner);
                Expr::Element(*var, Box::new(index))
            }
        }
    }

    /// Room in shared memory for a window, or for an operand of a dot.
    pub fn place_copy(&mut self, value: ValueId, window: &WindowRep, name: &str, copies: i64) -> WindowCopy {
        match self.kernel.dots.reader(value) {
            Some(reader) => self.place_operand(reader, window, name, copies),
            None => self.place_window(value, window, name, copies),
        }
    }
}

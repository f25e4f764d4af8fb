//! Operands of dots that were computed: every thread stores its elements of the tile to shared memory, and the block meets; or they stay in the
//! registers of the sums that they are made of, or in those to which what they are made of was brought from its copy.

use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::index::Index;
use super::mma::Fed;
use super::operand::Operand;
use super::operand_rows::Rows;
use super::window::{Step, WindowCopy};
use crate::block::Reader;
use crate::block::ValueId;
use crate::block::layouts::with_pairs;
use girih_ir::fragments::{Form, Operand as Role};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, Place, Stmt, VarId};
use girih_ir::types::{DType, Literal};

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

impl Expander<'_> {
    /// Brings a tile to shared memory, with a number in the place of what is absent.
    pub fn computed_operand(&mut self, value: ValueId, acc: ValueId, left: bool, absent: Literal) -> Expanded<Operand> {
        let layout = self.layout_of(value);
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::F32);
        let name = self.name_of(value, "operand");
        let own = self.stored_elements(value, &layout, dtype, &name, absent)?;
        let reader = Reader { acc, left, transposed: false };
        let (extents, fast) = (layout.shape(), layout.fast_axis());
        let text = format!("bring {} x {} elements of {name} to shared memory", extents[0], extents[1]);
        let outer_is_fast = reader.outer() == fast;
        let rows = Rows { dtype, extents, fast, slow: 1 - fast, outer_is_fast, transposed: false, asynchronous: false };
        let copy = self.place_rows(reader, &rows, &format!("{name}_smem"), 1);
        self.comment(text);
        if self.repeated {
            // Some threads may still read what the last turn left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        self.land_elements(own, &layout, dtype, &copy);
        self.meet_behind_copies().into_iter().for_each(|s| self.emit(s));
        Ok(self.operand_in(value, copy, reader))
    }

    /// A left operand in the registers of the sums that it is made of, absent elements as zeros, in the order in which the instruction takes them.
    pub fn fed_operand(&mut self, value: ValueId, form: Form) -> Expanded<Fed> {
        let layout = self.own_layout(value);
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::F32);
        let name = self.name_of(value, "operand");
        let order = if form.atom.per_word(Role::A) == 1 { with_pairs(&layout) } else { layout.clone() };
        let var = self.elements_in(value, (&layout, &order), dtype, &format!("{name}_frag"), self.zero_of(value))?;
        Ok(Fed { var, registers: layout.registers })
    }

    /// Registers for such an operand of 16 bits, to be filled later.
    pub fn declare_fed(&mut self, value: ValueId) -> Fed {
        let registers = self.own_layout(value).registers;
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::F32);
        let name = format!("{}_frag", self.name_of(value, "operand"));
        let var = self.new_var(&name, dtype, Some(registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        Fed { var, registers }
    }

    /// Fills them.
    pub fn fill_fed(&mut self, value: ValueId, fed: &Fed) -> Expanded<()> {
        let layout = self.own_layout(value);
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::F32);
        self.prepare_elements(value, &layout)?;
        self.elements_to(value, (&layout, &layout), dtype, fed.var, self.zero_of(value))
    }

    /// A thread's elements as they will be stored.
    fn stored_elements(&mut self, value: ValueId, layout: &Layout, dtype: DType, name: &str, absent: Literal) -> Expanded<VarId> {
        self.elements_in(value, (layout, layout), dtype, &format!("{name}_own"), absent)
    }

    /// A zero in the type that a value has in registers.
    fn zero_of(&self, value: ValueId) -> Literal {
        Literal::from_i64(self.register_type(value), 0)
    }

    /// A thread's elements in their storage type, a number for those that are absent, in an array in the order of a layout that deals each thread
    /// the same ones.
    fn elements_in(
        &mut self,
        value: ValueId,
        (layout, order): (&Layout, &Layout),
        dtype: DType,
        name: &str,
        absent: Literal,
    ) -> Expanded<VarId> {
        self.prepare_elements(value, layout)?;
        let var = self.new_var(name, dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.elements_to(value, (layout, order), dtype, var, absent)?;
        Ok(var)
    }

    /// Makes what stands before a walk over a tile's elements.
    fn prepare_elements(&mut self, value: ValueId, layout: &Layout) -> Expanded<()> {
        self.prepare(value, layout)?;
        let mask = self.tile(value).mask.clone();
        self.prepare_sides(&mask, layout)?;
        let axes = self.bound_axes(&mask, layout);
        self.base_coordinates(&axes, layout);
        Ok(())
    }

    /// Sets an array to a thread's elements.
    fn elements_to(
        &mut self,
        value: ValueId,
        (layout, order): (&Layout, &Layout),
        dtype: DType,
        var: VarId,
        absent: Literal,
    ) -> Expanded<()> {
        let mask = self.tile(value).mask.clone();
        let axes = self.bound_axes(&mask, layout);
        let base = self.base_coordinates(&axes, layout);
        self.for_elements(&[value], layout, true, &mut |cx, at, mut elements| {
            let e = elements.remove(0);
            let e = match cx.present(&mask, &base, at) {
                Some(present) => Expr::Select(Box::new(present), Box::new(e), Box::new(Expr::Literal(absent))),
                None => e,
            };
            let value = cx.to_storage(dtype, e);
            let index = cx.register_index(Some(order), at);
            cx.emit(Stmt::Assign { var, index: Some(index), value });
            Ok(())
        })
    }

    /// Stores a thread's elements to a copy, neighbours together.
    fn land_elements(&mut self, var: VarId, layout: &Layout, dtype: DType, copy: &WindowCopy) {
        let predicate = self.first_replica(layout);
        self.each_piece((layout, dtype), copy, &mut |place, flat, width| match width {
            1 => Stmt::Store { place, value: Expr::Element(var, Box::new(flat)), predicate: predicate.clone(), cache: Default::default() },
            _ => {
                let (predicate, cache) = (predicate.clone(), Default::default());
                Stmt::StoreVector { place, var, at: flat, lanes: width as u32, predicate, cache }
            }
        });
    }

    /// Reads a thread's elements from a copy, neighbours together.
    pub fn read_elements(&mut self, var: VarId, layout: &Layout, dtype: DType, copy: &WindowCopy) {
        self.each_piece((layout, dtype), copy, &mut |place, flat, width| {
            let (predicate, cache) = (None, Default::default());
            match width {
                1 => Stmt::Assign { var, index: Some(flat), value: Expr::Load { place: Box::new(place), predicate, cache } },
                _ => Stmt::LoadVector { var, at: flat, place, lanes: width as u32, predicate: None, cache },
            }
        });
    }

    /// A statement for every run of neighbours that a thread has of a copied tile: where it lies, its first register, and how many there are.
    fn each_piece(&mut self, (layout, dtype): (&Layout, DType), copy: &WindowCopy, access: &mut dyn FnMut(Place, Expr, i64) -> Stmt) {
        let run = layout.run(copy.fast);
        let width = [16, 8, 4, 2].into_iter().find(|w| w * dtype.size() as i64 <= 16 && run % w == 0).unwrap_or(1);
        let first: Vec<Expr> = (0..layout.axes.len())
            .map(|k| {
                let base = self.base_coordinate(None, layout, k);
                LOCAL.cast(self.ix.dtype, base)
            })
            .collect();
        let of_threads = |digits: &[Digit]| digits.iter().filter(|d| d.source == Source::Thread).map(|d| (d.extent - 1) * d.place).sum();
        let most: Vec<i64> = layout.axes.iter().map(|digits| of_threads(digits)).collect();
        let (mut flat, mut loops, mut steps) = (LOCAL.lit(0), Vec::new(), Vec::new());
        for (axis, d) in layout.register_digits() {
            let unit = if d.stride == 1 && axis == copy.fast { width } else { 1 };
            if d.extent > unit {
                let (counter, number) = self.loop_var(if axis == copy.fast { "u" } else { "r" });
                flat = LOCAL.add(flat, LOCAL.mul(number.clone(), LOCAL.lit(unit * d.stride)));
                steps.push(Step { axis, number, extent: d.extent / unit, place: d.place * unit });
                loops.push((counter, d.extent / unit));
            }
        }
        let mut turn = vec![access(copy.place_from(dtype, &first, &most, &steps), flat, width)];
        for (counter, extent) in loops.into_iter().rev() {
            turn = vec![unrolled(counter, extent, turn)];
        }
        turn.into_iter().for_each(|s| self.emit(s));
    }
}

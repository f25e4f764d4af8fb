//! Loops over the elements of a thread, and the values computed in them.

use super::context::{Coordinate, Data, Expanded, Expander, Rep};
use super::index::literal;
use super::values::At;
use crate::block::layouts::projected;
use crate::block::{Op, Ty, ValueId};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::DType;
use std::collections::{HashMap, HashSet};

/// What is done with the elements of one turn.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&mut Expander, &At, Vec<Expr>) -> Expanded<()>;

impl Expander<'_> {
    /// Runs `sink` for every register of `layout` with the elements of `values` there, inside the loops that this takes.
    /// `digits` asks for a loop per register digit (coordinates); otherwise one flat loop does.
    pub fn for_elements(&mut self, values: &[ValueId], layout: &Layout, digits: bool, sink: Sink) -> Expanded<()> {
        for v in values {
            self.prepare(*v, layout)?;
        }
        let shared = self.shared_values(values);
        let mut arrays: HashMap<ValueId, VarId> = HashMap::new();
        for (v, local) in &shared {
            if !*local && layout.registers > 1 {
                let name = self.name_of(*v, "t");
                let var = self.new_var(&name, self.register_type(*v), Some(layout.registers as u32));
                self.emit(Stmt::Declare { var, init: None });
                arrays.insert(*v, var);
            }
        }
        let digits = digits || values.iter().any(|v| self.needs_digits(*v, layout));
        let shared_ids: Vec<ValueId> = shared.iter().map(|(v, _)| *v).collect();
        let mut settled: Vec<(ValueId, Expr)> = Vec::new();
        self.nest(layout, digits, &mut |cx, at| {
            let mut known = HashMap::new();
            for v in &shared_ids {
                let e = cx.element(*v, at, &known);
                let e = match arrays.get(v) {
                    Some(var) => {
                        let range = cx.range_of(&e);
                        cx.ranges.extend(range.map(|r| (*var, r)));
                        cx.emit(Stmt::Assign { var: *var, index: Some(at.flat.clone()), value: e });
                        cx.register(*var, at.flat.clone())
                    }
                    None => {
                        let name = cx.name_of(*v, "t");
                        cx.declare_let(&name, cx.register_type(*v), e)
                    }
                };
                if at.layout.registers == 1 {
                    settled.push((*v, e.clone()));
                }
                known.insert(*v, e);
            }
            let elements = values.iter().map(|v| cx.element(*v, at, &known)).collect();
            sink(cx, at, elements)
        })?;
        for (v, var) in arrays {
            self.settle(v, layout, Data::Array(var));
        }
        for (v, e) in settled {
            self.settle(v, layout, Data::One(e));
        }
        Ok(())
    }

    fn settle(&mut self, value: ValueId, layout: &Layout, data: Data) {
        let mut rep = self.tile(value).clone();
        rep.layout = Some(layout.clone());
        rep.data = data;
        self.set(value, Rep::Tile(rep));
    }

    /// The loops over a thread's registers: none for one register.
    pub fn nest(&mut self, layout: &Layout, digits: bool, body: &mut dyn FnMut(&mut Self, &At) -> Expanded<()>) -> Expanded<()> {
        let axes: Vec<usize> = (0..layout.axes.len()).collect();
        if layout.registers == 1 {
            return body(self, &At::only(layout, literal(DType::I32, 0)));
        }
        let list = layout.register_digits();
        if !digits || list.len() == 1 {
            let (var, e) = self.loop_var(if list.len() == 1 && digits { "u" } else { "e" });
            self.ranges.insert(var, (0, layout.registers - 1));
            self.open();
            let known = if list.len() == 1 { vec![(list[0].0, list[0].1.place, e.clone())] } else { vec![] };
            body(self, &At { layout: layout.clone(), flat: e, digits: known, axes })?;
            let inner = self.close();
            self.emit(unrolled(var, layout.registers, inner));
            return Ok(());
        }
        let fast = layout.fast_axis();
        let mut known = Vec::new();
        let mut loops = Vec::new();
        let ix = super::index::Index { dtype: DType::I32 };
        let mut flat = ix.lit(0);
        for (axis, d) in &list {
            let name = if *axis == fast { if d.stride == 1 { "v" } else { "u" } } else { "r" };
            let (var, e) = self.loop_var(name);
            self.ranges.insert(var, (0, d.extent - 1));
            flat = ix.add(flat, ix.mul(e.clone(), ix.lit(d.stride)));
            known.push((*axis, d.place, e));
            loops.push((var, d.extent));
            self.open();
        }
        body(self, &At { layout: layout.clone(), flat, digits: known, axes })?;
        for (var, extent) in loops.into_iter().rev() {
            let inner = self.close();
            self.emit(unrolled(var, extent, inner));
        }
        Ok(())
    }

    /// A loop counter.
    pub fn loop_var(&mut self, name: &str) -> (VarId, Expr) {
        let var = self.new_var(name, DType::I32, None);
        (var, Expr::Var(var))
    }

    /// Makes a tile evaluable in `layout`: operands that lie elsewhere are converted, start coordinates get their variables.
    pub fn prepare(&mut self, value: ValueId, layout: &Layout) -> Expanded<()> {
        let axes: Vec<usize> = (0..layout.axes.len()).collect();
        self.prepare_through(value, layout, &axes)
    }

    /// As [`Expander::prepare`] for a tile whose axis `k` is axis `axes[k]` of the layout.
    pub fn prepare_through(&mut self, value: ValueId, layout: &Layout, axes: &[usize]) -> Expanded<()> {
        self.prepare_below(value, layout, axes, &mut HashSet::new())
    }

    /// `done` has the values, by their axes, that are prepared already.
    fn prepare_below(
        &mut self,
        value: ValueId,
        layout: &Layout,
        axes: &[usize],
        done: &mut HashSet<(ValueId, Vec<usize>)>,
    ) -> Expanded<()> {
        let rep = self.tile(value).clone();
        if matches!(rep.data, Data::Pending(_)) && !done.insert((value, axes.to_vec())) {
            return Ok(());
        }
        match &rep.data {
            Data::Splat(_) => Ok(()),
            Data::Coordinates(index) => {
                self.base_coordinate(*index, layout, axes[0]);
                Ok(())
            }
            Data::Iota => {
                self.base_coordinate(None, layout, axes[0]);
                Ok(())
            }
            Data::Pending(op) if rep.layout.is_none() || rep.layout.as_ref() == Some(layout) => match op {
                Op::Broadcast(source, from) => {
                    let mut inner = vec![0; from.iter().flatten().count()];
                    for (k, f) in from.iter().enumerate() {
                        if let Some(j) = f {
                            inner[*j] = axes[k];
                        }
                    }
                    self.prepare_below(*source, layout, &inner, done)?;
                    self.compute_large(*source, &projected(layout, &inner))
                }
                Op::Pick { .. } => Ok(()),
                op => {
                    let operands: Vec<ValueId> =
                        crate::block::operands(op).into_iter().filter(|v| matches!(self.kernel.ty(*v), Ty::Tile(..))).collect();
                    for v in operands {
                        self.prepare_below(v, layout, axes, done)?;
                        self.compute_repeated(v, &projected(layout, axes))?;
                    }
                    Ok(())
                }
            },
            Data::Pending(op) if self.moves_with_operand(op, rep.layout.as_ref(), layout, axes) => {
                let moved = super::context::TileRep { layout: Some(layout.clone()), ..rep.clone() };
                self.set(value, Rep::Tile(moved));
                done.remove(&(value, axes.to_vec()));
                self.prepare_below(value, layout, axes, done)
            }
            _ => {
                let wanted = projected(layout, axes);
                match rep.lies_in(&wanted) {
                    true if self.is_made_elsewhere(value, &wanted) => self.prepare(value, &wanted),
                    true => Ok(()),
                    false => self.convert(value, &wanted),
                }
            }
        }
    }

    /// Whether a tile that is not computed yet, and would be in this layout, is made of one that lies in another.
    fn is_made_elsewhere(&self, value: ValueId, wanted: &Layout) -> bool {
        let rep = self.tile(value);
        match &rep.data {
            Data::Pending(Op::Broadcast(..) | Op::Pick { .. }) => false,
            Data::Pending(op) if rep.layout.as_ref().is_none_or(|l| l == wanted) => {
                let tiles = crate::block::operands(op).into_iter().filter(|v| matches!(self.kernel.ty(*v), Ty::Tile(..)));
                tiles.into_iter().any(|v| self.is_made_elsewhere(v, wanted))
            }
            _ => rep.layout.is_some() && !rep.lies_in(wanted),
        }
    }

    /// Whether an operation that is not computed yet is better computed in another layout, by lanes that exchange its one operand that lies
    /// elsewhere: that has not been rounded yet.
    fn moves_with_operand(&self, op: &Op, own: Option<&Layout>, wanted: &Layout, axes: &[usize]) -> bool {
        let whole = axes.iter().copied().eq(0..wanted.axes.len());
        if matches!(op, Op::Broadcast(..) | Op::Pick { .. }) || !whole || !own.is_some_and(|l| self.kernel.can_exchange(l, wanted)) {
            return false;
        }
        let tiles = crate::block::operands(op).into_iter().filter(|v| matches!(self.kernel.ty(*v), Ty::Tile(..)));
        tiles.filter(|v| self.tile(*v).layout.is_some() && !self.tile(*v).lies_in(wanted)).count() == 1
    }

    /// Computes a tile into an array of registers (or finds it there).
    pub fn in_array(&mut self, value: ValueId, layout: &Layout) -> Expanded<VarId> {
        self.prepare(value, layout)?;
        let mut rep = self.tile(value).clone();
        rep.lie_in(layout);
        if let Data::Array(var) = rep.data {
            return Ok(var);
        }
        let dtype = self.register_type(value);
        let name = self.name_of(value, "t");
        let var = self.fill_array(value, layout, &name, dtype)?;
        self.settle(value, layout, Data::Array(var));
        Ok(var)
    }

    /// A new array of `dtype` with a tile's elements.
    pub fn fill_array(&mut self, value: ValueId, layout: &Layout, name: &str, dtype: DType) -> Expanded<VarId> {
        let var = self.new_var(name, dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        let register = self.register_type(value);
        self.for_elements(&[value], layout, false, &mut |cx, at, mut elements| {
            let e = elements.remove(0);
            let value = if dtype == register { e } else { cx.to_storage(dtype, e) };
            cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value });
            Ok(())
        })?;
        Ok(var)
    }

    /// A thread's first coordinate along the axis of a tile index (or position in the tile, without one), in a variable.
    pub fn base_coordinate(&mut self, index: impl Into<Option<ValueId>>, layout: &Layout, axis: usize) -> Expr {
        let index = index.into();
        let digits: Vec<Digit> = layout.axes[axis].iter().copied().filter(|d| d.source == Source::Thread).collect();
        if let Some(c) = self.coordinates.iter().find(|c| c.index == index && c.digits == digits) {
            return c.base.clone();
        }
        let mut base = match index {
            None => self.ix.lit(0),
            Some(index) => {
                let size = self.kernel.tile_size(index);
                let Rep::TileIndex(tile) = self.rep(index).clone() else { panic!("lowering: {index:?} is no tile index") };
                self.ix.mul(tile, self.ix.lit(size))
            }
        };
        for d in &digits {
            let part = self.thread_digit(d, layout.threads);
            base = self.ix.add(base, self.ix.mul(part, self.ix.lit(d.place)));
        }
        if base == self.thread || super::index::as_literal(&base).is_some() {
            return base;
        }
        let name = index.map_or_else(|| self.position_name(axis), |i| self.coordinate_name(i));
        let base = self.declare_let(&name, self.ix.dtype, base);
        if let (Some(_), Expr::Var(var)) = (index, &base) {
            // Coordinates of all of the thread's elements fit the type of indices.
            let own: i64 = layout.axes[axis].iter().filter(|d| d.source == Source::Register).map(|d| (d.extent - 1) * d.place).sum();
            let most = if self.ix.dtype == DType::I32 { i32::MAX as i64 } else { i64::MAX };
            self.ranges.insert(*var, (0, most - own));
        }
        self.coordinates.push(Coordinate { index, digits, base: base.clone(), depth: self.blocks.len() });
        base
    }

    /// `thread / stride % extent`, without what can be left out.
    pub fn thread_digit(&self, d: &Digit, threads: i64) -> Expr {
        let quotient = self.ix.div(self.thread.clone(), d.stride);
        if d.stride * d.extent == threads { quotient } else { self.ix.rem(quotient, d.extent) }
    }

    fn position_name(&self, axis: usize) -> String {
        if self.kernel.launch.has_dots { ["thread_row", "thread_col"][axis.min(1)] } else { "at" }.into()
    }

    fn coordinate_name(&self, index: ValueId) -> String {
        match self.grid_vars.iter().position(|v| *v == index) {
            Some(0) if self.grid_vars.len() == 1 => "i".into(),
            Some(k) if self.grid_vars.len() == 2 => ["row", "col"][k].into(),
            Some(k) => format!("i{k}"),
            None => self.name_of(index, "j"),
        }
    }
}

/// A fully unrolled loop from 0.
pub(crate) fn unrolled(var: VarId, extent: i64, body: Vec<Stmt>) -> Stmt {
    let lit = |v| literal(DType::I32, v);
    Stmt::For { var, start: lit(0), end: lit(extent), step: lit(1), unroll: true, body }
}

//! Dots by fused multiply-adds: every thread keeps its elements of the result in registers and walks along the axis of the sum, reading
//! a fragment of each operand and adding all products of the two.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::index::{Index, compare, literal};
use super::mma::{Left, Product};
use super::operand::{Fragment, Operand};
use super::values::At;
use crate::block::Warps;
use crate::block::{self, Carry, Fold, Op, ValueId};
use girih_ir::layout::Source;
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, TernaryOp, UnaryOp};
use std::collections::HashMap;

/// Index arithmetic in registers and shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };
/// Multiply-adds of a thread that are written out; a longer sum is a loop.
const WRITTEN_OUT: i64 = 2048;

impl Expander<'_> {
    /// Lowers `acc + a · b`, or what the author does instead.
    pub fn dot(&mut self, value: ValueId, [a, b, acc]: [ValueId; 3], fold: Option<&Fold>) -> Expanded<()> {
        if let Some(warps) = self.kernel.launch.units.clone() {
            let group = self.kernel.dots.group(value).to_vec();
            // The last of a group is done with those before it.
            return if group.last() == Some(&value) { self.dots_of_units(&group, &warps) } else { Ok(()) };
        }
        let (left, right) = match fold {
            Some(fold) => (self.folded_operand(a, acc, true, fold.absent)?, self.folded_operand(b, acc, false, fold.absent)?),
            None => (self.operand(a, acc, true)?, self.operand(b, acc, false)?),
        };
        let var = self.accumulator(value, acc)?;
        self.multiply_add(var, &left, &right, (acc, fold))?;
        self.set_sum(value, acc, var);
        Ok(())
    }

    /// Dots by matrix units, which read what their operands have in common once.
    fn dots_of_units(&mut self, group: &[ValueId], warps: &Warps) -> Expanded<()> {
        let mut products: Vec<Product> = Vec::new();
        let mut lefts: HashMap<ValueId, Left> = HashMap::new();
        let mut shape = Vec::new();
        for value in group {
            let Some(Op::Dot { a, b, acc, .. }) = self.op(*value).cloned() else { panic!("dot: {value:?} is none") };
            // What several products take is brought to its place once.
            let left = match lefts.get(&a) {
                Some(left) => left.clone(),
                None if self.kernel.is_fed(*value) => Left::Fed(self.fed_operand(a, warps.form)?),
                None => Left::Copied(Box::new(self.operand(a, acc, true)?)),
            };
            lefts.insert(a, left.clone());
            let right = self.operand(b, acc, false)?;
            let from_zeros = warps.group.is_some() && self.kernel.dots.is_from_zeros(*value);
            let var = if from_zeros { self.fresh_sums(*value, acc) } else { self.accumulator(*value, acc)? };
            let layout = self.own_layout(acc);
            shape = layout.shape();
            assert!(layout.axes == warps.layout(&shape).axes, "dot: {value:?} is not shared out as accumulators are");
            self.set_sum(*value, acc, var);
            products.push(Product { acc: var, left, right, from_zeros });
        }
        match warps.group {
            Some(_) => self.group_multiply(&products, [shape[0], shape[1]], warps)?,
            None => self.matrix_multiply(&products, [shape[0], shape[1]], warps),
        }
        Ok(())
    }

    /// The result of a dot is in the variable that products were added to.
    pub fn set_sum(&mut self, value: ValueId, acc: ValueId, var: VarId) {
        let (layout, mask) = (self.own_layout(acc), self.tile(acc).mask.clone());
        let data = if layout.registers == 1 { Data::One(Expr::Var(var)) } else { Data::Array(var) };
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data }));
    }

    /// A variable that the first products are written to.
    fn fresh_sums(&mut self, value: ValueId, acc: ValueId) -> VarId {
        let (registers, dtype) = (self.own_layout(acc).registers, self.register_type(acc));
        let var = self.new_var(&self.name_of(value, "acc"), dtype, Some(registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        var
    }

    /// The variable that the products are added to: the accumulator's own where nobody else looks at it.
    pub fn accumulator(&mut self, value: ValueId, acc: ValueId) -> Expanded<VarId> {
        let layout = self.own_layout(acc);
        let dtype = self.register_type(acc);
        let name = self.name_of(value, "acc");
        let rep = self.tile(acc).clone();
        match rep.data {
            Data::Array(var)
                if self.kernel.dots.in_place(value) && rep.layout.as_ref() == Some(&layout) && self.vars[var.0 as usize].dtype == dtype =>
            {
                return Ok(var);
            }
            Data::One(Expr::Var(var)) if self.kernel.dots.in_place(value) && self.carried.contains(&var) => return Ok(var),
            _ => {}
        }
        self.prepare(acc, &layout)?;
        if layout.registers > 1 {
            return self.fill_array(acc, &layout, &name, dtype);
        }
        let first = self.element(acc, &At::only(&layout, literal(DType::I32, 0)), &HashMap::new());
        let var = self.new_var(&name, dtype, None);
        self.emit(Stmt::Declare { var, init: Some(first) });
        self.carried.insert(var);
        Ok(var)
    }

    fn multiply_add(&mut self, var: VarId, left: &Operand, right: &Operand, sum: (ValueId, Option<&Fold>)) -> Expanded<()> {
        let inner = left.extent;
        let step = left.depth.max(right.depth);
        let work = left.own() * right.own() * inner;
        let (counter, k) = self.loop_var("kk");
        self.open();
        let deep = |cx: &mut Self, operand: &Operand, k: &Expr| match operand.depth == step {
            true => cx.read_fragment(operand, k).map(Some),
            false => Ok(None),
        };
        let ahead = (deep(self, left, &k)?, deep(self, right, &k)?);
        if step == 1 {
            let (Some(a), Some(b)) = ahead else { panic!("dot: fragments of one position were not read") };
            self.products(var, (left, &a), (right, &b), &LOCAL.lit(0), sum)?;
        } else {
            let (part, p) = self.loop_var("p");
            self.open();
            let at = LOCAL.add(k.clone(), p.clone());
            let a = ahead.0.map_or_else(|| self.read_fragment(left, &at), Ok)?;
            let b = ahead.1.map_or_else(|| self.read_fragment(right, &at), Ok)?;
            self.products(var, (left, &a), (right, &b), &p, sum)?;
            let turn = self.close();
            self.emit(super::elements::unrolled(part, step, turn));
        }
        let body = self.close();
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(inner), LOCAL.lit(step));
        self.emit(Stmt::For { var: counter, start, end, step, unroll: work <= WRITTEN_OUT, body });
        Ok(())
    }

    /// All products of two fragments at position `k` of what was read along the axis of the sum.
    fn products(
        &mut self,
        var: VarId,
        (left, a): (&Operand, &Fragment),
        (right, b): (&Operand, &Fragment),
        k: &Expr,
        (acc, fold): (ValueId, Option<&Fold>),
    ) -> Expanded<()> {
        let layout = self.own_layout(acc);
        let strides =
            |axis: usize| -> Vec<i64> { layout.axes[axis].iter().filter(|d| d.source == Source::Register).map(|d| d.stride).collect() };
        let (rows, columns) = (strides(0), strides(1));
        self.open();
        let mut loops: Vec<(VarId, i64)> = Vec::new();
        let mut walk = |cx: &mut Self, operand: &Operand, strides: &[i64], name: &str| {
            let digits = merged(operand.digits.iter().map(|d| d.extent).zip(strides.iter().copied()));
            let row = loops.last().filter(|_| digits.len() == 1).map(|(var, _)| Expr::Var(*var));
            let (mut flat, mut slot, mut own) = (LOCAL.lit(0), LOCAL.lit(0), 1);
            let mut nest = Vec::new();
            for (extent, stride) in digits {
                let (var, e) = cx.loop_var(name);
                let e = row.as_ref().map_or(e.clone(), |row| cx.back_and_forth(row, e, extent));
                flat = LOCAL.add(flat, LOCAL.mul(e.clone(), LOCAL.lit(own)));
                slot = LOCAL.add(slot, LOCAL.mul(e, LOCAL.lit(stride)));
                own *= extent;
                nest.push((var, extent));
            }
            loops.extend(nest.into_iter().rev());
            (flat, slot)
        };
        let (i, row) = walk(self, left, &rows, "i");
        let (j, column) = walk(self, right, &columns, "j");
        let (x, y) = (self.fragment_element(left, a, i, k.clone()), self.fragment_element(right, b, j, k.clone()));
        let index = (layout.registers > 1).then(|| LOCAL.add(row, column));
        let old = index.as_ref().map_or(Expr::Var(var), |i| Expr::Element(var, Box::new(i.clone())));
        let value = match fold {
            Some(fold) => self.folded(fold, [old, x, y]),
            None => self.multiplied(x, y, old, acc),
        };
        self.emit(Stmt::Assign { var, index, value });
        let mut turn = self.close();
        for (var, extent) in loops.into_iter().rev() {
            turn = vec![super::elements::unrolled(var, extent, turn)];
        }
        turn.into_iter().for_each(|s| self.emit(s));
        Ok(())
    }

    /// A column's number, backwards in every other row: neighbours in time share an operand, which is then read once.
    pub fn back_and_forth(&mut self, row: &Expr, column: Expr, columns: i64) -> Expr {
        self.comment("every other row backwards");
        let back = LOCAL.sub(LOCAL.lit(columns - 1), column.clone());
        let forward = compare(CompareOp::Eq, LOCAL.rem(row.clone(), 2), LOCAL.lit(0));
        self.declare_let("at", DType::I32, Expr::Select(Box::new(forward), Box::new(column), Box::new(back)))
    }

    /// `a * b + c`: fused for floats; integers wrap.
    fn multiplied(&self, a: Expr, b: Expr, c: Expr, acc: ValueId) -> Expr {
        let dtype = self.register_type(acc);
        let [a, b] = [a, b].map(|e| if self.dtype_of(&e) == dtype { e } else { Expr::Cast(dtype, Box::new(e)) });
        if dtype.is_float() {
            return Expr::Ternary(TernaryOp::Fma, Box::new(a), Box::new(b), Box::new(c));
        }
        Expr::Binary(BinaryOp::Add, Box::new(c), Box::new(Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b))))
    }

    /// Names, before a loop, where its dots' threads begin.
    pub fn begin_dots(&mut self, body: &[block::Stmt]) {
        for stmt in body {
            if let block::Stmt::Let(_, Op::Dot { acc, .. }) = stmt {
                let layout = self.own_layout(*acc);
                self.base_coordinate(None, &layout, 0);
                self.base_coordinate(None, &layout, 1);
            }
        }
    }

    /// Moves sums out of the registers that products were added to. Stores of several elements want theirs in a row, and ptxas would keep
    /// them so all the while, in the same banks of registers as the operand that lies along them.
    pub fn move_sums(&mut self, var: VarId, registers: i64) {
        if registers == 1 || self.vars[var.0 as usize].dtype != DType::F32 {
            return;
        }
        self.comment("sums leave the registers that products were added to");
        let (counter, e) = self.loop_var("e");
        let value = Expr::Unary(UnaryOp::Moved, Box::new(Expr::Element(var, Box::new(e.clone()))));
        self.emit(super::elements::unrolled(counter, registers, vec![Stmt::Assign { var, index: Some(e), value }]));
    }

    /// Whether a carried tile was changed where it is.
    pub fn kept_in_place(&self, carry: &Carry, var: VarId) -> bool {
        match &self.rep(carry.next) {
            Rep::Tile(TileRep { data: Data::Array(v) | Data::One(Expr::Var(v)), .. }) => *v == var,
            _ => false,
        }
    }
}

/// Digits (extent, stride in the accumulator) with those that continue one another made one.
fn merged(digits: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = Vec::new();
    for (extent, stride) in digits {
        match all.last_mut() {
            Some((e, s)) if stride == *s * *e => *e *= extent,
            _ => all.push((extent, stride)),
        }
    }
    all
}

//! Combinations: reductions over the axes of a tile, first in each thread's registers, then over the lanes of a warp by shuffles, then
//! over warps through shared memory with one barrier.
//!
//! An axis is a sum of digits (see [`girih_ir::layout`]), and each digit is combined by itself. An operator that keeps order takes them from
//! the least significant to the most; a commutative one takes all registers first, then lanes, then warps.

mod inputs;
mod together;

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::literal;
use super::mask::Mask;
use super::values::At;
use crate::block::layouts::renumbered;
use crate::block::steps::{Step, steps};
use crate::block::{Combine, Form, Operator, Ty, ValueId};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::visit::children;
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{DType, Literal};

/// Values in the middle of a combination: one variable per component (an array where a thread has several), dealt by a layout.
pub(crate) struct Partial {
    pub vars: Vec<VarId>,
    pub layout: Layout,
}

/// Whether an expression reads one of these variables, or an element of one.
fn reads_any(e: &mut Expr, vars: &[VarId]) -> bool {
    let mut found = matches!(e, Expr::Var(v) | Expr::Element(v, _) if vars.contains(v));
    children(e, &mut |child| found |= reads_any(child, vars));
    found
}

impl Expander<'_> {
    /// Lowers a combination inside of a block.
    pub fn combine(&mut self, c: &Combine) -> Expanded<()> {
        match &c.form {
            Form::Reduce { axes } => self.reduce(c, axes),
            Form::Scan { axis, exclusive, reversed, over_grid } => self.scan(c, *axis, [*exclusive, *reversed, *over_grid]),
            Form::Before => {
                let own: Vec<Expr> = c.inputs.iter().map(|v| self.scalar(*v)).collect();
                let own = self.settled(&c.operator, own);
                let before = self.look_back(c, &own)?;
                c.results.iter().zip(before).for_each(|(value, var)| self.set(*value, Rep::Scalar(Expr::Var(var))));
                Ok(())
            }
            Form::Grid => panic!("combine: a combination over the grid at this place in\n{}", self.kernel),
        }
    }

    fn reduce(&mut self, c: &Combine, axes: &[usize]) -> Expanded<()> {
        let (mut partial, steps, result) = self.begin_reduction(c, axes)?;
        if !self.kernel.is_late(c) {
            self.take_steps(c, &mut partial, steps)?;
        }
        self.end_reduction(c, &partial, &result);
        Ok(())
    }

    /// What each thread has of a reduction, the steps that are left, and the layout of the results.
    pub fn begin_reduction(&mut self, c: &Combine, axes: &[usize]) -> Expanded<(Partial, Vec<Step>, Layout)> {
        let layout = c.inputs.iter().find_map(|v| self.tile(*v).layout.clone()).unwrap_or_else(|| self.layout_of(c.inputs[0]));
        for v in &c.inputs {
            self.prepare(*v, &layout)?;
        }
        let steps = steps(&layout, axes, c.operator.commutative());
        let registers_first = c.operator.commutative();
        let partial = if registers_first { self.combine_registers(c, &layout, axes)? } else { self.elements_of(c, &layout)? };
        let steps: Vec<Step> = steps.into_iter().filter(|s| !(registers_first && matches!(s, Step::Registers { .. }))).collect();
        let kept: Vec<Vec<Digit>> =
            layout.axes.iter().enumerate().filter(|(k, _)| !axes.contains(k)).map(|(_, digits)| digits.clone()).collect();
        Ok((partial, steps, renumbered(kept, layout.threads)))
    }

    pub fn end_reduction(&mut self, c: &Combine, partial: &Partial, result: &Layout) {
        for (value, var) in c.results.iter().zip(&partial.vars) {
            self.set_combined(*value, *var, result);
        }
    }

    /// Takes the steps of a combination in order.
    pub fn take_steps(&mut self, c: &Combine, partial: &mut Partial, steps: Vec<Step>) -> Expanded<()> {
        self.take_steps_of(c, partial, steps, &mut Vec::new())
    }

    /// Takes some of the steps in order. Of the lanes that have `agreed`, which hold the same by now, one speaks for all.
    pub fn take_steps_of(&mut self, c: &Combine, partial: &mut Partial, steps: Vec<Step>, agreed: &mut Vec<(i64, i64)>) -> Expanded<()> {
        for step in steps {
            match step {
                Step::Registers { axis, digit } => self.combine_digit(c, partial, axis, digit)?,
                Step::Lanes { distance, extent } => {
                    self.combine_lanes(c, partial, distance, extent)?;
                    agreed.push((distance, extent));
                }
                Step::Threads(parts) => self.combine_threads(c, partial, agreed, &parts)?,
            }
        }
        Ok(())
    }

    pub fn set_combined(&mut self, value: ValueId, var: VarId, layout: &Layout) {
        let rep = match self.kernel.ty(value) {
            Ty::Scalar(_) => Rep::Scalar(Expr::Var(var)),
            _ => {
                let data = if layout.registers == 1 { Data::One(Expr::Var(var)) } else { Data::Array(var) };
                Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask: Mask::default(), data })
            }
        };
        self.set(value, rep);
    }

    /// The layout of a tile: its own, or the one that its shape would get.
    pub fn layout_of(&self, value: ValueId) -> Layout {
        self.tile(value).layout.clone().unwrap_or_else(|| self.own_layout(value))
    }

    /// Declares one variable per component for `registers` values of a thread, at the identity if asked.
    pub fn component_vars(&mut self, c: &Combine, registers: i64, identity: bool) -> Vec<VarId> {
        let fallback = operator_word(&c.operator);
        let names: Vec<String> = c.results.iter().map(|r| self.name_of(*r, fallback)).collect();
        self.vars_named(c, &names, registers, identity)
    }

    /// As [`Self::component_vars`], by these names.
    pub fn vars_named(&mut self, c: &Combine, names: &[String], registers: i64, identity: bool) -> Vec<VarId> {
        let dtypes: Vec<DType> = c.inputs.iter().map(|v| self.register_type(*v)).collect();
        let literals = self.identities(c);
        (0..dtypes.len())
            .map(|k| {
                let var = self.new_var(&names[k], dtypes[k], (registers > 1).then_some(registers as u32));
                self.emit(Stmt::Declare { var, init: identity.then(|| Expr::Literal(literals[k])) });
                var
            })
            .collect()
    }

    /// The identity of each component, in its register type.
    pub fn identities(&self, c: &Combine) -> Vec<Literal> {
        let dtypes: Vec<DType> = c.inputs.iter().filter_map(|v| self.kernel.ty(*v).dtype()).collect();
        c.operator.identity(&dtypes).into_iter().map(super::values::register_literal).collect()
    }

    /// A variable's value, or an array's element.
    pub fn slot(&self, var: VarId, index: Option<&Expr>) -> Expr {
        match index {
            Some(i) => Expr::Element(var, Box::new(i.clone())),
            None => Expr::Var(var),
        }
    }

    /// The operator on the components of two elements, the left one's first.
    pub fn apply_operator(&mut self, operator: &Operator, left: Vec<Expr>, right: Vec<Expr>) -> Expanded<Vec<Expr>> {
        let Operator::User { arguments, body, results, .. } = operator else {
            let (Some(a), Some(b)) = (left.into_iter().next(), right.into_iter().next()) else { panic!("combine: no operands") };
            let dtype = self.dtype_of(&a);
            let (op, _) = operator.standard(dtype).unwrap_or_else(|| panic!("combine: {operator:?} has no operation"));
            return Ok(vec![Expr::Binary(op, Box::new(a), Box::new(b))]);
        };
        for (argument, e) in arguments.iter().zip(left.into_iter().chain(right)) {
            self.set(*argument, Rep::Scalar(e));
        }
        self.lower_block(body)?;
        Ok(results.iter().map(|r| self.scalar(*r)).collect())
    }

    /// Operands that an author's operator may read several times get variables.
    pub fn settled(&mut self, operator: &Operator, exprs: Vec<Expr>) -> Vec<Expr> {
        if !matches!(operator, Operator::User { .. }) {
            return exprs;
        }
        exprs
            .into_iter()
            .map(|e| match e {
                Expr::Var(_) | Expr::Literal(_) => e,
                e => {
                    let dtype = self.dtype_of(&e);
                    self.declare_let("element", dtype, e)
                }
            })
            .collect()
    }

    /// Sets all components at once: none is read after another has changed.
    pub fn assign_components(&mut self, vars: &[VarId], index: Option<&Expr>, values: Vec<Expr>) {
        let values: Vec<Expr> = values.into_iter().enumerate().map(|(k, e)| self.named_if_it_reads(e, &vars[..k])).collect();
        for (var, value) in vars.iter().zip(values) {
            self.emit(Stmt::Assign { var: *var, index: index.cloned(), value });
        }
    }

    /// A value that is assigned when these variables have changed: by a name where it reads one of them.
    pub fn named_if_it_reads(&mut self, value: Expr, changed: &[VarId]) -> Expr {
        let dtype = self.dtype_of(&value);
        if reads_any(&mut value.clone(), changed) { self.declare_let("next", dtype, value) } else { value }
    }

    /// Combines what each thread holds along the reduced axes.
    fn combine_registers(&mut self, c: &Combine, layout: &Layout, axes: &[usize]) -> Expanded<Partial> {
        let kept = without_registers(layout, |axis, _| axes.contains(&axis));
        if kept.registers == layout.registers {
            return self.elements_of(c, layout);
        }
        let vars = self.component_vars(c, kept.registers, true);
        let index = |cx: &Expander, at: &At| (kept.registers > 1).then(|| cx.kept_register(&kept, at));
        let (operator, targets) = (c.operator.clone(), vars.clone());
        let mask = self.inputs_mask(c, layout)?;
        // What is absent along all of the reduced axes at once is left out at the end.
        let late = mask.as_ref().is_some_and(|m| m.sides.is_empty() && self.open_bounds(m).iter().all(|b| !axes.contains(&b.axis)));
        let mut join = |cx: &mut Expander, at: &At, elements: Vec<Expr>, present: Option<Expr>| {
            let at = index(cx, at);
            let elements = cx.settled(&operator, elements);
            let old: Vec<Expr> = targets.iter().map(|v| cx.slot(*v, at.as_ref())).collect();
            let mut new = cx.apply_operator(&operator, old.clone(), elements)?;
            if let Some(present) = present {
                new = new.into_iter().zip(old).map(|(n, o)| Expr::Select(Box::new(present.clone()), Box::new(n), Box::new(o))).collect();
            }
            cx.assign_components(&targets, at.as_ref(), new);
            Ok(())
        };
        match mask.as_ref().filter(|_| !late) {
            // A product is added up by a multiply-add, where what is absent leaves the sum as it was.
            Some(mask) if self.adds_up_products(c) => self.each_present(c, layout, mask, &mut join)?,
            mask => self.each_element(c, layout, mask, &mut |cx, at, elements| join(cx, at, elements, None))?,
        }
        if let Some(mask) = mask.filter(|m| late && !self.open_bounds(m).is_empty()) {
            self.leave_out(c, &vars, &kept, &mask)?;
        }
        Ok(Partial { vars, layout: kept })
    }

    /// Sets what was combined of absent elements alone to the identity.
    fn leave_out(&mut self, c: &Combine, vars: &[VarId], layout: &Layout, mask: &Mask) -> Expanded<()> {
        let identity = self.identities(c);
        let axes = self.bound_axes(mask, layout);
        let base = self.base_coordinates(&axes, layout);
        self.nest(layout, true, &mut |cx, at| {
            let slot = (layout.registers > 1).then(|| at.flat.clone());
            let Some(present) = cx.present(mask, &base, at) else { return Ok(()) };
            for (var, l) in vars.iter().zip(&identity) {
                let old = cx.slot(*var, slot.as_ref());
                let value = Expr::Select(Box::new(present.clone()), Box::new(old), Box::new(Expr::Literal(*l)));
                cx.emit(Stmt::Assign { var: *var, index: slot.clone(), value });
            }
            Ok(())
        })
    }

    /// Every element in registers of its own, absent ones as the identity.
    pub fn elements_of(&mut self, c: &Combine, layout: &Layout) -> Expanded<Partial> {
        let vars = self.component_vars(c, layout.registers, false);
        let (array, targets) = (layout.registers > 1, vars.clone());
        let mask = self.inputs_mask(c, layout)?;
        self.each_element(c, layout, mask.as_ref(), &mut |cx, at, elements| {
            for (var, value) in targets.iter().zip(elements) {
                cx.emit(Stmt::Assign { var: *var, index: array.then(|| at.flat.clone()), value });
            }
            Ok(())
        })?;
        Ok(Partial { vars, layout: layout.clone() })
    }

    /// The register of `kept`, a layout with some of the digits that are looped over.
    fn kept_register(&self, kept: &Layout, at: &At) -> Expr {
        let ix = super::index::Index { dtype: DType::I32 };
        let mut flat = ix.lit(0);
        for (axis, d) in kept.register_digits() {
            let found = at.digits.iter().find(|(a, place, _)| *a == axis && *place == d.place);
            let (_, _, value) = found.unwrap_or_else(|| panic!("combine: no loop over the digit {d:?} of axis {axis}"));
            flat = ix.add(flat, ix.mul(value.clone(), ix.lit(d.stride)));
        }
        flat
    }

    /// Combines along one register digit, in order.
    fn combine_digit(&mut self, c: &Combine, partial: &mut Partial, axis: usize, digit: Digit) -> Expanded<()> {
        let old = partial.layout.clone();
        let kept = without_registers(&old, |a, d| a == axis && d.place == digit.place);
        let stride = old.axes[axis].iter().find(|d| d.source == Source::Register && d.place == digit.place).map_or(1, |d| d.stride);
        let vars = self.component_vars(c, kept.registers, false);
        let (from, operator) = (partial.vars.clone(), c.operator.clone());
        let ix = super::index::Index { dtype: DType::I32 };
        self.nest(&kept, true, &mut |cx, at| {
            let mut first = ix.lit(0);
            for (a, d) in old.register_digits() {
                if let Some((_, _, e)) = at.digits.iter().find(|(x, place, _)| *x == a && *place == d.place) {
                    first = ix.add(first, ix.mul(e.clone(), ix.lit(d.stride)));
                }
            }
            let target = (kept.registers > 1).then(|| at.flat.clone());
            let start: Vec<Expr> = from.iter().map(|v| cx.slot(*v, Some(&first))).collect();
            cx.assign_components(&vars, target.as_ref(), start);
            let (var, e) = cx.loop_var("k");
            cx.open();
            let right_at = ix.add(first.clone(), ix.mul(ix.add(e, ix.lit(1)), ix.lit(stride)));
            let right = from.iter().map(|v| cx.slot(*v, Some(&right_at))).collect();
            let right = cx.settled(&operator, right);
            let left = vars.iter().map(|v| cx.slot(*v, target.as_ref())).collect();
            let new = cx.apply_operator(&operator, left, right)?;
            cx.assign_components(&vars, target.as_ref(), new);
            let turn = cx.close();
            cx.emit(unrolled(var, digit.extent - 1, turn));
            Ok(())
        })?;
        *partial = Partial { vars, layout: kept };
        Ok(())
    }
}

/// The layout without some register digits.
fn without_registers(layout: &Layout, gone: impl Fn(usize, &Digit) -> bool) -> Layout {
    let axes = layout
        .axes
        .iter()
        .enumerate()
        .map(|(axis, digits)| digits.iter().filter(|d| d.source == Source::Thread || !gone(axis, d)).copied().collect());
    renumbered(axes.collect(), layout.threads)
}

/// What a combined value is called where the author gave no name.
pub(super) fn operator_word(operator: &Operator) -> &'static str {
    match operator {
        Operator::Sum => "sum",
        Operator::Product => "product",
        Operator::Min => "least",
        Operator::Max => "most",
        Operator::All => "all",
        Operator::Any => "any",
        Operator::User { .. } => "combined",
    }
}

/// A literal of the type of an index.
pub(crate) fn int(value: i64) -> Expr {
    literal(DType::I32, value)
}

//! Dots by operations of the author's: what they compute in the place of a multiply-add, and the number in the place of what is absent.

use super::context::{Expanded, Expander, Rep};
use super::index::{Index, all};
use super::operand::Operand;
use super::values::register_literal;
use super::window::WindowRep;
use crate::block::{Fold, Op, ValueId, operands};
use girih_ir::simt::{Expr, Stmt, VarId};
use girih_ir::types::{DType, Literal};
use std::collections::HashMap;

/// Index arithmetic in registers and shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A number in the place of what an operand does not have.
#[derive(Clone, Copy)]
pub(crate) struct Absent {
    pub number: Literal,
    /// It is looked at along the outer axis, too.
    pub outer: bool,
}

impl Expander<'_> {
    /// An operand of such a dot. What is copied as it lies has zeros for absent elements, and they are replaced in fragments.
    pub fn folded_operand(&mut self, value: ValueId, acc: ValueId, left: bool, absent: Literal) -> Expanded<Operand> {
        let absent = register_literal(absent);
        match self.kernel.dots.operand(value) {
            Some(loaded) => {
                let operand = self.loaded_operand(value, loaded, acc, left);
                if absent.bits == 0 {
                    return Ok(operand);
                }
                let window = self.operand_window(&operand);
                let outer = !self.result_ends(&window, operand.outer, acc, usize::from(!left));
                Ok(Operand { absent: Some(Absent { number: absent, outer }), ..operand })
            }
            None => self.computed_operand(value, acc, left, absent),
        }
    }

    /// Whether a result's axis ends where an operand's outer one does, or nobody looks behind that.
    fn result_ends(&mut self, window: &WindowRep, outer: usize, acc: ValueId, axis: usize) -> bool {
        let index = window.index[outer];
        if !self.walks_itself(window, outer) {
            return false;
        }
        let length = self.length(index);
        let ends = self.tile(acc).mask.bounds.iter().any(|b| b.axis == axis && b.index == index && b.len == length);
        ends || self.kernel.dots.only_stored() && self.grid_vars.contains(&index)
    }

    fn operand_window(&self, operand: &Operand) -> WindowRep {
        let load = operand.load.unwrap_or_else(|| panic!("fold: {:?} was not loaded", operand.value));
        let Rep::Window(window) = self.rep(load) else { panic!("fold: {load:?} was not opened") };
        (**window).clone()
    }

    /// The next sum, of the one so far and a pair of elements. What is read several times gets a name.
    pub fn folded(&mut self, fold: &Fold, elements: [Expr; 3]) -> Expr {
        let mut made: HashMap<ValueId, Expr> = HashMap::new();
        for (argument, e) in fold.arguments.iter().zip(elements) {
            let e = self.named_if_shared(fold, *argument, e);
            made.insert(*argument, e);
        }
        for (value, op) in &fold.steps {
            let from = operands(op).into_iter().map(|v| made.get(&v).cloned().unwrap_or_else(|| self.scalar(v))).collect();
            let e = match op {
                Op::Literal(l) => Expr::Literal(register_literal(*l)),
                _ => self.apply(*value, op, from),
            };
            let e = self.named_if_shared(fold, *value, e);
            made.insert(*value, e);
        }
        made.remove(&fold.result).unwrap_or_else(|| self.scalar(fold.result))
    }

    fn named_if_shared(&mut self, fold: &Fold, value: ValueId, e: Expr) -> Expr {
        if matches!(e, Expr::Var(_) | Expr::Literal(_)) || fold.reads().filter(|v| *v == value).count() < 2 {
            return e;
        }
        let (name, dtype) = (self.name_of(value, "element"), self.register_type(value));
        self.declare_let(&name, dtype, e)
    }

    /// An element of an operand, or the number that stands for it where it is absent.
    pub fn or_absent(&mut self, operand: &Operand, offset: Expr, k: &Expr, element: Expr) -> Expr {
        let Some(absent) = operand.absent else { return element };
        match self.operand_exists(operand, offset, k) {
            Some(exists) => Expr::Select(Box::new(exists), Box::new(element), Box::new(Expr::Literal(absent.number))),
            None => element,
        }
    }

    /// Puts that number where a thread's fragment at position `k` has absent elements.
    pub fn fill_absent(&mut self, operand: &Operand, k: &Expr, var: VarId) -> Expanded<()> {
        if self.operand_exists(operand, LOCAL.lit(0), k).is_none() {
            return Ok(());
        }
        self.each_owned(operand, &mut |cx, offset, flat| {
            let first = LOCAL.mul(flat, LOCAL.lit(operand.depth));
            for lane in 0..operand.width.max(operand.depth) {
                let (across, along) = if operand.depth > 1 { (0, lane) } else { (lane, 0) };
                let (offset, k) = (LOCAL.add(offset.clone(), LOCAL.lit(across)), LOCAL.add(k.clone(), LOCAL.lit(along)));
                let at = LOCAL.add(first.clone(), LOCAL.lit(lane));
                let value = cx.or_absent(operand, offset, &k, Expr::Element(var, Box::new(at.clone())));
                cx.emit(Stmt::Assign { var, index: Some(at), value });
            }
            Ok(())
        })
    }

    /// The condition under which an operand that was loaded has an element, if there is one to check.
    fn operand_exists(&mut self, operand: &Operand, offset: Expr, k: &Expr) -> Option<Expr> {
        let absent = operand.absent?;
        let window = self.operand_window(operand);
        let mut local = vec![LOCAL.lit(0); operand.rank];
        local[operand.outer] = LOCAL.add(operand.base.clone(), offset);
        local[operand.inner] = k.clone();
        let (at, upper) = self.operand_in_tensor(&window, local);
        let looked_at = |axis: &usize| *axis != operand.outer || absent.outer;
        let open: Vec<usize> = (0..at.len()).filter(|axis| upper[*axis] && looked_at(axis)).collect();
        let terms: Vec<Expr> = open.into_iter().map(|axis| self.before_end(&window, axis, &at[axis])).collect();
        all(terms)
    }

    /// The tensor's coordinates of these positions in an operand's tile, and along which axes they may lie behind its end.
    pub fn operand_in_tensor(&mut self, window: &WindowRep, local: Vec<Expr>) -> (Vec<Expr>, Vec<bool>) {
        let mut global = Vec::new();
        for (k, at) in local.into_iter().enumerate() {
            let start = self.tile_start(window.index[k]);
            global.push(self.ix.add(start, self.ix.cast(DType::I32, at)));
        }
        let upper = (0..global.len()).map(|k| !(self.walks_itself(window, k) && self.tile_lies_inside(window, k))).collect();
        (global, upper)
    }
}

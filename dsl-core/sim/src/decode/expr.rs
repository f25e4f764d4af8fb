//! Decoding of expressions: each becomes operations whose result lies in a slot, and the class under which they are counted.

use super::Decoder;
use crate::counters::Class;
use crate::op::{AccessOp, ElementsOp, Op, PlaceOp, Slot};
use girih_ir::scalar;
use girih_ir::simt::{Expr, Place, VarId};
use girih_ir::types::{BinaryOp, DType, UnaryOp};

impl Decoder<'_> {
    /// Evaluates an expression; into `dst` if given.
    pub(super) fn value_into(&mut self, e: &Expr, dst: Option<Slot>) -> Slot {
        let outer = self.folds;
        self.folds |= self.unrolled.folds(e, self.kernel);
        let slot = self.evaluated(e, dst);
        self.folds = outer;
        slot
    }

    fn evaluated(&mut self, e: &Expr, dst: Option<Slot>) -> Slot {
        let k = self.kernel;
        match e {
            Expr::Literal(l) => {
                let slot = self.constant(l.bits);
                self.moved(slot, dst)
            }
            Expr::Var(v) => {
                let slot = self.base(*v);
                if self.unset[v.0 as usize] {
                    self.push(Op::Check { slot }, Class::Move);
                }
                self.moved(slot, dst)
            }
            Expr::Element(v, index) => self.element(*v, index, dst),
            Expr::Param(p) => {
                let slot = match self.scalars.get(p) {
                    Some(slot) => *slot,
                    None => {
                        let slot = self.fresh();
                        self.scalars.insert(*p, slot);
                        slot
                    }
                };
                self.moved(slot, dst)
            }
            Expr::Special(special) => self.pure(dst, Class::Move, |dst| Op::Special { dst, special: *special }),
            Expr::Unary(op, a) => {
                let d = k.dtype(a);
                let f = scalar::unary_fn(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let a = self.value(a);
                self.pure(dst, unary_class(*op, d), |dst| Op::Unary { f, dst, a })
            }
            Expr::Binary(op, a, b) => {
                let d = k.dtype(a);
                let f = scalar::binary_lanes(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let sums = d.is_float() && matches!(op, BinaryOp::Add | BinaryOp::Sub);
                let (a, of_a) = (self.value(a), self.product(a));
                let (b, of_b) = (self.value(b), self.product(b));
                // nvcc makes one operation of a product and the sum that takes it.
                let class = match of_b.or(of_a).filter(|_| sums) {
                    Some(product) => {
                        self.class[product] = Class::Move;
                        self.length -= self.copies;
                        Class::Fma
                    }
                    None => binary_class(*op, d),
                };
                let slot = self.pure(dst, class, |dst| Op::Binary { f, dst, a, b });
                if matches!(op, BinaryOp::Div | BinaryOp::Rem) && !d.is_float() {
                    self.divisions.push(self.here() - 1);
                }
                slot
            }
            Expr::Ternary(op, a, b, c) => {
                let d = k.dtype(a);
                let f = scalar::ternary_lanes(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let (a, b, c) = (self.value(a), self.value(b), self.value(c));
                let class = if d.is_float() { Class::Fma } else { Class::Integer };
                self.pure(dst, class, |dst| Op::Ternary { f, dst, a, b, c })
            }
            Expr::Compare(op, a, b) => {
                let d = k.dtype(a);
                let f = scalar::compare_lanes(*op, d).unwrap_or_else(|| panic!("simulator: {op:?} is not defined on {d}"));
                let (a, b) = (self.value(a), self.value(b));
                let class = if d.is_float() { Class::FloatAdd } else { Class::Integer };
                self.pure(dst, class, |dst| Op::Compare { f, dst, a, b })
            }
            Expr::Select(c, a, b) => {
                let (c, a, b) = (self.value(c), self.value(a), self.value(b));
                self.pure(dst, Class::Integer, |dst| Op::Select { dst, c, a, b })
            }
            Expr::Cast(to, a) => {
                let from = k.dtype(a);
                let a = self.value(a);
                if from == *to {
                    return self.moved(a, dst);
                }
                // The lower half of a pair of registers is read as it is.
                let cut = from.is_int() && to.is_int() && from.size() == 8 && to.size() == 4;
                let class = if cut { Class::Move } else { Class::Convert };
                self.pure(dst, class, |dst| Op::Cast { from, to: *to, dst, a })
            }
            Expr::Bitcast(to, a) => {
                let from = k.dtype(a);
                let a = self.value(a);
                self.pure(dst, Class::Move, |dst| Op::Bitcast { from, to: *to, dst, a })
            }
            Expr::Load { place, predicate, .. } => {
                let access = self.access(place, predicate.as_deref(), 1);
                self.pure(dst, Class::Memory, |dst| Op::Load { dst, access })
            }
        }
    }

    pub(super) fn value(&mut self, e: &Expr) -> Slot {
        self.value_into(e, None)
    }

    /// The operation that has just computed an expression, if it multiplies floats.
    fn product(&self, e: &Expr) -> Option<usize> {
        let last = self.code.len().checked_sub(1)?;
        (matches!(e, Expr::Binary(BinaryOp::Mul, ..)) && self.class[last] == Class::FloatMul).then_some(last)
    }

    fn pure(&mut self, dst: Option<Slot>, class: Class, op: impl FnOnce(Slot) -> Op) -> Slot {
        let dst = dst.unwrap_or_else(|| self.temporary());
        let class = if self.folds { Class::Move } else { class };
        self.push(op(dst), class);
        dst
    }

    fn moved(&mut self, slot: Slot, dst: Option<Slot>) -> Slot {
        let Some(dst) = dst else { return slot };
        self.push(Op::Move { dst, a: slot }, Class::Move);
        dst
    }

    pub(super) fn element(&mut self, var: VarId, index: &Expr, dst: Option<Slot>) -> Slot {
        if let Expr::Literal(l) = index
            && (0..self.len(var) as i64).contains(&l.to_i64())
        {
            let slot = self.base(var) + l.to_i64() as u32;
            if self.unset[var.0 as usize] {
                self.push(Op::Check { slot }, Class::Move);
            }
            return self.moved(slot, dst);
        }
        let of = self.elements(var, index);
        self.pure(dst, Class::Move, |dst| Op::Element { dst, of })
    }

    pub(super) fn elements(&mut self, var: VarId, at: &Expr) -> ElementsOp {
        ElementsOp { base: self.base(var), len: self.len(var), at_type: self.kernel.dtype(at), at: self.value(at) }
    }

    pub(super) fn place(&mut self, place: &Place) -> PlaceOp {
        PlaceOp { space: place.space, dtype: place.dtype, index_type: self.kernel.dtype(&place.index), index: self.value(&place.index) }
    }

    pub(super) fn access(&mut self, place: &Place, predicate: Option<&Expr>, lanes: u32) -> AccessOp {
        let place = self.place(place);
        AccessOp { place, predicate: predicate.map(|p| self.value(p)), lanes }
    }
}

fn unary_class(op: UnaryOp, dtype: DType) -> Class {
    match op {
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Popcount | UnaryOp::LeadingZeros if dtype.is_float() => Class::FloatAdd,
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Popcount | UnaryOp::LeadingZeros | UnaryOp::Moved => Class::Integer,
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc | UnaryOp::RoundTf32 => Class::Convert,
        _ => Class::SpecialFunction,
    }
}

fn binary_class(op: BinaryOp, dtype: DType) -> Class {
    match op {
        _ if !dtype.is_float() => Class::Integer,
        BinaryOp::Mul => Class::FloatMul,
        BinaryOp::Div | BinaryOp::DivApprox | BinaryOp::Rem | BinaryOp::Pow => Class::SpecialFunction,
        _ => Class::FloatAdd,
    }
}

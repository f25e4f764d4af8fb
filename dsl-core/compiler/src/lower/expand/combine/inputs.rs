//! Elements of a combination's inputs, absent ones as the identity: where they are zeros already, nothing has to be done.

use crate::block::{Combine, Op, Operator, ValueId};
use crate::lower::expand::context::{Data, Expanded, Expander};
use crate::lower::expand::elements::Sink;
use crate::lower::expand::mask::Mask;
use crate::lower::expand::values::At;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, VarId};
use girih_ir::types::{BinaryOp, DType, TernaryOp, UnaryOp};
use std::collections::HashSet;

/// What is done with elements, and with the condition under which they are present.
type PresentSink<'s> = &'s mut dyn FnMut(&mut Expander, &At, Vec<Expr>, Option<Expr>) -> Expanded<()>;

impl Expander<'_> {
    /// Which elements of a combination's inputs exist, if that has to be checked: zeros that are the identity need not.
    pub fn inputs_mask(&mut self, c: &Combine, layout: &Layout) -> Expanded<Option<Mask>> {
        let mut mask = Mask::default();
        c.inputs.iter().for_each(|v| mask.and(&self.tile(*v).mask.clone()));
        self.prepare_sides(&mask, layout)?;
        let identity = self.identities(c);
        let zeros = c.inputs.iter().zip(&identity).all(|(v, l)| l.bits == 0 && self.zero_where_absent(*v));
        let checked = !mask.bounds.is_empty() || !mask.sides.is_empty();
        Ok((checked && !zeros).then_some(mask))
    }

    /// Runs `sink` on every element of a combination's inputs; an element that is absent by the mask is the identity.
    pub(super) fn each_element(&mut self, c: &Combine, layout: &Layout, mask: Option<&Mask>, sink: Sink) -> Expanded<()> {
        let identity = self.identities(c);
        let base = match mask {
            Some(mask) => {
                let axes = self.bound_axes(mask, layout);
                self.base_coordinates(&axes, layout)
            }
            None => vec![],
        };
        self.for_elements(&c.inputs, layout, true, &mut |cx, at, elements| {
            let present = mask.and_then(|m| cx.present(m, &base, at));
            let elements = match present {
                None => elements,
                Some(present) => elements
                    .into_iter()
                    .zip(&identity)
                    .map(|(e, l)| Expr::Select(Box::new(present.clone()), Box::new(e), Box::new(Expr::Literal(*l))))
                    .collect(),
            };
            sink(cx, at, elements)
        })
    }

    /// Runs `sink` on every element of a combination's inputs, and on the condition under which it is present.
    pub(super) fn each_present(&mut self, c: &Combine, layout: &Layout, mask: &Mask, sink: PresentSink) -> Expanded<()> {
        let axes = self.bound_axes(mask, layout);
        let base = self.base_coordinates(&axes, layout);
        self.for_elements(&c.inputs, layout, true, &mut |cx, at, elements| {
            let present = cx.present(mask, &base, at);
            sink(cx, at, elements, present)
        })
    }

    /// Whether a combination is a sum of products of floats.
    pub(super) fn adds_up_products(&self, c: &Combine) -> bool {
        let product = |v: ValueId| matches!(self.ops.get(&v), Some(Op::Binary(BinaryOp::Mul, ..)));
        matches!(c.operator, Operator::Sum) && self.register_type(c.inputs[0]) == DType::F32 && product(c.inputs[0])
    }

    /// Whether the absent elements of a tile surely hold zeros: it was loaded so, or computed from such tiles in a way that keeps zeros.
    pub fn zero_where_absent(&self, value: ValueId) -> bool {
        self.keeps_zeros(value, &|var| self.zero_filled.contains(&var), &mut HashSet::new())
    }

    /// The same of elements that lie inside of all bounds of the tile's mask.
    pub fn zero_beside_bounds(&self, value: ValueId) -> bool {
        let zero = |var| self.zero_filled.contains(&var) || self.zero_inside.contains(&var);
        self.keeps_zeros(value, &zero, &mut HashSet::new())
    }

    /// `zero` tells which variables hold zeros; `seen` has the values that were asked: all of them have to keep zeros.
    fn keeps_zeros(&self, value: ValueId, zero: &dyn Fn(VarId) -> bool, seen: &mut HashSet<ValueId>) -> bool {
        if !seen.insert(value) {
            return true;
        }
        let rep = self.tile(value);
        let same = |a: ValueId, b: ValueId| self.tile(a).mask == self.tile(b).mask;
        match &rep.data {
            Data::Splat(Expr::Literal(l)) => l.bits == 0,
            Data::Array(var) => zero(*var),
            Data::One(Expr::Var(var)) => zero(*var),
            Data::One(Expr::Load { predicate: Some(_), .. }) => true,
            Data::Pending(Op::Unary(UnaryOp::Neg | UnaryOp::Abs, a) | Op::Cast(a)) => self.keeps_zeros(*a, zero, seen),
            Data::Pending(Op::Select(condition, a, b)) => {
                let mut kept = |v: ValueId| self.tile(v).mask == Mask::default() || self.keeps_zeros(v, zero, seen);
                self.tile(*condition).mask == Mask::default() && kept(*a) && kept(*b)
            }
            Data::Pending(Op::Binary(BinaryOp::Mul | BinaryOp::Add | BinaryOp::Sub, a, b)) => {
                same(*a, *b) && self.keeps_zeros(*a, zero, seen) && self.keeps_zeros(*b, zero, seen)
            }
            Data::Pending(Op::Ternary(TernaryOp::Fma, a, b, c)) => {
                same(*a, *b) && same(*b, *c) && [a, b, c].into_iter().all(|v| self.keeps_zeros(*v, zero, seen))
            }
            _ => false,
        }
    }
}

//! Short vectors in another layout without shared memory: a thread that has all elements chooses its own.

use super::context::{Data, Expanded, Expander};
use super::index::{binary, compare, literal};
use crate::block::ValueId;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

impl Expander<'_> {
    /// Moves a vector that every thread has into a layout of one element a thread, whose number these digits of its index tell.
    pub fn convert_by_choice(&mut self, value: ValueId, [from, to]: [&Layout; 2], digits: &[(i64, i64, i64)]) -> Expanded<()> {
        let count = from.shape()[0];
        let source = self.in_array(value, from)?;
        self.comment(format!("each thread chooses its own of {count}"));
        let bits = self.bits_of_index(digits, count);
        let chosen = self.load_register(Some(self.vars[source.0 as usize].dtype), choice(source, &bits, 0));
        let (name, dtype) = (self.name_of(value, "tile"), self.register_type(value));
        let own = self.declare_let(&name, dtype, chosen);
        self.lies_now(value, [from, to], Data::One(own));
        Ok(())
    }

    /// The bits of the number that a thread's digits come to, the least significant first, as conditions.
    fn bits_of_index(&mut self, digits: &[(i64, i64, i64)], count: i64) -> Vec<Expr> {
        (0..count.trailing_zeros())
            .map(|bit| {
                let place = 1i64 << bit;
                let of = |(_, extent, at): &&(i64, i64, i64)| *at <= place && place < at * extent;
                let (stride, _, at) = digits.iter().find(of).unwrap_or_else(|| panic!("short_vectors: no digit has bit {bit}"));
                let mask = literal(DType::I32, stride * place / at);
                let set = compare(CompareOp::Ne, binary(BinaryOp::And, self.thread32(), mask), literal(DType::I32, 0));
                self.declare_let("is_upper", DType::Bool, set)
            })
            .collect()
    }
}

/// The element of an array whose number has these bits, from an element on.
fn choice(array: VarId, bits: &[Expr], first: i64) -> Expr {
    let Some((bit, lower)) = bits.split_last() else { return Expr::Element(array, Box::new(literal(DType::I32, first))) };
    let upper = choice(array, lower, first + (1 << lower.len()));
    Expr::Select(Box::new(bit.clone()), Box::new(upper), Box::new(choice(array, lower, first)))
}

//! Short vectors in another layout without shared memory: a thread that has all elements chooses its own, lanes that have one each show it.

use super::context::{Data, Expanded, Expander, Rep};
use super::elements::unrolled;
use super::index::{binary, compare, literal};
use crate::block::ValueId;
use crate::block::exchange::Short;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

impl Expander<'_> {
    /// Moves a vector into another layout by one of the short ways.
    pub fn convert_short(&mut self, value: ValueId, from: &Layout, to: &Layout, way: &Short) -> Expanded<()> {
        let count = from.shape()[0];
        let data = match way {
            Short::Chosen(digits) => {
                let source = self.in_array(value, from)?;
                self.comment(format!("each thread chooses its own of {count}"));
                let bits = self.bits_of_index(digits, count);
                let chosen = choice(source, &bits, 0);
                let chosen = self.load_register(Some(self.vars[source.0 as usize].dtype), chosen);
                let (name, dtype) = (self.name_of(value, "tile"), self.register_type(value));
                Data::One(self.declare_let(&name, dtype, chosen))
            }
            Short::Shown(apart) => {
                self.comment(format!("{count} lanes show each other what they have"));
                let (name, dtype) = (self.name_of(value, "tile"), self.register_type(value));
                self.prepare(value, from)?;
                let own = self.only_element(value, from);
                let own = if matches!(own, Expr::Var(_)) { own } else { self.declare_let("own", dtype, own) };
                let all = self.new_var(&name, dtype, Some(count as u32));
                self.emit(Stmt::Declare { var: all, init: None });
                let (u, e) = self.loop_var("u");
                self.open();
                let lane = super::index::Index { dtype: DType::I32 }.mul(e.clone(), literal(DType::I32, *apart));
                let shown = self.shuffle(own, ShuffleKind::Index, lane);
                self.emit(Stmt::Assign { var: all, index: Some(e), value: shown });
                let turn = self.close();
                self.emit(unrolled(u, count, turn));
                Data::Array(all)
            }
        };
        let mut rep = self.tile(value).clone();
        rep.lie_in(from);
        let before = std::mem::replace(&mut rep.data, data);
        rep.elsewhere.push((from.clone(), before));
        rep.layout = Some(to.clone());
        self.set(value, Rep::Tile(rep));
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

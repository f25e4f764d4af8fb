//! What the lanes of a warp exchange by shuffles, and how they combine what they have: by shuffles, by a vote, or by one instruction for
//! integers.

use super::combine::{Partial, int};
use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::index::{binary, compare};
use crate::block::{self, Combine, Op, Operator};
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VoteKind};
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

impl Expander<'_> {
    /// Another lane's value of an expression.
    pub fn shuffle(&mut self, value: Expr, kind: ShuffleKind, operand: Expr) -> Expr {
        self.shuffle_as("other", value, kind, operand)
    }

    /// As [`Self::shuffle`], in a variable of this name.
    pub fn shuffle_as(&mut self, name: &str, value: Expr, kind: ShuffleKind, operand: Expr) -> Expr {
        let dtype = self.dtype_of(&value);
        let word = |cx: &mut Self, value: Expr, dtype: DType| {
            let var = cx.new_var(name, dtype, None);
            cx.emit(Stmt::Declare { var, init: None });
            cx.emit(Stmt::Shuffle { var, value, kind, operand: operand.clone(), width: 32 });
            Expr::Var(var)
        };
        match dtype.size() {
            4 => word(self, value, dtype),
            8 => {
                let cast = |to, e| Expr::Cast(to, Box::new(e));
                let bits = if dtype == DType::U64 { value } else { Expr::Bitcast(DType::U64, Box::new(value)) };
                let wide = |n: u64| Expr::Literal(Literal { dtype: DType::U64, bits: n });
                let high = word(self, cast(DType::U32, binary(BinaryOp::Shr, bits.clone(), wide(32))), DType::U32);
                let low = word(self, cast(DType::U32, bits), DType::U32);
                let joined = binary(BinaryOp::Or, binary(BinaryOp::Shl, cast(DType::U64, high), wide(32)), cast(DType::U64, low));
                if dtype == DType::U64 { joined } else { Expr::Bitcast(dtype, Box::new(joined)) }
            }
            _ if dtype == DType::Bool => {
                let one = |n| Expr::Literal(Literal::u32(n));
                let number = Expr::Select(Box::new(value), Box::new(one(1)), Box::new(one(0)));
                let other = word(self, number, DType::U32);
                compare(CompareOp::Ne, other, one(0))
            }
            _ => {
                let wide = if dtype.is_signed() { DType::I32 } else { DType::U32 };
                let other = word(self, Expr::Cast(wide, Box::new(value)), wide);
                Expr::Cast(dtype, Box::new(other))
            }
        }
    }

    /// Combines over lanes `distance` apart: after log2(extent) exchanges all of them hold the result.
    pub fn combine_lanes(&mut self, c: &Combine, partial: &mut Partial, distance: i64, extent: i64) -> Expanded<()> {
        if let (Operator::Any | Operator::All, 1, 32) = (&c.operator, distance, extent) {
            return self.vote_lanes(if matches!(c.operator, Operator::Any) { VoteKind::Any } else { VoteKind::All }, partial);
        }
        if let (Some(op), 1, 32) = (self.warp_reduction(c), distance, extent) {
            return self.reduce_warp(op, partial);
        }
        let steps = extent.trailing_zeros() as i64;
        self.comment(format!("combine {extent} lanes"));
        let (vars, operator) = (partial.vars.clone(), c.operator.clone());
        self.each_slot(partial.layout.registers, &mut |cx, slot| {
            let (k, e) = cx.loop_var("k");
            cx.open();
            let apart = binary(BinaryOp::Shl, int(distance), e.clone());
            let mine: Vec<Expr> = vars.iter().map(|v| cx.slot(*v, slot)).collect();
            let other: Vec<Expr> = mine.iter().map(|m| cx.shuffle(m.clone(), ShuffleKind::Xor, apart.clone())).collect();
            let other = cx.settled(&operator, other);
            let new = if operator.commutative() {
                cx.apply_operator(&operator, mine, other)?
            } else {
                // The lane whose bit is set holds the right operand.
                let bit = binary(BinaryOp::And, cx.thread32(), apart);
                let right = compare(CompareOp::Ne, bit, int(0));
                let right = cx.declare_let("is_right", DType::Bool, right);
                let pick = |a: &Expr, b: &Expr| Expr::Select(Box::new(right.clone()), Box::new(a.clone()), Box::new(b.clone()));
                let lefts = other.iter().zip(&mine).map(|(o, m)| pick(o, m)).collect();
                let rights = other.iter().zip(&mine).map(|(o, m)| pick(m, o)).collect();
                let (lefts, rights) = (cx.settled(&operator, lefts), cx.settled(&operator, rights));
                cx.apply_operator(&operator, lefts, rights)?
            };
            cx.assign_components(&vars, slot, new);
            let turn = cx.close();
            cx.emit(unrolled(k, steps, turn));
            Ok(())
        })
    }

    /// Conditions of all lanes: a vote.
    fn vote_lanes(&mut self, kind: VoteKind, partial: &mut Partial) -> Expanded<()> {
        self.comment("combine 32 lanes");
        let vars = partial.vars.clone();
        self.each_slot(partial.layout.registers, &mut |cx, slot| {
            let value = cx.slot(vars[0], slot);
            let var = cx.new_var("vote", DType::Bool, None);
            cx.emit(Stmt::Declare { var, init: None });
            cx.emit(Stmt::Vote { var, kind, value });
            cx.assign_components(&vars, slot, vec![Expr::Var(var)]);
            Ok(())
        })
    }

    /// The operation by which one instruction combines what the lanes of a warp have, if the GPU has it: of 32-bit integers, where no order of
    /// the lanes changes the result.
    fn warp_reduction(&self, c: &Combine) -> Option<BinaryOp> {
        use BinaryOp::{Add, And, Max, Min, Or, Xor};
        let [input] = c.inputs[..] else { return None };
        let dtype = self.kernel.ty(input).dtype().filter(|d| matches!(d, DType::I32 | DType::U32))?;
        let op = match &c.operator {
            Operator::User { arguments, body, results, .. } => {
                let ([left, right], [block::Stmt::Let(made, Op::Binary(op, a, b))], [result]) = (&arguments[..], &body[..], &results[..])
                else {
                    return None;
                };
                let exactly = made == result && ([a, b] == [left, right] || [a, b] == [right, left]);
                exactly.then_some(*op)?
            }
            standard => standard.standard(dtype)?.0,
        };
        (self.kernel.launch.has_warp_reduce && matches!(op, Add | Min | Max | And | Or | Xor)).then_some(op)
    }

    /// Integers of all lanes: one instruction.
    fn reduce_warp(&mut self, op: BinaryOp, partial: &mut Partial) -> Expanded<()> {
        self.comment("combine 32 lanes");
        let vars = partial.vars.clone();
        self.each_slot(partial.layout.registers, &mut |cx, slot| {
            let value = cx.slot(vars[0], slot);
            let var = if slot.is_some() { cx.new_var("all", cx.dtype_of(&value), None) } else { vars[0] };
            if slot.is_some() {
                cx.emit(Stmt::Declare { var, init: None });
            }
            cx.emit(Stmt::WarpReduce { var, op, value });
            if slot.is_some() {
                cx.assign_components(&vars, slot, vec![Expr::Var(var)]);
            }
            Ok(())
        })
    }
}

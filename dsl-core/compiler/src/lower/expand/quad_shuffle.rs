//! Results of matrix instructions, of which each lane has two neighbours: four lanes exchange elements by shuffles until each has a run as
//! wide as one access to memory.

use super::context::{Data, Expanded, Expander};
use super::elements::unrolled;
use super::index::{Index, binary, compare, literal};
use crate::block::ValueId;
use crate::block::exchange::{Exchange, Swap, exchange};
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

impl Expander<'_> {
    /// Moves a tile into another layout by shuffles between the lanes of a warp.
    pub fn exchange_lanes(&mut self, value: ValueId, from: &Layout, to: &Layout) -> Expanded<()> {
        let Some(Exchange { swaps, kept }) = exchange(from, to) else { panic!("quads: no exchange from {from:?} to {to:?}") };
        let source = self.in_array(value, from)?;
        let dtype = self.vars[source.0 as usize].dtype;
        let target = self.new_var(&format!("{}_runs", self.name_of(value, "tile")), dtype, Some(to.registers as u32));
        let (lanes, run) = (1i64 << swaps.len(), to.run(to.axes.len() - 1));
        self.comment(match lanes {
            1 => format!("{run} neighbours in registers that follow one another"),
            _ => format!("exchange elements between {lanes} lanes: each gets {run} neighbours"),
        });
        self.emit(Stmt::Declare { var: target, init: None });
        if swaps.is_empty() {
            self.renumber(source, target, kept.clone());
        }
        for (at, swap) in swaps.iter().enumerate() {
            // The first exchange reads the tile as it lies; further ones find it in its new order.
            let first = at == 0;
            let mut digits = kept.clone();
            digits.extend(swaps.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, s)| (2, s.before, s.after)));
            if !first {
                digits.iter_mut().for_each(|d| d.1 = d.2);
            }
            let before = if first { swap.before } else { swap.after };
            self.swap_pairs(if first { source } else { target }, target, &Swap { before, ..*swap }, digits);
        }
        self.lies_now(value, [from, to], Data::Array(target));
        Ok(())
    }

    /// The same elements under other numbers.
    fn renumber(&mut self, source: VarId, target: VarId, digits: Vec<(i64, i64, i64)>) {
        self.each_register(digits, |cx, from, to| {
            let value = cx.to_storage(cx.vars[target.0 as usize].dtype, cx.register(source, from));
            cx.emit(Stmt::Assign { var: target, index: Some(to), value });
        });
    }

    /// Loops over registers by digits (extent, stride before, stride after), in the order in which they lie behind.
    fn each_register(&mut self, mut digits: Vec<(i64, i64, i64)>, body: impl FnOnce(&mut Self, Expr, Expr)) {
        digits.sort_by_key(|d| d.2);
        let (mut from, mut to, mut loops) = (LOCAL.lit(0), LOCAL.lit(0), Vec::new());
        for (extent, before, after) in merged(&digits) {
            let (counter, e) = self.loop_var("e");
            from = LOCAL.add(from, LOCAL.mul(e.clone(), LOCAL.lit(before)));
            to = LOCAL.add(to, LOCAL.mul(e, LOCAL.lit(after)));
            loops.push((counter, extent));
            self.open();
        }
        body(self, from, to);
        for (counter, extent) in loops.into_iter().rev() {
            let turn = self.close();
            self.emit(unrolled(counter, extent, turn));
        }
    }

    /// All pairs of registers of one exchange: the upper lane of two gives its lower element for the other's upper one.
    fn swap_pairs(&mut self, source: VarId, target: VarId, swap: &Swap, digits: Vec<(i64, i64, i64)>) {
        let dtype = self.vars[source.0 as usize].dtype;
        let thread = self.thread32();
        let bit = binary(BinaryOp::And, thread, literal(DType::I32, swap.lanes));
        let upper = self.declare_let("is_upper", DType::Bool, compare(CompareOp::Ne, bit, literal(DType::I32, 0)));
        self.each_register(digits, |cx, from, to| {
            let of = |second: bool| cx.register(source, LOCAL.add(from.clone(), LOCAL.lit(if second { swap.before } else { 0 })));
            let (low, high) = (of(false), of(true));
            let pick = |a: Expr, b: Expr| Expr::Select(Box::new(upper.clone()), Box::new(a), Box::new(b));
            let other = cx.shuffle(pick(low.clone(), high.clone()), ShuffleKind::Xor, literal(DType::I32, swap.lanes));
            for (second, value) in [(false, pick(other.clone(), low)), (true, pick(high, other.clone()))] {
                let value = cx.to_storage(dtype, value);
                let index = Some(LOCAL.add(to.clone(), LOCAL.lit(if second { swap.after } else { 0 })));
                cx.emit(Stmt::Assign { var: target, index, value });
            }
        });
    }
}

/// Digits (extent, stride before, stride after) with those that continue one another made one.
fn merged(digits: &[(i64, i64, i64)]) -> Vec<(i64, i64, i64)> {
    let mut all: Vec<(i64, i64, i64)> = Vec::new();
    for (extent, before, after) in digits.iter().copied().filter(|d| d.0 > 1) {
        match all.last_mut() {
            Some((e, b, a)) if before == *b * *e && after == *a * *e => *e *= extent,
            _ => all.push((extent, before, after)),
        }
    }
    all.reverse();
    all
}

//! Results of matrix instructions, of which each lane has two neighbours: four lanes exchange elements by shuffles until each has a run as
//! wide as one access to memory.

use super::context::{Data, Expanded, Expander, Rep};
use super::elements::unrolled;
use super::index::{Index, binary, compare, literal};
use crate::block::ValueId;
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

/// How lanes exchange registers between two layouts.
struct Exchange {
    /// Pairs of lanes and of registers that change roles.
    swaps: Vec<Swap>,
    /// Digits of the register index that stay: extent, and stride before and after.
    kept: Vec<(i64, i64, i64)>,
}

/// Two lanes that are `lanes` apart, and two registers that are `before` apart: one of a lane's two elements changes hands, and the two
/// that it then has are `after` apart.
#[derive(Clone, Copy)]
struct Swap {
    lanes: i64,
    before: i64,
    after: i64,
}

/// How lanes exchange elements to get from one layout to the other, if pairs of lanes of a warp can, or each within its registers.
fn exchange(from: &Layout, to: &Layout) -> Option<Exchange> {
    let (mut kept, mut given, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for (a, b) in from.axes.iter().zip(&to.axes) {
        for (d, e) in common_digits(a, b)? {
            // Digits of several values go bit by bit.
            let bits = || (0..d.extent.trailing_zeros()).map(|bit| (d.stride << bit, e.stride << bit));
            match (d.source, e.source) {
                (Source::Thread, Source::Thread) if d.stride == e.stride => {}
                (Source::Register, Source::Register) => kept.push((d.extent, d.stride, e.stride)),
                (Source::Thread, Source::Register) if (d.extent as u64).is_power_of_two() => taken.extend(bits()),
                (Source::Register, Source::Thread) if (d.extent as u64).is_power_of_two() => given.extend(bits()),
                _ => return None,
            }
        }
    }
    let swap = |(lanes, after): (i64, i64)| {
        let (before, _) = given.iter().find(|(_, lane)| *lane == lanes)?;
        (lanes < 32).then_some(Swap { lanes, before: *before, after })
    };
    let swaps: Vec<Swap> = taken.iter().copied().map(swap).collect::<Option<_>>()?;
    (swaps.len() == given.len() && from != to).then_some(Exchange { swaps, kept })
}

/// The digits of two axes of the same extent, cut where either ends.
fn common_digits(a: &[Digit], b: &[Digit]) -> Option<Vec<(Digit, Digit)>> {
    let cuts: Vec<i64> = a.iter().chain(b).map(|d| d.place).collect();
    let cut = |digits: &[Digit]| -> Option<Vec<Digit>> {
        let mut all = Vec::new();
        for d in digits {
            let mut places: Vec<i64> = cuts.iter().copied().filter(|p| d.place <= *p && *p < d.place * d.extent).collect();
            places.sort_unstable();
            places.dedup();
            for (k, place) in places.iter().enumerate() {
                let end = places.get(k + 1).copied().unwrap_or(d.place * d.extent);
                if place % d.place != 0 || end % place != 0 {
                    return None;
                }
                all.push(Digit { stride: d.stride * (place / d.place), extent: end / place, place: *place, ..*d });
            }
        }
        all.sort_by_key(|d| d.place);
        Some(all)
    };
    let (a, b) = (cut(a)?, cut(b)?);
    let same = a.len() == b.len() && a.iter().zip(&b).all(|(d, e)| (d.place, d.extent) == (e.place, e.extent));
    same.then(|| a.into_iter().zip(b).collect())
}

impl Expander<'_> {
    /// Whether lanes can exchange elements between two layouts.
    pub fn can_exchange(&self, from: &Layout, to: &Layout) -> bool {
        self.kernel.launch.units.is_some() && from.threads == to.threads && exchange(from, to).is_some()
    }

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
        let mut rep = self.tile(value).clone();
        rep.lie_in(from);
        let before = std::mem::replace(&mut rep.data, Data::Array(target));
        rep.elsewhere.push((from.clone(), before));
        rep.layout = Some(to.clone());
        self.set(value, Rep::Tile(rep));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layouts::with_runs;
    use girih_ir::fragments::{ATOMS, Operand};

    /// The accumulators of `atoms` instructions side by side, in every one of two warps.
    fn accumulators(atom: girih_ir::fragments::Atom, atoms: i64) -> Layout {
        let mut layout = atom.layout(Operand::Accumulator);
        let own = layout.registers;
        let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
        layout.axes[1].push(digit(Source::Register, own, atoms, 8));
        layout.axes[1].push(digit(Source::Thread, 32, 2, 8 * atoms));
        Layout { threads: 64, registers: own * atoms, ..layout }
    }

    #[test]
    fn runs_hold_every_element_once_and_exchanges_lead_to_them() {
        let mut found = 0;
        for atom in ATOMS {
            for (atoms, run) in [(2, 4), (4, 8), (6, 4), (12, 8), (8, 16), (2, 8), (3, 4), (4, 16)] {
                let from = accumulators(atom, atoms);
                let Some(to) = with_runs(&from, 1, run) else {
                    assert!(atoms * 8 % (4 * run) != 0, "{atom}: runs of {run} from {atoms} atoms");
                    continue;
                };
                found += 1;
                assert_eq!((to.run(1), to.shape(), to.registers), (run, from.shape(), from.registers));
                // By the exchange's own account, each lane ends up with the elements that the layout says.
                let Exchange { swaps, kept } = exchange(&from, &to).expect("an exchange");
                for thread in 0..64 {
                    for register in 0..to.registers {
                        let (mut lane, mut old) = (thread, 0);
                        for s in &swaps {
                            let (own, bit) = (thread / s.lanes % 2, register / s.after % 2);
                            lane += (bit - own) * s.lanes;
                            old += own * s.before;
                        }
                        old += kept.iter().map(|(extent, before, after)| register / after % extent * before).sum::<i64>();
                        assert_eq!(to.coordinates(thread, register), from.coordinates(lane, old), "{atom}, {atoms} atoms, runs of {run}");
                    }
                }
            }
        }
        assert!(found > 40, "{found}");
    }
}

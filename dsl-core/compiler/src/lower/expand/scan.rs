//! Scans: every element combined with all before it along an axis, digit by digit of the layout, the least significant first.
//!
//! At each digit a thread knows the total of the group of elements that the lower digits span (its run of registers, then its lanes,
//! then its warps), and what comes before that group in the next larger one. So any layout does: a run of registers is scanned where it
//! lies, totals are scanned over lanes by shuffles, over warps through shared memory with one barrier, over interleaved registers in
//! order; and each element is combined once with everything that was found to be before its run.

use super::combine::{Partial, int};
use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::{all, binary, compare};
use super::values::At;
use crate::block::Combine;
use crate::block::layouts::renumbered;
use crate::block::steps::{Step, steps};
use girih_ir::layout::{Digit, Layout, Source};
use girih_ir::simt::{Expr, ShuffleKind, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// A scan that is being lowered.
struct Scan<'c> {
    combine: &'c Combine,
    exclusive: bool,
    reversed: bool,
    /// What is before each group of the first level's digit, once known: dealt as `groups`.
    before: Option<Vec<VarId>>,
    /// The layout of the groups that the first level leaves.
    groups: Layout,
}

impl Expander<'_> {
    /// Lowers a scan along `axis`; `over_grid` on top of what the tiles before it come to.
    pub fn scan(&mut self, c: &Combine, axis: usize, [exclusive, reversed, over_grid]: [bool; 3]) -> Expanded<()> {
        let layout = c.inputs.iter().find_map(|v| self.tile(*v).layout.clone()).unwrap_or_else(|| self.layout_of(c.inputs[0]));
        for v in &c.inputs {
            self.prepare(*v, &layout)?;
        }
        let elements = self.elements_of(c, &layout)?.vars;
        let mut levels = steps(&layout, &[axis], false);
        let first = if matches!(levels.first(), Some(Step::Registers { .. })) { Some(levels.remove(0)) } else { None };
        let mut scan = Scan { combine: c, exclusive, reversed, before: None, groups: layout.clone() };
        let totals = match first {
            Some(Step::Registers { axis, digit }) => {
                scan.groups = without_digit(&layout, axis, digit);
                self.scan_run(&scan, &layout, &elements, digit)?
            }
            _ => self.copies(c, &elements, layout.registers)?,
        };
        let mut partial = Partial { vars: totals, layout: scan.groups.clone() };
        let mut known_by = self.scan_levels(&mut scan, &mut partial, levels)?;
        if over_grid {
            self.take_up_tiles_before(&mut scan, &mut partial, known_by.take())?;
        }
        self.end_scan(&c.results, &partial, axis, known_by);
        let results = self.with_prefixes(&scan, &layout, elements)?;
        for ((value, input), var) in c.results.iter().zip(&c.inputs).zip(results) {
            let mask = self.tile(*input).mask.clone();
            let data = if layout.registers == 1 { Data::One(Expr::Var(var)) } else { Data::Array(var) };
            self.set(*value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask, data }));
        }
        Ok(())
    }

    /// Puts what the tiles before come to in front of every group, and of what the tile comes to.
    fn take_up_tiles_before(&mut self, scan: &mut Scan, totals: &mut Partial, known_by: Option<(i64, i64, i64)>) -> Expanded<()> {
        let c = scan.combine;
        for (var, value) in totals.vars.iter_mut().zip(&c.results) {
            if let Some(lanes) = known_by {
                *var = self.spread_total(*value, *var, totals.layout.registers, lanes)?;
            }
        }
        let own: Vec<Expr> = totals.vars.iter().map(|v| Expr::Var(*v)).collect();
        let before = self.look_back(c, &own)?;
        let front = before.iter().map(|v| Expr::Var(*v)).collect();
        let all = self.apply_operator(&c.operator, front, own)?;
        self.assign_components(&totals.vars, None, all);
        let one = totals.layout.clone();
        self.join_before(scan, &one, before)
    }

    /// New variables with the same values.
    fn copies(&mut self, c: &Combine, vars: &[VarId], registers: i64) -> Expanded<Vec<VarId>> {
        let copies = self.component_vars(c, registers, false);
        self.each_slot(registers, &mut |cx, slot| {
            let values = vars.iter().map(|v| cx.slot(*v, slot)).collect();
            cx.assign_components(&copies, slot, values);
            Ok(())
        })?;
        Ok(copies)
    }

    /// Scans the run of registers in which the axis begins, in place; the totals of the runs.
    fn scan_run(&mut self, scan: &Scan, layout: &Layout, elements: &[VarId], digit: Digit) -> Expanded<Vec<VarId>> {
        let totals = self.component_vars(scan.combine, scan.groups.registers, true);
        let operator = scan.combine.operator.clone();
        self.comment(format!("scan {} elements of each thread", digit.extent));
        self.nest(&scan.groups, true, &mut |cx, at| {
            let total_at = slot_of(&scan.groups, at);
            let start = index_in(layout, at);
            let (var, k) = cx.loop_var("k");
            cx.open();
            let here = element_of(&start, &in_order(&k, &digit, scan.reversed), &digit);
            let own = elements.iter().map(|v| cx.slot(*v, Some(&here))).collect();
            let own = cx.settled(&operator, own);
            let before: Vec<Expr> = totals.iter().map(|v| cx.slot(*v, total_at.as_ref())).collect();
            if scan.exclusive {
                // The element is read before its place takes what is before it.
                let own = cx.kept(own);
                cx.assign_components(elements, Some(&here), before.clone());
                let total = cx.apply_operator(&operator, before, own)?;
                cx.assign_components(&totals, total_at.as_ref(), total);
            } else {
                let total = cx.apply_operator(&operator, before, own)?;
                cx.assign_components(&totals, total_at.as_ref(), total);
                let total = totals.iter().map(|v| cx.slot(*v, total_at.as_ref())).collect();
                cx.assign_components(elements, Some(&here), total);
            }
            let turn = cx.close();
            cx.emit(unrolled(var, digit.extent, turn));
            Ok(())
        })?;
        Ok(totals)
    }

    /// Values in variables of their own: their sources are about to change.
    fn kept(&mut self, values: Vec<Expr>) -> Vec<Expr> {
        values
            .into_iter()
            .map(|e| {
                let dtype = self.dtype_of(&e);
                self.declare_let("own", dtype, e)
            })
            .collect()
    }

    /// Says of which lanes one alone has the total at the end: a distance apart, how many, and which.
    fn scan_levels(&mut self, scan: &mut Scan, totals: &mut Partial, levels: Vec<Step>) -> Expanded<Option<(i64, i64, i64)>> {
        let count = levels.len();
        // Lanes that hold the same total by now, and those of which only the last one (the first of a reversed scan) has it.
        let mut lanes: Vec<(i64, i64)> = Vec::new();
        let mut last: Option<(i64, i64)> = None;
        let mut levels = levels.into_iter().enumerate().peekable();
        while let Some((n, level)) = levels.next() {
            let groups = totals.layout.clone();
            let before = match level {
                Step::Lanes { distance, extent } => {
                    let spread = n + 1 < count && !matches!(levels.peek(), Some((_, Step::Threads(_))));
                    last = (!spread).then_some((distance, extent));
                    if spread {
                        lanes.push((distance, extent));
                    }
                    self.scan_lanes(scan, totals, distance, extent, spread)?
                }
                Step::Threads(parts) => self.scan_threads(scan, totals, &lanes, last.take(), &parts)?,
                Step::Registers { axis, digit } => self.scan_digit(scan, totals, axis, digit)?,
            };
            self.join_before(scan, &groups, before)?;
        }
        Ok(last.map(|(distance, extent)| (distance, extent, if scan.reversed { 0 } else { extent - 1 })))
    }

    /// Scans totals over lanes `distance` apart; what is before each. Afterwards the last lane has its group's total, or all if `spread`.
    fn scan_lanes(&mut self, scan: &Scan, totals: &mut Partial, distance: i64, extent: i64, spread: bool) -> Expanded<Vec<VarId>> {
        let c = scan.combine;
        let before = self.component_vars(c, totals.layout.registers, false);
        self.comment(format!("scan {extent} lanes"));
        let part = self.thread_part(distance, extent);
        let part = self.declare_let("part", DType::I32, part);
        let (vars, operator, identity) = (totals.vars.clone(), c.operator.clone(), self.identities(c));
        let reversed = scan.reversed;
        self.each_slot(totals.layout.registers, &mut |cx, slot| {
            let (k, e) = cx.loop_var("k");
            cx.open();
            let step = binary(BinaryOp::Shl, int(1), e.clone());
            let mine: Vec<Expr> = vars.iter().map(|v| cx.slot(*v, slot)).collect();
            let inside = cx.neighbour_exists(&part, step.clone(), extent, reversed);
            let other = cx.neighbours(&mine, binary(BinaryOp::Shl, int(distance), e), &inside, reversed);
            let other = cx.settled(&operator, other);
            let joined = cx.apply_operator(&operator, other, mine.clone())?;
            let new = joined.into_iter().zip(mine).map(|(a, b)| choose(&inside, a, b)).collect();
            cx.assign_components(&vars, slot, new);
            let turn = cx.close();
            cx.emit(unrolled(k, extent.trailing_zeros() as i64, turn));
            let totals: Vec<Expr> = vars.iter().map(|v| cx.slot(*v, slot)).collect();
            let inside = cx.neighbour_exists(&part, int(1), extent, reversed);
            let other = cx.neighbours(&totals, int(distance), &inside, reversed);
            let start = other.into_iter().zip(&identity).map(|(o, i)| choose(&inside, o, Expr::Literal(*i))).collect();
            cx.assign_components(&before, slot, start);
            if spread {
                let ix = super::index::Index { dtype: DType::I32 };
                let end = if reversed { 0 } else { extent - 1 };
                let lane = ix.rem(cx.thread32(), 32);
                let source = ix.add(binary(BinaryOp::Sub, lane, ix.mul(part.clone(), ix.lit(distance))), ix.lit(end * distance));
                let all = totals.into_iter().map(|t| cx.shuffle(t, ShuffleKind::Index, source.clone())).collect();
                cx.assign_components(&vars, slot, all);
            }
            Ok(())
        })?;
        Ok(before)
    }

    /// Whether the lane `step` parts before this one is in the group.
    fn neighbour_exists(&mut self, part: &Expr, step: Expr, extent: i64, reversed: bool) -> Expr {
        let ix = super::index::Index { dtype: DType::I32 };
        let inside = if reversed {
            compare(CompareOp::Lt, ix.add(part.clone(), step), int(extent))
        } else {
            compare(CompareOp::Ge, part.clone(), step)
        };
        self.declare_let("inside", DType::Bool, inside)
    }

    /// The values of the lanes `distance` before this one; of a lane outside of the group, anything.
    fn neighbours(&mut self, values: &[Expr], distance: Expr, inside: &Expr, reversed: bool) -> Vec<Expr> {
        // A lane above may not exist in a warp that is not full: it must not be read.
        let full = self.team.threads % 32 == 0;
        let distance = if reversed && !full { choose(inside, distance, int(0)) } else { distance };
        let kind = if reversed { ShuffleKind::Down } else { ShuffleKind::Up };
        values.iter().map(|v| self.shuffle(v.clone(), kind, distance.clone())).collect()
    }

    /// Scans totals over threads of several warps through shared memory; what is before each. Afterwards all have the total.
    fn scan_threads(
        &mut self,
        scan: &Scan,
        totals: &mut Partial,
        agreed: &[(i64, i64)],
        last: Option<(i64, i64)>,
        parts: &[(i64, i64)],
    ) -> Expanded<Vec<VarId>> {
        let c = scan.combine;
        let count: i64 = parts.iter().map(|p| p.1).product();
        self.comment(format!("scan {count} parts of the block through shared memory"));
        let same: Vec<(i64, i64)> = agreed.iter().copied().chain(last).collect();
        let end = |extent: i64| if scan.reversed { 0 } else { extent - 1 };
        let writes = agreed.iter().map(|(s, n)| (*s, *n, 0)).chain(last.map(|(s, n)| (s, n, end(n))));
        let writer = all(writes.map(|(s, n, k)| compare(CompareOp::Eq, self.thread_part(s, n), int(k))));
        let meeting = self.meet(totals, &same, parts, writer)?;
        let before = self.component_vars(c, totals.layout.registers, false);
        let (vars, operator, identity) = (totals.vars.clone(), c.operator.clone(), self.identities(c));
        let reversed = scan.reversed;
        self.each_slot(totals.layout.registers, &mut |cx, slot| {
            let reads = cx.read_meeting(&vars, &meeting, slot);
            let start: Vec<Expr> = identity.iter().map(|l| Expr::Literal(*l)).collect();
            cx.assign_components(&before, slot, start.clone());
            cx.assign_components(&vars, slot, start);
            let (k, e) = cx.loop_var("k");
            cx.open();
            let at = if reversed { binary(BinaryOp::Sub, int(count - 1), e) } else { e };
            let own = compare(CompareOp::Eq, meeting.number.clone(), at.clone());
            let own = cx.declare_let("is_own", DType::Bool, own);
            let total: Vec<Expr> = vars.iter().map(|v| cx.slot(*v, slot)).collect();
            let shown = total.iter().zip(&before).map(|(t, b)| choose(&own, t.clone(), cx.slot(*b, slot))).collect();
            cx.assign_components(&before, slot, shown);
            let right = reads.iter().map(|v| cx.slot(*v, Some(&at))).collect();
            let right = cx.settled(&operator, right);
            let new = cx.apply_operator(&operator, total, right)?;
            cx.assign_components(&vars, slot, new);
            let turn = cx.close();
            cx.emit(unrolled(k, count, turn));
            Ok(())
        })?;
        Ok(before)
    }

    /// Scans totals along a digit of registers that lie apart; what is before each. The digit is gone from the totals afterwards.
    fn scan_digit(&mut self, scan: &Scan, totals: &mut Partial, axis: usize, digit: Digit) -> Expanded<Vec<VarId>> {
        let c = scan.combine;
        let old = totals.layout.clone();
        let kept = without_digit(&old, axis, digit);
        let stride = digit_in(&old, axis, digit.place).map_or(1, |d| d.stride);
        let digit = Digit { stride, ..digit };
        let (sums, before) = (self.component_vars(c, kept.registers, true), self.component_vars(c, old.registers, false));
        let (from, operator) = (totals.vars.clone(), c.operator.clone());
        self.nest(&kept, true, &mut |cx, at| {
            let sum_at = slot_of(&kept, at);
            let start = index_in(&old, at);
            let (var, k) = cx.loop_var("k");
            cx.open();
            let here = element_of(&start, &in_order(&k, &digit, scan.reversed), &digit);
            let sum: Vec<Expr> = sums.iter().map(|v| cx.slot(*v, sum_at.as_ref())).collect();
            cx.assign_components(&before, Some(&here), sum.clone());
            let right = from.iter().map(|v| cx.slot(*v, Some(&here))).collect();
            let right = cx.settled(&operator, right);
            let new = cx.apply_operator(&operator, sum, right)?;
            cx.assign_components(&sums, sum_at.as_ref(), new);
            let turn = cx.close();
            cx.emit(unrolled(var, digit.extent, turn));
            Ok(())
        })?;
        *totals = Partial { vars: sums, layout: kept };
        Ok(before)
    }

    /// Puts what is before a larger group, dealt as `groups`, in front of what is known to be before each group.
    fn join_before(&mut self, scan: &mut Scan, groups: &Layout, before: Vec<VarId>) -> Expanded<()> {
        let Some(inner) = scan.before.clone() else {
            scan.before = Some(before);
            return Ok(());
        };
        let operator = scan.combine.operator.clone();
        let finest = scan.groups.clone();
        self.nest(&finest, true, &mut |cx, at| {
            let (slot, outer) = (slot_of(&finest, at), slot_of(groups, at));
            let left = before.iter().map(|v| cx.slot(*v, outer.as_ref())).collect();
            let right: Vec<Expr> = inner.iter().map(|v| cx.slot(*v, slot.as_ref())).collect();
            let left = cx.settled(&operator, left);
            let right = cx.settled(&operator, right);
            let new = cx.apply_operator(&operator, left, right)?;
            cx.assign_components(&inner, slot.as_ref(), new);
            Ok(())
        })
    }

    /// The elements with what is before their runs in front of them.
    fn with_prefixes(&mut self, scan: &Scan, layout: &Layout, elements: Vec<VarId>) -> Expanded<Vec<VarId>> {
        let run = scan.groups.registers < layout.registers || scan.groups != *layout;
        match scan.before.clone() {
            None if !run && scan.exclusive => {
                let start = self.identities(scan.combine).into_iter().map(Expr::Literal).collect::<Vec<_>>();
                self.each_slot(layout.registers, &mut |cx, slot| {
                    cx.assign_components(&elements, slot, start.clone());
                    Ok(())
                })?;
                Ok(elements)
            }
            None => Ok(elements),
            // Without a run the elements are the groups.
            Some(before) if !run && scan.exclusive => Ok(before),
            Some(before) => {
                let (operator, groups) = (scan.combine.operator.clone(), scan.groups.clone());
                self.nest(layout, true, &mut |cx, at| {
                    let (slot, group) = (slot_of(layout, at), slot_of(&groups, at));
                    let left = before.iter().map(|v| cx.slot(*v, group.as_ref())).collect();
                    let right = elements.iter().map(|v| cx.slot(*v, slot.as_ref())).collect();
                    let left = cx.settled(&operator, left);
                    let right = cx.settled(&operator, right);
                    let new = cx.apply_operator(&operator, left, right)?;
                    cx.assign_components(&elements, slot.as_ref(), new);
                    Ok(())
                })?;
                Ok(elements)
            }
        }
    }
}

/// `condition ? a : b`.
fn choose(condition: &Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(condition.clone()), Box::new(a), Box::new(b))
}

/// The digit's value at turn `k` of a scan.
fn in_order(k: &Expr, digit: &Digit, reversed: bool) -> Expr {
    if reversed { binary(BinaryOp::Sub, int(digit.extent - 1), k.clone()) } else { k.clone() }
}

/// The register of the element whose digit has this value, in the run that begins at `start`.
fn element_of(start: &Expr, value: &Expr, digit: &Digit) -> Expr {
    let ix = super::index::Index { dtype: DType::I32 };
    ix.add(start.clone(), ix.mul(value.clone(), ix.lit(digit.stride)))
}

/// The register digit of an axis with a place.
fn digit_in(layout: &Layout, axis: usize, place: i64) -> Option<Digit> {
    layout.axes[axis].iter().find(|d| d.source == Source::Register && d.place == place).copied()
}

/// The layout without one register digit.
fn without_digit(layout: &Layout, axis: usize, digit: Digit) -> Layout {
    let keeps = |a: usize, d: &Digit| d.source == Source::Thread || a != axis || d.place != digit.place;
    let axes = layout.axes.iter().enumerate().map(|(a, digits)| digits.iter().filter(|d| keeps(a, d)).copied().collect());
    renumbered(axes.collect(), layout.threads)
}

/// The register of `layout` at the digits that are looped over; digits that are not count 0.
fn index_in(layout: &Layout, at: &At) -> Expr {
    let ix = super::index::Index { dtype: DType::I32 };
    let known = |axis: usize, d: &Digit| at.digits.iter().find(|(a, place, _)| *a == axis && *place == d.place);
    layout.register_digits().into_iter().fold(ix.lit(0), |sum, (axis, d)| match known(axis, &d) {
        Some((_, _, e)) => ix.add(sum, ix.mul(e.clone(), ix.lit(d.stride))),
        None => sum,
    })
}

/// The same as the index of an array; none for a single variable.
fn slot_of(layout: &Layout, at: &At) -> Option<Expr> {
    (layout.registers > 1).then(|| index_in(layout, at))
}

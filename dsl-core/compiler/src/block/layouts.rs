//! Layouts made of others.

use crate::plan::spread;
use girih_ir::layout::{Deal, Digit, Layout, Source};

/// Lanes of a warp.
pub(crate) const LANES: i64 = 32;

/// The layout of a tile whose axis `k` is axis `axes[k]` of `layout`: the same threads, registers renumbered without the axes that
/// are not there.
pub(crate) fn projected(layout: &Layout, axes: &[usize]) -> Layout {
    if axes.iter().copied().eq(0..layout.axes.len()) {
        return layout.clone();
    }
    renumbered(axes.iter().map(|a| layout.axes[*a].clone()).collect(), layout.threads)
}

/// A layout of these digits, whose registers are numbered anew in their order.
pub(crate) fn renumbered(mut axes: Vec<Vec<Digit>>, threads: i64) -> Layout {
    let mut order: Vec<i64> = axes.iter().flatten().filter(|d| d.source == Source::Register).map(|d| d.stride).collect();
    order.sort_unstable();
    let mut registers = 1;
    for old in order {
        let digit = axes.iter_mut().flatten().find(|d| d.source == Source::Register && d.stride == old);
        let digit = digit.expect("lowering: a digit vanished");
        // Marked negative so that a renumbered digit is not found again.
        digit.stride = -registers;
        registers *= digit.extent;
    }
    axes.iter_mut().flatten().for_each(|d| d.stride = d.stride.abs());
    Layout { axes, threads, registers }
}

/// The layout behind an exchange: thread `t` of slice `s` has run `s` of the registers that thread `t` had. `None` where they don't divide.
pub(crate) fn dealt_to_slices(layout: &Layout, slices: i64) -> Option<Layout> {
    let own = layout.registers / slices;
    if layout.registers % slices != 0 {
        return None;
    }
    let mut axes = Vec::new();
    for axis in &layout.axes {
        let mut digits = Vec::new();
        for d in axis {
            if d.source != Source::Register || d.stride * d.extent <= own {
                digits.push(*d);
                continue;
            }
            // What lies within a run stays in the thread, what counts the runs becomes the slice.
            let within = (own / d.stride).max(1);
            if d.stride < own && own % d.stride != 0 || d.stride >= own && d.stride % own != 0 || d.extent % within != 0 {
                return None;
            }
            if within > 1 {
                digits.push(Digit { extent: within, ..*d });
            }
            let stride = layout.threads * (d.stride * within / own);
            digits.push(Digit { source: Source::Thread, stride, extent: d.extent / within, place: d.place * within });
        }
        axes.push(digits);
    }
    Some(Layout { axes, threads: layout.threads * slices, registers: own })
}

/// A layout with runs of `run` neighbours along an axis that is dealt as accumulators are: two neighbours per lane, four lanes, then
/// registers. `None` where there are too few registers for it. Of swapped operands' results each lane keeps its two neighbours, which lie in
/// rows of 64 bytes: they become neighbouring registers.
pub(crate) fn with_runs(layout: &Layout, axis: usize, run: i64) -> Option<Layout> {
    let is = |d: &Digit, source, stride, extent, place| (d.source, d.stride, d.extent, d.place) == (source, stride, extent, place);
    if let [pair, lanes, ..] = &layout.axes[axis][..]
        && is(pair, Source::Register, 2, 2, 1)
        && is(lanes, Source::Thread, 4, 8, 2)
    {
        return (run == 2).then(|| with_pairs(layout));
    }
    let [pair, quad, atoms, rest @ ..] = &layout.axes[axis][..] else { return None };
    let dealt = is(pair, Source::Register, 1, 2, 1) && is(quad, Source::Thread, 1, 4, 2);
    if !dealt || atoms.source != Source::Register || atoms.place != 8 {
        return None;
    }
    let register = |stride, extent, place| Digit { source: Source::Register, stride, extent, place };
    let lanes = |stride, extent, place| Digit { source: Source::Thread, stride, extent, place };
    // Elements of the quad's two lanes, or four of them, after the exchange.
    let (taken, quads) = match run {
        4 => (2, vec![lanes(2, 2, 4), lanes(1, 2, 8)]),
        8 => (4, vec![lanes(1, 4, 8)]),
        16 => (8, vec![lanes(1, 4, 16)]),
        _ => return None,
    };
    if atoms.extent % taken != 0 {
        return None;
    }
    let mut digits = vec![register(1, run, 1)];
    digits.extend(quads);
    digits.push(register(atoms.stride, atoms.extent / taken, 8 * taken));
    digits.extend(rest);
    digits.retain(|d| d.extent > 1);
    let mut axes = layout.axes.clone();
    axes[axis] = digits;
    Some(renumbered(axes, layout.threads))
}

/// A layout whose neighbours are two registers apart, with those that lie between them behind.
pub(crate) fn with_pairs(layout: &Layout) -> Layout {
    let mut pairs = layout.clone();
    for digit in pairs.axes.iter_mut().flatten().filter(|d| d.source == Source::Register && d.extent == 2) {
        digit.stride = match digit.stride {
            1 => 2,
            2 => 1,
            other => other,
        };
    }
    pairs
}

/// The layout of a tile of which each thread has one element after the other in row-major order, and more in registers where there are more.
pub(crate) fn one_by_one(shape: &[i64], threads: i64) -> Layout {
    if shape.is_empty() {
        return Layout { axes: vec![], threads, registers: 1 };
    }
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    let along = spread(threads, shape);
    Layout::dealt(&Deal { shape, threads: &along, order: &order, vector: 1, lanes: None, block: threads })
}

/// Elements of a row that a thread reads by itself, at most.
const SHORT: i64 = 8;

/// The layout of a tile that repeats one of this layout along a short last axis, whose axis `k` is `from[k]` of that one: all repetitions are the
/// thread's own, so that rows at computed positions are read by vectors.
pub(crate) fn with_rows(layout: &Layout, from: &[Option<usize>], shape: &[i64]) -> Option<Layout> {
    let (last, kept) = from.split_last()?;
    let repeats = last.is_none() && kept.len() == layout.axes.len() && kept.iter().enumerate().all(|(k, f)| *f == Some(k));
    let extent = shape.last().copied().filter(|extent| repeats && (2..=SHORT).contains(extent))?;
    Some(layout.with_register_axis(kept.len(), extent))
}

/// The layout if 32 neighbours along the last axis are the lanes of a warp in it, or else one of the same tile in which they are: thread after
/// thread in row-major order. None where there are not whole warps.
pub(crate) fn by_lanes(own: Layout, threads: i64) -> Option<Layout> {
    let first = own.axes.last().and_then(|digits| digits.first());
    let side_by_side = |d: &Digit| d.source == Source::Thread && d.stride == 1 && d.place == 1 && d.extent % LANES == 0;
    if first.is_some_and(side_by_side) && own.threads % LANES == 0 {
        return Some(own);
    }
    let shape = own.shape();
    spread(threads, &shape).last().filter(|n| *n % LANES == 0)?;
    Some(one_by_one(&shape, threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_ir::fragments::{ATOMS, Operand};

    #[test]
    fn slices_finish_runs_of_the_registers() {
        let mut found = 0;
        for atom in ATOMS {
            let mut layout = atom.layout(Operand::Accumulator);
            let own = layout.registers;
            let digit = |source, stride, extent, place| Digit { source, stride, extent, place };
            layout.axes[1].push(digit(Source::Register, own, 4, 8));
            layout.axes[0].push(digit(Source::Register, own * 4, 2, 16));
            layout.axes[0].push(digit(Source::Thread, 32, 2, 32));
            let layout = Layout { threads: 64, registers: own * 8, ..layout };
            for slices in [2, 3, 4, 8, 16] {
                let Some(dealt) = dealt_to_slices(&layout, slices) else {
                    assert!(slices == 3, "{atom}: {slices} slices");
                    continue;
                };
                found += 1;
                assert_eq!((dealt.shape(), dealt.threads, dealt.registers * slices), (layout.shape(), 64 * slices, layout.registers));
                for thread in 0..dealt.threads {
                    for register in 0..dealt.registers {
                        let before = layout.coordinates(thread % 64, thread / 64 * dealt.registers + register);
                        assert_eq!(dealt.coordinates(thread, register), before, "{atom}, {slices} slices");
                    }
                }
            }
        }
        assert!(found > 10, "{found}");
    }
}

//! How wide accesses at computed positions are that step by one along the registers of a thread: gathers from tensors and stores to them, and
//! what is read from and stored to shared arrays.

use super::Widths;
use crate::block::lying::{Lying, Walk};
use crate::block::mask::Mask;
use crate::block::numbers::MOST;
use crate::block::positions::RunOf;
use crate::block::{Cut, Cuts, Kernel, SharedId, Stmt, ValueId, ViewId, gcd, visit};
use girih_ir::layout::Layout;
use std::collections::HashMap;

/// The gathers of vectors among those that were found: each once, and not made again by other threads.
pub(super) fn kept(page: &Kernel, found: Vec<(ValueId, Cuts)>) -> HashMap<ValueId, Cuts> {
    let mut all: HashMap<ValueId, Cuts> = HashMap::new();
    let single = Cuts { full: Cut::SINGLE, checked: Cut::SINGLE };
    for (value, cuts) in found {
        all.entry(value).and_modify(|known| *known = if *known == cuts { cuts } else { single }).or_insert(cuts);
    }
    visit(&page.body, &mut |stmt| {
        if let Stmt::Alone(alone) = stmt {
            visit(&alone.again, &mut |again| {
                if let Stmt::Let(v, _) = again {
                    all.remove(v);
                }
            });
        }
    });
    all.retain(|_, cuts| *cuts != single);
    all
}

impl Widths<'_> {
    /// The instructions of a gather; `inside` says that all of its positions lie inside.
    pub(super) fn gathered(&self, walk: &Walk, view: ViewId, indices: &[ValueId], inside: bool) -> Cuts {
        let Lying { layout, mask } = walk.meeting(view, indices);
        let [full, checked] = [true, false].map(|full| {
            let width = layout.as_ref().map_or(1, |layout| self.gather_width(walk, view, indices, layout, &mask, [inside, full]));
            if width == 1 { Cut::SINGLE } else { Cuts::of_width(width).full }
        });
        Cuts { full, checked }
    }

    /// The instructions of what reads elements of a shared array, or stores a value there.
    pub(super) fn of_array(&self, walk: &Walk, array: SharedId, indices: &[ValueId], value: Option<ValueId>) -> Cuts {
        let declared = self.page.shared_array(array);
        // Copies of an element lie between it and its neighbour.
        let copied = declared.join.is_some() && self.page.launch.copies > 1;
        if copied || value.is_some_and(|v| self.divisors.is_scalar(v)) {
            return Cuts::of_width(1);
        }
        let values: Vec<ValueId> = indices.iter().copied().chain(value).collect();
        let Lying { layout, mask } = walk.meeting_in_array(array, &values);
        let inside = walk.lies_in_array(array, indices);
        let [full, checked] = [true, false].map(|full| {
            let width = layout.as_ref().map_or(1, |layout| {
                let Some(run) = run_of(layout).filter(|_| mask.sides.is_empty()) else { return 1 };
                widest(run, 16 / declared.dtype.size() as i64, |width| {
                    let strides = (0..indices.len()).map(|k| declared.shape[k + 1..].iter().product());
                    let together = inside || declared.shape.last().is_some_and(|len| len % width == 0);
                    let exist = || self.together(&mask, &[run], width, (full, false));
                    together && self.side_by_side(indices, strides.collect(), indices.len() - 1, 0, (layout, run.0, width)) && exist()
                })
            });
            Cuts::of_width(width).full
        });
        Cuts { full, checked }
    }

    /// Elements per instruction of a store to computed positions in a tensor: those that are stored together.
    pub(super) fn scatter_width(&self, walk: &Walk, view: ViewId, indices: &[ValueId], value: ValueId) -> i64 {
        let values: Vec<ValueId> = indices.iter().copied().chain([value]).collect();
        let Lying { layout, mask } = walk.meeting(view, &values);
        let Some(layout) = layout.filter(|_| !self.divisors.is_scalar(value)) else { return 1 };
        let Some(run) = run_of(&layout) else { return 1 };
        let mut width = self.gather_width(walk, view, indices, &layout, &mask, [false, false]);
        while width > 1 && !self.together(&mask, &[run], width, (false, false)) {
            width /= 2;
        }
        width
    }

    /// Elements per instruction: as many as lie side by side in memory from an aligned address on, and are all there or all not.
    fn gather_width(&self, walk: &Walk, view: ViewId, indices: &[ValueId], layout: &Layout, mask: &Mask, how: [bool; 2]) -> i64 {
        let [inside, full] = how;
        let v = self.page.view(view);
        let (Some(run), Some(along), true) = (run_of(layout), self.memory_axis(view), mask.sides.is_empty()) else { return 1 };
        let mut most = 16.min(self.page.params[v.param].align()) / v.dtype.size() as i64;
        if self.page.launch.blocked {
            most = most.min(self.page.launch.vector);
        }
        widest(run, most, |width| {
            let strides = v.axes.iter().map(|axis| self.divisors.scalar(axis.stride).multiple());
            let offset = self.divisors.scalar(v.offset).multiple();
            let steps = self.side_by_side(indices, strides.collect(), along, offset, (layout, run.0, width));
            let ends = || self.divisors.scalar(v.axes[along].len).multiple() % width == 0;
            let together = inside || walk.lies_below(indices[along], v.axes[along].len) || ends();
            // What lies behind the bounds of positions is read where it is there.
            let exist = !inside || self.together(mask, &[run], width, (full, false));
            steps && together && exist
        })
    }

    /// Whether positions step by one in memory along a run, from an aligned address on: by what their axes' strides and where the first element
    /// lies are divisible, and along which axis memory runs.
    fn side_by_side(
        &self,
        indices: &[ValueId],
        strides: Vec<i64>,
        along: usize,
        offset: i64,
        (layout, axis, width): (&Layout, usize, i64),
    ) -> bool {
        let run_of = RunOf { layout, axis, width };
        let axes: Vec<usize> = (0..layout.axes.len()).collect();
        let mut aligned = offset;
        let steps = indices.iter().zip(strides).enumerate().all(|(k, (index, stride))| {
            let Some(steps) = self.divisors.steps(*index, &axes, run_of) else { return false };
            aligned = gcd(aligned, if k == along { steps.first } else { gcd(steps.first * stride, MOST) });
            steps.by == i64::from(k == along)
        });
        steps && aligned % width == 0
    }
}

/// The axis of which a thread's neighbouring registers are neighbours, and how many; none where there is no such axis.
fn run_of(layout: &Layout) -> Option<(usize, i64)> {
    layout.register_digits().pop().filter(|(_, d)| d.stride == 1 && d.place == 1).map(|(axis, d)| (axis, d.extent))
}

/// The largest power of two up to `most` that divides a run and fits.
fn widest((_, extent): (usize, i64), most: i64, fits: impl Fn(i64) -> bool) -> i64 {
    let mut width = 1;
    while width * 2 <= most && extent % (width * 2) == 0 && fits(width * 2) {
        width *= 2;
    }
    width
}

//! How wide gathers are whose positions step by one along the registers of a thread.

use super::Widths;
use crate::block::lying::{Lying, Walk};
use crate::block::mask::Mask;
use crate::block::positions::RunOf;
use crate::block::{Cut, Cuts, Kernel, Stmt, ValueId, ViewId, gcd, visit};
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

    /// Elements per instruction: as many as lie side by side in memory from an aligned address on, and are all there or all not.
    fn gather_width(&self, walk: &Walk, view: ViewId, indices: &[ValueId], layout: &Layout, mask: &Mask, how: [bool; 2]) -> i64 {
        let [inside, full] = how;
        let v = self.page.view(view);
        let run = layout.register_digits().pop().filter(|(_, d)| d.stride == 1 && d.place == 1);
        let (Some((axis, run)), Some(along), true) = (run, self.memory_axis(view), mask.sides.is_empty()) else { return 1 };
        let mut widest = 16.min(self.page.params[v.param].align()) / v.dtype.size() as i64;
        if self.page.launch.blocked {
            widest = widest.min(self.page.launch.vector);
        }
        let fits = |width: i64| {
            let run_of = RunOf { layout, axis, width };
            let axes: Vec<usize> = (0..layout.axes.len()).collect();
            let mut aligned = self.divisors.scalar(v.offset).multiple();
            let steps = indices.iter().zip(&v.axes).enumerate().all(|(k, (index, of))| {
                let Some(steps) = self.divisors.steps(*index, &axes, run_of) else { return false };
                let stride = self.divisors.scalar(of.stride).multiple();
                aligned = gcd(aligned, if k == along { steps.first } else { gcd(steps.first * stride, crate::block::numbers::MOST) });
                steps.by == i64::from(k == along)
            });
            let ends = || self.divisors.scalar(v.axes[along].len).multiple() % width == 0;
            let together = inside || walk.lies_below(indices[along], v.axes[along].len) || ends();
            // What lies behind the bounds of positions is read where it is there.
            let exist = !inside || self.together(mask, &[(axis, run.extent)], width, (full, false));
            steps && aligned % width == 0 && together && exist
        };
        let mut width = 1;
        while width * 2 <= widest && run.extent % (width * 2) == 0 && fits(width * 2) {
            width *= 2;
        }
        width
    }
}

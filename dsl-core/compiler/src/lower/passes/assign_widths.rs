//! How wide the instructions of an access to memory are: as wide as its layout has neighbours in memory, as the tensor or shared array is
//! aligned, and as elements are there or absent together. And from which layout a tile is stored, which it may lie in already.

mod copies;
mod gathers;

use super::Source;
use crate::block::divisors::{Divisors, Known};
use crate::block::lying::Walk;
use crate::block::mask::Mask;
use crate::block::{self, Access, Cut, Cuts, Index, Op, Rows, SharedKind, Stmt, ValueId, Window, gcd, spread, visit, visit_mut};
use girih_ir::layout::{Deal, Layout};
use girih_ir::types::DType;
use std::collections::{HashMap, VecDeque};

/// Bytes of a row that neighbouring threads store together, at least: a line of memory, and once all banks of shared memory.
const LINE: i64 = 128;

/// Gives every access of a tile its instructions.
pub(crate) fn assign_widths(page: &mut block::Kernel, _: &Source) {
    let mut found: VecDeque<Option<Found>> = VecDeque::new();
    let mut groups: HashMap<usize, i64> = HashMap::new();
    let mut windows = HashMap::new();
    let mut gathers = Vec::new();
    visit(&page.body, &mut |stmt| {
        if let Stmt::Window(v, window) = stmt {
            windows.insert(*v, window);
        }
    });
    let widths = Widths { page, divisors: Divisors::new(page), windows };
    Walk::new(page).block(&page.body, &mut |walk, stmt| {
        if let Stmt::Let(v, Op::Near(window, _)) = stmt {
            let group = page.window_groups.of[v];
            let layout = walk.tile(*window).layout;
            groups.entry(group).or_insert_with(|| widths.read_in_place(&page.window_groups.groups[group], layout.as_ref()));
        } else if let Stmt::Let(v, Op::Gather(view, indices) | Op::GatherInside(view, indices)) = stmt {
            let inside = matches!(stmt, Stmt::Let(_, Op::GatherInside(..)));
            gathers.push((*v, widths.gathered(walk, *view, indices, inside)));
        } else if is_access(stmt) {
            found.push_back(widths.of(walk, stmt));
        }
    });
    visit_mut(&mut page.body, &mut |stmt| {
        if is_access(stmt)
            && let Some(found) = found.pop_front().flatten()
        {
            set(stmt, found);
        }
    });
    page.gathers = gathers::kept(page, gathers);
    for (group, width) in groups {
        page.window_groups.groups[group].width = width;
    }
}

/// Whether a statement accesses memory in other than single elements.
fn is_access(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Load(..) | Stmt::Window(..) | Stmt::Store { .. } | Stmt::Scatter { .. } => true,
        Stmt::Shared { kind, .. } => matches!(kind, SharedKind::Copy { .. } | SharedKind::Gather { .. } | SharedKind::Scatter { .. }),
        Stmt::Let(..) | Stmt::Atomic { .. } | Stmt::Combine(_) | Stmt::Barrier(_) | Stmt::Meet(_) => false,
        Stmt::Copies { .. } | Stmt::Loop(_) | Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } => false,
        Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Alone(_) | Stmt::Finish(_) => false,
    }
}

fn set(stmt: &mut Stmt, found: Found) {
    if let Stmt::Load(_, access) | Stmt::Window(_, Window { tile: access, .. }) | Stmt::Store { to: access, .. } = stmt {
        access.cuts = Some(found.cuts);
    }
    if let Stmt::Store { from, rows, .. } = stmt {
        (*from, *rows) = (found.from, found.rows.map(Box::new));
    } else if let Stmt::Scatter { width, .. } = stmt {
        *width = found.cuts.checked.width;
    } else if let Stmt::Shared { cuts, .. } = stmt {
        *cuts = found.cuts;
    }
}

/// What is found of an access.
struct Found {
    cuts: Cuts,
    from: Option<Layout>,
    rows: Option<Rows>,
}

impl Found {
    fn of(cuts: Cuts) -> Found {
        Found { cuts, from: None, rows: None }
    }
}

struct Widths<'k> {
    page: &'k block::Kernel,
    divisors: Divisors<'k>,
    windows: HashMap<ValueId, &'k Window>,
}

impl Widths<'_> {
    fn of(&self, walk: &Walk, stmt: &Stmt) -> Option<Found> {
        match stmt {
            Stmt::Load(v, access) => self.load(walk, *v, access),
            Stmt::Window(v, window) => self.copied_window(*v, window),
            Stmt::Store { to, value, from, .. } => self.store(walk, to, *value, from.as_ref()),
            Stmt::Scatter { view, run: Some(run), .. } => Some(Found::of(self.run(*view, *run))),
            Stmt::Scatter { view, indices, value, run: None, .. } => {
                let width = self.scatter_width(walk, *view, indices, *value);
                Some(Found::of(Cuts::of_width(width)))
            }
            Stmt::Shared { kind: SharedKind::Copy { view, run, .. }, .. } => Some(Found::of(self.run(*view, *run))),
            Stmt::Shared { kind: SharedKind::Gather { indices, .. }, array, .. } => {
                Some(Found::of(self.of_array(walk, *array, indices, None)))
            }
            Stmt::Shared { kind: SharedKind::Scatter { indices, value }, array, .. } => {
                Some(Found::of(self.of_array(walk, *array, indices, Some(*value))))
            }
            Stmt::Let(..) | Stmt::Atomic { .. } | Stmt::Combine(_) | Stmt::Barrier(_) | Stmt::Meet(_) => None,
            Stmt::Copies { .. } | Stmt::Loop(_) | Stmt::Range { .. } | Stmt::While { .. } | Stmt::If { .. } | Stmt::Where { .. } => None,
            Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Alone(_) | Stmt::Finish(_) | Stmt::Shared { .. } => None,
        }
    }

    fn load(&self, walk: &Walk, value: ValueId, access: &Access) -> Option<Found> {
        if self.page.dots.is_load(value) {
            return self.copied_operand(value, access);
        }
        let layout = access.layout.as_ref().filter(|l| !l.axes.is_empty())?;
        let mut mask = self.page.mask_at(access);
        mask.and(&walk.sides_of(self.page.value(value).form));
        if let Some(cuts) = self.whole_rows(access, &mask) {
            return Some(Found::of(cuts));
        }
        Some(Found::of(self.cuts(access, layout, &mask, !self.page.is_written(self.page.view(access.view).param))))
    }

    fn store(&self, walk: &Walk, to: &Access, value: ValueId, dealt: Option<&Layout>) -> Option<Found> {
        let wanted = to.layout.as_ref().filter(|l| !l.axes.is_empty())?;
        let known = walk.tile(value);
        let mut mask = self.page.mask_at(to);
        mask.and(&known.mask);
        let (mut from, mut rows) = (None, None);
        if let Some(own) = known.layout {
            if self.page.can_exchange(&own, wanted) {
                rows = self.rows(to, &own, &mask);
            } else if own.fast_axis() == wanted.fast_axis() && own.distinct_threads() == own.threads {
                // Registers that lie together in memory, or no better layout at hand: it is stored from where the tile is.
                let anchored = walk.team().anchor.as_ref() == Some(&own);
                from = dealt.cloned().filter(|_| anchored).or(Some(own)).filter(|l| l != wanted);
            }
        }
        let cuts = self.cuts(to, from.as_ref().unwrap_or(wanted), &mask, false);
        Some(Found { cuts, from, rows })
    }

    /// The instructions of an access whose elements lie in a layout.
    fn cuts(&self, access: &Access, layout: &Layout, mask: &Mask, beyond: bool) -> Cuts {
        let [full, checked] = [true, false].map(|full| {
            let cut = self.cut(access, layout, mask, full, false);
            let whole = if beyond && self.divisors.keeps_to_positions() { self.cut(access, layout, mask, full, true) } else { cut };
            if whole.width > cut.width { Cut { beyond: true, ..whole } } else { cut }
        });
        Cuts { full, checked }
    }

    fn cut(&self, access: &Access, layout: &Layout, mask: &Mask, full: bool, vectors: bool) -> Cut {
        if !mask.sides.is_empty() {
            return Cut::SINGLE;
        }
        let view = self.page.view(access.view);
        let positions = (0..access.index.len()).filter(|k| !matches!(access.index[*k], Index::At(_)));
        let strides: Vec<ValueId> = positions.map(|k| view.axes[k].stride).collect();
        let (mut run, mut reversed, mut digits) = (1, false, Vec::new());
        for (axis, d) in layout.register_digits().into_iter().rev() {
            let Some(stride) = self.page.constant(strides[axis]) else { break };
            let step = stride * d.place;
            if step.abs() != run || d.stride != run || (run > 1 && (step < 0) != reversed) {
                break;
            }
            (reversed, run) = (step < 0, run * d.extent);
            digits.push((axis, d.extent));
        }
        let bytes = view.dtype.size() as i64;
        let mut widest = 16.min(self.page.params[view.param].align()) / bytes;
        if self.page.launch.blocked {
            // A thread's run is as long as its coarsening; the vector knob cuts it.
            widest = widest.min(self.page.launch.vector);
        }
        let start = self.divisors.address(access, layout);
        // The lowest address of a mirrored access is `start - (width - 1)`.
        let mut aligned = if reversed { start.plus(Known::constant(1)) } else { start }.multiple();
        for (axis, d) in layout.register_digits().into_iter().filter(|(_, d)| d.stride >= run) {
            let step = self.divisors.scalar(strides[axis]).times(Known::constant(d.place));
            aligned = gcd(aligned, step.multiple());
        }
        let mut width = 1;
        let divides = |width: i64| run % width == 0 && aligned % width == 0;
        while width * 2 <= widest && divides(width * 2) && self.together(mask, &digits, width * 2, (full, vectors)) {
            width *= 2;
        }
        if width == 1 { Cut::SINGLE } else { Cut { run, width, reversed, beyond: false } }
    }

    /// Whether the elements of one instruction all exist or all don't.
    fn together(&self, mask: &Mask, digits: &[(usize, i64)], width: i64, (full, vectors): (bool, bool)) -> bool {
        let unit = if digits.first().is_some_and(|d| d.1 % width == 0) { vec![(digits[0].0, width)] } else { digits.to_vec() };
        mask.bounds.iter().filter(|b| self.divisors.is_open(b, full, vectors)).all(|b| {
            let extent: i64 = unit.iter().filter(|(axis, _)| *axis == b.axis).map(|d| d.1).product();
            self.divisors.bound(b, vectors) % extent == 0
        })
    }

    /// The whole rows in which a tile that lies as matrix instructions left it had better go to memory. None where its elements have more than 16
    /// bits, memory takes less than 16 bytes at once, or rows have no whole lines.
    fn rows(&self, to: &Access, own: &Layout, mask: &Mask) -> Option<Rows> {
        let dtype = self.page.view(to.view).dtype;
        let (bytes, last) = (dtype.size() as i64, own.axes.len().checked_sub(1)?);
        let units = self.page.launch.units.is_some();
        if !units || bytes > 2 || dtype == DType::Bool || own.run(last) != 2 || own.distinct_threads() != own.threads {
            return None;
        }
        let layout = in_rows(&own.shape(), own.threads, 16 / bytes, bytes)?;
        let cuts = self.cuts(to, &layout, mask, false);
        let divides = self.page.grid().is_some_and(|g| g.divides);
        let cut = if divides { cuts.full } else { cuts.checked };
        (cut.width * bytes == 16).then_some(Rows { layout, cuts })
    }
}

/// The layout in which consecutive threads have `run` neighbours each of whole rows; `None` where threads cannot share them evenly or have
/// too short pieces of a row.
fn in_rows(shape: &[i64], threads: i64, run: i64, bytes: i64) -> Option<Layout> {
    let (columns, above) = shape.split_last()?;
    if columns % run != 0 {
        return None;
    }
    let room: Vec<i64> = above.iter().copied().chain([columns / run]).collect();
    let along = spread(threads, &room);
    let even = along.iter().product::<i64>() == threads && along.last()? * run * bytes >= LINE;
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    even.then(|| Layout::dealt(&Deal { shape, threads: &along, order: &order, vector: run, lanes: None, block: threads }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_threads_have_whole_rows() {
        let layout = in_rows(&[128, 256], 256, 8, 2).expect("even rows");
        assert_eq!((layout.run(1), layout.registers, layout.distinct_threads()), (8, 128, 256));
        for thread in 0..256 {
            assert_eq!(layout.coordinates(thread, 0), [thread / 32, thread % 32 * 8]);
            assert_eq!(layout.coordinates(thread, 8), [thread / 32 + 8, thread % 32 * 8]);
        }
        // Rows of three lines, of four tiles: 8 threads have the same line of each of 16 rows.
        let layout = in_rows(&[4, 32, 192], 128, 8, 2).expect("even rows");
        assert_eq!(layout.coordinates(127, 0), [0, 15, 56]);
        // Less than a line; more threads than runs; rows that are no runs.
        assert_eq!([in_rows(&[64, 96], 128, 8, 2), in_rows(&[8, 64], 128, 8, 2), in_rows(&[64, 68], 32, 8, 2)], [None, None, None]);
    }
}

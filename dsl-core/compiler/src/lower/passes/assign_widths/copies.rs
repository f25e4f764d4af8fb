//! How wide copies to shared memory, reads of windows, and runs at computed positions are.

use super::{Found, Widths};
use crate::block::divisors::Known;
use crate::block::mask::{Bound, Mask};
use crate::block::{Access, Boundary, Cuts, Group, Index, Op, Reach, Ty, ValueId, ViewId, Window, gcd};
use girih_ir::layout::Layout;

impl Widths<'_> {
    /// The copy of an operand of a dot. What is read where it lies takes single elements.
    pub(super) fn copied_operand(&self, value: ValueId, access: &Access) -> Option<Found> {
        let reader = self.page.dots.reader(value).filter(|_| access.read.shared)?;
        let tiles: Vec<usize> = (0..access.index.len()).filter(|k| matches!(access.index[*k], Index::Tile(_))).collect();
        let lies = tiles.iter().rev().copied().find(|k| self.steps_by_one(access.view, *k)).unwrap_or(tiles[tiles.len() - 1]);
        let outer = tiles[reader.outer()];
        let fast = if access.read.transposed && outer != lies { outer } else { lies };
        let along = self.memory_axis(access.view);
        let scatters = access.read.transposed && !access.read.asynchronous;
        let at = along.unwrap_or(fast);
        if at != fast && !scatters {
            return Some(Found::of(Cuts::of_width(1)));
        }
        let width = along.map_or(1, |at| self.widest(access, at, self.start(access, at), Some(true)));
        Some(Found::of(Cuts::of_width(divides(width, self.extent(access, at)))))
    }

    /// The copy of a window.
    pub(super) fn copied_window(&self, value: ValueId, window: &Window) -> Option<Found> {
        let Ty::Window(dtype, reach) = self.page.ty(value) else { return None };
        let (access, rank) = (&window.tile, window.tile.index.len());
        let layout = access.layout.as_ref().filter(|_| access.read.shared)?;
        let fast = if self.page.window_groups.reads_tiles(value) { layout.fast_axis() } else { rank - 1 };
        let along = self.memory_axis(access.view);
        if along.unwrap_or(fast) != fast {
            return Some(Found::of(Cuts::of_width(1)));
        }
        let (Reach { size, before, after }, unit) = (reach[fast], 16 / dtype.size() as i64);
        let up = |n: i64| (n + unit - 1) / unit * unit;
        let before = up(before);
        let first = self.shifted(window, fast).minus(Known::constant(before));
        let width = along.map_or(1, |at| self.widest(access, at, first, Some(false).filter(|_| window.boundary != Boundary::Clamp)));
        Some(Found::of(Cuts::of_width(divides(width, up(before + size + after)))))
    }

    /// A group of reads of a window where it lies.
    pub(super) fn read_in_place(&self, group: &Group, layout: Option<&Layout>) -> i64 {
        let Some(window) = self.windows.get(&group.window).filter(|w| !w.tile.read.shared) else { return 1 };
        let (access, Some(layout)) = (&window.tile, layout) else { return 1 };
        let Some(fast) = self.memory_axis(access.view) else { return 1 };
        let Index::Tile(index) = access.index[fast] else { return 1 };
        let own = if group.scalar { self.divisors.start(index) } else { self.divisors.base(Some(index), layout, fast) };
        let shift = window.shift[fast].map_or(Known::constant(0), |v| self.shift(v));
        let base = group.bases[fast].map_or(Known::constant(0), |v| self.divisors.scalar(v));
        self.widest(access, fast, own.plus(shift).plus(base), Some(false).filter(|_| window.boundary != Boundary::Clamp))
    }

    /// A tile of whole rows that all threads read as one run, if it is read so.
    pub(super) fn whole_rows(&self, access: &Access, mask: &Mask) -> Option<Cuts> {
        let (index, columns) = self.page.whole_rows(access).filter(|_| self.page.launch.shared_rows && mask.sides.is_empty())?;
        if self.divisors.keeps_to_positions_of(index) {
            return None;
        }
        let view = self.page.view(access.view);
        let (bytes, elements) = (view.dtype.size() as i64, self.page.tile_size(index) * columns);
        let start = self.divisors.scalar(view.offset).plus(self.divisors.tile(index).times(Known::constant(elements)));
        let bound: &Bound = mask.bounds.first()?;
        let end = self.divisors.scalar(bound.len).times(Known::constant(columns)).multiple();
        let [full, checked] = [true, false].map(|full| {
            let open = self.divisors.is_open(bound, full, false);
            let fits = |width: i64| {
                let aligned = width * bytes <= self.page.params[view.param].align() && start.multiple() % width == 0;
                aligned && elements % width == 0 && (!open || end % width == 0)
            };
            let mut width = 16 / bytes;
            while width > 1 && !fits(width) {
                width /= 2;
            }
            Cuts::of_width(width).full
        });
        Some(Cuts { full, checked })
    }

    /// A run at a computed position: one aligned access, all of it inside of the view or none, or element by element.
    pub(super) fn run(&self, view: ViewId, run: i64) -> Cuts {
        let v = self.page.view(view);
        let Some((last, others)) = v.axes.split_last() else { return Cuts::of_width(1) };
        let size = v.dtype.size() as i64;
        let align = self.page.params[v.param].known().map_or(size, |t| t.align as i64);
        let whole = |value: ValueId| self.divisors.scalar(value).multiple() % run == 0;
        let together = align % (run * size) == 0
            && self.page.constant(last.stride) == Some(1)
            && whole(last.len)
            && whole(v.offset)
            && others.iter().all(|axis| whole(axis.stride));
        Cuts::of_width(if together { run } else { 1 })
    }

    fn steps_by_one(&self, view: ViewId, axis: usize) -> bool {
        self.page.constant(self.page.view(view).axes[axis].stride) == Some(1)
    }

    /// The last axis of a view along which neighbours are neighbours in memory.
    pub(super) fn memory_axis(&self, view: ViewId) -> Option<usize> {
        (0..self.page.view(view).axes.len()).rev().find(|k| self.steps_by_one(view, *k))
    }

    /// The first coordinate of an access along an axis.
    fn start(&self, access: &Access, axis: usize) -> Known {
        match access.index[axis] {
            Index::Tile(v) | Index::At(v) => self.divisors.start(v),
            Index::All(_) => Known::constant(0),
        }
    }

    fn shifted(&self, window: &Window, axis: usize) -> Known {
        window.shift[axis].map_or(self.start(&window.tile, axis), |v| self.start(&window.tile, axis).plus(self.shift(v)))
    }

    /// How far a window lies from its tile.
    fn shift(&self, value: ValueId) -> Known {
        match self.divisors.op(value) {
            Some(Op::Start(index)) => self.divisors.start(*index),
            _ => self.divisors.scalar(value),
        }
    }

    fn extent(&self, access: &Access, axis: usize) -> i64 {
        match access.index[axis] {
            Index::Tile(v) => self.page.tile_size(v),
            Index::At(_) => 1,
            Index::All(n) => n,
        }
    }

    /// Elements per access to global memory from `first` on along the axis `fast`: all of them lie inside or outside. `ends` says whether those of
    /// the axis matter, and whether what is there are the positions to which a loop keeps.
    fn widest(&self, access: &Access, fast: usize, first: Known, ends: Option<bool>) -> i64 {
        let view = self.page.view(access.view);
        let mut aligned = gcd(self.divisors.scalar(view.offset).multiple(), first.multiple());
        for (k, axis) in view.axes.iter().enumerate() {
            if k != fast {
                aligned = gcd(aligned, self.divisors.scalar(axis.stride).multiple());
            }
        }
        if let Some(positions) = ends {
            aligned = gcd(aligned, self.divisors.scalar(view.axes[fast].len).multiple());
            if let Index::Tile(index) = access.index[fast]
                && positions
            {
                aligned = gcd(aligned, self.divisors.positions_of(index));
            }
        }
        let most = (16.min(self.page.params[view.param].align()) / view.dtype.size() as i64).min(self.page.launch.vector);
        let mut width = 1;
        while width * 2 <= most && aligned % (width * 2) == 0 {
            width *= 2;
        }
        width
    }
}

/// The width, halved until it divides an extent.
fn divides(mut width: i64, extent: i64) -> i64 {
    while width > 1 && extent % width != 0 {
        width /= 2;
    }
    width
}

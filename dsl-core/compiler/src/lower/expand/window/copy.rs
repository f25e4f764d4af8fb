//! How windows lie in shared memory.
//!
//! The copy lies row by row. A thread that owns a run of neighbours reads it in wide accesses, so that the lanes of a warp lie a run
//! apart: every run is followed by a gap where that would put them into the same banks.

use super::{WindowRep, own_run};
use crate::block::ValueId;
use crate::lower::expand::context::Expander;
use crate::lower::expand::convert::swizzled;
use crate::lower::expand::index::{Index, as_literal};
use girih_ir::layout::{Layout, SharedLayout, Source, bank_wavefronts};
use girih_ir::simt::{Expr, Place, SharedId, Space};
use girih_ir::types::DType;

/// Index arithmetic in shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// Where the elements of a window lie in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct WindowCopy {
    pub id: SharedId,
    /// Where it begins in the array: 0, or the stage's part of a ring.
    pub first: Expr,
    /// Per axis: elements before the tile, all elements, and array elements from one to the next.
    pub axes: Vec<CopyAxis>,
    /// The axis whose elements are neighbours.
    pub fast: usize,
    /// Elements between gaps along that axis.
    pub run: i64,
    /// Elements per gap.
    pub gap: i64,
    /// Widest access to a thread's run.
    pub width: i64,
    /// Elements from one copy of a ring to the next.
    pub stage: i64,
    /// How the rows along this axis are swizzled.
    pub swizzle: Option<(usize, SharedLayout)>,
}

/// One axis of a [`WindowCopy`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAxis {
    pub before: i64,
    pub extent: i64,
    pub pitch: i64,
}

/// Steps from a thread's first element of a copy to another one, along an axis: which one, of how many, and elements from one to the next.
pub(crate) struct Step {
    pub axis: usize,
    pub number: Expr,
    pub extent: i64,
    pub place: i64,
}

impl WindowCopy {
    /// Where an element lies along the fast axis, gaps included. `at` counts from the copy's first element.
    pub fn column(&self, at: Expr) -> Expr {
        if self.gap == 0 {
            return at;
        }
        match as_literal(&at) {
            Some(at) => LOCAL.lit(self.column_at(at)),
            None => {
                let gaps = LOCAL.mul(LOCAL.div(at.clone(), self.run), LOCAL.lit(self.gap));
                LOCAL.add(at, gaps)
            }
        }
    }

    /// The copy at a stage of a ring.
    pub fn at_stage(&self, stage: &Expr) -> WindowCopy {
        WindowCopy { first: LOCAL.mul(stage.clone(), LOCAL.lit(self.stage)), ..self.clone() }
    }

    /// As [`WindowCopy::column`], of a number.
    pub fn column_at(&self, at: i64) -> i64 {
        at + if self.gap == 0 { 0 } else { at / self.run * self.gap }
    }

    /// The place of the element at these positions, counted from the copy's first one.
    pub fn place(&self, dtype: DType, local: &[Expr]) -> Place {
        let column = self.column(local[self.fast].clone());
        let column = match &self.swizzle {
            Some((slow, rows)) => swizzled(rows, &local[*slow], column),
            None => column,
        };
        self.place_in_row(dtype, local, column)
    }

    /// As [`WindowCopy::place`], of an element some steps from a thread's `first` one, which lies at most at `most` along each axis. A part of the
    /// swizzle that no step changes is written without them: it is the same in all steps.
    pub fn place_from(&self, dtype: DType, first: &[Expr], most: &[i64], steps: &[Step]) -> Place {
        let along = |axis: usize| steps.iter().filter(move |s| s.axis == axis);
        let moved =
            |axis: usize| along(axis).fold(first[axis].clone(), |at, s| LOCAL.add(at, LOCAL.mul(s.number.clone(), LOCAL.lit(s.place))));
        let local: Vec<Expr> = (0..first.len()).map(moved).collect();
        let Some((slow, rows)) = self.swizzle.as_ref().filter(|_| self.gap == 0) else { return self.place(dtype, &local) };
        let (chunk, repeats) = (1i64 << rows.chunk, (rows.mask + 1) << rows.shift);
        let (mut within, mut last, mut chunks) = (first[self.fast].clone(), most[self.fast], LOCAL.lit(0));
        for step in along(self.fast) {
            let inside = (chunk / step.place).clamp(1, step.extent);
            if step.place * inside != chunk && inside != step.extent {
                return self.place(dtype, &local);
            }
            within = LOCAL.add(within, LOCAL.mul(LOCAL.rem(step.number.clone(), inside), LOCAL.lit(step.place)));
            last += (inside - 1) * step.place;
            if inside < step.extent {
                chunks = LOCAL.add(chunks, LOCAL.mul(LOCAL.div(step.number.clone(), inside), LOCAL.lit(step.place * inside)));
            }
        }
        if last >= chunk {
            return self.place(dtype, &local);
        }
        let row = if along(*slow).all(|s| s.place % repeats == 0) { &first[*slow] } else { &local[*slow] };
        let column = LOCAL.add(within, swizzled(rows, row, chunks));
        self.place_in_row(dtype, &local, column)
    }

    /// The place at a column as it lies in memory, in the row of these positions.
    pub fn place_in_row(&self, dtype: DType, local: &[Expr], column: Expr) -> Place {
        let index = (0..local.len()).fold(self.first.clone(), |sum, k| {
            let part = if k == self.fast { column.clone() } else { LOCAL.mul(local[k].clone(), LOCAL.lit(self.axes[k].pitch)) };
            LOCAL.add(sum, part)
        });
        Place { space: Space::Shared(self.id), dtype, index }
    }

    /// Elements from the first to the last one.
    fn len(&self) -> i64 {
        let last =
            self.axes.iter().enumerate().map(|(k, a)| if k == self.fast { self.column_at(a.extent - 1) } else { (a.extent - 1) * a.pitch });
        last.sum::<i64>() + 1
    }
}

impl Expander<'_> {
    /// Lays a window out in shared memory, with room for so many copies one after the other.
    pub fn place_window(&mut self, value: ValueId, window: &WindowRep, name: &str, copies: i64) -> WindowCopy {
        let dtype = self.kernel.view(window.view).dtype;
        let (bytes, rank) = (dtype.size() as i64, window.index.len());
        let widest = 16 / bytes;
        let tiles_read = self.kernel.window_groups.reads_tiles(value);
        // A window that is read one element at a time, the same by all threads, needs no gaps.
        let (fast, run) =
            if tiles_read { (window.layout.fast_axis(), own_run(&window.layout, window.layout.fast_axis())) } else { (rank - 1, widest) };
        let width = [16, 8, 4, 2, 1].into_iter().find(|w| *w <= widest && run % w == 0).unwrap_or(1);
        let gap = if tiles_read && (run / width) % 2 == 0 { width } else { 0 };
        let unit = widest;
        let mut axes: Vec<CopyAxis> = (0..rank)
            .map(|k| {
                let (before, after) = window.halo[k];
                let round = if k == fast { unit } else { 1 };
                let before = round_up(before, round);
                CopyAxis { before, extent: round_up(before + self.window_size(window, k) + after, round), pitch: 1 }
            })
            .collect();
        let mut copy =
            WindowCopy { id: SharedId(0), first: LOCAL.lit(0), stage: 0, axes: axes.clone(), fast, run, gap, width, swizzle: None };
        let row = round_up(copy.column_at(axes[fast].extent - 1) + 1, unit);
        // Rows are moved apart until the lanes of a warp meet in as few banks as they can.
        let best = (0..8).min_by_key(|extra| {
            set_pitches(&mut axes, fast, row + extra * unit);
            copy.axes.clone_from(&axes);
            (if tiles_read { first_wavefronts(&copy, &window.layout, bytes) } else { 0 }, *extra)
        });
        set_pitches(&mut axes, fast, row + best.unwrap_or(0) * unit);
        copy.axes = axes;
        copy.stage = round_up(copy.len(), unit);
        copy.id = self.new_shared(name, dtype, if copies == 1 { copy.len() } else { copies * copy.stage });
        copy
    }

    /// A thread's part of the address in a window's copy.
    pub fn copy_part(&self, copy: &WindowCopy, layout: &Layout) -> Expr {
        let thread = self.thread32();
        let mut sum = LOCAL.lit(0);
        for (k, digits) in layout.axes.iter().enumerate() {
            for d in digits.iter().filter(|d| d.source == Source::Thread) {
                let quotient = LOCAL.div(thread.clone(), d.stride);
                let digit = if d.stride * d.extent == layout.threads { quotient } else { LOCAL.rem(quotient, d.extent) };
                let step = if k == copy.fast { copy.column_at(d.place) } else { d.place * copy.axes[k].pitch };
                sum = LOCAL.add(sum, LOCAL.mul(digit, LOCAL.lit(step)));
            }
        }
        sum
    }
}

fn round_up(n: i64, to: i64) -> i64 {
    (n + to - 1) / to * to
}

/// Rows of `pitch` elements, the other axes around them.
fn set_pitches(axes: &mut [CopyAxis], fast: usize, mut pitch: i64) {
    for k in (0..axes.len()).rev().filter(|k| *k != fast) {
        axes[k].pitch = pitch;
        pitch *= axes[k].extent;
    }
}

/// Wavefronts of the first warp's access to the first register of its tile.
fn first_wavefronts(copy: &WindowCopy, layout: &Layout, bytes: i64) -> i64 {
    let address = |lane: i64| -> i64 {
        let at = layout.coordinates(lane, 0);
        let part = |(k, c): (usize, &i64)| if k == copy.fast { copy.column_at(*c) } else { c * copy.axes[k].pitch };
        at.iter().enumerate().map(part).sum::<i64>() * bytes
    };
    let starts: Vec<i64> = (0..layout.threads.min(32)).map(address).collect();
    bank_wavefronts(&starts, copy.width * bytes)
}

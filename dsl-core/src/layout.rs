//! Layouts as values: which thread and which of its registers holds an element, and where an element lies in shared memory.
//!
//! A [`Layout`] writes each coordinate of a tile as a sum of digits, and each digit comes from the thread index or from the
//! register index: `digit = index / stride % extent`, contributing `digit * place`. That is a bit-linear map where extents are powers of
//! two, and covers vectors, interleaving, `mma` fragments (digits of the lane), warps (thread digits of stride 32), broadcasts (thread
//! digits that no axis uses: replicas) and sizes such as 192 alike. Lowering, simulator and emitter read the same value.
//!
//! A [`SharedLayout`] gives element addresses in shared memory: rows padded or swizzled by exclusive-or, chosen by counting
//! bank conflicts of the accesses that will be made ([`SharedLayout::choose`]).

/// Where a digit of a coordinate comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The thread index in the block.
    Thread,
    /// The register index in the thread.
    Register,
}

/// One digit of a coordinate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Digit {
    /// Thread or register.
    pub source: Source,
    /// The digit is `index / stride % extent`.
    pub stride: i64,
    /// Number of values.
    pub extent: i64,
    /// Elements per unit of the digit.
    pub place: i64,
}

/// A distribution of a tile over the threads of a block and their registers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The digits of each axis' coordinate, least significant first.
    pub axes: Vec<Vec<Digit>>,
    /// Threads of the block.
    pub threads: i64,
    /// Registers (elements) per thread.
    pub registers: i64,
}

/// How [`Layout::dealt`] deals a tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deal<'a> {
    /// Extent of each axis.
    pub shape: &'a [i64],
    /// Threads along each axis. Their product is the threads of the block, or divides it (the rest are replicas).
    pub threads: &'a [i64],
    /// Axes from fastest to slowest.
    pub order: &'a [usize],
    /// Contiguous elements of the fastest axis per run.
    pub vector: i64,
    /// Neighbouring threads that lie along the fastest axis before the next axis takes over; `None`: all of that axis.
    pub lanes: Option<i64>,
    /// Threads of the block.
    pub block: i64,
}

impl Layout {
    /// Deals a tile: each thread owns runs of `vector` elements along the fastest axis, interleaved across the threads.
    pub fn dealt(deal: &Deal) -> Layout {
        let rank = deal.shape.len();
        let fast = deal.order[0];
        let mut axes: Vec<Vec<Digit>> = vec![Vec::new(); rank];
        let mut thread_stride = 1;
        let mut register_stride = 1;
        let mut placed = vec![1; rank];
        let push = |axes: &mut Vec<Vec<Digit>>, placed: &mut Vec<i64>, axis: usize, source, stride: &mut i64, extent: i64| {
            if extent > 1 {
                axes[axis].push(Digit { source, stride: *stride, extent, place: placed[axis] });
                *stride *= extent;
                placed[axis] *= extent;
            }
        };
        push(&mut axes, &mut placed, fast, Source::Register, &mut register_stride, deal.vector);
        let mut left = deal.threads.to_vec();
        if let Some(lanes) = deal.lanes.filter(|l| *l < left[fast] && left[fast] % l == 0) {
            push(&mut axes, &mut placed, fast, Source::Thread, &mut thread_stride, lanes);
            left[fast] /= lanes;
            for axis in deal.order[1..].iter().copied().chain([fast]) {
                push(&mut axes, &mut placed, axis, Source::Thread, &mut thread_stride, left[axis]);
            }
        } else {
            for axis in deal.order.iter().copied() {
                push(&mut axes, &mut placed, axis, Source::Thread, &mut thread_stride, left[axis]);
            }
        }
        for axis in deal.order.iter().copied() {
            let rest = deal.shape[axis] / placed[axis];
            push(&mut axes, &mut placed, axis, Source::Register, &mut register_stride, rest);
        }
        Layout { axes, threads: deal.block, registers: register_stride }
    }

    /// Deals a tile in blocks: each thread owns neighbours along every axis, as many as the tile has for each of its threads.
    pub fn blocked(deal: &Deal) -> Layout {
        let mut axes: Vec<Vec<Digit>> = vec![Vec::new(); deal.shape.len()];
        let (mut register_stride, mut thread_stride) = (1, 1);
        for axis in deal.order.iter().copied() {
            let own = deal.shape[axis] / deal.threads[axis];
            let mut push = |source, stride: &mut i64, extent: i64, place: i64| {
                if extent > 1 {
                    axes[axis].push(Digit { source, stride: *stride, extent, place });
                    *stride *= extent;
                }
            };
            push(Source::Register, &mut register_stride, own, 1);
            push(Source::Thread, &mut thread_stride, deal.threads[axis], own);
        }
        Layout { axes, threads: deal.block, registers: register_stride }
    }

    /// Extent of each axis.
    pub fn shape(&self) -> Vec<i64> {
        self.axes.iter().map(|digits| digits.iter().map(|d| d.extent).product()).collect()
    }

    /// The coordinates of a thread's register.
    pub fn coordinates(&self, thread: i64, register: i64) -> Vec<i64> {
        let digit = |d: &Digit| {
            let index = if d.source == Source::Thread { thread } else { register };
            index / d.stride % d.extent * d.place
        };
        self.axes.iter().map(|digits| digits.iter().map(digit).sum()).collect()
    }

    /// Result axis `k` is this layout's axis `perm[k]`. Registers stay where they are.
    pub fn permuted(&self, perm: &[usize]) -> Layout {
        Layout { axes: perm.iter().map(|k| self.axes[*k].clone()).collect(), ..self.clone() }
    }

    /// Threads and registers as they are, an axis removed: threads and registers that differ only there hold replicas.
    pub fn without(&self, axis: usize) -> Layout {
        let mut axes = self.axes.clone();
        axes.remove(axis);
        Layout { axes, ..self.clone() }
    }

    /// An axis of `extent` elements added at `axis`, all of it in the registers of the thread, varying fastest.
    pub fn with_register_axis(&self, axis: usize, extent: i64) -> Layout {
        let mut axes = self.axes.clone();
        for d in axes.iter_mut().flatten().filter(|d| d.source == Source::Register) {
            d.stride *= extent;
        }
        let digits = if extent > 1 { vec![Digit { source: Source::Register, stride: 1, extent, place: 1 }] } else { vec![] };
        axes.insert(axis, digits);
        Layout { axes, threads: self.threads, registers: self.registers * extent }
    }

    /// Contiguous elements along `axis` that a thread holds in neighbouring registers.
    pub fn run(&self, axis: usize) -> i64 {
        match self.axes[axis].first() {
            Some(d) if d.source == Source::Register && d.stride == 1 && d.place == 1 => d.extent,
            _ => 1,
        }
    }

    /// The axis along which neighbouring registers or else neighbouring threads lie.
    pub fn fast_axis(&self) -> usize {
        let of = |source| self.axes.iter().position(|a| a.first().is_some_and(|d| d.source == source && d.stride == 1 && d.place == 1));
        of(Source::Register)
            .or_else(|| self.axes.iter().position(|a| a.iter().any(|d| d.source == Source::Thread && d.stride == 1)))
            .unwrap_or(self.axes.len() - 1)
    }

    /// The axis along which neighbouring threads lie, if there is one.
    pub fn lane_axis(&self) -> Option<usize> {
        self.axes.iter().position(|a| a.iter().any(|d| d.source == Source::Thread && d.stride == 1))
    }

    /// The register digits from the slowest to the fastest, over all axes: the loop nest over a thread's elements.
    pub fn register_digits(&self) -> Vec<(usize, Digit)> {
        let mut digits: Vec<(usize, Digit)> = Vec::new();
        for (axis, list) in self.axes.iter().enumerate() {
            digits.extend(list.iter().filter(|d| d.source == Source::Register).map(|d| (axis, *d)));
        }
        digits.sort_by_key(|(_, d)| std::cmp::Reverse(d.stride));
        digits
    }

    /// Threads that hold different elements; the block's other threads hold replicas.
    pub fn distinct_threads(&self) -> i64 {
        self.axes.iter().flatten().filter(|d| d.source == Source::Thread).map(|d| d.extent).product()
    }
}

/// Addresses of a tile's elements in a shared array: row-major with the last axis contiguous, rows `pitch` elements apart, and the
/// last coordinate exclusive-ored with bits of the row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedLayout {
    /// Elements from one row to the next.
    pub pitch: i64,
    /// `column ^ ((row >> shift & mask) << chunk)`; no swizzle where `mask` is 0.
    pub chunk: u32,
    /// See `chunk`.
    pub shift: u32,
    /// See `chunk`.
    pub mask: i64,
}

/// One side of a conversion: how a tile of two axes is written to or read from shared memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedUse<'a> {
    /// The registers' layout.
    pub layout: &'a Layout,
    /// Elements per access along the last axis.
    pub width: i64,
}

impl SharedLayout {
    /// Rows without padding or swizzle.
    pub fn plain(columns: i64) -> SharedLayout {
        SharedLayout { pitch: columns, chunk: 0, shift: 0, mask: 0 }
    }

    /// Rows without padding in which parts of `together` bytes change places by the row, so that 128 bytes of neighbours lie in different
    /// banks, and so do parts one below the other in `meeting` rows, each `apart` rows below the last. `None` where plain rows do that, or
    /// where a row has too few parts.
    pub fn swizzled(columns: i64, bytes: i64, together: i64, [meeting, apart]: [i64; 2]) -> Option<SharedLayout> {
        // Parts change places within segments of which rows have a whole number; segments shorter than 128 bytes share lines of that
        // length, in which they move alike.
        let row = (columns * bytes).max(1);
        let segment = (1 << row.trailing_zeros()).min(128);
        let (shift, chunk) = ((128 / segment).max(apart).ilog2(), (together / bytes).max(1).ilog2());
        (segment > together).then_some(SharedLayout { pitch: columns, chunk, shift, mask: (segment / together).min(meeting) - 1 })
    }

    /// Rows after which parts lie in the same places again.
    pub fn period(&self) -> i64 {
        if self.mask == 0 { 1 } else { (self.mask + 1) << self.shift }
    }

    /// Element address of (row, column).
    pub fn address(&self, row: i64, column: i64) -> i64 {
        row * self.pitch + (column ^ (((row >> self.shift) & self.mask) << self.chunk))
    }

    /// Elements of the array for `rows` rows.
    pub fn len(&self, rows: i64) -> i64 {
        rows * self.pitch
    }

    /// No element at all: never, a tile has elements.
    pub fn is_empty(&self) -> bool {
        self.pitch == 0
    }

    /// The layout of a `rows × columns` tile of `bytes`-byte elements with the fewest wavefronts for one write and one read; ties go to no
    /// swizzle, then to less memory. Both widths must stay aligned, so padding is a multiple of the wider access.
    pub fn choose(rows: i64, columns: i64, bytes: i64, write: SharedUse, read: SharedUse) -> SharedLayout {
        let widest = write.width.max(read.width);
        // The first and the last access of each thread stand for all: the others differ by whole rows or runs.
        let sides: Vec<Vec<LaneElements>> = [write, read]
            .iter()
            .map(|side| {
                let last = side.layout.registers - side.width;
                [0, last].iter().take(if last > 0 { 2 } else { 1 }).map(|r| LaneElements::of(*side, *r)).collect()
            })
            .collect();
        let weight = |side: &SharedUse, samples: usize| (side.layout.registers / side.width) as f64 / samples as f64;
        let cost = |s: &SharedLayout| -> f64 {
            [write, read]
                .iter()
                .zip(&sides)
                .map(|(side, samples)| {
                    let waves: i64 = samples.iter().map(|e| e.wavefronts(s, side.width, bytes)).sum();
                    waves as f64 * weight(side, samples.len())
                })
                .sum()
        };
        let ideal: f64 = [write, read]
            .iter()
            .zip(&sides)
            .map(|(side, samples)| {
                let access = side.width * bytes;
                let groups = ((samples[0].lanes.len() as i64 * access.max(4) + 127) / 128).max(1);
                groups as f64 * weight(side, 1)
            })
            .sum();
        let mut best = SharedLayout::plain(columns);
        let mut least = cost(&best);
        let mut consider = |s: SharedLayout| {
            if least <= ideal {
                return;
            }
            let c = cost(&s);
            if c < least {
                (best, least) = (s, c);
            }
        };
        for pad in [1, 2, 4, 8, 16].into_iter().filter(|p| p % widest == 0) {
            consider(SharedLayout { pitch: columns + pad, ..SharedLayout::plain(columns) });
        }
        if columns > 0 && columns & (columns - 1) == 0 {
            for chunk in 0..=4u32 {
                for mask in [31i64, 15, 7, 3] {
                    for shift in 0..=4u32 {
                        if (1 << chunk) % widest == 0 && (mask + 1) << chunk <= columns && mask << shift < rows {
                            consider(SharedLayout { pitch: columns, chunk, shift, mask });
                        }
                    }
                }
            }
        }
        best
    }
}

/// Row and column of the element at which each lane of the first warp starts one access.
struct LaneElements {
    lanes: Vec<(i64, i64)>,
}

impl LaneElements {
    fn of(side: SharedUse, register: i64) -> LaneElements {
        let lanes = (0..side.layout.threads.min(32)).map(|lane| {
            let at = side.layout.coordinates(lane, register);
            (at[0], at[1])
        });
        LaneElements { lanes: lanes.collect() }
    }

    /// Wavefronts of this access: 32 banks of 4 bytes; 8-byte accesses go by half warps, 16-byte accesses by quarter warps; one word
    /// read by several lanes counts once.
    fn wavefronts(&self, shared: &SharedLayout, width: i64, bytes: i64) -> i64 {
        let starts: Vec<i64> = self.lanes.iter().map(|(row, column)| shared.address(*row, *column) * bytes).collect();
        bank_wavefronts(&starts, width * bytes)
    }
}

/// Wavefronts of one access of a warp to shared memory: each lane's first byte, and the bytes of a lane. 32 banks of 4 bytes; 8-byte
/// accesses go by half warps, 16-byte accesses by quarter warps; one word read by several lanes counts once.
pub fn bank_wavefronts(starts: &[i64], access: i64) -> i64 {
    let group = if access > 8 {
        8
    } else if access > 4 {
        16
    } else {
        32
    };
    let mut total = 0;
    for lanes in starts.chunks(group) {
        let mut words = [i64::MAX; 32];
        let mut n = 0;
        let mut banks = [0u8; 32];
        for start in lanes {
            for word in (start / 4)..=((start + access - 1) / 4) {
                if !words[..n].contains(&word) {
                    words[n] = word;
                    n += 1;
                    banks[(word & 31) as usize] += 1;
                }
            }
        }
        total += banks.iter().max().copied().unwrap_or(0) as i64;
    }
    total
}

/// Wavefronts that the first warp's accesses to all its registers take.
pub fn wavefronts(shared: &SharedLayout, side: SharedUse, bytes: i64) -> i64 {
    (0..side.layout.registers).step_by(side.width as usize).map(|r| LaneElements::of(side, r).wavefronts(shared, side.width, bytes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn covers(layout: &Layout) {
        let shape = layout.shape();
        let mut seen = HashSet::new();
        for thread in 0..layout.distinct_threads() {
            for register in 0..layout.registers {
                let at = layout.coordinates(thread, register);
                assert!(at.iter().zip(&shape).all(|(c, n)| c < n), "{at:?} of {shape:?}");
                assert!(seen.insert(at));
            }
        }
        assert_eq!(seen.len() as i64, shape.iter().product::<i64>());
    }

    #[test]
    fn dealt_layouts_hold_every_element_once() {
        for (shape, threads, vector) in
            [(vec![1024], vec![128], 4), (vec![64, 64], vec![16, 16], 4), (vec![48, 96], vec![12, 24], 2), (vec![192], vec![64], 1)]
        {
            for lanes in [None, Some(8)] {
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                let block = threads.iter().product();
                let deal = Deal { shape: &shape, threads: &threads, order: &order, vector, lanes, block };
                covers(&Layout::dealt(&deal));
                covers(&Layout::blocked(&deal));
            }
        }
    }

    #[test]
    fn runs_and_register_axes() {
        let layout = Layout::dealt(&Deal { shape: &[256], threads: &[64], order: &[0], vector: 4, lanes: None, block: 64 });
        assert_eq!(layout.run(0), 4);
        let wide = layout.with_register_axis(1, 3);
        covers(&wide);
        assert_eq!((wide.run(1), wide.registers), (3, 12));
        assert_eq!(wide.without(1).axes[0][0].stride, 3);
    }

    #[test]
    fn transposes_have_no_bank_conflicts() {
        // A 64 × 64 tile of f32, written in rows by 16-byte vectors and read in columns, one element at a time.
        let rows = Layout::dealt(&Deal { shape: &[64, 64], threads: &[16, 16], order: &[1, 0], vector: 4, lanes: None, block: 256 });
        let columns = Layout::dealt(&Deal { shape: &[64, 64], threads: &[16, 16], order: &[0, 1], vector: 4, lanes: Some(8), block: 256 });
        let (write, read) = (SharedUse { layout: &rows, width: 4 }, SharedUse { layout: &columns, width: 1 });
        let shared = SharedLayout::choose(64, 64, 4, write, read);
        assert_eq!(wavefronts(&shared, read, 4), columns.registers, "{shared:?}");
        assert_eq!(wavefronts(&shared, write, 4), rows.registers / 4 * 4, "{shared:?}");
        // Bytes: a 128 × 128 tile whose rows are read and written 16 at once.
        let rows = Layout::dealt(&Deal { shape: &[128, 128], threads: &[32, 8], order: &[1, 0], vector: 16, lanes: None, block: 256 });
        let columns = rows.permuted(&[1, 0]);
        let (write, read) = (SharedUse { layout: &columns, width: 1 }, SharedUse { layout: &rows, width: 16 });
        let shared = SharedLayout::choose(128, 128, 1, write, read);
        assert_eq!(wavefronts(&shared, write, 1), columns.registers, "{shared:?}");
        assert_eq!(wavefronts(&shared, read, 1), rows.registers / 16 * 4, "{shared:?}");
        // The textbook tile: one element a thread, padded by one column.
        let rows = Layout::dealt(&Deal { shape: &[32, 32], threads: &[32, 32], order: &[1, 0], vector: 1, lanes: None, block: 1024 });
        let columns = rows.permuted(&[1, 0]);
        let (write, read) = (SharedUse { layout: &rows, width: 1 }, SharedUse { layout: &columns, width: 1 });
        assert_eq!(SharedLayout::choose(32, 32, 4, write, read), SharedLayout { pitch: 33, ..SharedLayout::plain(32) });
        assert_eq!(wavefronts(&SharedLayout::plain(32), read, 4), 32);
    }
}

//! Layouts as values: which thread and which of its registers holds an element, and where an element lies in shared memory.
//!
//! A [`Layout`] writes each coordinate of a tile as a sum of digits, and each digit comes from the thread index or from the
//! register index: `digit = index / stride % extent`, contributing `digit * place`. That is a bit-linear map where extents are powers of
//! two, and covers vectors, interleaving, `mma` fragments (digits of the lane), warps (thread digits of stride 32), broadcasts (thread
//! digits that no axis uses: replicas) and sizes such as 192 alike. Lowering, simulator and emitter read the same value.
//!
//! A [`SharedLayout`] gives element addresses in shared memory: rows padded or swizzled by exclusive-or, chosen by counting
//! bank conflicts of the accesses that will be made ([`SharedLayout::choose`]).

mod shared;

pub use shared::{SharedLayout, SharedUse, bank_wavefronts, wavefronts};

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
                let goes_on = |d: &&mut Digit| d.source == source && d.stride * d.extent == *stride && d.place * d.extent == placed[axis];
                match axes[axis].last_mut().filter(goes_on) {
                    Some(digit) => digit.extent *= extent,
                    None => axes[axis].push(Digit { source, stride: *stride, extent, place: placed[axis] }),
                }
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

    /// A tile of two axes as one whose rows are parts of `columns` elements of the former rows; nothing where a digit does not end there.
    pub fn cut(&self, columns: i64) -> Option<Layout> {
        let parts = self.shape()[1] / columns;
        let (mut rows, mut within) = (Vec::new(), Vec::new());
        for d in &self.axes[1] {
            let below = (columns / d.place).clamp(1, d.extent);
            if d.place < columns && (columns % d.place != 0 || d.extent % below != 0) || d.place >= columns && d.place % columns != 0 {
                return None;
            }
            let lower = if d.place < columns { below } else { 1 };
            if lower > 1 {
                within.push(Digit { extent: lower, ..*d });
            }
            if d.extent > lower {
                let place = (d.place * lower) / columns;
                rows.push(Digit { stride: d.stride * lower, extent: d.extent / lower, place, ..*d });
            }
        }
        rows.extend(self.axes[0].iter().map(|d| Digit { place: d.place * parts, ..*d }));
        Some(Layout { axes: vec![rows, within], ..self.clone() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A line of 4096 whose threads have 16 neighbours, and another one by vectors of four, as rows of 16.
    #[test]
    fn long_rows_are_cut() {
        let deal = Deal { shape: &[1, 4096], threads: &[1, 256], order: &[1, 0], vector: 4, lanes: None, block: 256 };
        for line in [Layout::blocked(&deal), Layout::dealt(&deal)] {
            let cut = line.cut(16).expect("its digits end there");
            assert_eq!(cut.shape(), [256, 16]);
            covers(&cut);
            for (thread, register) in (0..256).flat_map(|t| (0..16).map(move |r| (t, r))) {
                let [row, column] = cut.coordinates(thread, register)[..] else { panic!("two axes") };
                assert_eq!(row * 16 + column, line.coordinates(thread, register)[1], "{thread} {register}");
            }
        }
        assert_eq!(Layout::blocked(&deal).cut(24), None);
    }

    /// A plain line of threads with 16 neighbours each has four threads in the same banks; rows of 16 have none.
    #[test]
    fn rows_of_what_a_thread_has_meet_in_no_bank() {
        let deal = Deal { shape: &[1, 4096], threads: &[1, 256], order: &[1, 0], vector: 4, lanes: None, block: 256 };
        let [from, to] = [Layout::blocked(&deal), Layout::dealt(&deal)];
        let waves = |from: &Layout, to: &Layout| {
            let [write, read] = [from, to].map(|layout| SharedUse { layout, width: 4 });
            let shape = from.shape();
            let shared = SharedLayout::choose(shape[0], shape[1], 4, write, read);
            [wavefronts(&shared, write, 4), wavefronts(&shared, read, 4)]
        };
        assert_eq!(waves(&from, &to), [64, 16]);
        assert_eq!(waves(&from.cut(16).expect("cut"), &to.cut(16).expect("cut")), [16, 16]);
    }

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
}

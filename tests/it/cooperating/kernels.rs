//! Kernels whose threads work together.

use girih::prelude::*;

/// The sum of everything, each block's part added by an atomic.
#[kernel(
    tile(T = [64, 256, 1024]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 1]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async])
)]
pub fn atomic_sum(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    out.atomic_add(0, acc.sum());
}

/// The mean, in the last block.
#[kernel(tile(T = [64, 256, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1, 2]))]
pub fn mean(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    let total = acc.sum().sum_grid();
    out.store_at(0, total / x.len(0).cast::<f32>());
}

/// Sums of rows, looped over tiles of columns.
#[kernel(tile(R = [1, 2, 8], C = [32, 64, 256]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn row_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.store(r, acc.sum_axis(1));
    }
}

/// Softmax of rows: statistics in one loop, outputs in another.
#[kernel(tile(R = [1, 2, 4], C = [32, 128, 512]), coarsen(CC of C = [1, 2, 4, 8]), vector(V = [1, 2, 4]))]
pub fn softmax_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut most = full::<f32>([R], f32::NEG_INFINITY);
        let mut sum = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let higher = most.max(v.max_axis(1));
            sum = sum * (most - higher).exp() + (v - higher.expand(1, C)).exp().sum_axis(1);
            most = higher;
        }
        for c in x.axis(1).tiles(C) {
            y.store((r, c), (x.load((r, c)) - most.expand(1, C)).exp() / sum.expand(1, C));
        }
    }
}

/// Sums of columns, added up by atomics.
#[kernel(tile(R = [4, 16], C = [16, 64]), coarsen(CR of R = [1, 2, 4], CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn column_sums(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 1>) {
    for (r, c) in x.tiles([R, C]) {
        y.atomic_add(c.coords(), x.load((r, c)).sum_axis(0));
    }
}

/// The last odd element of each row, or zero: an operator that keeps order.
#[kernel(tile(R = [1, 2, 4], C = [32, 64, 256]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2]))]
pub fn last_odd(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut last = full::<i32>([R], 0);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let own = (v * (v & 1)).reduce_axis(1, 0, |a, b| if b & 1 == 1 { b } else { a });
            last = if own & 1 == 1 { own } else { last };
        }
        y.store(r, last);
    }
}

/// The largest element of everything and whether any is seven, over tiles whose sizes are no powers of two.
#[kernel(tile(R = [3, 8], C = [24, 32]), coarsen(CR of R = [1], CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn extremes(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 1>) {
    for (r, c) in x.tiles([R, C]) {
        let v = x.load((r, c));
        y.atomic_max(0, v.max_all());
        let any = (v == 7).any();
        y.atomic_max(1, if any { scalar(1) } else { scalar(0) });
    }
}

/// Variances of rows: a row that fits one tile is read once, and ahead of its turn where rows are dealt to blocks.
#[kernel(
    tile(R = [1, 2, 4], C = [32, 128, 512]),
    coarsen(CC of C = [1, 4]),
    vector(V = [1, 4]),
    grid(G = [0, 1]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async])
)]
pub fn row_variances(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    let count = x.len(1).cast::<f32>();
    for r in x.axis(0).tiles(R) {
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            sum += x.load((r, c));
        }
        let mean = sum.sum_axis(1) / count;
        let mut squares = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let off = x.load((r, c)) - mean.expand(1, C);
            squares += off * off;
        }
        y.store(r, squares.sum_axis(1) / count);
    }
}

/// y = 2 y + 1 in two steps: what is loaded behind a store is what was stored.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 1]), stages(S = [1, 2]))]
pub fn two_steps(y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, 2.0 * y.load(t));
        y.store(t, y.load(t) + 1.0);
    }
}

/// The largest byte, the smallest one, and the sum of halves: parts that are narrower than a word.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]))]
pub fn narrow_parts(x: &Tensor<i8, 1>, ends: &mut Tensor<i8, 1>, half: &mut Tensor<f16, 1>) {
    let (mut most, mut least) = (full([T], i8::MIN), full([T], i8::MAX));
    let mut sum = zeros::<f16>([T]);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        most = most.max(v);
        least = least.min(v);
        sum += v.cast::<f16>() * 0.5;
    }
    let (most, least, sum) = (most.max_all().max_grid(), least.min_all().min_grid(), sum.sum().sum_grid());
    ends.store_at(0, most);
    ends.store_at(1, least);
    half.store_at(0, sum);
}

/// The largest element and where it is: its index is too wide for a word with a flag.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]))]
pub fn largest_at(x: &Tensor<f32, 1>, most: &mut Tensor<f32, 1>, index: &mut Tensor<i64, 1>) {
    let mut best = (scalar(f32::NEG_INFINITY), scalar(i64::MAX));
    for t in x.tiles([T]).strided() {
        best = best.arg_max(x.load(t).arg_max_all(t));
    }
    let (value, at) = best.arg_max_grid();
    most.store_at(0, value);
    index.store_at(0, at);
}

/// How many elements are positive, by an atomic of each block, its bits then flipped by their sum: the last block changes what all have
/// counted.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]))]
pub fn flipped_count(x: &Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        acc += v;
        count.atomic_add(0, (v > 0).cast::<i32>().sum());
    }
    let total = acc.sum().sum_grid();
    count.atomic_xor(0, total);
}

/// A sum times what it was before: the last block overwrites what all have read.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]))]
pub fn scaled_by_last(x: &Tensor<i32, 1>, total: &mut Tensor<i32, 1>) {
    let first = scalar(0i64);
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t) * total.at(first);
    }
    total.store_at(first, acc.sum().sum_grid());
}

/// The composition of the maps s ↦ 3 s + x over all elements: an operator that keeps order, over the grid, too.
#[kernel(tile(T = [32, 64, 128]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [1, 2]), stages(S = [1, 2, 3]), copy(P = [Async, Registers]))]
pub fn composition(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>) {
    let (mut scale, mut shift) = (scalar(1u32), scalar(0u32));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let (s, d) = (v.like(3), v).reduce_all((1, 0), |f, g| (f.0 * g.0, f.1 * g.0 + g.1));
        shift = shift * s + d;
        scale = scale * s;
    }
    let (scale, shift) = (scale, shift).reduce_grid((1, 0), |f, g| (f.0 * g.0, f.1 * g.0 + g.1));
    y.store_at(0, scale);
    y.store_at(1, shift);
}

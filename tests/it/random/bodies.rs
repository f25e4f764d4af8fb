//! Kernels whose bodies come from a seed.

use super::SEED;
use super::grow::{Grower, grower, small};
use girih::prelude::*;

#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn random_row(
    a: &Tensor<f32, 1>,
    b: &Tensor<f32, 1>,
    at: &Tensor<i32, 1>,
    y: &mut Tensor<f32, 1>,
    z: &mut Tensor<f32, 1>,
    s: Scalar<i32>,
) {
    for t in y.tiles([T]) {
        let near = b.window(t, [(1, 2)], if SEED.get() % 2 == 0 { Boundary::Zero } else { Boundary::Clamp });
        let leaf = |n: usize| match n {
            0..5 => a.load(t) * 4.0,
            5 => near.at(-1) * 4.0,
            6 => near.at(s % 3) * 4.0,
            7..9 => b.load(t) * 4.0,
            9..11 => a.gather(at.load(t)) * 4.0,
            11 => b.gather(t.coords() + (n as i64 - 12)) * 4.0,
            12 => (t.coords() % 7).cast::<f32>(),
            13 => full([T], 2.0),
            14 => a.at(0) * 3.0 + zeros::<f32>([T]),
            _ => at.load(t).cast::<f32>(),
        };
        let special = |g: &Grower<'_>, n: usize, depth: usize| match n {
            14 => {
                let v = g.grow(depth);
                if g.below(2) == 0 { v.scan_sum(0) } else { v.scan_max(along(0).reversed()) }
            }
            15 if g.sides.get() == 0 => {
                let mut own = shared::<f32>([T], 1.0);
                own.store(.., g.grow(depth));
                if g.below(2) == 0 { own.load(..) } else { own.gather(g.grow(depth).cast::<i32>() * 5 + 3) }
            }
            _ => {
                let index = g.grow(depth).cast::<i64>() + t.coords();
                a.gather(index) * 2.0
            }
        };
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        y.store(t, first);
        z.store(t, second);
    }
}

#[kernel(tile(R = [4, 8], C = [32, 64]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn random_square(
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    u: &Tensor<f32, 1>,
    v: &Tensor<f32, 1>,
    y: &mut Tensor<f32, 2>,
    sums: &mut Tensor<f32, 2>,
    s: Scalar<i32>,
) {
    for (r, c) in y.tiles([R, C]) {
        let leaf = |n: usize| match n {
            0..5 => a.load((r, c)) * 4.0,
            5..8 => b.load((c, r)).t() * 4.0,
            8..10 => u.load(r).expand(1, C) * 4.0,
            10..12 => v.load(c).expand(0, R) * 4.0,
            12 => (r.coords() % 5).cast::<f32>().expand(1, C),
            13 => full([R, C], -1.0),
            14 => a.gather((r.coords().expand(1, C), c.coords().expand(0, R) + 1)) * 4.0,
            _ => b.load((c, 0)).expand(0, R) * 4.0,
        };
        let special = |g: &Grower<'_>, n: usize, depth: usize| match n {
            14 => {
                let x = g.grow(depth);
                match g.below(4) {
                    0 => x.sum_axis(1).expand(1, C),
                    1 => x.max_axis(0).expand(0, R),
                    2 => x.scan_sum(g.below(2)),
                    _ => x.t().min_axis(0).expand(1, C),
                }
            }
            15 => {
                let x = g.grow(depth);
                let mut sum = zeros::<f32>([R]);
                for k in a.axis(1).tiles(C) {
                    sum += small(a.load((r, k)) * 4.0 + if g.below(2) == 0 { x } else { x.max_axis(1).expand(1, C) }).sum_axis(1);
                    sum = sum.clamp(-1000.0, 1000.0);
                }
                sum.expand(1, C) / 8.0
            }
            _ if g.sides.get() > 0 => v.load(c).expand(0, R),
            _ => {
                let mut own = shared::<f32>([R, C], 1.0);
                own.store((.., ..), g.grow(depth));
                let (row, col) = (iota::<i32>(R).expand(1, C), iota::<i32>(C).expand(0, R));
                if g.below(2) == 0 { own.gather((row, col + 1)) } else { own.load((0, ..)).expand(0, R) }
            }
        };
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        y.store((r, c), first);
        sums.store((r, c), second);
    }
}

/// Sums over all tiles of a block and over all blocks.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [1, 2]), finish(F = [LastBlock, Atomics, SecondLaunch]))]
pub fn random_total(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, at: &Tensor<i32, 1>, totals: &mut Tensor<f32, 1>, s: Scalar<i32>) {
    let mut sum = zeros::<f32>([T]);
    let mut most = full::<f32>([T], f32::NEG_INFINITY);
    for t in a.tiles([T]).strided() {
        let leaf = |n: usize| match n {
            0..6 => a.load(t) * 4.0,
            6..9 => b.load(t) * 4.0,
            9..12 => b.gather(at.load(t)) * 4.0,
            12 => (t.coords() % 7).cast::<f32>(),
            13 => full([T], 2.0),
            _ => at.load(t).cast::<f32>(),
        };
        let special = |g: &Grower<'_>, _: usize, depth: usize| -g.grow(depth);
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        sum += first;
        most = most.max(second);
    }
    let (sum, most) = (sum.sum().sum_grid(), most.max_all().max_grid());
    totals.store_at(0, sum);
    totals.store_at(1, most.max(-100.0));
}

/// Products of what random bodies make of their operands, and what they make of the products.
#[kernel(
    tile(M = [16, 8], N = [32, 16], K = [8, 16]),
    coarsen(CM of M = [1, 2, 4], CN of N = [1, 4]),
    vector(V = [1, 4]),
    operands(O = [Shared, Direct]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async]),
    split(Z = [1, 2])
)]
pub fn random_product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, c: &mut Tensor<f32, 2>, s: Scalar<i32>) {
    for (m, n) in c.tiles([M, N]) {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            let (left, right) = (small(a.load((m, k)) * 4.0), small(b.load((k, n)) * 4.0));
            // As they are loaded they may be copied without passing through registers.
            let as_loaded = SEED.get() % 4 == 3;
            let (left, right) = match SEED.get() % 4 {
                0 => (left.max(0.0), right),
                1 => (left, select(right > 0.0, right, -1.0)),
                2 => (left + 1.0, right * bias.load(n).round().expand(0, K)),
                _ => (a.load((m, k)), b.load((k, n))),
            };
            acc = dot(left, right, acc);
            if as_loaded {
                acc += a.load((m, k)).sum_axis(1).expand(1, N);
            }
        }
        let acc = acc.clamp(-1000.0, 1000.0);
        let leaf = |n_: usize| match n_ {
            0..8 => acc / 16.0,
            8..11 => c.load((m, n)) * 4.0,
            11..13 => bias.load(n).expand(0, M) * 4.0,
            13 => (m.coords() % 5).cast::<f32>().expand(1, N),
            _ => full([M, N], 3.0),
        };
        let special = |g: &Grower<'_>, n: usize, depth: usize| match n {
            14 => g.grow(depth).sum_axis(1).expand(1, N),
            15 => g.grow(depth).max_axis(0).expand(0, M),
            _ => -g.grow(depth),
        };
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        c.store((m, n), first + second);
    }
}

/// Elements of 16 and 8 bits, views and windows of two axes.
#[kernel(tile(R = [4, 8], C = [32, 64]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2, 4, 8]), halo(H = [Shared, Direct]))]
pub fn random_view(
    a: &Tensor<f16, 2>,
    b: &Tensor<i8, 2>,
    d: &Tensor<bf16, 2>,
    y: &mut Tensor<f16, 2>,
    z: &mut Tensor<f32, 2>,
    s: Scalar<i32>,
) {
    a.same_shape(&b);
    y.same_shape(&a);
    let boundary = if SEED.get() % 2 == 0 { Boundary::Zero } else { Boundary::Clamp };
    let (back, upside) = (a.reversed(1), b.reversed(0));
    let turned = d.permuted([1, 0]);
    for (r, c) in z.tiles([R, C]) {
        let near = a.window((r, c), [(1, 1), (2, 1)], boundary);
        let bytes = b.window((r, c), [(0, 2), (1, 1)], boundary);
        let leaf = |n: usize| match n {
            0..3 => a.load((r, c)).cast::<f32>() * 4.0,
            3..5 => b.load((r, c)).cast::<f32>(),
            5 => d.load((r, c)).cast::<f32>() * 4.0,
            6 => back.load((r, c)).cast::<f32>() * 4.0,
            7 => upside.load((r, c)).cast::<f32>(),
            8 => turned.load((c, r)).t().cast::<f32>() * 4.0,
            9 => near.at((-1, -2)).cast::<f32>() * 4.0,
            10 => near.at((1, 1)).cast::<f32>() * 4.0,
            11 => near.at((0, s % 2)).cast::<f32>() * 4.0,
            12 => bytes.at((2, 0)).cast::<f32>() + bytes.at((1, 1)).cast::<f32>() - bytes.at((0, -1)).cast::<f32>(),
            13 => bytes.at((s % 3, -1)).cast::<f32>(),
            14 => back.gather((r.coords().expand(1, C), c.coords().expand(0, R) - 1)).cast::<f32>() * 4.0,
            _ => (c.coords() % 5).cast::<f32>().expand(0, R),
        };
        let special = |g: &Grower<'_>, n: usize, depth: usize| match n {
            14 => {
                let (v, at) = g.grow(depth).arg_max_axis(1, c);
                (v + (at % 3).cast::<f32>()).expand(1, C)
            }
            15 => {
                let (v, w) = (g.grow(depth), g.grow(depth).max(0.0).min(1.0));
                (v, w).reduce_axis(0, (0.0, 1.0), |x, y| (x.0 * y.1 + y.0, x.1 * y.1)).0.expand(0, R)
            }
            _ => -g.grow(depth),
        };
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        y.store((r, c), first.cast());
        z.store((r, c), second);
    }
}

/// Updates at computed positions, of tensors and of the block's own array.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [1, 2]), copies(K = [1, 2]))]
pub fn random_updates(a: &Tensor<f32, 1>, at: &Tensor<u8, 1>, counts: &mut Tensor<i32, 1>, bins: &mut Tensor<u32, 1>, s: Scalar<i32>) {
    let mut own = shared::<i32>([16], 0);
    for t in a.tiles([T]).strided() {
        let leaf = |n: usize| match n {
            0..8 => a.load(t) * 4.0,
            8..11 => at.load(t).cast::<f32>() % 9.0,
            11..13 => (t.coords() % 7).cast::<f32>(),
            13 => full([T], 2.0),
            _ => a.gather(t.coords() + 1) * 4.0,
        };
        let special = |g: &Grower<'_>, _: usize, depth: usize| -g.grow(depth);
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        let (position, value) = (first.cast::<i32>() + 3, second.cast::<i32>());
        match SEED.get() % 3 {
            0 => counts.atomic_add(position, value),
            1 => counts.atomic_max(position, value),
            _ => counts.atomic_xor(position, value),
        }
        own.atomic_add(position, 1);
        if SEED.get() % 2 == 0 {
            let lost = bins.fetch_add(position & 3, select(a.load(t) > 0.0, 1u32, 0u32));
            // What was there before depends on the order of the blocks; that it is a small number does not.
            own.atomic_add(position, select(lost < 1_000_000u32, 1i32, 0i32));
        }
    }
    bins.atomic_add(iota::<i32>(16) + 4, own.load(..).cast::<u32>());
}

/// What is made of nothing, beside a tail: updated, scattered and searched for by each element, in one `if` for all where there can be one.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn random_ends(
    a: &Tensor<f32, 1>,
    at: &Tensor<u8, 1>,
    table: &Tensor<f32, 1>,
    counts: &mut Tensor<i32, 1>,
    places: &mut Tensor<i32, 1>,
    s: Scalar<i32>,
) {
    for t in a.tiles([T]) {
        let leaf = |n: usize| match n {
            0..3 => a.load(t) * 4.0,
            3..5 => at.load(t).cast::<f32>() % 9.0,
            5..10 => (t.coords() % 7).cast::<f32>(),
            10..13 => full([T], 2.0),
            13 => a.load(t).like(3.0),
            _ => a.gather(t.coords() + 1) * 4.0,
        };
        let special = |g: &Grower<'_>, n: usize, depth: usize| match n {
            14 => g.grow(depth).like(1.0),
            15 if SEED.get() % 4 == 0 => g.grow(depth) + iota::<i32>(T).cast::<f32>() % 4.0,
            _ => -g.grow(depth),
        };
        let g = grower(&leaf, &special, s);
        let (first, second) = g.results();
        let (position, value) = (first.cast::<i32>() + 3, second.cast::<i32>());
        match SEED.get() % 3 {
            0 => counts.atomic_add(position, value),
            1 => counts.atomic_add(full::<i32>([T], 1), value),
            _ => counts.atomic_xor(position, full([T], 5)),
        }
        let passed = if SEED.get() % 2 == 0 { below(table, a.load(t), full([T], 0)) } else { value };
        places.scatter(t.coords() * 2 + 1, passed);
    }
}

/// How many elements of a table each element of a tile is to pass, by halves, from `none` on.
#[device]
fn below(table: &Tensor<f32, 1>, v: Tile<f32>, none: Tile<i32>) -> Tile<i32> {
    let n = table.len(0).cast::<i32>();
    let (mut lo, mut hi) = (none, none + n);
    while (lo < hi).any() {
        let mid = (lo + hi) / 2;
        let go = table.gather(mid.clamp(0, n - 1)) < v;
        (lo, hi) = if lo < hi { if go { (mid + 1, hi) } else { (lo, mid) } } else { (lo, hi) };
    }
    lo
}

//! Kernels with loops that keep to some positions of an axis: rows of different lengths, segments, bands, windows.

use girih::prelude::*;

/// Each row less its sum, as far as the row goes: behind it nothing is stored.
#[kernel(tile(R = 1, C = [16, 64, 128]), coarsen(K of C = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn ragged_rows(x: &Tensor<i32, 2>, lens: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>) {
    for r in lens.tiles([R]) {
        let len = lens.at(r.number()) % 170 - 20;
        let mut sum = zeros::<i32>([R, C]);
        for c in x.axis(1).tiles(C).within(0..len) {
            sum += x.load((r, c));
        }
        let sum = sum.sum_axis(1).expand(1, C);
        for c in x.axis(1).tiles(C).within(0..len) {
            y.store((r, c), x.load((r, c)) - sum);
        }
    }
}

/// The sum and the largest element of segments that begin and end anywhere, before the vector and behind it, too.
#[kernel(tile(S = 1, T = [16, 32, 96]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn segments(x: &Tensor<i32, 1>, firsts: &Tensor<i32, 1>, lens: &Tensor<i32, 1>, sums: &mut Tensor<i32, 1>, most: &mut Tensor<i32, 1>) {
    sums.same_shape(firsts);
    sums.same_shape(lens);
    for s in sums.tiles([S]) {
        let first = firsts.at(s.number()) % 130 - 15;
        let end = first + lens.at(s.number()) % 90 - 20;
        let mut sum = zeros::<i32>([T]);
        let mut largest = full::<i32>([T], -1);
        for t in x.tiles([T]).within(first..end) {
            let v = x.load(t);
            sum += v;
            largest = largest.max(v);
        }
        sums.store(s, sum.sum().splat([S]));
        most.store(s, largest.max_all().splat([S]));
    }
}

/// The sum of the elements near a tile, its own and so many on each side: tiles of another size, which several blocks read.
#[kernel(tile(T = 16, K = [8, 32, 48]), coarsen(C of K = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn near_sums(x: &Tensor<i32, 1>, width: Scalar<i64>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut sum = zeros::<i32>([K]);
        for k in x.axis(0).tiles(K).within(t.start() - width * 7..=t.end() - 1 + width * 7) {
            sum += x.load(k);
        }
        y.store(t, sum.sum().splat([T]));
    }
}

/// Constant positions, open ones, and what two ranges have in common; where ends are multiples of the tile nothing is compared with them.
#[kernel(tile(R = [2, 4], C = [16, 32]), coarsen(K of C = [1, 2]), vector(V = [1, 2, 4]))]
pub fn constant_positions(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    let n = x.len(1);
    for r in x.axis(0).tiles(R) {
        let mut sum = zeros::<i32>([R, C]);
        for c in x.axis(1).tiles(C).within(-5..7) {
            sum += x.load((r, c));
        }
        for c in x.axis(1).tiles(C).within(..n - 9) {
            sum += x.load((r, c)) * 2;
        }
        for c in x.axis(1).tiles(C).within(5..).within(..=n / 2) {
            sum += x.load((r, c)) * 3;
        }
        for c in x.axis(1).tiles(C).within(16..32) {
            sum += x.load((r, c)) * 5;
        }
        let sum = sum.sum_axis(1).expand(1, C);
        for c in x.axis(1).tiles(C).within(3..20) {
            y.store((r, c), sum);
        }
    }
}

/// Windows of such a loop: neighbours lie anywhere, the tile's own elements are some positions; and updates at them.
#[kernel(
    tile(R = 1, T = [16, 32]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct]),
    copy(P = [Registers, Async]),
    stages(S = [1, 2, 3])
)]
pub fn windows_between(x: &Tensor<i32, 1>, firsts: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    y.same_shape(firsts);
    for r in y.tiles([R]) {
        let first = firsts.at(r.number()) % 70;
        let mut sum = zeros::<i32>([T]);
        for t in x.tiles([T]).within(first..first + 41) {
            let w = x.window(t, [(1, 2)], Boundary::Zero);
            sum += w.at(2) - w.at(-1) * 2;
            bins.atomic_add(w.at(0) % 37, 1);
        }
        y.store(r, sum.sum().splat([R]));
    }
}

/// How many turns a loop takes, and the sum of what is there.
#[kernel(tile(S = 1, T = 16))]
pub fn turns_taken(ends: &Tensor<i32, 2>, x: &Tensor<i32, 1>, turns: &mut Tensor<i32, 1>, sums: &mut Tensor<i32, 1>) {
    for s in ends.axis(0).tiles(S) {
        let (mut count, mut sum) = (scalar(0i32), scalar(0i32));
        for t in x.tiles([T]).within(ends.at((s.number(), 0))..ends.at((s.number(), 1))) {
            count += 1;
            sum += x.load(t).sum();
        }
        turns.store(s, count.splat([S]));
        sums.store(s, sum.splat([S]));
    }
}

/// The tiles that the grid's own tile covers, and those before it.
#[kernel(tile(T = 16, K = [16, 32]), coarsen(C of K = [1, 2]), vector(V = [1, 2]))]
pub fn between_tiles(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let mut sum = zeros::<i32>([K]);
        for k in x.axis(0).tiles(K).within(t.start() - 32..t.end()) {
            sum += x.load(k);
        }
        y.store(t, sum.sum().splat([T]));
    }
}

/// Whose turns could be shared, were they known before the launch.
#[kernel(
    tile(BM = 16, BN = [16, 32], BK = [16, 8]),
    coarsen(TM of BM = [2, 4], TN of BN = [2, 4]),
    split(Z = [1, 2]),
    slices(Y = [1, 2])
)]
pub fn split_band(a: &Tensor<i32, 2>, b: &Tensor<i32, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK).within(..m.end()) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

//! Kernels with schedules that break rules which no other kernel breaks.

use girih::prelude::*;

#[kernel(tile(T = [256, 128]), threads(N = [128, 64]))]
pub fn by_threads(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

/// A window whose halo is as wide as the tile, read at a distance that small tiles do not reach.
#[kernel(tile(T = [64, 32]))]
pub fn far_neighbours(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let w = x.window(t, [(0, T)], Boundary::Clamp);
        y.store(t, w.at(0) + w.at(40));
    }
}

#[kernel(tile(T = [64, 96]), coarsen(C of T = [1, 2]), grid(G = [0, 1]))]
pub fn chained_tiles(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut sums = chain(zeros::<f32>([T]));
        let v = x.load(t);
        let sum = sums.take() + v;
        sums.leave(sum);
        y.store(t, sum);
    }
}

#[kernel(tile(T = [64]), constant(M of w = [Off, On], N of y = [Off, On]))]
pub fn tiles_of_a_table(w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, w.load(t) * w.at(0) + y.load(t));
    }
}

#[kernel(tile(T = [64, 96]), grid(G = [0, 1]))]
pub fn meeting_tiles(x: &mut Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        x.store(t, t.coords().cast::<f32>());
        grid_barrier();
        y.store(t, x.gather(x.len(0) - 1 - t.coords()));
    }
}

#[kernel(tile(T = [64, 96]), grid(G = [0, 1]), raster(X = [1, 4]), order(D = [Rising, Falling]))]
pub fn ordered_tiles(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]).in_order() {
        y.store(t, x.load(t) + 1.0);
    }
}

/// Few columns lie in the registers of each thread: the tile has one axis.
/// A right operand that is converted between shared memory and the dot.
#[kernel(tile(BM = 64, BN = 64, BK = 32), unit(U = [Mma, Wgmma]), warps(W = 4))]
pub fn converted_group_product(a: &Tensor<f16, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)).cast::<f16>(), acc);
        }
        c.store((m, n), acc);
    }
}

/// The block's tile is the result of no dot.
#[kernel(tile(BM = 32, BD = 32, BN = 16), unit(U = [Ffma, Mma]), warps(W = 1))]
pub fn rows_of_products(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, d) in c.tiles([BM, BD]) {
        let mut sums = zeros::<f32>([BM]);
        for n in b.axis(1).tiles(BN) {
            let mut products = zeros::<f32>([BM, BN]);
            for k in a.axis(1).tiles(BN) {
                products = dot(a.load((m, k)), b.load((k, n)), products);
            }
            sums += products.sum_axis(1);
        }
        c.store((m, d), sums.expand(1, BD));
    }
}

#[kernel(tile(T = [64]), unit(U = [Ffma, Mma]))]
pub fn narrow_product(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for t in c.axis(0).tiles(T) {
        let start = zeros::<f32>([T, Size::from(16)]);
        c.store((t, ..16), dot(a.load((t, ..16)), b.load((..16, ..16)), start));
    }
}

#[kernel(tile(T = [64]), split(Z = [1, 2]))]
pub fn no_dots(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

/// Two loops add up dots.
#[kernel(tile(M = [64, 32], N = [64, 32], K = [32]), unit(U = [Ffma, Mma]), copy(P = [Registers, Overlap]), stages(S = [1, 2]), split(Z = [1, 2]))]
pub fn two_sums(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([M, N]) {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

#[kernel(tile(M = [16], N = [16], K = [16]), split(Z = [1, 2]))]
pub fn summed_tiles(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, total: &mut Tensor<f32, 1>) {
    let mut all = zeros::<f32>([M, N]);
    for (m, n) in c.tiles([M, N]).strided() {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        all += acc;
    }
    total.store_at(0, all.sum().sum_grid());
}

#[kernel(tile(M = [16], N = [16], K = [16]), split(Z = [1, 2]))]
pub fn stored_before(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, turns: &mut Tensor<i32, 1>) {
    for (m, n) in c.tiles([M, N]) {
        turns.atomic_add(0, 1);
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// A sum so far is looked at.
#[kernel(tile(M = [16], N = [16], K = [16]), split(Z = [1, 2]))]
pub fn watched_elements(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, seen: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([M, N]) {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
            let doubled = acc * 2.0;
            seen.store((m, n), doubled);
        }
        c.store((m, n), acc);
    }
}

#[kernel(tile(M = [16], N = [16], K = [16]), split(Z = [1, 2]))]
pub fn guarded_sum(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, turns: &mut Tensor<i32, 1>, s: Scalar<i64>) {
    for (m, n) in c.tiles([M, N]) {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            if k.number() == s {
                turns.atomic_add(0, 1);
            }
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

#[kernel(tile(M = [16], N = [16], K = [16]), slices(Y = [1, 2]))]
pub fn totalled_tiles(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, total: &mut Tensor<f32, 1>) {
    for (m, n) in c.tiles([M, N]) {
        let mut acc = zeros::<f32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
        total.atomic_add(0, acc.sum());
    }
}

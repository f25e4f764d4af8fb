//! Dots whose results the body goes on with: reduced along their rows, read by another dot.

use girih::prelude::*;

/// The largest element and the sum of every row of a · b, which is nowhere stored.
#[kernel(
    types(T = [f32, f16]),
    tile(BM = [16, 32], BN = [32, 16, 64], BK = [16, 8, 32]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    unit(U = [Ffma, Mma]),
    warps(W = [2, 1, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Async, Registers])
)]
pub fn product_rows<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, largest: &mut Tensor<f32, 1>, sums: &mut Tensor<f32, 1>) {
    for m in a.axis(0).tiles(BM) {
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        for n in b.axis(1).tiles(BN) {
            let mut acc = zeros::<f32>([BM, BN]);
            for k in a.axis(1).tiles(BK) {
                acc = dot(a.load((m, k)), b.load((k, n)), acc);
            }
            let there = (n.coords() < b.len(1)).expand(0, BM);
            most = most.max(select(there, acc, f32::MIN).max_axis(1));
            total += acc.sum_axis(1);
        }
        largest.store(m, most);
        sums.store(m, total);
    }
}

/// softmax(q · kᵀ · scale) · v in one pass over the keys: a row's largest score and sum are corrected as they grow.
#[kernel(
    types(T = [f16, f32]),
    tile(BM = [16, 32], BD = [32, 16], BN = [16, 32], BE = 16),
    coarsen(TM of BM = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Ffma, Mma]),
    warps(W = [1, 2])
)]
pub fn attention<T: Float>(q: &Tensor<T, 2>, k: &Tensor<T, 2>, v: &Tensor<T, 2>, scale: Scalar<f32>, o: &mut Tensor<f32, 2>) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        for n in k.axis(0).tiles(BN) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                scores = dot(q.load((m, e)), k.load((n, e)).t(), scores);
            }
            let there = (n.coords() < k.len(0)).expand(0, BM);
            let scores = select(there, scores * scale, f32::MIN);
            let next = most.max(scores.max_axis(1));
            let weights = select(there, (scores - next.expand(1, BN)).exp(), 0.0);
            let factor = (most - next).exp();
            total = total * factor + weights.sum_axis(1);
            acc = dot(weights.cast::<T>(), v.load((n, d)), acc * factor.expand(1, BD));
            most = next;
        }
        o.store((m, d), acc / total.expand(1, BD));
    }
}

/// The same of causal attention: a query reads the keys up to its own position, and its tile no tile of keys behind its last one.
#[kernel(
    types(T = [f16, f32]),
    tile(BM = [16, 32], BD = [32, 16], BN = [16, 32], BE = 16),
    coarsen(TM of BM = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Ffma, Mma]),
    warps(W = [1, 2])
)]
pub fn causal_attention<T: Float>(q: &Tensor<T, 2>, k: &Tensor<T, 2>, v: &Tensor<T, 2>, scale: Scalar<f32>, o: &mut Tensor<f32, 2>) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        for n in k.axis(0).tiles(BN).within(0..m.end()) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                scores = dot(q.load((m, e)), k.load((n, e)).t(), scores);
            }
            let key = n.coords().expand(0, BM);
            let seen = key <= m.coords().expand(1, BN) && key < k.len(0);
            let scores = select(seen, scores * scale, f32::MIN);
            let next = most.max(scores.max_axis(1));
            let weights = select(seen, (scores - next.expand(1, BN)).exp(), 0.0);
            let factor = (most - next).exp();
            total = total * factor + weights.sum_axis(1);
            acc = dot(weights.cast::<T>(), v.load((n, d)), acc * factor.expand(1, BD));
            most = next;
        }
        o.store((m, d), acc / total.expand(1, BD));
    }
}

/// Two dots in one loop, the second of what the first has added up: results of one shape, on matrix units, too.
#[kernel(
    tile(M = [16, 32], T = [32, 64]),
    coarsen(CM of M = [1, 2], CT of T = [4, 8]),
    vector(V = [1, 4]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async])
)]
pub fn chained_integers(q: &Tensor<i8, 2>, k: &Tensor<i8, 2>, v: &Tensor<i8, 2>, out: &mut Tensor<i32, 2>) {
    for (m, d) in out.tiles([M, T]) {
        let mut acc = zeros::<i32>([M, T]);
        for n in k.axis(0).tiles(T) {
            let mut scores = zeros::<i32>([M, T]);
            for e in q.axis(1).tiles(T) {
                scores = dot(q.load((m, e)), k.load((n, e)).t(), scores);
            }
            acc = dot(scores.cast::<i8>(), v.load((n, d)), acc);
        }
        out.store((m, d), acc);
    }
}

//! Kernels whose tiles may be shared by the blocks of a cluster: rows by reductions of every kind, and stores of whole rows behind them.

use girih::prelude::*;

/// Sums of rows, of which a block has several: each thread of a warp has its own part of some.
#[kernel(
    tile(R = [1, 2, 4], C = [32, 64, 256]),
    coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cluster(X of C = [1, 2, 4, 8])
)]
pub fn clustered_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.store(r, acc.sum_axis(1));
    }
}

/// Softmax of rows, whose largest element and sum are carried together; the row is written by those who have read it.
#[kernel(
    tile(R = [1, 2], C = [32, 64, 256]),
    coarsen(CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cluster(X of C = [1, 2, 4, 8])
)]
pub fn clustered_softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, sums: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut most = full([R, C], f32::MIN);
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let next = most.max(v);
            sum = sum * (most - next).exp() + (v - next).exp();
            most = next;
        }
        let own = most.max_axis(1);
        let sum = (sum * (most - own.expand(1, C)).exp()).sum_axis(1);
        for c in x.axis(1).tiles(C) {
            y.store((r, c), (x.load((r, c)) - own.expand(1, C)).exp() / sum.expand(1, C));
        }
        sums.store(r, sum);
    }
}

/// Mean and variance of 16-bit floats, as scalars; the row by its number.
#[kernel(
    tile(R = 1, T = [64, 128]),
    coarsen(D of T = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cluster(X of T = [1, 2, 4, 8])
)]
pub fn clustered_moments(x: &Tensor<f16, 2>, y: &mut Tensor<f32, 2>, means: &mut Tensor<f32, 1>) {
    x.same_shape(y);
    let n = x.len(1).cast::<f32>();
    for r in x.axis(0).tiles(R) {
        let i = r.number();
        let mut sum = zeros::<f32>([T]);
        let mut squares = zeros::<f32>([T]);
        for t in x.axis(1).tiles(T) {
            let v = x.load((i, t)).cast::<f32>();
            sum += v;
            squares += v * v;
        }
        let mean = sum.sum() / n;
        let variance = (squares.sum() / n - mean * mean).max(0.0);
        let scale = (variance + 0.5).rsqrt();
        for t in x.axis(1).tiles(T) {
            y.store((i, t), (x.load((i, t)).cast::<f32>() - mean) * scale);
        }
        means.store(r, full::<f32>([R], 0.0) + mean);
    }
}

/// The last odd element of each row in the order in which threads and blocks have them, its minimum, and whether all are even: operators of
/// which one keeps an order, on integers.
#[kernel(tile(R = [1, 2], C = [32, 64]), coarsen(CC of C = [1, 2]), vector(V = [1, 2]), cluster(X of C = [1, 2, 4, 8]))]
pub fn clustered_integers(x: &Tensor<i32, 2>, least: &mut Tensor<i32, 1>, ones: &mut Tensor<i32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut most = full::<i32>([R, C], i32::MAX);
        let mut odd = zeros::<i32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            most = most.min(v);
            odd += v & 1;
        }
        least.store(r, most.min_axis(1));
        let (ones_of, _) = (odd, odd).reduce_axis(1, (0, 0), |(a, b), (c, d)| (a + c, b.max(d)));
        ones.store(r, ones_of);
    }
}

//! Products of f32 matrices by matrix units, as exact as multiply-adds (the field's 3xTF32).
//!
//! Each number is taken for the sum of two that tf32 holds, its 11 upper bits and the next 11, and of the four products of two such sums the
//! smallest, below 2⁻²² of the whole, is left out. Matrix units truncate where they add, always towards zero, so that what they lose grows with
//! the length of the sum: they add up one tile of it at a time, and tiles are added to one another by ordinary additions, which round.
//! (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance, 2022.)
//! Infinities have no lower bits (infinity less itself is no number), and what lies just below f32's largest number rounds to infinity: a tile
//! with a result that is not finite is computed once more, by multiply-adds. Numbers below 2⁻¹¹³ keep fewer bits: tf32's smallest is 2⁻¹³⁶.

use girih::prelude::*;

/// `sum + left · right`, the smallest products first: for matrix units, of operands of f32.
pub fn split_dot(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>) -> Tile<f32> {
    let (left_high, right_high) = (left.round_tf32(), right.round_tf32());
    let (left_low, right_low) = ((left - left_high).round_tf32(), (right - right_high).round_tf32());
    let sum = dot(left_low, right_high, sum);
    let sum = dot(left_high, right_low, sum);
    dot(left_high, right_high, sum)
}

/// The tile as it is, if all of it is finite; otherwise what multiply-adds make of these columns of `left` and rows of `right`.
#[device]
fn checked(
    sum: Tile<f32>,
    length: Scalar<i64>,
    left: impl Fn(Scalar<i64>) -> Tile<f32>,
    right: impl Fn(Scalar<i64>) -> Tile<f32>,
) -> Tile<f32> {
    let mut sum = sum;
    if !(sum.abs() <= f32::MAX).all() {
        sum = sum.like(0.0);
        for k in 0..length {
            sum = left(k).fma(right(k), sum);
        }
    }
    sum
}

/// c = a · b.
#[kernel(
    tile(BM = [128, 64, 32], BN = [128, 64, 256, 32], BK = [32, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Overlap, Registers]),
    raster(X = [8, 1]),
    split(Z = [1, 2, 4]),
    min_blocks(Q = [1, 2])
)]
pub fn split_matrix_multiplication(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc += split_dot(a.load((m, k)), b.load((k, n)), zeros::<f32>([BM, BN]));
        }
        let acc = checked(acc, a.len(1), |k| a.load((m, k)).expand(1, BN), |k| b.load((k, n)).expand(0, BM));
        c.store((m, n), acc);
    }
}

/// `c[i] = a[i] · b[i]`.
#[kernel(
    tile(B = 1, BM = [64, 32, 128], BN = [64, 32, 128], BK = [32, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8, 2]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Overlap, Registers]),
    min_blocks(Q = [1, 2])
)]
pub fn split_batched_multiplication(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, c: &mut Tensor<f32, 3>) {
    let (a, b) = (a.slice(0, 0, c.len(0)), b.slice(0, 0, c.len(0)));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc += split_dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), zeros::<f32>([BM, BN]));
        }
        let of = i.number();
        let acc = checked(acc, a.len(2), |k| a.load((of, m, k)).expand(1, BN), |k| b.load((of, k, n)).expand(0, BM));
        c.store((of, m, n), acc);
    }
}

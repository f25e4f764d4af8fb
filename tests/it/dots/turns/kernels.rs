//! Loops that add up dots and do something else in each turn: their tiles are the author's, so no choice of operands may walk the axis of the
//! sum in other steps.

use girih::prelude::*;

/// Each group of 16 products has a scale of its own, found by the number of its tile.
#[kernel(
    tile(M = [16, 8], N = [32, 16], K = 16),
    coarsen(CM of M = [1, 2], CN of N = [1, 4]),
    vector(V = [1, 4]),
    operands(O = [Direct, Shared, Transposed]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async]),
    split(Z = [1, 2, 0]),
    slices(Y = [1, 2])
)]
pub fn group_scales(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>) {
    for (m, n) in y.tiles([M, N]) {
        let mut acc = zeros::<i32>([M, N]);
        for k in a.axis(1).tiles(K) {
            let part = dot(a.load((m, k)), b.load((k, n)), zeros::<i32>([M, N]));
            acc += part * (k.number() + k.start() * 3 - k.end()).cast::<i32>();
        }
        y.store((m, n), acc);
    }
}

/// What was added before decays once a turn, the turns are counted, and the largest sum on the way is kept.
#[kernel(
    tile(M = [16, 8], N = [32, 16], K = 16),
    coarsen(CM of M = [1, 2], CN of N = [1, 4]),
    operands(O = [Direct, Shared]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async])
)]
pub fn decaying_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>) {
    for (m, n) in y.tiles([M, N]) {
        let (mut acc, mut most) = (zeros::<i32>([M, N]), full::<i32>([M, N], -1000));
        let mut turns = scalar::<i32>(0);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc / 2);
            most = most.max(acc);
            turns += 1;
        }
        y.store((m, n), select(turns > 1, most, acc));
    }
}

/// Turns that are guarded, and effects of each turn.
#[kernel(tile(M = 16, N = 16, K = 16), coarsen(CN of N = [1, 2]), operands(O = [Direct, Shared]), stages(S = [1, 2]))]
pub fn guarded_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>, turns: &mut Tensor<i32, 1>, s: Scalar<i64>) {
    for (m, n) in y.tiles([M, N]) {
        let mut acc = zeros::<i32>([M, N]);
        for k in a.axis(1).tiles(K) {
            if k.number() % 2 == s % 2 {
                acc = dot(a.load((m, k)), b.load((k, n)), acc);
            }
            turns.atomic_add(0, 1);
        }
        y.store((m, n), acc);
    }
}

/// A sum of dots alone, and a second loop by the same tiles that does something once a turn.
#[kernel(tile(M = 16, N = 16, K = 16), coarsen(CN of N = [1, 2]), operands(O = [Direct, Shared]), stages(S = [1, 2]), split(Z = [1, 2]))]
pub fn counted_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>) {
    for (m, n) in y.tiles([M, N]) {
        let mut acc = zeros::<i32>([M, N]);
        for k in a.axis(1).tiles(K) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        for k in a.axis(1).tiles(K) {
            acc += k.number().cast::<i32>() + 1;
        }
        y.store((m, n), acc);
    }
}

/// One operand is the same in all turns.
#[kernel(tile(M = 16, N = 16, K = 16), coarsen(CN of N = [1, 2]), operands(O = [Direct, Shared]), stages(S = [1, 2]))]
pub fn repeated_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, y: &mut Tensor<i32, 2>) {
    for (m, n) in y.tiles([M, N]) {
        let mut acc = zeros::<i32>([M, N]);
        for k in b.axis(0).tiles(K) {
            let left = a.load((m, k));
            for _ in b.axis(0).tiles(K) {
                acc = dot(left, b.load((k, n)), acc);
            }
        }
        y.store((m, n), acc);
    }
}

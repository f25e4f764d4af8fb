//! Products whose left operands are computed of what was loaded for them.

use girih::prelude::*;

/// The last bits of bytes, less three, as weights, beside rows that lie along the sum.
#[kernel(
    tile(BN = [64, 128], BM = [16, 64], BK = [32, 64]),
    coarsen(TN of BN = 8, TM of BM = 4),
    vector(V = [16, 4]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 1]),
    copy(P = [Tensor, Async, Registers])
)]
pub fn weights_of_bytes(w: &Tensor<u8, 2>, x: &Tensor<f16, 2>, y: &mut Tensor<f32, 2>) {
    for (n, m) in y.tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in w.axis(1).tiles(BK) {
            let weights = ((w.load((n, k)).cast::<i32>() & 7) - 3).cast::<f16>();
            acc = dot(weights, x.load((m, k)).t(), acc);
        }
        y.store((n, m), acc);
    }
}

/// Two products a turn of the last bits of both halves of bytes, whose sum is scaled; a byte that is not there is 0x11.
#[kernel(
    tile(BN = 64, BM = [16, 32], BK = [64, 32]),
    coarsen(TN of BN = 8, TM of BM = 4),
    vector(V = [16, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = 4),
    stages(S = [2, 4, 1]),
    copy(P = [Tensor, Async])
)]
pub fn halves_of_bytes(w: &Tensor<u8, 2>, a: &Tensor<bf16, 2>, b: &Tensor<bf16, 2>, scale: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>) {
    for (n, m) in y.tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in w.axis(1).tiles(BK) {
            let bytes = w.load((n, k)).or(0x11).cast::<i32>();
            let (high, low) = (((bytes >> 4) & 1).cast::<bf16>(), (bytes & 1).cast::<bf16>());
            let sum = dot(high, a.load((m, k)).t(), zeros::<f32>([BN, BM]));
            let sum = dot(low, b.load((m, k)).t(), sum);
            acc += sum * scale.load(n).expand(1, BM);
        }
        y.store((n, m), acc);
    }
}

/// Sixty-fourths of the sums of two tiles of different types, beside rows that lie across the sum; the largest of each row is looked at, too.
#[kernel(
    tile(BM = 64, BN = [32, 64], BK = [32, 16]),
    coarsen(TM of BM = 8, TN of BN = 4),
    vector(V = [8, 2]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = 4),
    stages(S = [2, 1]),
    copy(P = [Async, Tensor, Registers])
)]
pub fn scaled_sums(a: &Tensor<f32, 2>, b: &Tensor<f16, 2>, c: &Tensor<f16, 2>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        let mut most = zeros::<f32>([BM]);
        for k in a.axis(1).tiles(BK) {
            let left = ((a.load((m, k)) + b.load((m, k)).cast::<f32>()) * 0.015625).cast::<f16>();
            acc = dot(left, c.load((k, n)), acc);
            most = most.max(left.cast::<f32>().max_axis(1));
        }
        y.store((m, n), acc + most.expand(1, BN));
    }
}

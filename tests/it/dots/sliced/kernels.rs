//! Products whose sums are shared by slices of a block.

use girih::prelude::*;

/// c = a · b, by plain multiply-adds.
#[kernel(
    types(T = [f32, f16]),
    tile(BM = [16, 32, 8], BN = [32, 16], BK = [8, 16, 12]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers]),
    grid(G = [0, 1]),
    split(Z = [1, 2]),
    slices(Y = [2, 4, 3, 1])
)]
pub fn sliced_product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Integers, which start at what is there: exact in every order.
#[kernel(
    types(T = [i8, u8]),
    tile(BM = [16, 32], BN = [32, 64], BK = [32, 64]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 8]),
    vector(V = [4, 1, 16]),
    unit(U = [Ffma, Mma]),
    warps(W = [1, 2]),
    operands(O = [Shared, Direct]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers]),
    slices(Y = [4, 2, 1, 8])
)]
pub fn sliced_integers<T: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = c.load((m, n));
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
    }
}

/// Matrix instructions, a bias from before the sum, and what was there.
#[kernel(
    tile(BM = [32, 64], BN = [64, 32], BK = [32, 16, 64]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 8]),
    vector(V = [8, 4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Overlap, Registers]),
    raster(X = [1, 2]),
    grid(G = [0, 1]),
    slices(Y = [2, 1, 4]),
    min_blocks(Q = [1, 2])
)]
pub fn sliced_layer(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, bias: &Tensor<f32, 1>, c: &mut Tensor<f16, 2>, beta: Scalar<f32>) {
    for (m, n) in c.tiles([BM, BN]) {
        let bias = bias.load(n);
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        let before = c.load((m, n)).cast::<f32>();
        c.store((m, n), (acc + bias.expand(0, BM) + before * beta).cast());
    }
}

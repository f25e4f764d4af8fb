//! Small kernels with dots: element types, operands that lie the other way round, batches, epilogues, several dots in a body.

use girih::prelude::*;

/// c = a · b in every element type.
#[kernel(
    types(T = [f32, f16, bf16]),
    tile(BM = [16, 32, 8], BN = [32, 16, 8], BK = [8, 16, 12]),
    coarsen(TM of BM = [1, 2, 4], TN of BN = [4, 2, 1]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1]),
    raster(X = [1, 2])
)]
pub fn product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Integers, added to what is there: exact in every order.
#[kernel(
    types(T = [i8, u8]),
    tile(BM = [16, 8], BN = [32, 16], BK = [16, 8]),
    coarsen(TM of BM = [2, 1], TN of BN = [2, 4]),
    vector(V = [2, 1, 4]),
    operands(O = [Shared, Direct]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers])
)]
pub fn integer_product<T: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = c.load((m, n));
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Both operands lie the other way round: one as a view, one as a tile; then a bias and a nonlinearity.
#[kernel(
    tile(BM = [16, 32], BN = [16, 32], BK = [8, 16]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [2, 1]),
    operands(O = [Shared, Direct]),
    stages(S = [1, 2, 4]),
    copy(P = [Async, Registers])
)]
pub fn turned_product(at: &Tensor<f32, 2>, bt: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, c: &mut Tensor<f32, 2>) {
    let a = at.permuted([1, 0]);
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), bt.load((n, k)).t(), acc);
        }
        c.store((m, n), (acc + bias.load(n).expand(0, BM)).max(0.0));
    }
}

/// A batch of products, each scaled.
#[kernel(
    tile(B = 1, BM = [16, 8], BN = [16, 8], BK = [8, 16]),
    coarsen(TM of BM = [1, 2], TN of BN = [2, 4]),
    vector(V = [1, 2]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async])
)]
pub fn batched_product(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, alpha: Scalar<f32>, c: &mut Tensor<f32, 3>) {
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), acc);
        }
        c.store((i.number(), m, n), acc * alpha);
    }
}

/// Two dots of one operand, whose results meet; and an accumulator that is looked at between the turns.
#[kernel(
    tile(BM = [16, 8], BN = [16, 32], BK = [8, 16]),
    coarsen(TM of BM = [2, 1], TN of BN = [2, 4]),
    vector(V = [2, 1]),
    stages(S = [1, 2, 3]),
    copy(P = [Async, Registers])
)]
pub fn gated_product(x: &Tensor<f32, 2>, gate: &Tensor<f32, 2>, up: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, most: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut g = zeros::<f32>([BM, BN]);
        let mut u = zeros::<f32>([BM, BN]);
        let mut peak = full::<f32>([BM, BN], -1e30);
        for k in x.axis(1).tiles(BK) {
            let left = x.load((m, k));
            g = dot(left, gate.load((k, n)), g);
            peak = peak.max(u);
            u = dot(left, up.load((k, n)), u);
        }
        y.store((m, n), g * u);
        most.store((m, n), peak);
    }
}

/// No loop: the axis of the sum fits one tile; the accumulator is read before.
#[kernel(
    tile(BM = [16, 32], BN = [16, 8]),
    coarsen(TM of BM = [1, 4], TN of BN = [1, 2]),
    vector(V = [1, 2]),
    operands(O = [Shared, Direct])
)]
pub fn short_product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let before = c.load((m, n));
        for k in a.axis(1).tiles(16) {
            let sum = dot(a.load((m, k)), b.load((k, n)), before);
            c.store((m, n), sum + before);
        }
    }
}

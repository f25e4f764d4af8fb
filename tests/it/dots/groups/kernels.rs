//! Products by warp groups: operands that lie along and across the sum, in rows of every length that their instructions read.

use girih::prelude::*;

/// c = a · b + bias, of 16-bit floats.
#[kernel(
    types(T = [f16, bf16]),
    tile(BM = [64, 128], BN = [64, 32, 256, 24], BK = [32, 64, 16, 128]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [8, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    split(Z = [1, 2, 0])
)]
pub fn group_product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, bias: &Tensor<T, 1>, c: &mut Tensor<T, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), (acc + bias.load(n).cast::<f32>().expand(0, BM)).cast());
    }
}

/// The same of operands that lie the other way round, into a sum of 16 bits, which slices may share.
#[kernel(
    tile(BM = [64, 128], BN = [64, 16, 128], BK = [64, 16, 32]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [8, 2]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [2, 1, 4]),
    copy(P = [Async, Registers, Tensor]),
    slices(Y = [1, 2])
)]
pub fn turned_group_product(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(0).tiles(BK) {
            acc = dot(a.load((k, m)).t(), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
    }
}

/// Integers, which start at what is there: exact in every order.
#[kernel(
    types(T = [i8, u8]),
    tile(BM = [64, 128], BN = [64, 24, 32], BK = [64, 32, 128]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [16, 4]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers, Tensor])
)]
pub fn group_integers<T: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = c.load((m, n));
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
    }
}

/// 8-bit floats of either format by one of them, added to what is there.
#[kernel(
    types(A = [f8e4m3, f8e5m2]),
    tile(BM = [64, 128], BN = [64, 24, 32], BK = [64, 32, 128]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [16, 4]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    split(Z = [1, 2])
)]
pub fn group_float8<A: Factor<f8e5m2>>(a: &Tensor<A, 2>, b: &Tensor<f8e5m2, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = mixed_dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
    }
}

/// f32 that tensor maps round to tf32.
#[kernel(
    tile(BM = [64, 128], BN = [64, 24, 256], BK = [32, 16, 64]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [4, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [3, 2]),
    copy(P = [Tensor, Async]),
    grid(G = [0, 1])
)]
pub fn group_rounded(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)).round_tf32(), b.load((n, k)).round_tf32().t(), acc);
        }
        c.store((m, n), acc);
    }
}

/// Two products that share an operand.
#[kernel(
    tile(BM = 64, BN = [64, 32], BK = [32, 16]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [4, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = 4),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers])
)]
pub fn gated_group_product(x: &Tensor<f16, 2>, gate: &Tensor<f16, 2>, up: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut gates = zeros::<f32>([BM, BN]);
        let mut ups = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            let x = x.load((m, k));
            gates = dot(x, gate.load((k, n)), gates);
            ups = dot(x, up.load((k, n)), ups);
        }
        c.store((m, n), gates.max(0.0) + ups);
    }
}

/// An operand that is computed in the loop.
#[kernel(
    tile(BM = 64, BN = [64, 32], BK = [32, 16]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [4, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = 4),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers])
)]
pub fn computed_group_product(x: &Tensor<f16, 2>, up: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut ups = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            let twice = up.load((k, n)).cast::<f32>() * 2.0;
            ups = dot(x.load((m, k)), twice.cast::<f16>(), ups);
        }
        c.store((m, n), ups);
    }
}

/// Sums of each turn by themselves, scaled for the rows of a result that leaves transposed.
#[kernel(
    tile(BM = [32, 64], BN = 64, BK = [32, 64]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [4, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = 4),
    stages(S = [2, 3]),
    copy(P = [Tensor, Async]),
    grid(G = [0, 1])
)]
pub fn scaled_group_sums(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, scales: &Tensor<f32, 1>, c: &mut Tensor<f32, 2>) {
    for (n, m) in c.axes([1, 0]).tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in a.axis(1).tiles(BK) {
            let sum = dot(b.load((n, k)), a.load((m, k)).t(), zeros::<f32>([BN, BM]));
            acc = sum * scales.load(n).or(0.0).expand(1, BM) + acc;
        }
        c.store((m, n), acc.t());
    }
}

/// Three products of two halves each a turn, promoted: two warp groups make them in turn.
#[kernel(
    tile(BM = [128, 64], BN = [64, 32], BK = [64, 32]),
    vector(V = 8),
    unit(U = Wgmma),
    warps(W = [8, 4]),
    stages(S = [2, 3]),
    copy(P = [Tensor, Async]),
    grid(G = [0, 1])
)]
pub fn promoted_halves(high: &Tensor<f16, 2>, low: &Tensor<f16, 2>, right: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in high.axis(1).tiles(BK) {
            let (x, y) = (high.load((m, k)), right.load((k, n)));
            acc += dot(x, y, dot(low.load((m, k)), y, zeros::<f32>([BM, BN])));
        }
        c.store((m, n), acc);
    }
}

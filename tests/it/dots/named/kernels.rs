//! Kernels whose knobs are for one loop, or for one operand of a dot.

use girih::prelude::*;

/// Two sums, each with stages, copies and operands of its own.
#[kernel(
    tile(BM = [16, 32], BN = [32, 16], BK = [8, 16], BL = [16, 8]),
    coarsen(TM of BM = [1, 2], TN of BN = [4, 2]),
    vector(V = [2, 1, 4]),
    operands(O = [Shared, Direct, Transposed], OE of e = [Direct, Shared]),
    stages(S of k = [1, 2, 3], SL of l = [3, 1, 2]),
    copy(P of k = [Registers, Async], PL of l = [Async, Registers]),
    grid(G = [0, 1])
)]
pub fn sums_apart(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, d: &Tensor<f32, 2>, e: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        for l in d.axis(1).tiles(BL) {
            acc = dot(d.load((m, l)), e.load((l, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Two sums on matrix units: the turns of one may overlap, and those of the other not.
#[kernel(
    tile(BM = [16, 32], BN = [16, 32], BK = [32, 16], BL = [32, 16]),
    vector(V = [8, 2]),
    unit(U = [Mma]),
    warps(W = [1, 2]),
    stages(S = [2, 1, 3], SL of l = [3, 2]),
    copy(P = [Async, Registers], PK of k = [Overlap, Registers, Mbarriers], PL of l = [Async, Overlap, Mbarriers])
)]
pub fn two_unit_sums(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, d: &Tensor<f16, 2>, e: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        for l in d.axis(1).tiles(BL) {
            acc = dot(d.load((m, l)), e.load((l, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// A product whose operands are copied, and read, each in its own way.
#[kernel(
    tile(BM = [16, 32], BN = [32, 16], BK = [16, 8, 12]),
    coarsen(TM of BM = [2, 1, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    operands(OA of a = [Shared, Direct, Transposed], OB of b = [Direct, Shared, Transposed]),
    stages(S of k = [3, 2, 1]),
    copy(PA of a = [Async, Registers], PB of b = [Registers, Async]),
    split(Z = [1, 2])
)]
pub fn operands_apart(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// The same on matrix units, where copies by registers are stored to a ring of asynchronous ones.
#[kernel(
    tile(BM = [32, 16], BN = [16, 32], BK = [32, 16]),
    vector(V = [8, 4]),
    unit(U = [Mma]),
    warps(W = [1, 2]),
    stages(S of k = [2, 3, 1]),
    copy(PA of a = [Registers, Overlap, Async], PB of b = [Overlap, Async, Registers, Mbarriers]),
    grid(G = [0, 1])
)]
pub fn unit_operands_apart(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

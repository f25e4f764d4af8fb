//! Sums that go over some positions of their axis only.

use girih::prelude::*;

/// A band of a matrix, as wide as the tile and some more, times another one: other tiles of both are not read, and other elements absent.
#[kernel(
    tile(BM = 16, BN = [16, 32], BK = [8, 16, 12]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1])
)]
pub fn band_product(a: &Tensor<i32, 2>, b: &Tensor<i32, 2>, width: Scalar<i64>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK).within(m.start() - width * 5..m.end() + width * 5) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// The same on matrix units, whose copies stay wide: the band's ends are multiples of 16.
#[kernel(
    types(T = [i8, u8]),
    tile(BM = 16, BN = [16, 32], BK = [32, 64]),
    coarsen(TM of BM = 2, TN of BN = 4),
    vector(V = [16, 8, 4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Overlap, Mbarriers, Registers]),
    grid(G = [0, 1])
)]
pub fn band_on_matrix_units<T: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, width: Scalar<i64>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK).within(m.start() - width * 16..m.end() + width * 16) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

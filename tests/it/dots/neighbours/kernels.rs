//! Products by blocks at neighbouring tiles, which copy for each other what is the same for all.

use girih::prelude::*;

/// c = a · b: blocks at neighbouring rows of tiles read the same tiles of b.
#[kernel(
    tile(BM = [64, 128], BN = [64, 32, 128], BK = [32, 64]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = [8, 1]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [2, 3]),
    copy(P = [Tensor, Async]),
    grid(G = [0, 1]),
    raster(R = [1, 2]),
    cluster(X of BM = [2, 1, 4])
)]
pub fn neighbouring_rows(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// The same of several matrices, the left ones turned: blocks at neighbouring columns of tiles read the same tiles of a.
#[kernel(
    tile(B = 1, BM = [128, 64], BN = [32, 64], BK = [64, 32]),
    coarsen(TM of BM = 8, TN of BN = 8),
    vector(V = 8),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(S = [3, 2]),
    copy(P = [Tensor, Async]),
    grid(G = [1, 0]),
    order(O = [Rising, Falling]),
    cluster(X of BN = [2, 1])
)]
pub fn neighbouring_columns(a: &Tensor<f16, 3>, b: &Tensor<f16, 3>, bias: &Tensor<f32, 1>, c: &mut Tensor<f32, 3>) {
    require(a.len(0) >= c.len(0) && b.len(0) >= c.len(0));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((i.number(), k, m)).t(), b.load((i.number(), n, k)).t(), acc);
        }
        c.store((i.number(), m, n), acc + bias.load(n).expand(0, BM));
    }
}

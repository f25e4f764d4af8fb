//! Matrix multiplication as it is not written twice: neighbouring threads have neighbouring rows.

use girih::prelude::*;

/// c = a · b, where the threads of a warp have results of one column: what they read of a, and write, lies a row apart.
#[kernel(tile(BM = [32, 64], BN = [32, 16], BK = 16), operands(O = [Direct]))]
pub fn product_by_columns(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (a, b, mut c) = (a.permuted([1, 0]), b.permuted([1, 0]), c.permuted([1, 0]));
    for (n, m) in c.tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in a.axis(0).tiles(BK) {
            acc = dot(b.load((n, k)), a.load((k, m)), acc);
        }
        c.store((n, m), acc);
    }
}

/// c = a · b as a sum of outer products, each of a column of a and a row of b: no operand passes through shared memory.
#[kernel(
    tile(BM = [64, 32], BN = [64, 128]),
    coarsen(TM of BM = [4, 8], TN of BN = [4, 8]),
    vector(V = [4, 1]),
    raster(X = [8, 1])
)]
pub fn outer_products(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in 0..a.len(1) {
            acc += a.load((m, k)).expand(1, BN) * b.load((k, n)).expand(0, BM);
        }
        c.store((m, n), acc);
    }
}

/// What a rung runs: Triton's first version of a product.
#[program]
pub fn by_outer_products(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    outer_products(a, b, c);
}

/// What the lowest rung runs.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    product_by_columns(a, b, c);
}

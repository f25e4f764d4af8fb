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

/// What the lowest rung runs.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    product_by_columns(a, b, c);
}

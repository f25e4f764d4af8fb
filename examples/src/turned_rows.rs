//! Matrices with their axes exchanged, for products by warp groups of operands that must lie along the axis of the sum.

use girih::prelude::*;

/// y = xᵀ. Rows of y may be further apart than they are long.
#[kernel(
    types(T = [i8, f32]),
    tile(R = [128, 64, 32], C = [128, 64, 32]),
    coarsen(CR of R = [1, 4, 2, 8, 16], CC of C = [16, 4, 8, 1]),
    vector(V = [4, 16, 8, 1]),
    raster(X = [1, 1024])
)]
pub fn turned<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

//! Matrices of 16-bit floats whose rows begin at multiples of 16 bytes, as tensor maps and copies of 16 bytes take them.

use girih::prelude::*;

/// y = x, where y's rows are further apart than x's.
#[kernel(
    types(T = [f16, bf16]),
    tile(R = [1, 2, 4, 8], C = [512, 256, 1024, 2048]),
    coarsen(RR of R = [1, 2, 4], CC of C = [8, 2, 4]),
    vector(V = [8, 2, 4]),
    cache(H = [Default, Streaming])
)]
pub fn copy_rows<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>) {
    for (r, c) in y.tiles([R, C]) {
        y.store((r, c), x.load((r, c)));
    }
}

//! A helper that is wrong, in a file that is not its callers'.

use girih::prelude::*;

/// Axes that no tile of one axis has.
pub fn axes_too_many(v: &Tile<f32>, n: Size) {
    let _ = v.expand(3, n);
    let _ = v.expand(4, n);
    let _ = v.sum_axis(2);
    let _ = v.max_axis(3);
    let _ = v.min_axis(4);
    let _ = v.expand(5, n);
}

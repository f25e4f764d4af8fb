//! Names that do not exist.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn reads_one(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([TT]) {
        x.store(t, x.load(t));
    }
}

fn main() {}

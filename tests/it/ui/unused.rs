//! A tile knob that the body never reads.
#![deny(dead_code)]

use girih::prelude::*;

#[kernel(tile(T = [256], U = [16]), vector(V = [1, 2]))]
fn reads_one(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t));
    }
}

fn main() {
    let _ = reads_one::Kernel::def();
}

//! Stores through `&`.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn stores(x: &Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t));
    }
}

fn main() {
    let _ = stores::Kernel::def();
}

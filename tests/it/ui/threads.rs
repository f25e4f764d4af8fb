//! Shuffles, votes and atomics on what they are not for.

use girih::prelude::*;

#[kernel(tile(T = 64))]
pub fn exchanges(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let votes = v.ballot();
        let far = v.shuffle_xor(0.5);
        let near = v.shuffle_up(lanes(T).cast::<u32>());
        y.atomic_or(0, v);
        y.store(t, far + near);
    }
}

fn main() {}

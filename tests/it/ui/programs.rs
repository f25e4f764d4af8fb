//! What a program may call.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn copied(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
fn exchanges_parameters(x: &mut Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    for _ in 0..n {
        copied(x, y);
        std::mem::swap(x, y);
    }
}

#[program]
fn changes_tensors(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    let mut a = temp([x.len(0)]);
    copied(x, &mut a);
    for _ in 0..n {
        let mut b = temp([x.len(0)]);
        copied(&a, &mut b);
        a = b;
    }
    copied(&a, y);
}

fn main() {}

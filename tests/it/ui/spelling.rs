//! What Rust spells otherwise: brackets, loops with other steps, sizes in brackets, choices by what is no condition.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn brackets(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        y[t] = v;
    }
}

#[kernel(tile(T = [256]))]
fn steps(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    for t in y.axis(0).tiles([T]) {
        let mut v = x.load(t);
        for i in (0..n).rev() {
            v += i.cast::<f32>();
        }
        for i in (0..=n).step_by(2) {
            v += i.cast::<f32>();
        }
        for i in n..0 {
            v += 1.0;
        }
        y.store(t, v);
    }
}

#[kernel(tile(T = [256]))]
fn numbers(x: &Tensor<f32, 1>, z: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let (v, k) = (x.load(t), z.load(t));
        let a = k * 0.5;
        let b = select(v, v, 0.0);
        let c = v > 0;
    }
}

fn main() {}

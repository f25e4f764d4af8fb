//! Types that do not fit: rustc finds them, the language says what to do.

use girih::prelude::*;

#[kernel(tile(T = [256], U = [256]))]
fn mixed(x: &Tensor<f32, 1>, n: &Tensor<u32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let (v, k) = (x.load(t), n.load(t));
        let a = v + k;
        let b = v * 2;
        let c = if v > 0.0 { v } else { k };
        let d = v << 1;
        let e = k.exp();
        y.store(t, k);
        x.store(t, v);
        y.store((t, t), v);
        y.scatter(v, v);
        if v {
            y.store(t, a + b + c + d);
        }
        if T < U {
            y.store(t, e);
        }
    }
}

#[kernel(tile(T = [256]))]
fn host_variable(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    let mut count = 0usize;
    for t in x.tiles([T]) {
        for _ in 0..n {
            count += 1;
        }
        for _ in 0..T {
            y.store(t, x.load(t));
        }
    }
}

#[kernel(tile(T = [256]))]
fn plain_parameter(x: &mut Tensor<f32, 1>, a: f32) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t) * a);
    }
}

fn helper(v: Tile<f32>) -> Tile<f32> {
    if v > 0.0 { v } else { -v }
}

fn main() {
    let _ = helper;
}

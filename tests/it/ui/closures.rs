//! What a closure may not leave early: an `if`, a loop, the right side of `&&`. `c`, `d` and `e` leave nothing unfinished.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn leaves_closures(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    let a = |v: Tile<f32>| {
        if n > 3 {
            return v;
        }
        -v
    };
    let b = |v: Tile<f32>, from: Option<i32>| {
        for _ in 0..n {
            let _ = from?;
        }
        let kept = v > 0.0 && {
            return Some(v);
        };
        while n < 3 {
            return Some(v);
        }
        Some(if kept { v } else { return None })
    };
    let c = |v: Tile<f32>| {
        return v;
    };
    let d = |v: Tile<f32>, from: Option<i32>| {
        let _ = from?;
        if let Some(7) = from {
            return Some(v);
        }
        Some(-v)
    };
    for t in x.tiles([T]) {
        if n > 0 {
            let e = |v: Tile<f32>| {
                return v;
            };
            y.store(t, a(b(c(d(e(x.load(t)), Some(1)).unwrap()), None).unwrap()));
        }
    }
}

fn main() {}

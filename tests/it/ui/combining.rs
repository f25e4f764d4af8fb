//! Combinations whose types do not fit.

use girih::prelude::*;

#[kernel(tile(R = [4], C = [64]))]
fn identities(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let a = v.reduce_axis(1, 0u32, |a, b| a + b);
            let b = (v, v).reduce_axis(1, 0.0, |a, b| (a.0 + b.0, a.1 + b.1));
            let c = (v, v).reduce_axis(1, (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.1));
            let d = (v, v).scan(1, (0.0, 0.0), |a, b| a.0 + b.0);
            let e = v.sum().scan(0, 0.0, |a, b| a + b);
            let f = (v > 0.0).sum();
            y.store(r, a);
        }
    }
}

#[derive(TileType)]
struct Generic<T> {
    v: T,
}

#[derive(Clone, Copy, TileType)]
struct Unnamed(f32);

#[derive(Clone, Copy, TileType)]
enum Choice {
    A,
}

#[derive(Clone, Copy, TileType)]
struct Wide {
    v: f64,
    w: &'static str,
}

#[derive(Clone, Copy, TileType)]
struct Bare {
    v: f32,
}

fn no_operator(a: BareTile, b: BareTile) -> BareTile {
    a + b
}

fn main() {
    let _ = no_operator;
}

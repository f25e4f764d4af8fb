//! What a body may not contain: all mistakes in one go.

use girih::prelude::*;

#[kernel(tile(T = [256]))]
fn leaves_early(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Scalar<i32>) {
    'outer: for t in x.tiles([T]) {
        let mut acc = x.load(t);
        for i in 0..n {
            if i > 3 {
                break;
            }
            continue;
        }
        loop {
            return;
        }
        for i in 0.. {
            acc += i as f32;
        }
        let mut bump = || acc += 1.0;
        bump();
        let r = &mut acc;
        *r += 1.0;
        for d in -1i64..=1 {
            if d == 0 {
                continue;
            }
        }
        y.store(t, acc);
    }
}

fn main() {
    let _ = leaves_early::Kernel::def();
}

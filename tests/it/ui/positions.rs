//! Positions to which a loop cannot keep: no ranges, ranges of no integers, of tiles along several axes.

use girih::prelude::*;

#[kernel(tile(R = [16], C = [16]))]
fn no_positions(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, n: Scalar<i32>, wide: Scalar<i64>, s: Scalar<f32>) {
    for r in y.tiles([R]) {
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C).within(n) {
            sum += x.load((r, c));
        }
        for c in x.axis(1).tiles(C).within(0..s) {
            sum += x.load((r, c));
        }
        for c in x.axis(1).tiles(C).within(r..) {
            sum += x.load((r, c));
        }
        for c in x.axis(1).tiles(C).within(n..wide) {
            sum += x.load((r, c));
        }
        for (q, c) in x.tiles([R, C]).within(0..n) {
            sum += x.load((q, c));
        }
        y.store(r, sum.sum_axis(1));
    }
}

fn main() {}

//! Small kernels of 8-bit floats.

use girih::prelude::*;

/// y = x times a number, from one format to the other.
#[kernel(tile(T = [256, 64]), coarsen(C of T = [16, 4, 1]), vector(V = [16, 4, 1]))]
pub fn scaled_float8(x: &Tensor<f8e5m2, 1>, y: &mut Tensor<f8e4m3, 1>, scale: Scalar<f32>) {
    for t in y.tiles([T]) {
        let x = x.load(t);
        let scaled = x.cast::<f32>() * scale;
        y.store(t, select(x > 2.0, scaled.cast(), (x * 0.5 + f8e5m2::from_f32(1.0)).cast()));
    }
}

/// The extremes of rows, and the sums of their squares.
#[kernel(tile(R = [4, 1], C = [64, 128]), coarsen(CC of C = [4, 16, 1]), vector(V = [4, 16, 1]), types(T = [f8e4m3, f8e5m2]))]
pub fn ranges_of_float8<T: Float>(x: &Tensor<T, 2>, least: &mut Tensor<T, 1>, most: &mut Tensor<T, 1>, squares: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut low = full::<T>([R, C], 448.0);
        let mut high = full::<T>([R, C], -448.0);
        let mut sum = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            low = low.min(v);
            high = high.max(v);
            sum += v.cast::<f32>() * v.cast::<f32>();
        }
        least.store(r, low.min_axis(1));
        most.store(r, high.max_axis(1));
        squares.store(r, sum.sum_axis(1));
    }
}

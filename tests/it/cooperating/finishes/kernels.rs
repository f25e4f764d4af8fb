//! Kernels whose combinations over the grid end in each of the ways.

use girih::prelude::*;

/// The ends of a type.
pub trait Ends: Num {
    /// What no value lies below.
    fn least() -> Scalar<Self>;
    /// What no value lies above.
    fn most() -> Scalar<Self>;
}

macro_rules! ends {
    ($($ty:ident: $least:expr, $most:expr;)*) => {$(
        impl Ends for $ty {
            fn least() -> Scalar<$ty> {
                scalar($least)
            }
            fn most() -> Scalar<$ty> {
                scalar($most)
            }
        }
    )*};
}

ends! {
    i8: i8::MIN, i8::MAX;
    u8: u8::MIN, u8::MAX;
    i32: i32::MIN, i32::MAX;
    u32: u32::MIN, u32::MAX;
    i64: i64::MIN, i64::MAX;
    u64: u64::MIN, u64::MAX;
    f16: f32::NEG_INFINITY, f32::INFINITY;
    bf16: f32::NEG_INFINITY, f32::INFINITY;
    f32: f32::NEG_INFINITY, f32::INFINITY;
}

/// The least and the largest element of all.
#[kernel(
    tile(T = [64, 256]),
    coarsen(C of T = [1, 4]),
    vector(V = [1, 4]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, Atomics]),
    types(N = [i8, u8, i32, u32, i64, u64, f16, bf16, f32])
)]
pub fn ends_of<N: Ends>(x: &Tensor<N, 1>, least: &mut Tensor<N, 1>, most: &mut Tensor<N, 1>) {
    let (mut low, mut high) = (full([T], N::most()), full([T], N::least()));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        low = low.min(v);
        high = high.max(v);
    }
    let (low, high) = (low.min_all().min_grid(), high.max_all().max_grid());
    least.store_at(0, low);
    most.store_at(0, high);
}

/// The sum of all elements.
#[kernel(
    tile(T = [64, 256]),
    coarsen(C of T = [1, 4]),
    vector(V = [1, 4]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, Atomics]),
    types(N = [i8, u8, i32, u32, i64, u64, f16, f32])
)]
pub fn sum_of<N: Num>(x: &Tensor<N, 1>, sum: &mut Tensor<N, 1>) {
    let mut acc = zeros::<N>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    sum.store_at(0, acc.sum().sum_grid());
}

/// Sums and largest elements of the columns of tiles, and how many elements there are: tiles beside a scalar.
#[kernel(
    tile(R = [2, 8], C = 48),
    coarsen(CR of R = [1, 2], CC of C = [1, 3]),
    vector(V = [1, 3]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, Atomics])
)]
pub fn columns(x: &Tensor<i32, 2>, sums: &mut Tensor<i32, 1>, most: &mut Tensor<i32, 1>, number: &mut Tensor<i32, 1>) {
    let (mut sum, mut high, mut count) = (zeros::<i32>([C]), full([C], i32::MIN), scalar(0));
    for (r, c) in x.tiles([R, C]).strided() {
        let v = x.load((r, c));
        sum += v.sum_axis(0);
        high = high.max(v.max_axis(0));
        count = count + v.like(1).sum();
    }
    let (sum, high, count) = (sum.sum_grid(), high.max_grid(), count.sum_grid());
    let at = iota::<i32>(C);
    sums.scatter(at, sum);
    most.scatter(at, high);
    number.store_at(0, count);
}

/// A sum times what it was before: the last block overwrites what all have read.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]), finish(F = [LastBlock, Atomics]))]
pub fn grown(x: &Tensor<i32, 1>, total: &mut Tensor<i32, 1>) {
    let first = scalar(0i64);
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t) * total.at(first);
    }
    total.store_at(first, acc.sum().sum_grid());
}

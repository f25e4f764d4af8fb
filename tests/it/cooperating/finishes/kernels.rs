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
    finish(F = [LastBlock, Atomics, SecondLaunch]),
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
    finish(F = [LastBlock, Atomics, SecondLaunch]),
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
    vector(V = [1]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, Atomics, SecondLaunch])
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
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), vector(V = [1, 4]), grid(G = [0, 2]), finish(F = [LastBlock, Atomics, SecondLaunch]))]
pub fn grown(x: &Tensor<i32, 1>, total: &mut Tensor<i32, 1>) {
    let first = scalar(0i64);
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t) * total.at(first);
    }
    total.store_at(first, acc.sum().sum_grid());
}

/// The mean's distance to a value, times a weight that the kernel reads before its loop, and how often the mean is met: what follows the combination
/// takes scalars, loads and loops of its own.
#[kernel(
    tile(T = [64, 256]),
    coarsen(C of T = [1, 4]),
    vector(V = [1, 4]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, SecondLaunch])
)]
pub fn distance(x: &Tensor<i32, 1>, weights: &Tensor<i32, 1>, to: Scalar<i32>, out: &mut Tensor<i32, 1>, met: &mut Tensor<i32, 1>) {
    let weight = weights.at(0) * to;
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    let mean = acc.sum().sum_grid() / x.len(0).max(1).cast::<i32>();
    out.store_at(0, (mean - to) * weight);
    let mut number = scalar(0);
    for i in 0..weights.len(0) {
        number = number + (weights.at(i) == mean).cast::<i32>();
    }
    met.store_at(0, number);
}

/// The first of the largest elements, and the composition of the maps s ↦ 3 s + x: operators for which memory has no atomics, one of them in
/// order.
#[kernel(
    tile(T = [64, 256]),
    coarsen(C of T = [1, 4]),
    vector(V = [1, 4]),
    grid(G = [0, 2]),
    finish(F = [LastBlock, SecondLaunch])
)]
pub fn first_most(x: &Tensor<i32, 1>, value: &mut Tensor<i32, 1>, place: &mut Tensor<i64, 1>, map: &mut Tensor<i32, 1>) {
    let (mut scale, mut shift) = (scalar(1), scalar(0));
    let mut best = (scalar(i32::MIN), scalar(i64::MAX));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let (s, d) = (v.like(3), v).reduce_all((1, 0), |f, g| (f.0 * g.0, f.1 * g.0 + g.1));
        shift = shift * s + d;
        scale = scale * s;
        best = best.arg_max(v.arg_max_all(t));
    }
    let (scale, shift) = (scale, shift).reduce_grid((1, 0), |f, g| (f.0 * g.0, f.1 * g.0 + g.1));
    let (most, at) = best.arg_max_grid();
    value.store_at(0, most);
    place.store_at(0, at);
    map.store_at(0, scale);
    map.store_at(1, shift);
}

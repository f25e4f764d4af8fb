//! Histogram: how often each bin occurs among elements; what falls into no bin is dropped.
//!
//! Up to 8192 bins each block counts in an array of its own in shared memory, and adds it to the result at the end: one atomic
//! per bin and block. Beyond, blocks count in global memory. With few bins, copies of the array keep lanes that meet in one bin apart,
//! so an input of equal values is no slower than a random one.

use super::LONGEST;
use crate::prelude::*;

/// Says which bin an element falls into.
pub trait Binning<T: Elem>: 'static {
    /// The bins; those below 0 and behind the last one do not count.
    fn bin(elements: Tile<T>) -> Tile<i32>;
}

/// An integer is its own bin.
pub struct Value;

macro_rules! values {
    ($($ty:ty),*) => {$(
        impl Binning<$ty> for Value {
            fn bin(elements: Tile<$ty>) -> Tile<i32> {
                elements.cast::<i32>()
            }
        }
    )*};
}
values!(i8, u8);

impl Binning<i32> for Value {
    fn bin(elements: Tile<i32>) -> Tile<i32> {
        elements
    }
}

/// Adds to `bins`, of which there are at most 256, how often each occurs in x.
#[kernel(
    tile(T = [8192, 16384, 4096, 2048]),
    coarsen(C of T = [16, 8, 32, 4]),
    vector(V = [4, 2, 1]),
    grid(G = [4, 2, 1, 8, 0]),
    stages(S = [1, 2]),
    copies(K = [32, 16, 8, 4, 1]),
    cache(H = [Default, Streaming]),
    types(E = [i32], B = [Value])
)]
pub fn histogram_256<E: Elem, B: Binning<E>>(x: &Tensor<E, 1>, bins: &mut Tensor<i32, 1>) {
    let mut own = shared::<i32>([256], 0);
    for t in x.tiles([T]).strided() {
        own.atomic_add(B::bin(x.load(t)), 1);
    }
    bins.atomic_add(iota::<i32>(256), own.load(..));
}

/// The same for up to 8192 bins.
#[kernel(
    tile(T = [8192, 4096, 16384]),
    coarsen(C of T = [16, 8, 32]),
    vector(V = [4, 1]),
    grid(G = [1, 2, 4, 0]),
    copies(K = [1, 2, 4]),
    types(E = [i32], B = [Value])
)]
pub fn histogram_8192<E: Elem, B: Binning<E>>(x: &Tensor<E, 1>, bins: &mut Tensor<i32, 1>) {
    let mut own = shared::<i32>([8192], 0);
    for t in x.tiles([T]).strided() {
        own.atomic_add(B::bin(x.load(t)), 1);
    }
    bins.atomic_add(iota::<i32>(8192), own.load(..));
}

/// The same for any number of bins.
#[kernel(tile(T = [1024, 2048, 4096]), coarsen(C of T = [4, 8, 1]), vector(V = [4, 1]), grid(G = [0, 4]), types(E = [i32], B = [Value]))]
pub fn histogram_global<E: Elem, B: Binning<E>>(x: &Tensor<E, 1>, bins: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        bins.atomic_add(B::bin(x.load(t)), 1);
    }
}

/// bins = how many elements fall into each.
///
/// x has fewer than 2³¹ elements. What a rule sends below bin 0 or behind the last one is not counted. A rule that converts floats to integers makes
/// 0 of NaN, so NaNs are counted in that bin unless the rule sends them elsewhere.
///
/// ```no_run
/// use girih::algorithms::{Binning, histogram};
/// use girih::prelude::*;
///
/// /// Tenths of numbers from 0 to 1.
/// struct Tenths;
/// impl Binning<f32> for Tenths {
///     fn bin(v: Tile<f32>) -> Tile<i32> {
///         (v * 10.0).floor().cast::<i32>()
///     }
/// }
///
/// #[program]
/// fn tenths(x: &Tensor<f32, 1>, bins: &mut Tensor<i32, 1>) {
///     histogram::<f32, Tenths>(x, bins);
/// }
/// # fn main() {}
/// ```
#[program]
pub fn histogram<E: Elem, B: Binning<E>>(x: &Tensor<E, 1>, bins: &mut Tensor<i32, 1>) {
    require(x.len(0) < LONGEST);
    bins.fill(0);
    let n = bins.len(0);
    if n <= 256 {
        histogram_256::<E, B>(x, bins);
    } else if n <= 8192 {
        histogram_8192::<E, B>(x, bins);
    } else {
        histogram_global::<E, B>(x, bins);
    }
}

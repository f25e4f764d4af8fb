//! Steps of sorts and merges within a block, for kernels that call them.

use crate::prelude::*;

/// One stage of a bitonic sort (Batcher, Sorting networks and their applications, 1968): groups of 2^`log` elements, of which those before are each
/// two sorted halves, the second one the other way round, become sorted ones that take turns in falling and rising.
///
/// A thread has one element `v`, whose place in the block is `place` (`threads(..)`); `through` has room for an element of each thread. Lanes of a warp
/// exchange by shuffles, warps through shared memory. Behind the stage that spans all elements they fall.
#[device]
pub fn bitonic_stage<K: Num>(mut v: Tile<K>, place: Tile<i32>, through: &mut Shared<K>, log: i32) -> Tile<K> {
    let size = 1i32 << log;
    for step in (0..log).rev() {
        let distance = 1i32 << step;
        let other = match distance < 32 {
            true => v.shuffle_xor(distance),
            false => {
                through.scatter(place, v);
                through.gather(place ^ distance)
            }
        };
        v = select(((place & distance) == 0) == ((place & size) == 0), v.max(other), v.min(other));
    }
    v
}

/// The elements of a block in falling order: one of each of 2^`log` threads, in its place.
///
/// ```no_run
/// use girih::algorithms::bitonic_sort;
/// use girih::prelude::*;
///
/// /// Each 512 elements in falling order.
/// #[kernel(tile(T = 512), threads(N = 512))]
/// fn sorted_by_blocks(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
///     for t in y.tiles([T]) {
///         let place = threads(512);
///         let mut through = shared_uninit::<f32>([512]);
///         let v = x.gather(place + t.number().cast::<i32>() * 512).or(f32::NEG_INFINITY);
///         y.scatter(place + t.number().cast::<i32>() * 512, bitonic_sort(v, place, &mut through, 9));
///     }
/// }
/// # fn main() {}
/// ```
#[device]
pub fn bitonic_sort<K: Num>(mut v: Tile<K>, place: Tile<i32>, through: &mut Shared<K>, log: i32) -> Tile<K> {
    for stage in 1..=log {
        v = bitonic_stage(v, place, through, stage);
    }
    v
}

/// How many of the first `d` elements of what two ascending runs in shared memory merge to come from the first run: a step of merge path (Green,
/// McColl and Bader, GPU Merge Path, 2012). Of equal elements those of the first run come first.
///
/// The first run has `of_a` elements from place 0 on, the second one `of_b` from `first_b` on.
#[device]
pub fn merge_path<K: Num>(runs: &Shared<K>, of_a: Scalar<i32>, [first_b, of_b]: [Scalar<i32>; 2], d: Tile<i32>) -> Tile<i32> {
    let mut low = (d - of_b).max(0);
    let mut high = d.min(of_a);
    while low < high {
        let mid = (low + high) >> 1;
        let takes = runs.gather_in_bounds(mid) <= runs.gather_in_bounds(first_b + d - 1 - mid);
        low = select(takes, mid + 1, low);
        high = select(takes, high, mid);
    }
    low
}

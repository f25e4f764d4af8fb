//! Elements that are kept, side by side and in their order, in one pass.

use super::LONGEST;
use super::look_back::look_back;
use crate::prelude::*;

/// Threads of a block.
const THREADS: i32 = 512;
const WARPS: i32 = THREADS / 32;
/// Elements of a thread where a program keeps them.
const EACH: usize = 8;

/// Says which elements are kept.
pub trait Keep<T: Elem>: 'static {
    /// Whether each of these is.
    fn keep(elements: Tile<T>) -> Tile<bool>;
}

/// Keeps what is greater than 0: neither of the zeros, and no NaN.
pub struct Positive;

#[device]
impl<T: Num + ScalarOperand<T>> Keep<T> for Positive {
    fn keep(elements: Tile<T>) -> Tile<bool> {
        elements > elements.like(T::of_literal(girih_core::types::Literal::from_f64(T::DTYPE, 0.0)))
    }
}

/// The kept ones of a block's tile go to `kept`, behind those of all tiles before it; gives how many are kept of all up to here.
///
/// The tile has `512 * each` elements and comes from a loop that says `.in_order()`; `states` has a word for each tile, which is 0 before the launch,
/// as [`look_back`] wants it: behind the launch [`last_total`](super::last_total()) says how many are kept. `keep` gets elements and their positions; it decides for
/// those that exist.
///
/// A thread's elements lie a block apart, so that a ballot gives their ranks in a warp; kept elements meet in shared memory and leave as
/// whole rows.
#[device]
pub fn keep_tile<T: Elem>(
    x: &Tensor<T, 1>,
    kept: &mut Tensor<T, 1>,
    states: &mut Tensor<u64, 1>,
    tile: Scalar<i64>,
    each: usize,
    keep: impl Fn(Tile<T>, Tile<i32>) -> Tile<bool>,
) -> Scalar<i32> {
    let size = THREADS * each as i32;
    let me = tile.cast::<i32>();
    let (thread, lane, warp) = (threads(THREADS), lanes(THREADS), warps(THREADS));
    let mine = thread + me * size;
    let v: Vec<Tile<T>> = (0..each).map(|e| x.gather(mine + e as i32 * THREADS)).collect();
    let keeps: Vec<Tile<bool>> = (0..each).map(|e| keep(v[e], mine + e as i32 * THREADS)).collect();
    // What a warp's lanes say of an element each is a word: it waits in shared memory, and not in as many registers as a thread has elements.
    let mut masks = shared_uninit::<u32>([WARPS * each as i32]).by_hand();
    let ballots: Vec<Tile<u32>> = keeps.iter().map(|keeps| keeps.ballot()).collect();
    if lane == 0 {
        for e in 0..each {
            masks.scatter(warp + e as i32 * WARPS, ballots[e]);
        }
    }
    barrier();
    let ranks = masks.load(..).count_ones().cast::<i32>().scan_sum(along(0).exclusive());
    let count = ranks.total();
    let mut found = shared_uninit::<i32>([WARPS * each as i32]).by_hand();
    found.store(.., ranks);
    let before = look_back(states, tile, count, 0, |a, b| a + b);

    // Kept elements lie side by side, then leave in their order.
    let mut own = shared_uninit::<T>([size]).by_hand();
    barrier();
    let below = (full::<u32>([THREADS], 1) << lane.cast::<u32>()) - 1;
    for e in 0..each {
        let mask = masks.gather(warp + e as i32 * WARPS);
        let slot = found.gather(warp + e as i32 * WARPS) + (mask & below).count_ones().cast::<i32>();
        if (mask >> lane.cast::<u32>()) & 1 == 1 {
            own.scatter(slot, v[e]);
        }
    }
    barrier();
    for e in 0..each {
        let k = thread + e as i32 * THREADS;
        if k < count {
            kept.scatter(k + before, own.gather(k));
        }
    }
    before + count
}

/// kept = the elements that a rule keeps, count = how many these are.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = 8),
    min_blocks(Q = [2, 1, 3]),
    cache(H = [Default, Loads, Streaming]),
    types(E = [f32, i32], P = [Positive])
)]
pub fn keep_in_order<E: Elem, P: Keep<E>>(
    x: &Tensor<E, 1>,
    kept: &mut Tensor<E, 1>,
    states: &mut Tensor<u64, 1>,
    count: &mut Tensor<i32, 1>,
) {
    for t in x.tiles([T]).in_order() {
        let so_far = keep_tile(x, kept, states, t.number(), EACH, |v, _| P::keep(v));
        if t.end() >= x.len(0) {
            count.scatter(0, so_far);
        }
    }
}

/// kept = the elements whose flag is set, count = how many these are.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = 8),
    min_blocks(Q = [2, 1, 3]),
    cache(H = [Default, Loads, Streaming]),
    types(E = [f32, i32])
)]
pub fn keep_flagged_in_order<E: Elem>(
    x: &Tensor<E, 1>,
    flags: &Tensor<bool, 1>,
    kept: &mut Tensor<E, 1>,
    states: &mut Tensor<u64, 1>,
    count: &mut Tensor<i32, 1>,
) {
    let flags = flags.slice(0, 0, x.len(0));
    for t in x.tiles([T]).in_order() {
        let so_far = keep_tile(x, kept, states, t.number(), EACH, |_, at| flags.gather(at));
        if t.end() >= x.len(0) {
            count.scatter(0, so_far);
        }
    }
}

/// kept = the elements of x that `P` keeps, in their order, and count = how many these are. What lies behind them in `kept` stays as it was.
/// `kept` has room for all that are kept; x has fewer than 2³¹ elements, `count` has one.
/// Elements are moved as they are: what becomes of a NaN is for the rule to say, of which comparisons are false.
///
/// ```no_run
/// use girih::algorithms::{Keep, keep_if};
/// use girih::prelude::*;
///
/// struct Odd;
/// #[device]
/// impl Keep<i32> for Odd {
///     fn keep(v: Tile<i32>) -> Tile<bool> {
///         (v & 1) == 1
///     }
/// }
///
/// #[program]
/// fn odd_ones(x: &Tensor<i32, 1>, odd: &mut Tensor<i32, 1>, count: &mut Tensor<i32, 1>) {
///     keep_if::<i32, Odd>(x, odd, count);
/// }
/// # fn main() {}
/// ```
#[program]
pub fn keep_if<E: Elem, P: Keep<E>>(x: &Tensor<E, 1>, kept: &mut Tensor<E, 1>, count: &mut Tensor<i32, 1>) {
    require(x.len(0) < LONGEST);
    if x.len(0) > 0 {
        let mut states = temp_filled([(x.len(0) + 4095) / 4096], 0u64);
        keep_in_order::<E, P>(x, kept, &mut states, count);
    } else {
        count.fill(0);
    }
}

/// The same of elements whose flag is set; there are as many flags as elements.
#[program]
pub fn keep_flagged<E: Elem>(x: &Tensor<E, 1>, flags: &Tensor<bool, 1>, kept: &mut Tensor<E, 1>, count: &mut Tensor<i32, 1>) {
    require(x.len(0) < LONGEST);
    if x.len(0) > 0 {
        let mut states = temp_filled([(x.len(0) + 4095) / 4096], 0u64);
        keep_flagged_in_order(x, flags, kept, &mut states, count);
    } else {
        count.fill(0);
    }
}

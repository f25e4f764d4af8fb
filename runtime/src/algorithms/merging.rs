//! Two sorted vectors become one.
//!
//! The merge path: element d of the result comes from the first i of a and the first d − i of b, and i is found by a binary search.
//! (Green, McColl and Bader, GPU Merge Path, 2012.) A first launch finds where the tiles of the result begin; in the second one a block
//! brings its parts to shared memory, each thread finds its own beginning there and merges a few elements. Keys are compared as unsigned numbers of
//! the same order, which they become on their way to shared memory.

use super::LONGEST;
use super::keys::{Ascending, Direction, Number, SortKey, Word, keys_in, numbers_in};
use super::steps::merge_path;
use crate::prelude::*;

/// Threads of a block.
const W: i32 = 256;
/// Elements that a thread merges: odd, so that shared memory's banks do not conflict.
const E: usize = 15;
const TILE: i32 = W * E as i32;
/// How far from where it is expected the beginning of a tile is looked for first: four times as far as it lies in vectors of 2²⁶ random elements.
const NEAR: i32 = 1 << 14;
/// Numbers behind a block's part of each vector that are not less than any: no thread merges more, so none reads beyond.
const BEHIND: i32 = E as i32 + 1;

/// firsts\[p\] = how many elements of `a` lie before tile p of the result. A thread has a tile, and asks at three places a turn: so many loads
/// are on their way together, and few are made for nothing. First it asks around the place where the tile would begin if both vectors rose alike.
#[kernel(tile(P = [32, 64, 128]), types(K = [f32, i32], D = [Ascending]))]
pub fn merge_paths<K: SortKey, D: Direction>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, firsts: &mut Tensor<i32, 1>) {
    let (m, n) = (a.len(0).cast::<i32>(), b.len(0).cast::<i32>());
    for p in firsts.tiles([P]) {
        let d = (p.coords().cast::<i32>() * TILE).min(m + n);
        let mut low = (d - n).max(0);
        let mut high = d.min(m);
        let alike = (d.cast::<f32>() * (m.cast::<f32>() / (m + n).cast::<f32>())).cast::<i32>();
        let mut turn = d.like(0);
        while low < high {
            let step = (high - low + 3) >> 2;
            let [first, second, third] = [1, 2, 3].map(|part| {
                let expected = (alike + (part - 2) * NEAR).max(low);
                select(turn == 0, expected, low + step * part).min(high - 1)
            });
            let takes = |at: Tile<i32>| numbers_in::<K, D>(a.gather_in_bounds(at)) <= numbers_in::<K, D>(b.gather_in_bounds(d - 1 - at));
            let [takes_first, takes_second, takes_third] = [takes(first), takes(second), takes(third)];
            high = select(takes_third, high, third);
            high = select(takes_second, high, second);
            high = select(takes_first, high, first);
            low = select(takes_first, first + 1, low);
            low = select(takes_second, second + 1, low);
            low = select(takes_third, third + 1, low);
            turn += 1;
        }
        firsts.store(p, low);
    }
}

/// Values that go with keys: those of a and of b, and where they go.
type Values<'a, P> = (&'a Tensor<P, 1>, &'a Tensor<P, 1>, &'a mut Tensor<P, 1>);

/// A block's tile of c = the merged keys, the beginnings of whose tiles are known, and the value of each.
///
/// Of a key that is as large as a number gets, what lies behind a's part is an equal. Keys alone are the same whichever of both is taken; with values
/// a's part ends where its positions do. What lies behind b's part is only compared with keys of a, and those come first.
#[device]
fn merge_tile<K: SortKey, P: Number, D: Direction>(
    a: &Tensor<K, 1>,
    b: &Tensor<K, 1>,
    firsts: &Tensor<i32, 1>,
    c: &mut Tensor<K, 1>,
    values: Option<Values<P>>,
    me: Scalar<i32>,
) {
    let first = me * TILE;
    let total = (c.len(0).cast::<i32>() - first).min(TILE);
    let first_a = firsts.at(me);
    let of_a = firsts.at(me + 1) - first_a;
    let first_b = first - first_a;
    let of_b = total - of_a;

    let (thread, most) = (threads(W), full::<K::Number>([W], K::Number::MOST));
    let mut own = shared_uninit::<K::Number>([TILE + 2 * BEHIND]).by_hand();
    // 64 bits do not wrap around: all of a thread's positions are one register and a constant each.
    let [from_a, from_b] = [thread + first_a, thread + (first_b - of_a)].map(|at| at.cast::<i64>());
    for e in 0..E {
        let k = thread + e as i32 * W;
        let ahead = e as i64 * W as i64;
        let key = if k < of_a {
            a.gather_in_bounds(from_a + ahead)
        } else if k < total {
            b.gather_in_bounds(from_b + ahead)
        } else {
            zeros::<K>([W])
        };
        // What is stored under no condition lets all loads be on their way together.
        own.scatter(k + select(k < of_a, 0, BEHIND), select(k < total, numbers_in::<K, D>(key), most));
    }
    if thread < BEHIND {
        own.scatter(thread + of_a, most);
        own.scatter(thread + (TILE + BEHIND), most);
    }
    barrier();

    // Where this thread's part of the path begins.
    let d = (thread * E as i32).min(total);
    let low = merge_path(&own, of_a, [of_a + BEHIND, of_b], d);

    let mut at_a = low;
    let mut at_b = of_a + BEHIND + d - low;
    let mut of = (own.gather_in_bounds(at_a), own.gather_in_bounds(at_b));
    let (mut merged, mut places) = (Vec::new(), Vec::new());
    for _ in 0..E {
        let takes = if values.is_some() { of.0 <= of.1 && at_a < of_a } else { of.0 <= of.1 };
        merged.push(select(takes, of.0, of.1));
        places.push(select(takes, at_a, at_b));
        at_a = select(takes, at_a + 1, at_a);
        at_b = select(takes, at_b, at_b + 1);
        let next = own.gather_in_bounds(select(takes, at_a, at_b));
        of = (select(takes, next, of.0), select(takes, of.1, next));
    }
    barrier();
    for e in 0..E {
        own.scatter(thread * E as i32 + e as i32, merged[e]);
    }
    barrier();
    for e in 0..E {
        let k = thread + e as i32 * W;
        if k < total {
            c.scatter(first + k, keys_in::<K, D>(own.gather_in_bounds(k)));
        }
    }
    if let Some((of_keys_a, of_keys_b, to)) = values {
        barrier();
        for e in 0..E {
            own.scatter(thread * E as i32 + e as i32, places[e].cast::<K::Number>());
        }
        barrier();
        let mut moved = Vec::new();
        for e in 0..E {
            let k = thread + e as i32 * W;
            let place = own.gather_in_bounds(k).cast::<i32>();
            moved.push(if k < total && place < of_a {
                of_keys_a.gather_in_bounds(place + first_a)
            } else if k < total {
                of_keys_b.gather_in_bounds(place + (first_b - of_a - BEHIND))
            } else {
                zeros::<P>([W])
            });
        }
        for e in 0..E {
            to.scatter(first + (thread + e as i32 * W), moved[e]);
        }
    }
}

/// c = the merged keys, the beginnings of whose tiles are known.
#[kernel(
    tile(T = 3840),
    coarsen(C of T = 15),
    min_blocks(Q = [2, 1, 4, 6, 8]),
    cache(H = [Default, Loads, Streaming, Stores]),
    types(K = [f32, i32], D = [Ascending])
)]
pub fn merge_tiles<K: SortKey, D: Direction>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, firsts: &Tensor<i32, 1>, c: &mut Tensor<K, 1>) {
    for t in c.tiles([T]) {
        merge_tile::<K, u32, D>(a, b, firsts, c, None, t.number().cast::<i32>());
    }
}

/// The same with a value of each key, which goes where its key goes.
#[kernel(
    tile(T = 3840),
    coarsen(C of T = 15),
    min_blocks(Q = [2, 1, 4]),
    cache(H = [Default, Loads, Streaming, Stores]),
    types(K = [f32], P = [u32], D = [Ascending])
)]
pub fn merge_tiles_pairs<K: SortKey, P: Number, D: Direction>(
    a: &Tensor<K, 1>,
    a_values: &Tensor<P, 1>,
    b: &Tensor<K, 1>,
    b_values: &Tensor<P, 1>,
    firsts: &Tensor<i32, 1>,
    c: &mut Tensor<K, 1>,
    c_values: &mut Tensor<P, 1>,
) {
    let (a_values, b_values) = (a_values.slice(0, 0, a.len(0)), b_values.slice(0, 0, b.len(0)));
    for t in c.tiles([T]) {
        merge_tile::<K, P, D>(a, b, firsts, c, Some((&a_values, &b_values, c_values)), t.number().cast::<i32>());
    }
}

/// c = the keys of a and b in a direction, [`Ascending`](super::Ascending) or [`Descending`](super::Descending), in which a and b are already; of
/// equal keys those of a come first, in both directions. What the order of floats is, and where NaNs stand in it, [`SortKey`] says.
///
/// c is as long as both together, below 2³¹. Everything is read once and written once.
///
/// ```no_run
/// use girih::algorithms::{Descending, merge};
/// use girih::prelude::*;
///
/// #[program]
/// fn best_of_both(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
///     merge::<f32, Descending>(a, b, c);
/// }
/// # fn main() {}
/// ```
#[program]
pub fn merge<K: SortKey, D: Direction>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, c: &mut Tensor<K, 1>) {
    require(c.len(0) < LONGEST);
    require(c.len(0) == a.len(0) + b.len(0));
    let mut firsts = temp([(c.len(0) + TILE as i64 - 1) / TILE as i64 + 1]);
    merge_paths::<K, D>(a, b, &mut firsts);
    merge_tiles::<K, D>(a, b, &firsts, c);
}

/// c = the keys of a and b as [`merge`](merge()) has them, and c_values = the value of each. There are as many values as keys, of 32 or 64 bits.
#[program]
pub fn merge_pairs<K: SortKey, V: Word, D: Direction>(
    a: &Tensor<K, 1>,
    a_values: &Tensor<V, 1>,
    b: &Tensor<K, 1>,
    b_values: &Tensor<V, 1>,
    c: &mut Tensor<K, 1>,
    c_values: &mut Tensor<V, 1>,
) {
    require(c.len(0) < LONGEST);
    require(c.len(0) == a.len(0) + b.len(0));
    require(a_values.len(0) == a.len(0));
    require(b_values.len(0) == b.len(0));
    require(c_values.len(0) == c.len(0));
    let (of_keys_a, of_keys_b) = (a_values.reinterpret::<V::Bits>(), b_values.reinterpret::<V::Bits>());
    let mut firsts = temp([(c.len(0) + TILE as i64 - 1) / TILE as i64 + 1]);
    merge_paths::<K, D>(a, b, &mut firsts);
    merge_tiles_pairs::<K, V::Bits, D>(a, &of_keys_a, b, &of_keys_b, &firsts, c, &mut c_values.reinterpret());
}

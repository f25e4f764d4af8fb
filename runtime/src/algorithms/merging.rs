//! Two sorted vectors become one.
//!
//! The merge path: element d of the result comes from the first i of a and the first d − i of b, and i is found by a binary search.
//! (Green, McColl and Bader, GPU Merge Path, 2012.) A first launch finds where the tiles of the result begin; in the second one a block
//! brings its parts to shared memory, each thread finds its own beginning there and merges a few elements.

use super::LONGEST;
use super::steps::merge_path;
use crate::prelude::*;

/// Threads of a block.
const W: i32 = 256;
/// Elements that a thread merges: odd, so that shared memory's banks do not conflict.
const E: usize = 15;
const TILE: i32 = W * E as i32;
/// How far from where it is expected the beginning of a tile is looked for first: four times as far as it lies in vectors of 2²⁶ random elements.
const NEAR: i32 = 1 << 14;
/// Elements behind a block's part of each vector that are not less than any: no thread merges more, so none has to ask where a part ends.
const BEHIND: i32 = E as i32 + 1;

/// firsts\[p\] = how many elements of `a` lie before tile p of the result. A thread has a tile, and asks at three places a turn: so many loads
/// are on their way together, and few are made for nothing. First it asks around the place where the tile would begin if both vectors rose alike.
#[kernel(tile(P = [32, 64, 128]), types(K = [f32, i32]))]
pub fn merge_paths<K: Num>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, firsts: &mut Tensor<i32, 1>) {
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
            let takes = |at: Tile<i32>| a.gather_in_bounds(at) <= b.gather_in_bounds(d - 1 - at);
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

/// c = the merged elements, the beginnings of whose tiles are known.
#[kernel(tile(T = 3840), coarsen(C of T = 15), min_blocks(Q = [2, 1, 4, 6, 8]), cache(H = [Default, Loads, Streaming, Stores]), types(K = [f32, i32]))]
pub fn merge_tiles<K: Num>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, firsts: &Tensor<i32, 1>, c: &mut Tensor<K, 1>) {
    for t in c.tiles([T]) {
        let me = t.number().cast::<i32>();
        let first = me * TILE;
        let total = (c.len(0).cast::<i32>() - first).min(TILE);
        let first_a = firsts.at(me);
        let of_a = firsts.at(me + 1) - first_a;
        let first_b = first - first_a;
        let of_b = total - of_a;

        let (thread, largest) = (threads(W), scalar::<f32>(f32::INFINITY).cast::<K>());
        let mut own = shared_uninit::<K>([TILE + 2 * BEHIND]).by_hand();
        // 64 bits do not wrap around: all of a thread's positions are one register and a constant each.
        let [from_a, from_b] = [thread + first_a, thread + (first_b - of_a)].map(|at| at.cast::<i64>());
        for e in 0..E {
            let k = thread + e as i32 * W;
            let ahead = e as i64 * W as i64;
            let v = if k < of_a {
                a.gather_in_bounds(from_a + ahead)
            } else if k < total {
                b.gather_in_bounds(from_b + ahead)
            } else {
                largest.splat([W])
            };
            own.scatter(k + select(k < of_a, 0, BEHIND), v);
        }
        if thread < BEHIND {
            own.scatter(thread + of_a, largest.splat([W]));
            own.scatter(thread + (TILE + BEHIND), largest.splat([W]));
        }
        barrier();

        // Where this thread's part of the path begins.
        let d = (thread * E as i32).min(total);
        let low = merge_path(&own, of_a, [of_a + BEHIND, of_b], d);

        let mut at_a = low;
        let mut at_b = of_a + BEHIND + d - low;
        let mut of = (own.gather_in_bounds(at_a), own.gather_in_bounds(at_b));
        let mut merged = Vec::new();
        for _ in 0..E {
            let takes = of.0 <= of.1;
            merged.push(select(takes, of.0, of.1));
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
                c.scatter(first + k, own.gather_in_bounds(k));
            }
        }
    }
}

/// c = the elements of two ascending vectors, in ascending order; of equal ones those of a come first.
///
/// c is as long as both together, below 2³¹. No element is NaN.
#[program]
pub fn merge<K: Num>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, c: &mut Tensor<K, 1>) {
    require(c.len(0) < LONGEST);
    let mut firsts = temp([(c.len(0) + TILE as i64 - 1) / TILE as i64 + 1]);
    merge_paths(a, b, &mut firsts);
    merge_tiles(a, b, &firsts, c);
}

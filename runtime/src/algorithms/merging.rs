//! Two sorted vectors become one.
//!
//! The merge path: element d of the result comes from the first i of a and the first d − i of b, and i is found by a binary search.
//! (Green, McColl and Bader, GPU Merge Path, 2012.) A first launch finds where the tiles of the result begin; in the second one a block
//! brings its parts to shared memory, each thread finds its own beginning there and merges a few elements.

use crate::prelude::*;

/// Threads of a block.
const W: i32 = 256;
/// Elements that a thread merges: odd, so that shared memory's banks do not conflict.
const E: usize = 15;
const TILE: i32 = W * E as i32;

/// firsts\[p\] = how many elements of `a` lie before tile p of the result. A warp has a tile, and tries 32 places a turn.
#[kernel(tile(P = [4, 8, 16], L = 32), types(K = [f32, i32]))]
pub fn merge_paths<K: Num>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, firsts: &mut Tensor<i32, 1>) {
    let (m, n) = (a.len(0).cast::<i32>(), b.len(0).cast::<i32>());
    for p in firsts.tiles([P]) {
        let lane = lanes(L).expand(0, P);
        let d = (p.coords().cast::<i32>() * TILE).expand(1, L).min(m + n);
        let mut low = (d - n).max(0);
        let mut high = d.min(m);
        while low < high {
            let step = (high - low + 31) / 32;
            let at = low + lane * step;
            let mut takes = full::<bool>([P, L], false);
            if at < high {
                takes = a.gather_in_bounds(at) <= b.gather_in_bounds(d - 1 - at);
            }
            let taken = takes.ballot().count_ones().cast::<i32>();
            high = if taken == 0 { low } else { high.min(low + taken * step) };
            low = if taken == 0 { low } else { low + (taken - 1) * step + 1 };
        }
        if lane == 0 {
            firsts.scatter(p.coords().expand(1, L), low);
        }
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

        let thread = threads(W);
        let mut own = shared_uninit::<K>([TILE]).by_hand();
        for e in 0..E {
            let k = thread + e as i32 * W;
            let v = if k < of_a {
                a.gather_in_bounds(first_a + k)
            } else if k < total {
                b.gather_in_bounds(first_b + (k - of_a))
            } else {
                zeros::<K>([W])
            };
            own.scatter(k, v);
        }
        barrier();

        // Where this thread's part of the path begins.
        let d = (thread * E as i32).min(total);
        let mut low = (d - of_b).max(0);
        let mut high = d.min(of_a);
        while low < high {
            let mid = (low + high) >> 1;
            let takes = own.gather(mid) <= own.gather(of_a + d - 1 - mid);
            low = select(takes, mid + 1, low);
            high = select(takes, high, mid);
        }

        let mut at_a = low;
        let mut at_b = of_a + d - low;
        let mut of = (own.gather(at_a.clamp(0, TILE - 1)), own.gather(at_b.clamp(0, TILE - 1)));
        let mut merged = Vec::new();
        for _ in 0..E {
            let takes = at_b >= total || (at_a < of_a && of.0 <= of.1);
            merged.push(select(takes, of.0, of.1));
            at_a += select(takes, 1, 0);
            at_b += select(takes, 0, 1);
            let next = own.gather(select(takes, at_a, at_b).clamp(0, TILE - 1));
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
                c.scatter(first + k, own.gather(k));
            }
        }
    }
}

/// c = the elements of two ascending vectors, in ascending order; of equal ones those of a come first.
///
/// c is as long as both together, below 2³¹. No element is NaN.
#[program]
pub fn merge<K: Num>(a: &Tensor<K, 1>, b: &Tensor<K, 1>, c: &mut Tensor<K, 1>) {
    let mut firsts = temp([(c.len(0) + TILE as i64 - 1) / TILE as i64 + 1]);
    merge_paths(a, b, &mut firsts);
    merge_tiles(a, b, &firsts, c);
}

//! Kernels with shared arrays and atomics of every kind. Their results do not depend on the order of atomics.

// `v & 0` is a zero that only the data know.
#![allow(clippy::erasing_op)]

use girih::prelude::*;

/// How often the lowest bits of each element occur in its tile: updates, then reads.
#[kernel(tile(T = 128), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]), grid(G = [0, 1]), copies(K = [1, 4, 32]))]
pub fn alike_in_tile(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let key = x.load(t) & 15;
        let mut counts = shared::<i32>([16], 0);
        counts.atomic_add(key, 1);
        y.store(t, counts.gather(key));
    }
}

/// Each tile back to front, through a shared array that is written and read anew at every turn.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2, 8]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn mirrored_tiles(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut turned = shared::<f32>([T], 0.0);
    for t in x.tiles([T]).strided() {
        turned.fill(-1.0);
        turned.store(.., x.load(t));
        y.store(t, turned.gather(63 - iota::<i32>(T)));
    }
}

/// Least and largest element per residue, in a table of two axes, and the bits that occur: the copies start at different values.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 4]), grid(G = [1, 0, 2]), copies(K = [1, 2, 16]))]
pub fn extremes(x: &Tensor<i32, 1>, low: &mut Tensor<i32, 1>, high: &mut Tensor<f32, 1>, bits: &mut Tensor<u32, 1>) {
    let mut least = shared::<i32>([2, 4], i32::MAX);
    let mut most = shared::<f32>([2, 4], f32::NEG_INFINITY);
    let mut seen = shared::<u32>([8], 0u32);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let (row, column) = ((v >> 2) & 1, v & 3);
        least.atomic_min((row, column), v);
        most.atomic_max((row, column), v.cast::<f32>());
        seen.atomic_or(v & 7, v.bitcast::<u32>());
        seen.atomic_xor(8, 1u32);
    }
    let at = iota::<i32>(8);
    low.atomic_min(at, least.gather((at >> 2, at & 3)));
    high.atomic_max(at, most.gather((at >> 2, at & 3)));
    bits.atomic_or(at, seen.load(..));
}

/// Old values are slots: every present element takes one, no two the same.
#[kernel(tile(T = 128), coarsen(C of T = [1, 2, 4]), grid(G = [0, 1]), threads(N = [32, 64]))]
pub fn slots(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, total: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let mut next = shared::<i32>([1], 0);
        let mut taken = shared::<i32>([T], 0);
        let slot = next.fetch_add(0, (v & 0) + 1);
        taken.scatter(slot, (v & 0) + 7);
        y.store(t, taken.load(..));
        let before = total.fetch_add_at(0, next.at(0));
        total.atomic_max(1, before * 0 + 5);
    }
}

/// Fewer elements than threads: some threads hold replicas, and every one of them must know the old value.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2]), grid(G = [0, 1]))]
pub fn replicas(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let mut small = shared::<i32>([40], 3);
        let old = small.fetch_add(iota::<i32>(40), iota::<i32>(40));
        let mut wide = shared::<i32>([T], 0);
        wide.scatter(iota::<i32>(40), old + small.load(..));
        y.store(t, x.load(t) + wide.load(..));
    }
}

/// Global atomics of every kind.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]), grid(G = [0, 1]))]
pub fn global_updates(x: &Tensor<i32, 1>, i: &mut Tensor<i32, 1>, u: &mut Tensor<u64, 1>, f: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let (wide, real) = (v.cast::<u64>(), v.cast::<f32>());
        i.atomic_and(0, v);
        i.atomic_xor(1, v);
        i.atomic_or(2, v);
        i.atomic_set(3, (v & 0) + 4);
        let old = i.compare_swap(4, (v & 0), (v & 0) + 9);
        i.atomic_max(5, old & 0);
        u.atomic_add(v & 3, wide);
        u.atomic_max(4, wide);
        u.ordered(Scope::System, MemoryOrder::AcquireRelease).atomic_min(5, wide);
        f.atomic_add(v & 1, real);
        f.atomic_min(2, real);
        f.atomic_max(3, real);
    }
}

/// Updates that depend on a condition per element.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]), grid(G = [0, 1]))]
pub fn chosen_updates(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let mut odd = shared::<i32>([8], 0);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        if v & 1 == 1 {
            odd.atomic_add((v >> 1) & 7, 1);
        } else {
            y.atomic_add(8, (v & 0) + 1);
        }
    }
    y.atomic_add(iota::<i32>(8), odd.load(..));
}

/// Elements of the even places are written again and again; the others keep what they have.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn even_places(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let i = iota::<i32>(T);
        let mut own = shared::<i32>([T], 7);
        own.scatter(i, x.load(t) * 3);
        for _ in 0..scalar::<i32>(5) {
            let neighbour = own.gather(i ^ 1) + 1;
            if (i & 1) == 0 {
                own.scatter(i, neighbour);
            }
        }
        y.store(t, own.gather(i));
    }
}

/// One element of an array changes at every turn.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn one_place(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in y.tiles([T]) {
        let i = iota::<i32>(T);
        let mut own = shared::<i32>([T], 0);
        own.scatter(i, x.load(t));
        let mut seen = zeros::<i32>([T]);
        for k in 0..scalar::<i32>(4) {
            seen = seen * 3 + own.gather(i);
            own.store_at(k * 5 + 1, k);
        }
        y.store(t, seen);
    }
}

//! Kernels written by hand, thread by thread: shuffles, votes, shared arrays with the author's barriers.

use girih::prelude::*;

/// The sum of each row, a warp for each: every lane adds what lies in its column, then the lanes add up.
#[kernel(tile(W = [4, 1, 8], L = 32))]
pub fn warp_row_sums(x: &Tensor<f32, 2>, sums: &mut Tensor<f32, 1>) {
    for w in sums.tiles([W]) {
        let mut sum = zeros::<f32>([W, L]);
        for c in x.axis(1).tiles(L) {
            sum += x.load((w, c));
        }
        for distance in [16, 8, 4, 2, 1] {
            sum += sum.shuffle_xor(distance);
        }
        let row = w.coords().expand(1, L);
        let lane = lanes(L).expand(0, W);
        if lane == 0 {
            sums.scatter(row, sum);
        }
    }
}

/// The position of each element of 256 among the positive ones before it, by ballots and a scan of the warps' counts.
#[kernel(tile(T = 256), coarsen(C of T = [1, 2, 8]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn ranks(x: &Tensor<i32, 1>, rank: &mut Tensor<i32, 1>, kept: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let lane = lanes(T);
        let votes = (x.load(t) > 0).ballot();
        let below = (votes & ((lane.like(1) << lane) - 1).bitcast::<u32>()).count_ones().cast::<i32>();
        let mut counts = shared::<i32>([32], 0).by_hand();
        barrier();
        if lane == 0 {
            counts.scatter(warps(T), votes.count_ones().cast::<i32>());
        }
        barrier();
        let own = counts.gather(lane);
        let mut ends = own;
        for distance in [1, 2, 4, 8, 16] {
            let before = ends.shuffle_up(distance);
            ends += if lane >= distance { before } else { before.like(0) };
        }
        let start = (ends - own).shuffle(warps(T));
        rank.store(t, start + below);
        kept.atomic_add(0, counts.at(0).cast::<u32>());
    }
}

/// Every kind of shuffle, of several types, by constant and computed lanes; absent elements give zero.
#[kernel(tile(T = [64, 256, 128]), coarsen(C of T = [1, 2]), vector(V = [1, 2]))]
pub fn exchanged(x: &Tensor<f32, 1>, k: &Tensor<i32, 1>, up: &mut Tensor<f32, 1>, far: &mut Tensor<i64, 1>, odd: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let (v, by) = (x.load(t), k.load(t));
        let near = v.shuffle_up(3) + v.shuffle_down(33) * 2.0 + v.shuffle_xor(5) * 4.0;
        up.store(t, near + v.shuffle(31) * 8.0 + v.shuffle(by) * 16.0);
        let wide = by.cast::<i64>() << 33;
        far.store(t, wide.shuffle_down(by) - wide.shuffle_xor(by) + wide.shuffle_up(by) + k.at(0).cast::<i64>());
        odd.store(t, (by & 1 == 1).shuffle(by).cast::<u32>() + v.cast::<f16>().shuffle_down(1).cast::<u32>());
    }
}

/// What warps find out about conditions, beside what each element says.
#[kernel(tile(T = [64, 32, 256]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 2]))]
pub fn votes(x: &Tensor<i32, 1>, any: &mut Tensor<bool, 1>, all: &mut Tensor<bool, 1>, ballot: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        any.store(t, (v > 40).warp_any());
        all.store(t, (v > -45).warp_all());
        ballot.store(t, (v & 4 == 0).ballot() | (v > 1000).ballot());
    }
}

/// Each warp turns its elements around through a part of a shared array, with no other warp waiting. Others filled that part.
#[kernel(tile(T = [128, 64]), grid(G = [0, 1]))]
pub fn turned_warps(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let mut own = shared::<f32>([T], 1.0).by_hand();
        barrier();
        own.scatter(threads(T) ^ 32, x.load(t));
        warp_barrier();
        let turned = own.gather(threads(T) ^ 63);
        warp_barrier();
        own.scatter(threads(T) ^ 32, x.load(t) * 2.0);
        warp_barrier();
        y.store(t, turned + own.gather(threads(T) ^ 48));
    }
}

/// Which lanes have the same digit, of signed and unsigned numbers; what is absent has digit 0.
#[kernel(tile(T = [64, 32, 256]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 2]))]
pub fn matched(x: &Tensor<i32, 1>, digits: &mut Tensor<u32, 1>, bits: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        digits.store(t, v.match_any(3));
        bits.store(t, v.bitcast::<u32>().match_any(32) ^ (v >> 31).match_any(1));
    }
}

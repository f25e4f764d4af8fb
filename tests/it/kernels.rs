//! Kernels for tests: what the gallery's own kernels don't use. Pipelines, copies ahead of their turn, indirect accesses, 16-bit floats,
//! grids of two axes, per-element choices.

use girih::prelude::*;

/// A scaled sum with every knob of one axis. Also the example of docs/SCHEDULE.md.
#[kernel(
    tile(T = [64, 128, 256, 1024]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1, 2]),
    cache(H = [Default, Streaming])
)]
pub fn saxpy(a: Scalar<f32>, x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    for t in z.tiles([T]) {
        z.store(t, a * x.load(t) + y.load(t));
    }
}

/// Loads whose lines are to be kept, of words, of half words and of what the kernel also writes.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), cache(H = [Default, Kept]))]
pub fn kept_loads(x: &Tensor<f32, 1>, w: &Tensor<f16, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, y.load(t) + x.load(t) * w.load(t).cast::<f32>());
    }
}

/// A transposition whose tiles are dealt to blocks: the shared tile is used again.
#[kernel(tile(R = [8, 16, 32], C = [8, 16, 32]), coarsen(CR of R = [1, 2, 4], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn dealt_transpose(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

/// 16-bit floats, computed in f32.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 8]), vector(V = [1, 2, 8]))]
pub fn half_product(a: &Tensor<f16, 1>, b: &Tensor<f16, 1>, c: &mut Tensor<f16, 1>) {
    for t in c.tiles([T]) {
        c.store(t, (a.load(t).cast::<f32>() * b.load(t).cast::<f32>()).cast::<f16>());
    }
}

/// Branches on scalars whose sides exist at different elements: what a gather finds, what another tensor has, everything.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn sided(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        // Lengths that tests try, with and without a tail, take each of the three ways.
        let turn = y.len(0) / 16 % 12;
        let mut v = full::<f32>([T], 3.0);
        if turn == 1 || turn == 11 {
            v = if turn == 1 { x.gather(at.load(t) * 3) } else { x.load(t) + 1.0 };
        }
        y.store(t, v);
    }
}

/// Loads on one side of a per-element choice.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn chosen(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        let x = a.load(t);
        let y = if x > 0.0 { b.load(t) } else { x };
        c.store(t, y);
    }
}

/// Elements at positions that a tensor holds; positions out of range are absent.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn gathered(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(at.load(t)));
    }
}

/// How often each number occurs.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn counted(x: &Tensor<u32, 1>, bins: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        bins.atomic_add(x.load(t), 1);
    }
}

/// Neighbours at constant distances, the nearest element outside.
#[kernel(tile(T = [64, 96, 128]), coarsen(C of T = [1, 2, 4, 8]), vector(V = [1, 2, 4]), halo(H = [Shared, Direct]), copy(P = [Registers, Async]))]
pub fn smoothed(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let w = x.window(t, [(2, 3)], Boundary::Clamp);
        y.store(t, w.at(-2) + w.at(-1) * 2.0 + w.at(0) * 4.0 + w.at(2) * 8.0 + w.at(3) * 16.0);
    }
}

/// Neighbours that a launch promises to exist, of a longer tensor, in 16-bit floats.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 4, 16]), vector(V = [1, 4, 8]), halo(H = [Shared, Direct]))]
pub fn differences(x: &Tensor<f16, 1>, y: &mut Tensor<f16, 1>) {
    for t in y.tiles([T]) {
        let w = x.window(t, [(0, 2)], Boundary::Valid);
        y.store(t, (w.at(2).cast::<f32>() - w.at(0).cast::<f32>() + w.at(1).cast::<f32>()).cast::<f16>());
    }
}

/// A star of neighbours in two dimensions, dealt to blocks, so that the shared copy is used again.
#[kernel(
    tile(R = [8, 16, 32], C = [16, 32, 48]),
    coarsen(CR of R = [1, 2, 4], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    halo(H = [Shared, Direct]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1])
)]
pub fn star(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let w = x.window((r, c), [(1, 2), (3, 1)], Boundary::Clamp);
        y.store((r, c), w.at((-1, 0)) + w.at((2, 0)) * 2.0 + w.at((0, -3)) * 4.0 + w.at((0, 1)) * 8.0 + w.at((0, 0)));
    }
}

/// Neighbours in three dimensions.
#[kernel(
    tile(D = [2, 4], R = [4, 8], C = [16, 32]),
    coarsen(CD of D = [1, 2], CC of C = [1, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct])
)]
pub fn volume(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (d, r, c) in y.tiles([D, R, C]) {
        let w = x.window((d, r, c), [(1, 1), (1, 1), (1, 1)], Boundary::Zero);
        let mut sum = w.at((0, 0, 0)) * 2.0;
        for k in [-1, 1] {
            sum = sum + w.at((k, 0, 0)) + w.at((0, k, 0)) + w.at((0, 0, k));
        }
        y.store((d, r, c), sum);
    }
}

/// A filter of any length, eight taps at a time, read at offsets that are computed; the halo is as wide as the tile.
#[kernel(
    tile(T = [64, 128]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 4]),
    halo(H = [Shared, Direct]),
    copy(P = [Registers, Async]),
    stages(S = [1, 2, 3])
)]
pub fn filtered(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, back: Scalar<i32>) {
    for t in y.tiles([T]) {
        let mut acc = zeros([T]);
        for k in w.tiles([8]) {
            let taps = w.window(k, [(0, 0)], Boundary::Zero);
            let near = x.window(t + (k.start() - back.cast::<i64>()), [(1, T)], Boundary::Clamp);
            for g in 0..scalar::<i32>(4) {
                for j in 0..2 {
                    acc += taps.get(g * 2 + j) * (near.at(g * 2 + j) + near.at(g * 2 - 1 + j));
                }
            }
        }
        y.store(t, acc);
    }
}

/// Windows of a permuted view: neighbours in memory lie along the other axis.
#[kernel(tile(R = [8, 16], C = [16, 32]), coarsen(CC of C = [1, 4]), halo(H = [Shared, Direct]))]
pub fn mirrored(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let turned = x.permuted([1, 0]);
    for (r, c) in y.tiles([R, C]) {
        let w = turned.window((r, c), [(1, 1), (0, 2)], Boundary::Zero);
        y.store((r, c), w.at((-1, 0)) - w.at((1, 2)) + w.at((0, 1)).t().t());
    }
}

/// Chunks of an axis as an axis of their own, whose tiles know their number.
#[kernel(tile(R = [1, 4], C = 8, E = 16), coarsen(CR of R = [1, 2], CE of E = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn chunk_numbers(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let (x, mut y) = (x.chunked(1, 16), y.chunked(1, 16));
    for (r, c, e) in y.tiles([R, C, E]) {
        let number = (c.number() * 100 + e.number()).cast::<f32>();
        y.store((r, c, e), x.load((r, c, e)).exp2_approx() + number);
    }
}

/// Whole rows of three that a loop inside of the grid's walks: of the last tile some are not there, however full the grid's is.
#[kernel(tile(Q = [8, 16], P = [4, 8]), coarsen(CQ of Q = [1, 2]), vector(V = [1, 2, 4]), rows(L = [Direct, Shared]))]
pub fn all_rows(points: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for q in y.tiles([Q]) {
        let mut sum = zeros::<f32>([Q, P]);
        for p in points.axis(0).tiles(P) {
            let [a, b, c] = points.load((p, ..3)).unstack();
            sum += (a * 4.0 + b * 2.0 + c).expand(0, Q);
        }
        y.store(q, sum.sum_axis(1));
    }
}

/// Neighbours side by side, of which one is not there at each end: what is absent is absent in the stack, and nowhere else.
#[kernel(tile(T = [8, 32]), coarsen(C of T = [1, 2]), vector(V = [1, 2]))]
pub fn side_by_side(x: &Tensor<f32, 1>, pairs: &mut Tensor<f32, 2>, most: &mut Tensor<f32, 1>) {
    x.same_shape(most);
    for t in x.tiles([T]) {
        let i = t.coords();
        let both = stack([x.gather(i - 3), x.gather(i + 3)]);
        pairs.store((t, ..2), both * 2.0);
        most.store(t, both.max_axis(1));
    }
}

/// What some threads of a block have stored, all of them need, in tiles of another size, too; and what all have read one of them overwrites.
#[kernel(tile(M = [2, 4], E = [16, 32], F = [8, 64]), coarsen(CE of E = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn stored_and_loaded(x: &Tensor<i32, 2>, s: &mut Tensor<i32, 1>, y: &mut Tensor<i32, 2>, z: &mut Tensor<i32, 2>) {
    for m in x.axis(0).tiles(M) {
        let mut acc = zeros::<i32>([M, E]);
        for e in x.axis(1).tiles(E) {
            acc += x.load((m, e));
        }
        let before = s.load(m).expand(1, E);
        for e in x.axis(1).tiles(E) {
            y.store((m, e), x.load((m, e)) + before);
        }
        s.store(m, acc.sum_axis(1));
        let sum = s.load(m).expand(1, F);
        for f in x.axis(1).tiles(F) {
            z.store((m, f), y.load((m, f)) * sum);
        }
    }
}

/// Of positions that do not exist there is no old value: neither of a tensor's nor of a shared array's.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2, 4]))]
pub fn updated_where_there_is_room(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>, seen: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let mut own = shared::<i32>([37], 5);
        let old = bins.fetch_add(t.coords() * 2, x.load(t));
        let here = own.compare_swap(63 - iota::<i32>(T), 5, 6);
        seen.atomic_add(t.coords().like(0), old.like(1));
        seen.atomic_add(t.coords().like(1), here + 1);
    }
}

/// Sums and differences of pairs, each where its half begins: two scatters to one tensor that never meet.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn halves_of_pairs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let pairs = x.chunked(0, 2);
    for t in pairs.axis(0).tiles(T) {
        let v = pairs.load((t, ..2));
        let at = t.coords();
        y.scatter(at, v.pick(1, 0) + v.pick(1, 1));
        y.scatter(at + x.len(0) / 2, v.pick(1, 0) - v.pick(1, 1));
    }
}

/// Tiles that wait for their turn of the grid loop, those of one tensor in a ring and those of the other in registers; and a filter with stages
/// of its own.
#[kernel(
    tile(T = [64, 128]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 4]),
    stages(S of t = [2, 1, 3], R of k = [3, 1, 2]),
    copy(P of x = [Async, Registers], Q of z = [Registers, Async]),
    grid(G = [1, 0])
)]
pub fn waiting_apart(x: &Tensor<f32, 1>, z: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut sum = x.load(t) - z.load(t);
        for k in w.tiles([8]) {
            let near = x.window(t + k.start(), [(0, 8)], Boundary::Zero);
            let taps = w.window(k, [(0, 0)], Boundary::Zero);
            for j in 0..8 {
                sum += taps.get(j) * near.at(j);
            }
        }
        y.store(t, sum);
    }
}

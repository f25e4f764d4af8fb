//! Kernels that look at made tiles, at coordinates and at what a search carries: the tail of the grid has no such elements.

use girih::prelude::*;

/// Every element counts once, wherever its position or its value comes from.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn made_updates(x: &Tensor<i32, 1>, counts: &mut Tensor<i32, 1>, far: &mut Tensor<i64, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        counts.atomic_add(full::<i32>([T], 0), 1);
        counts.atomic_add(v.like(1), 1);
        counts.atomic_add((t.coords() % 3).cast::<i32>() + 2, full([T], 2));
        if t.coords() % 2 == 0 {
            counts.atomic_add(full::<i32>([T], 5), 1);
        }
        far.scatter(t.coords() * 2 + 1, full([T], 7));
    }
}

/// What belongs to the block is there at the tail, too, and so is what is made beside it.
#[kernel(tile(T = 64), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn block_updates(x: &Tensor<i32, 1>, counts: &mut Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        counts.atomic_add(iota::<i32>(T) % 4, full([T], 1));
        counts.atomic_add(iota::<i32>(8), 1);
        y.store(t, x.load(t));
    }
}

/// Reductions, scans and shared arrays.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn made_sums(x: &Tensor<i32, 1>, totals: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        totals.atomic_add(0, full([T], 1).sum());
        totals.atomic_max(1, (t.coords() * 2).max_all().cast::<i32>());
        totals.atomic_add(2, select(t.coords() < 40, v, 3).sum());
        totals.atomic_max(3, full([T], 1).scan_sum(0).min_all());
        let mut own = shared::<i32>([4], 0);
        own.atomic_add((t.coords() % 4).cast::<i32>(), full([T], 1));
        totals.atomic_add(iota::<i32>(4) + 4, own.load(..));
        let mut grown = full([T], 1);
        for _ in 0..scalar::<i32>(3) {
            grown += v & 1;
        }
        totals.atomic_add(8, grown.sum());
    }
}

/// What is carried over the grid keeps what it had where a made value ends.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [1, 2]))]
pub fn made_carries(x: &Tensor<i32, 1>, totals: &mut Tensor<i32, 1>, seen: &mut Tensor<i32, 1>) {
    let mut count = zeros::<i32>([T]);
    let mut last = full([T], -1);
    let ones = full([T], 1);
    for t in x.tiles([T]).strided() {
        count += 1;
        last = last.max(t.coords().cast::<i32>());
        seen.atomic_add(0, ones.sum());
    }
    let (count, last) = (count.sum().sum_grid(), last.max_all().max_grid());
    totals.store_at(0, count);
    totals.store_at(1, last);
}

/// Rows: the grid's axis ends, the other one does not.
#[kernel(tile(R = [4, 2, 8], C = 32), coarsen(CR of R = [1, 2], CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn made_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, counts: &mut Tensor<i32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut most = full::<f32>([R, C], f32::NEG_INFINITY);
        for c in x.axis(1).tiles(C) {
            most = most.max(x.load((r, c)));
        }
        let most = most.max_axis(1).max(-100.0);
        counts.atomic_add(0, (most < 1000.0).cast::<i32>().sum());
        counts.atomic_add(full::<i32>([R, C], 1), 1);
        y.store(r, most);
    }
}

/// Each element searches by itself, and those that are not there do not keep the others waiting.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn searched(table: &Tensor<f32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let n = table.len(0).cast::<i32>();
        let (mut lo, mut hi) = (full([T], 0), n.splat([T]));
        while (lo < hi).any() {
            let mid = (lo + hi) / 2;
            let go = table.gather(mid.clamp(0, n - 1)) < v;
            (lo, hi) = if lo < hi { if go { (mid + 1, hi) } else { (lo, mid) } } else { (lo, hi) };
        }
        y.store(t, lo);
    }
}

/// The same in a loop over columns, where the bounds are like the element.
#[kernel(tile(R = [4, 2], C = [32, 64]), coarsen(CC of C = [1, 2]), vector(V = [1, 2]))]
pub fn searched_rows(table: &Tensor<f32, 1>, x: &Tensor<f32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let n = table.len(0).cast::<i32>();
            let none = v.cast::<i32>();
            let (mut lo, mut hi) = (none.like(0), none.like(n));
            while (lo < hi).any() {
                let mid = (lo + hi) / 2;
                let go = table.gather(mid.clamp(0, n - 1)) < v;
                (lo, hi) = if lo < hi { if go { (mid + 1, hi) } else { (lo, mid) } } else { (lo, hi) };
            }
            y.store((r, c), lo);
        }
    }
}

/// `like` is absent where its model is, whatever makes that absent.
#[kernel(tile(T = [64, 32, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn alike(x: &Tensor<i32, 1>, at: &Tensor<i32, 1>, totals: &mut Tensor<i32, 1>) {
    for t in at.tiles([T]) {
        let found = x.gather(at.load(t));
        totals.atomic_add(0, found.like(1).sum());
        totals.atomic_add(found.like(1), 1);
        let own = if at.load(t) % 2 == 0 { x.gather(at.load(t) + 1).like(2) } else { full([T], 1) };
        totals.atomic_add(2, own.sum());
        let mut all = scalar(0);
        for k in x.axis(0).tiles(T) {
            all += x.load(k).like(1).sum();
        }
        totals.atomic_max(3, all);
    }
}

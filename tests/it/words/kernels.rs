//! Kernels that say outright what others say by a detour.

use girih::prelude::*;

/// What a gather does not find is a number, another one for each of three values.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn filled(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let found = x.gather(at.load(t) * 3 - 5);
        y.store(t, found.or(7.5) + found.or(0.0) * 2.0);
        z.store(t, (found * 2.0).or(-1.0) + found.or(1.0).sum());
    }
}

/// Zero for what a gather does not find.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn zeros_for_absent(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(at.load(t) * 3 - 5).or(0.0));
    }
}

/// A number of its own for each kind of absence: behind the row's end, on the other side of a choice, and in 16 bits.
#[kernel(tile(R = [1, 4], C = [32, 64]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2]))]
pub fn filled_rows(x: &Tensor<f32, 2>, h: &Tensor<f16, 2>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut sum = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let chosen = if v > 0.0 { h.load((r, c)).or(0.5) } else { full([R, C], 0.25) };
            sum += v.or(3.0).max_axis(1) + chosen.cast::<f32>().sum_axis(1);
        }
        y.store(r, sum);
    }
}

/// From the last to the first: coordinates behind the end are no positions.
#[kernel(tile(T = [64, 96]), coarsen(C of T = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn backwards(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    x.same_shape(y);
    for t in y.tiles([T]) {
        let at = y.len(0) - 1 - t.coords();
        let before = if t.coords() > 0 { x.gather_in_bounds(t.coords() - 1) } else { full([T], 1.0) };
        y.store(t, x.gather_in_bounds(at) + before);
    }
}

/// Sums of a table's entries.
#[kernel(tile(R = [1, 2, 4], C = [32, 64]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]), stages(S = [1, 2]))]
pub fn looked_up(at: &Tensor<u32, 2>, table: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let table = table.slice(0, 0, 16);
    for r in y.tiles([R]) {
        let mut sum = zeros::<i32>([R]);
        for c in at.axis(1).tiles(C) {
            let asked = at.load((r, c));
            sum += table.gather_in_bounds(asked & 15).sum_axis(1);
        }
        y.store(r, sum);
    }
}

/// As its name says: positions are taken as they are.
#[kernel(tile(T = 64))]
pub fn taken_as_they_are(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather_in_bounds(at.load(t)));
    }
}

/// The same of an array in shared memory, whose first half has elements of x; what is behind those is 1.
#[kernel(tile(T = 64))]
pub fn taken_from_shared(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut own = shared::<f32>([128], 1.0);
        own.scatter(iota::<i32>(T), x.load(t));
        y.store(t, own.gather_in_bounds(at.load(t)));
    }
}

/// Each element's partner of another warp, from shared memory.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn exchanged_in_shared(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    x.same_shape(y);
    for t in y.tiles([T]) {
        let mut own = shared_uninit::<f32>([T]);
        own.store(.., x.load(t).or(2.0));
        let place = iota::<i32>(T);
        y.store(t, own.gather_in_bounds(place ^ 32));
    }
}

/// Prefix sums of rows, carried by what the scan comes to.
#[kernel(tile(R = [1, 2, 8], C = [16, 64, 256, 1024]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4, 8]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn scans_with_totals(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut before = zeros::<i32>([R]);
        for c in x.axis(1).tiles(C) {
            let ends = x.load((r, c)).scan_sum(1);
            y.store((r, c), ends + before.expand(1, C));
            before += ends.total_axis(1);
        }
    }
}

/// The same by a reduction of its own.
#[kernel(tile(R = [1, 2, 8], C = [16, 64, 256, 1024]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4, 8]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn scans_and_reductions(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut before = zeros::<i32>([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            y.store((r, c), v.scan_sum(1) + before.expand(1, C));
            before += v.sum_axis(1);
        }
    }
}

/// Totals of an operator of two components that does not commute, in all four ways; and down the columns.
#[kernel(tile(T = [32, 96, 256, 2048]), coarsen(C of T = [1, 2, 4, 8]), vector(V = [1, 2, 4]))]
pub fn affine_scan_totals(a: &Tensor<u32, 1>, b: &Tensor<u32, 1>, y: &mut Tensor<u32, 2>) {
    for t in a.tiles([T]) {
        let f = (a.load(t), b.load(t));
        let ways = [along(0), along(0).exclusive(), along(0).reversed(), along(0).exclusive().reversed()];
        let all = ways.map(|way| {
            let (a, b) = f.scan(way, (1, 0), |f, g| (f.0 * g.0, g.0 * f.1 + g.1));
            (a ^ b) + a.total() * 3 + b.total()
        });
        y.store((t, ..4), stack(all));
    }
}

/// The largest so far down the columns, beside the largest of all.
#[kernel(tile(R = [4, 6, 32, 64], C = [2, 8, 16]), coarsen(CR of R = [1, 2], CC of C = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn column_scan_totals(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, z: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        let most = x.load((r, c)).scan_max(0);
        y.store((r, c), most);
        z.store((r, c), most.total_axis(0).expand(0, R));
    }
}

/// Counts whose old values nobody looks at, a carried tile and a largest element that nobody reads.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn unread(x: &Tensor<i32, 1>, counts: &mut Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let counts = &mut counts.slice(0, 0, 8);
    for t in x.tiles([T]) {
        let v = x.load(t);
        let mut own = shared::<i32>([8], 0);
        let mut last = v;
        let mut sum = v;
        for k in 0..scalar::<i32>(3) {
            let _before = own.fetch_add(v & 7, v.like(1));
            last = last + (v + k).max_all();
            sum += k;
        }
        let _before = counts.fetch_add_at(0, 1);
        y.store(t, sum + own.gather(v & 7));
    }
}

/// The beginning of a row, kept in shared memory by a loop that reads nothing of it, and what lies across from each element.
#[kernel(tile(R = 1, U = [64, 128]), coarsen(C of U = [1, 2, 4]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn kept_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    x.same_shape(y);
    for r in y.axis(0).tiles(R) {
        let mut kept = shared_uninit::<f32>([80]);
        for u in x.axis(1).tiles(U) {
            kept.store(u, x.load((r.number(), u)) * 2.0);
        }
        for u in x.axis(1).tiles(U) {
            let across = kept.gather(x.len(1) - 1 - u.coords()).or(0.5);
            y.store((r.number(), u), x.load((r.number(), u)) + across);
        }
    }
}

/// Of each row the sum, the largest and the smallest element, and the sum of differences from the smallest, which needs it.
#[kernel(tile(R = 1, C = [64, 128]), coarsen(CC of C = [1, 2, 4]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn several_of_a_row(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let (mut sum, mut most) = (zeros::<i32>([C]), full::<i32>([C], i32::MIN));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r.number(), c));
            sum += v;
            most = most.max(v);
        }
        let all = sum.sum();
        let twice = all * 2;
        let largest = most.max_all();
        let smallest = most.min_all();
        let above = (most - smallest).sum();
        y.store((r, ..4), stack([all + twice, largest, smallest, above].map(|v| v.splat([R]))));
    }
}

/// Of each part of a row the sum, and an operator of two components in order; of the parts of all rows of a tile the largest element, and that
/// operator.
#[kernel(tile(R = [1, 2, 4], C = [256, 1024]), coarsen(CR of R = [1, 2], CC of C = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn several_of_tiles(x: &Tensor<u32, 2>, y: &mut Tensor<u32, 2>) {
    fn then(f: (Scalar<u32>, Scalar<u32>), g: (Scalar<u32>, Scalar<u32>)) -> (Scalar<u32>, Scalar<u32>) {
        (f.0 * g.0, g.0 * f.1 + g.1)
    }
    for r in x.axis(0).tiles(R) {
        let (mut of_rows, mut of_all) = (zeros::<u32>([R]), zeros::<u32>([R]));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let sums = v.sum_axis(1);
            let (slope, start) = (v | 1, v ^ 5).reduce_axis(1, (1, 0), then);
            let most = v.max_all();
            let all = (v | 1, v & 3).reduce_all((1, 0), then);
            let spread = (v - sums.expand(1, C)).sum_axis(1);
            of_rows = of_rows * 3 + (sums ^ spread) + slope * 5 + start;
            of_all += (most ^ all.0 ^ all.1).splat([R]);
        }
        y.store((r, ..2), stack([of_rows, of_all]));
    }
}

/// Four stores of one line, each to a quarter of the array; and two that overlap.
#[kernel(tile(B = 1, N = 64), grid(G = [0, 1]))]
pub fn quarters(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>) {
    for b in x.tiles([B]) {
        let thread = threads(N);
        let mut own = shared_uninit::<i32>([256]);
        for k in 0..4 {
            own.scatter(thread + k * 64, thread * (k + 1) + x.at(b.number()));
        }
        let mut other = shared_uninit::<i32>([96]);
        for k in 0..2 {
            other.scatter(thread + k * 32, thread + k);
        }
        y.scatter((b.number(), thread), own.gather((thread * 4 + 3) & 255) + other.gather((thread + 48) & 63));
    }
}

/// Elements as other blocks have left them, in each scope and order.
#[kernel(tile(T = 64), types(F = [f32, i32, u32, i64, u64]))]
pub fn fetched<F: Num>(x: &mut Tensor<F, 1>, y: &mut Tensor<F, 1>) {
    x.same_shape(y);
    for t in y.tiles([T]) {
        let at = t.coords();
        let device = x.fetch(at) + x.ordered(Scope::Device, MemoryOrder::Acquire).fetch(at);
        let system = x.ordered(Scope::System, MemoryOrder::Acquire).fetch(at) + x.ordered(Scope::System, MemoryOrder::Relaxed).fetch(at);
        y.store(t, device + system + x.fetch_at(0));
    }
}

/// Sums of products, of which those behind the end of a row are no zeros.
#[kernel(tile(R = [1, 4], C = [32, 64]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4]), vector(V = [1, 2]))]
pub fn products_of_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in y.tiles([R]) {
        let mut sum = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            sum += ((v + 1.0) * (v - 2.0)).sum_axis(1);
        }
        y.store(r, sum);
    }
}

/// A value that both sides of a branch use, and what follows it.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn used_on_both_sides(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, turn: Scalar<i32>) {
    for t in y.tiles([T]) {
        let grown = x.load(t).sqrt();
        let mut sum = grown;
        if turn % 2 == 0 {
            sum = grown * 2.0 + 1.0;
        } else {
            sum = sum - grown * 3.0;
        }
        y.store(t, sum + grown);
    }
}

/// Where each row's largest number is, and where all rows' smallest one is.
#[kernel(tile(R = [4, 2], C = 64), coarsen(CC of C = [2, 1, 8], CR of R = [1, 2]))]
pub fn largest_numbers(x: &Tensor<f32, 2>, at: &mut Tensor<i32, 1>, smallest: &mut Tensor<i32, 1>) {
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C).within(0..64) {
            let v = x.load((r, c));
            let (_, largest) = v.without_nan().arg_max_axis(1, iota::<i32>(C));
            at.store(r, largest);
            let (_, row) = v.without_nan().arg_min_axis(1, c);
            smallest.store(r, row.cast::<i32>());
        }
    }
}

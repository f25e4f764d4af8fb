//! Combinations in the language: what they record, and what their mistakes say.

use super::evaluator::{Given, floats, ints, kernel, noise};
use super::language::{has, ir, mistakes_in, mistakes_under, says};
use girih::prelude::*;
use girih_core::tile::access::{Class, classify};

#[kernel(tile(T = [256]), coarsen(C of T = [1, 2]))]
pub fn grid_mean(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let (mut sum, mut top) = (zeros::<f32>([T]), full([T], f32::NEG_INFINITY));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        sum += v;
        top = top.max(v);
    }
    let total = sum.sum().sum_grid();
    let largest = top.max_all().max_grid();
    out.store_at(0, total / x.len(0).cast::<f32>());
    out.store_at(1, largest);
}

#[kernel(tile(T = [256]), coarsen(C of T = [1, 2]))]
pub fn grid_softmax_stats(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let (mut max, mut sum) = (full([T], f32::NEG_INFINITY), zeros::<f32>([T]));
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let new = max.max(v);
        sum = sum * (max - new).exp() + (v - new).exp();
        max = new;
    }
    let (m, s) =
        (max, sum).commutative().reduce_all((f32::NEG_INFINITY, 0.0), join).commutative().reduce_grid((f32::NEG_INFINITY, 0.0), join);
    out.store_at(0, m);
    out.store_at(1, s);
}

type Pair = (Scalar<f32>, Scalar<f32>);

#[device]
fn join(a: Pair, b: Pair) -> Pair {
    let max = a.0.max(b.0);
    let part = |(m, s): Pair| if m == f32::NEG_INFINITY { s } else { s * (m - max).exp() };
    (max, part(a) + part(b))
}

#[test]
fn what_blocks_have_is_combined_once() {
    let text = ir(grid_mean::Kernel::def());
    has(&text, &["total: f32 = over the grid sum %0", "largest: f32 = over the grid max %1"]);
    let kernel = (grid_mean::Kernel::def().build)().expect("it builds");
    let classes = classify(&kernel).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(classes.len() == 2 && classes.iter().all(|c| c.class == Class::Disjoint), "{classes:?}");
    let text = ir(grid_softmax_stats::Kernel::def());
    has(&text, &["by (a_0, a_1, b_0, b_1) from (-inf, 0.0) in any order {"]);
}

#[device]
fn wrong_grids(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let early = zeros::<f32>([m]).sum_grid();
    let mut acc = zeros::<f32>([m, n]);
    for (i, j) in x.tiles([m, n]).strided() {
        acc += x.load((i, j));
        let _ = acc.sum().max_grid();
    }
    let mean = acc.sum().sum_grid() / 2.0;
    let square = ((acc - mean) * (acc - mean)).sum();
    let _ = square.sum_grid();
    y.store_at((0, 0), mean);
    let _ = early;
    let _ = acc.max_all().max_grid();
    let _ = (acc, acc.sum_axis(1)).reduce_grid((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
}

#[test]
fn grids_are_combined_behind_their_loop() {
    let text = mistakes_in(include_str!("combining.rs"), wrong_grids);
    says(&text, &["a combination over the grid without a strided grid loop before it", "`for t in x.tiles(..).strided() { .. }` first"]);
    says(&text, &["inside of a loop or branch: the blocks meet once", "move it behind the grid loop"]);
    says(&text, &["of what was computed from the whole grid already", "let _ = square.sum_grid();"]);
    says(
        &text,
        &["behind a store: what follows the first combination runs in the last block only", "combine everything before the first store"],
    );
    says(&text, &["components of different shapes: [M, N] and [M]"]);
    assert_eq!(text.matches("error:").count(), 5, "{text}");
}

#[device]
fn sums_in_any_order(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    let mut own = shared::<f32>([m], 0.0);
    let mut counts = shared::<i32>([m], 0);
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        y.atomic_add((0, 0), v.sum());
        own.atomic_add(iota::<i32>(m), v.sum_axis(1));
        counts.atomic_add(iota::<i32>(m), 1);
        y.atomic_max((0, 0), v.max_all());
    }
}

#[test]
fn a_demand_for_one_result_forbids_sums_of_floats_in_any_order() {
    let text = mistakes_under(true, include_str!("combining.rs"), sums_in_any_order);
    says(&text, &["an atomic sum of f32 in a kernel that demands `deterministic`: its terms come in any order"]);
    says(&text, &["y.atomic_add((0, 0), v.sum());", "own.atomic_add(iota::<i32>(m), v.sum_axis(1));", "combine it by `.sum_grid()`"]);
    assert_eq!(text.matches("error:").count(), 2, "{text}");
}

#[device]
fn wrong_scans(x: &Tensor<f32, 2>, _y: &mut Tensor<f32, 2>, m: Size, n: Size) {
    for (i, j) in x.tiles([m, n]) {
        let v = x.load((i, j));
        let _ = v.scan_sum(2);
        let _ = v.sum_axis(3);
        let _ = v.sum_axis(1).sum_axis(0);
        let _ = (v, v.t()).scan(0, (0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let _ = v.arg_max_axis(0, j);
        let _: [Tile<f32>; 3] = v.unstack();
        let _ = v.map(|a| x.at((a.cast::<i32>(), 0)));
    }
}

#[test]
fn axes_and_shapes_of_combinations_are_checked() {
    let text = mistakes_in(include_str!("combining.rs"), wrong_scans);
    says(&text, &["no axis 2 in [M, N]", "axes are 0 to 1", "no axis 3 in [M, N]"]);
    says(&text, &["this reduction leaves no axis of the tile", "use `.sum()`, which gives a `Scalar`"]);
    says(
        &text,
        &["a scan of components of different shapes: [M, N] and [N, M]", "a reduction of components of different shapes: [M, N] and [N]"],
    );
    says(&text, &["`unstack` of [M, N] into 3 tiles", "one coordinate cannot differ from element to element"]);
    assert_eq!(text.matches("error:").count(), 7, "{text}");
}

/// The largest and the smallest element of each row, and where they are; and of all rows.
#[kernel(tile(R = [4], C = [32]), coarsen(CC of C = [1, 2]))]
pub fn extremes(
    x: &Tensor<f32, 2>,
    top: &mut Tensor<f32, 1>,
    top_at: &mut Tensor<i64, 1>,
    low: &mut Tensor<f32, 1>,
    low_at: &mut Tensor<i64, 1>,
) {
    for r in x.axis(0).tiles(R) {
        let mut most = (full([R], f32::NEG_INFINITY), full([R], i64::MAX));
        let mut least = (full([R], f32::INFINITY), full([R], i64::MAX));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            most = most.arg_max(v.arg_max_axis(1, c));
            least = least.arg_min(v.arg_min_axis(1, c));
        }
        top.store(r, most.0);
        top_at.store(r, most.1);
        low.store(r, least.0);
        low_at.store(r, least.1);
    }
}

#[test]
fn extremes_are_found_first() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    // The row is longer than a tile; the rest of it is 1.
    /// Elements that differ from 1, by position; the largest and the smallest one, each with its position.
    type Row = (&'static [(usize, f32)], (f32, i64), (f32, i64));
    let rows: [Row; 7] = [
        (&[], (1.0, 0), (1.0, 0)),
        (&[(3, 2.0), (40, 2.0), (5, -2.0), (41, -2.0)], (2.0, 3), (-2.0, 5)),
        (&[(50, NAN), (7, INF), (8, -INF), (60, NAN)], (NAN, 50), (NAN, 50)),
        (&[(9, NAN), (50, NAN)], (NAN, 9), (NAN, 9)),
        (&[(64, INF), (2, -INF)], (INF, 64), (-INF, 2)),
        (&[(10, -0.0), (11, 0.0)], (1.0, 0), (-0.0, 10)),
        (&[(69, 5.0)], (5.0, 69), (1.0, 0)),
    ];
    let columns = 70;
    let mut x = vec![1.0; rows.len() * columns];
    for (r, (special, ..)) in rows.iter().enumerate() {
        special.iter().for_each(|(c, v)| x[r * columns + c] = *v);
    }
    let n = rows.len();
    let long = || Given::L(vec![-1; n]);
    let given = [Given::F(x, vec![n as i64, columns as i64]), Given::f(vec![9.0; n]), long(), Given::f(vec![9.0; n]), long()];
    let after = kernel(extremes::Kernel::def(), &given);
    let longs = |b: &[u8]| -> Vec<i64> { b.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().expect("eight bytes"))).collect() };
    let same = |a: f32, b: f32| a.is_nan() && b.is_nan() || a == b;
    for (r, (_, top, low)) in rows.iter().enumerate() {
        let got = [(floats(&after[1])[r], longs(&after[2])[r]), (floats(&after[3])[r], longs(&after[4])[r])];
        assert!(same(got[0].0, top.0) && got[0].1 == top.1, "row {r}: the largest is {top:?}, found {:?}", got[0]);
        assert!(same(got[1].0, low.0) && got[1].1 == low.1, "row {r}: the smallest is {low:?}, found {:?}", got[1]);
    }
}

/// Sums that start anew at flags, in all four ways.
#[kernel(tile(T = [128]))]
pub fn segments(x: &Tensor<i32, 1>, flags: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>) {
    for t in x.tiles([T]) {
        let (v, starts) = (x.load(t), flags.load(t) != 0);
        let sums = [along(0), along(0).exclusive(), along(0).reversed(), along(0).exclusive().reversed()]
            .map(|axis| v.scan_segmented(starts, axis, 0, |a, b| a + b));
        y.store((t, ..4), stack(sums));
    }
}

#[test]
fn segments_start_anew() {
    let n = 100;
    let x: Vec<i32> = noise(n).iter().map(|v| (v * 100.0) as i32).collect();
    let flags: Vec<i32> = noise(2 * n)[n..].iter().map(|v| (*v > 0.6) as i32).collect();
    let given = [Given::i(x.clone()), Given::i(flags.clone()), Given::I(vec![-1; 4 * n], vec![n as i64, 4])];
    let after = ints(&kernel(segments::Kernel::def(), &given)[2]);
    for reversed in [false, true] {
        let mut sum = 0;
        for k in 0..n {
            let i = if reversed { n - 1 - k } else { k };
            if flags[i] != 0 {
                sum = 0;
            }
            let at = 4 * i + 2 * reversed as usize;
            assert_eq!(after[at + 1], sum, "exclusive at {i}, reversed: {reversed}");
            sum += x[i];
            assert_eq!(after[at], sum, "inclusive at {i}, reversed: {reversed}");
        }
    }
}

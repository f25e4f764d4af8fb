//! Combinations in the language: what they record, and what their mistakes say.

use super::language::{has, ir, mistakes_in, says};
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

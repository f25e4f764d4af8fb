//! Rows of tiles that blocks walk together, on grids of several axes: every tile is walked once, in the order that the schedule says.

use super::late_sums::written;
use girih::check::{On, Options, check};
use girih::prelude::*;
use girih::subject::Subject;
use girih_core::target::Target;

/// y = 2 x, in tiles of three axes.
#[kernel(
    tile(B = [1, 2], R = [2, 4], C = [8, 32]),
    coarsen(CC of C = [1, 2]),
    vector(V = [1, 2]),
    grid(G = [0, 1]),
    raster(X = [1, 2, 3]),
    order(D = [Rising, Falling])
)]
pub fn over_three_axes(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (b, r, c) in y.tiles([B, R, C]) {
        y.store((b, r, c), x.load((b, r, c)) * 2.0);
    }
}

/// Of every matrix, and of each of its rows: the sum of what stands in it and in the rows above.
#[kernel(
    tile(R = [4, 8], C = [8, 16], K = [4, 8]),
    coarsen(CC of C = [1, 2]),
    vector(V = [1, 2]),
    grid(G = [0, 1]),
    raster(X = [1, 2, 16]),
    order(D = [Falling, Rising])
)]
pub fn sums_from_above(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    x.same_shape(y);
    for (b, r, c) in y.tiles([1, R, C]) {
        let mut acc = zeros::<f32>([R, C]);
        for k in x.axis(1).tiles(K).within(scalar(0)..r.end()) {
            let above = k.coords().expand(0, R) <= r.coords().expand(1, K);
            let rows = x.load((b.number(), k, c)).expand(0, R);
            acc += select(above.expand(2, C), rows, 0.0).sum_axis(1);
        }
        y.store((b.number(), r, c), acc);
    }
}

#[test]
fn columns_lie_along_the_last_axis_or_where_turns_end() {
    let [page, text] = written(&over_three_axes::Kernel::def(), "B=1,R=2,C=32,CC=2,V=2,G=0,X=3,D=Rising");
    assert!(page.contains("raster 3") && !page.contains("raster 3 along"), "{page}");
    assert!(text.contains("// raster order: 3 rows of tiles together, column by column"), "{text}");
    let [page, text] = written(&sums_from_above::Kernel::def(), "R=4,C=8,K=4,CC=1,V=1,G=0,X=16,D=Falling");
    assert!(page.contains("raster 16 along r, from the last on"), "{page}");
    assert!(text.contains("// raster order: 16 rows of tiles together, along r"), "{text}");
    let [_, text] = written(&sums_from_above::Kernel::def(), "R=4,C=8,K=4,CC=1,V=1,G=0,X=1,D=Falling");
    assert!(!text.contains("raster order"), "{text}");
}

#[test]
fn every_tile_of_several_axes_is_walked() {
    let subjects = [over_three_axes::Kernel::def(), sums_from_above::Kernel::def()]
        .map(|def| Subject::of_kernel(&def).unwrap_or_else(|e| panic!("{e}")));
    let options = Options { on: On::Simulator(Target::h200().clone()), schedules: 48, seed: 3 };
    for report in check(&subjects, &options, &()) {
        assert!(report.failures.is_empty() && report.runs > 0, "{report:#?}");
    }
}

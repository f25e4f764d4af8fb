//! Reductions by groups of every size: a few lanes of a warp, one warp, one block, all blocks.
//!
//! The body never says how many threads share a row: tile and coarsening do. What fits a warp needs no shared memory and no barrier.

use girih::prelude::*;

/// The largest element of each row; 4 to 16 lanes share a row, a warp has several.
#[kernel(
    tile(R = [32, 64], C = [16, 32]),
    coarsen(CC of C = [2, 4]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn rows_by_lanes(x: &Tensor<f32, 2>, largest: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = full::<f32>([R, C], f32::NEG_INFINITY);
        for c in x.axis(1).tiles(C) {
            acc = acc.max(x.load((r, c)));
        }
        largest.store(r, acc.max_axis(1));
    }
}

/// The sum of each row; a warp has one row.
#[kernel(
    tile(R = [1, 4, 8], C = [32, 64, 128]),
    coarsen(CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn rows_by_warps(x: &Tensor<f32, 2>, sum: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        sum.store(r, acc.sum_axis(1));
    }
}

/// The length of each row as a vector; a block has one row.
#[kernel(
    tile(R = 1, C = [512, 1024, 2048]),
    coarsen(CC of C = [2, 4, 8]),
    vector(V = [1, 2, 4]),
    cluster(X of C = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn rows_by_blocks(x: &Tensor<f32, 2>, norm: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            acc += v * v;
        }
        norm.store(r, acc.sum_axis(1).sqrt());
    }
}

/// The smallest element of the matrix; all blocks share it.
#[kernel(
    tile(R = [1, 2, 4], C = [256, 512, 1024]),
    coarsen(CC of C = [2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [1, 2]),
    cache(H = [Default, Loads])
)]
pub fn matrix_by_grid(x: &Tensor<f32, 2>, smallest: &mut Tensor<f32, 1>) {
    let mut acc = full::<f32>([R, C], f32::INFINITY);
    for (r, c) in x.tiles([R, C]).strided() {
        acc = acc.min(x.load((r, c)));
    }
    smallest.store_at(0, acc.min_all().min_grid());
}

/// All four.
#[program]
pub fn solve(
    x: &Tensor<f32, 2>,
    largest: &mut Tensor<f32, 1>,
    sum: &mut Tensor<f32, 1>,
    norm: &mut Tensor<f32, 1>,
    smallest: &mut Tensor<f32, 1>,
) {
    rows_by_lanes(x, largest);
    rows_by_warps(x, sum);
    rows_by_blocks(x, norm);
    matrix_by_grid(x, smallest);
}

girih::challenge! {
    Challenge::new(
        "row_reductions",
        solve::Program::def,
        "void solve(const float* x[rows, cols], float* largest[rows], float* sum[rows], float* norm[rows], float* smallest[1], \
         int rows, int cols)",
    )
    .input("x", uniform(-10.0, 10.0))
    .output("largest", |x, r| row(x, r).fold(f64::NEG_INFINITY, f64::max))
    .output("sum", |x, r| row(x, r).sum())
    .output("norm", |x, r| row(x, r).map(|v| v * v).sum::<f64>().sqrt())
    .output("smallest", |x, _| (0..x.len("rows")).flat_map(|r| row(x, r)).fold(f64::INFINITY, f64::min))
    .tolerance(1e-4, 1e-5)
    .rounding(|s| girih::challenge::sum_rounding(s.size("cols"), 10.0 / 3f64.sqrt()))
    .check_at(["rows=1 cols=1", "rows=3 cols=17", "rows=33 cols=31", "rows=65 cols=128", "rows=7 cols=1025"])
    .perf_at("rows=4096, cols=1024")
    .flops(|s| 5.0 * s.size("rows") * s.size("cols"))
}

/// The elements of a row.
fn row(x: &girih::challenge::Case, r: usize) -> impl Iterator<Item = f64> + '_ {
    let cols = x.len("cols");
    (0..cols).map(move |c| x.at("x", r * cols + c))
}

//! The sum of a rectangle of a matrix, ends included. As in `subarray_sum` whole vectors of every row are read, and what lies left and right
//! of the rectangle is left out.

use crate::subarray_sum::around;
use girih::challenge::Sizes;
use girih::prelude::*;

/// total = the sum of x's columns from `start` to before `end`.
#[kernel(
    tile(R = [1, 2, 4, 8, 16], C = [256, 512, 1024, 2048]),
    coarsen(CR of R = [1, 2, 4, 8], CC of C = [1, 4, 8]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn rectangle_sum(x: &Tensor<i32, 2>, total: &mut Tensor<i32, 1>, start: Scalar<i32>, end: Scalar<i32>) {
    let mut acc = zeros::<i32>([R, C]);
    for (r, c) in x.tiles([R, C]).strided() {
        let v = x.load((r, c));
        let at = c.coords().cast::<i32>().expand(0, R);
        acc += if at >= start && at < end { v } else { v.like(0) };
    }
    total.store_at(0, acc.sum().sum_grid());
}

/// What the judge calls.
#[program]
pub fn solve(
    input: &Tensor<i32, 2>,
    output: &mut Tensor<i32, 1>,
    s_row: Scalar<i32>,
    e_row: Scalar<i32>,
    s_col: Scalar<i32>,
    e_col: Scalar<i32>,
) {
    let rows = e_row.cast::<i64>() + 1 - s_row.cast::<i64>();
    let (first, length) = around(s_col, e_col, input.len(1));
    let rectangle = input.slice(0, s_row.cast::<i64>(), rows).slice(1, first, length);
    rectangle_sum(&rectangle, output, s_col - first.cast::<i32>(), e_col + 1 - first.cast::<i32>());
}

/// Elements of the rectangle.
fn elements(s: &Sizes) -> f64 {
    (s.size("E_ROW") - s.size("S_ROW") + 1.0) * (s.size("E_COL") - s.size("S_COL") + 1.0)
}

girih::challenge! {
    Challenge::new(
        "2d_subarray_sum",
        solve::Program::def,
        "void solve(const int* input[N, M], int* output[1], int N, int M, int S_ROW, int E_ROW, int S_COL, int E_COL)",
    )
    .input("input", integers(1, 10))
    .output("output", |x, _| {
        let row = |r: usize| (x.len("S_COL")..x.len("E_COL") + 1).map(|c| x.at("input", r * x.len("M") + c)).sum::<f64>();
        (x.len("S_ROW")..x.len("E_ROW") + 1).map(row).sum()
    })
    .check_at([
        "N=1 M=1 S_ROW=0 E_ROW=0 S_COL=0 E_COL=0",
        "N=3 M=257 S_ROW=1 E_ROW=2 S_COL=255 E_COL=255",
        "N=17 M=64 S_ROW=0 E_ROW=15 S_COL=1 E_COL=63",
        "N=19 M=260 S_ROW=2 E_ROW=18 S_COL=3 E_COL=258",
        "N=5 M=1031 S_ROW=0 E_ROW=4 S_COL=5 E_COL=1029",
    ])
    .perf_at("N=10_000, M=10_000, S_ROW=0, E_ROW=9998, S_COL=1, E_COL=9999")
    .int_ops(elements)
    .bytes(|s| 4.0 * (elements(s) + 1.0))
}

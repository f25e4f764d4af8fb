//! The sum of a box of an array of three axes, ends included. As in `subarray_sum` whole vectors of every row are read, and what lies outside
//! of the box is left out.

use crate::subarray_sum::around;
use girih::challenge::Sizes;
use girih::prelude::*;

/// total = the sum of x from `start` to before `end` along its last axis.
#[kernel(
    tile(R = [1, 2, 4, 8, 16, 32], C = [64, 128, 256, 512]),
    coarsen(CR of R = [1, 2, 4, 8], CC of C = [1, 4, 8]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn box_sum(x: &Tensor<i32, 3>, total: &mut Tensor<i32, 1>, start: Scalar<i32>, end: Scalar<i32>) {
    let mut acc = zeros::<i32>([1.into(), R, C]);
    for (d, r, c) in x.tiles([1.into(), R, C]).strided() {
        let v = x.load((d, r, c));
        let at = c.coords().cast::<i32>().expand(0, R).expand(0, 1);
        acc += if at >= start && at < end { v } else { v.like(0) };
    }
    total.store_at(0, acc.sum().sum_grid());
}

/// What the judge calls.
#[program]
pub fn solve(
    input: &Tensor<i32, 3>,
    output: &mut Tensor<i32, 1>,
    s_dep: Scalar<i32>,
    e_dep: Scalar<i32>,
    s_row: Scalar<i32>,
    e_row: Scalar<i32>,
    s_col: Scalar<i32>,
    e_col: Scalar<i32>,
) {
    let (dep, row) = (s_dep.cast::<i64>(), s_row.cast::<i64>());
    let (first, length) = around(s_col, e_col, input.len(2));
    let planes = input.slice(0, dep, e_dep.cast::<i64>() + 1 - dep);
    let rows = planes.slice(1, row, e_row.cast::<i64>() + 1 - row);
    box_sum(&rows.slice(2, first, length), output, s_col - first.cast::<i32>(), e_col + 1 - first.cast::<i32>());
}

/// Elements of the box.
fn elements(s: &Sizes) -> f64 {
    let span = |axis: &str| s.size(&format!("E_{axis}")) - s.size(&format!("S_{axis}")) + 1.0;
    span("DEP") * span("ROW") * span("COL")
}

girih::challenge! {
    Challenge::new(
        "3d_subarray_sum",
        solve::Program::def,
        "void solve(const int* input[N, M, K], int* output[1], int N, int M, int K, \
         int S_DEP, int E_DEP, int S_ROW, int E_ROW, int S_COL, int E_COL)",
    )
    .input("input", integers(1, 10))
    .output("output", |x, _| {
        let (m, k) = (x.len("M"), x.len("K"));
        let row = |d: usize, r: usize| (x.len("S_COL")..x.len("E_COL") + 1).map(|c| x.at("input", (d * m + r) * k + c)).sum::<f64>();
        let plane = |d: usize| (x.len("S_ROW")..x.len("E_ROW") + 1).map(|r| row(d, r)).sum::<f64>();
        (x.len("S_DEP")..x.len("E_DEP") + 1).map(plane).sum()
    })
    .check_at([
        "N=1 M=1 K=1 S_DEP=0 E_DEP=0 S_ROW=0 E_ROW=0 S_COL=0 E_COL=0",
        "N=3 M=5 K=7 S_DEP=1 E_DEP=1 S_ROW=4 E_ROW=4 S_COL=6 E_COL=6",
        "N=4 M=9 K=64 S_DEP=1 E_DEP=3 S_ROW=0 E_ROW=7 S_COL=1 E_COL=63",
        "N=5 M=33 K=68 S_DEP=0 E_DEP=4 S_ROW=1 E_ROW=32 S_COL=3 E_COL=66",
        "N=2 M=3 K=521 S_DEP=0 E_DEP=1 S_ROW=0 E_ROW=2 S_COL=5 E_COL=519",
    ])
    .perf_at("N=500, M=500, K=500, S_DEP=11, E_DEP=498, S_ROW=0, E_ROW=499, S_COL=1, E_COL=489")
    .int_ops(elements)
    .bytes(|s| 4.0 * (elements(s) + 1.0))
}

//! Matrix transpose: a change of layout.
//!
//! Rows are read as rows and written as rows: in between the tile changes hands through shared memory, swizzled or padded so that no two
//! lanes of a warp meet in a bank. Blocks that walk down the rows (`raster`) write neighbouring pages of the output together.

use girih::prelude::*;

/// y = xᵀ.
#[kernel(
    tile(R = [32, 64, 128], C = [32, 64, 128]),
    coarsen(CR of R = [1, 4, 8, 16], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    raster(X = [1, 1024])
)]
pub fn matrix_transpose(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    matrix_transpose(x, y);
}

girih::challenge! {
    Challenge::new(
        "matrix_transpose",
        solve::Program::def,
        "void solve(const float* input[rows, cols], float* output[cols, rows], int rows, int cols)",
    )
    .input("input", uniform(-10.0, 10.0))
    .output("output", |x, i| {
        let (rows, cols) = (x.len("rows"), x.len("cols"));
        x.at("input", i % rows * cols + i / rows)
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["rows=0 cols=3", "rows=1 cols=1", "rows=1 cols=77", "rows=33 cols=17", "rows=64 cols=64", "rows=67 cols=129"])
    .perf_at("rows=7000, cols=6000")
}

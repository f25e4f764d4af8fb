//! One Jacobi sweep: an inner cell becomes the mean of its four neighbours, the rim stays.
//!
//! Bound by memory: every cell comes from it once, its neighbours' reads find it in the L1 cache. A thread keeps its rows in registers.

use girih::prelude::*;

/// y = x on the rim, the mean of the four neighbours inside.
#[kernel(
    tile(R = [4, 8, 16, 32], C = [64, 128, 256, 512]),
    coarsen(CR of R = [1, 2, 4, 8], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    halo(H = [Direct, Shared]),
    cache(K = [Default, Stores])
)]
pub fn jacobi_stencil_2d(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    x.same_shape(y);
    let (last_row, last_col) = ((x.len(0) - 1).cast::<i32>(), (x.len(1) - 1).cast::<i32>());
    for (r, c) in y.tiles([R, C]) {
        let cell = x.window((r, c), [(1, 1), (1, 1)], Boundary::Zero);
        let mean = 0.25 * (cell.at((-1, 0)) + cell.at((1, 0)) + cell.at((0, -1)) + cell.at((0, 1)));
        let row = r.coords().cast::<i32>().expand(1, C);
        let col = c.coords().cast::<i32>().expand(0, R);
        let inner = row > 0 && row < last_row && col > 0 && col < last_col;
        y.store((r, c), select(inner, mean, cell.at((0, 0))));
    }
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    jacobi_stencil_2d(input, output);
}

girih::challenge! {
    Challenge::new(
        "jacobi_stencil_2d",
        solve::Program::def,
        "void solve(const float* input[rows, cols], float* output[rows, cols], int rows, int cols)",
    )
    .input("input", uniform(-1.0, 1.0))
    .output("output", |x, i| {
        let (rows, cols) = (x.len("rows"), x.len("cols"));
        let (r, c) = (i / cols, i % cols);
        if r == 0 || c == 0 || r + 1 == rows || c + 1 == cols {
            return x.at("input", i);
        }
        0.25 * (x.at("input", i - cols) + x.at("input", i + cols) + x.at("input", i - 1) + x.at("input", i + 1))
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["rows=1 cols=1", "rows=2 cols=5", "rows=3 cols=3", "rows=31 cols=67", "rows=64 cols=256", "rows=33 cols=513"])
    .perf_at("rows=8192, cols=8192")
    .flops(|s| 4.0 * s.size("rows") * s.size("cols"))
}

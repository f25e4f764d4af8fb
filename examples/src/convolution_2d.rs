//! 2D convolution: every output is the sum of up to 31 × 31 neighbouring inputs, each times its tap.
//!
//! Bound by multiply-adds: a thread owns runs of outputs along the rows, reads each row of inputs once per row of taps, in wide accesses,
//! and multiplies all pairs of neighbours and taps in registers.

use girih::prelude::*;

/// Rows of taps for which the inputs of a block lie in shared memory at a time.
const ROWS: i32 = 16;
/// Columns of taps that are written out.
const COLS: i32 = 16;

/// y[i, j] = Σ x[i + m, j + n] · w[m, n], as far as both exist.
#[kernel(
    tile(R = [4, 8, 16, 32], C = [32, 64, 128]),
    coarsen(CR of R = [1, 2, 4], CC of C = [1, 4, 8, 16]),
    vector(V = [1, 4]),
    copy(P = [Registers, Async]),
    stages(S = [1, 2, 3])
)]
pub fn convolution_2d(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let mut acc = zeros([R, C]);
        for (i, j) in w.tiles([ROWS, COLS]) {
            let taps = w.window((i, j), [(0, 0), (0, 0)], Boundary::Zero);
            let near = x.window((r + i.start(), c + j.start()), [(0, ROWS - 1), (0, COLS - 1)], Boundary::Zero);
            let rows = (w.len(0) - i.start()).min(ROWS).cast::<i32>();
            for m in 0..rows {
                for n in 0..COLS {
                    acc += taps.get((m, n)) * near.at((m, n));
                }
            }
        }
        y.store((r, c), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 2>, kernel: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    convolution_2d(input, kernel, output);
}

girih::challenge! {
    Challenge::new(
        "2d_convolution",
        solve::Program::def,
        "void solve(const float* input[input_rows, input_cols], const float* kernel[kernel_rows, kernel_cols], \
         float* output[input_rows - kernel_rows + 1, input_cols - kernel_cols + 1], \
         int input_rows, int input_cols, int kernel_rows, int kernel_cols)",
    )
    .input("input", uniform(-1.0, 1.0))
    .input("kernel", uniform(-1.0, 1.0))
    .output("output", |x, i| {
        let (rows, cols, width) = (x.len("kernel_rows"), x.len("kernel_cols"), x.len("input_cols"));
        let columns = width - cols + 1;
        let tap = |m, n| x.at("input", (i / columns + m) * width + i % columns + n) * x.at("kernel", m * cols + n);
        (0..rows).flat_map(|m| (0..cols).map(move |n| (m, n))).map(|(m, n)| tap(m, n)).sum()
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "input_rows=1 input_cols=1 kernel_rows=1 kernel_cols=1",
        "input_rows=5 input_cols=7 kernel_rows=3 kernel_cols=2",
        "input_rows=33 input_cols=65 kernel_rows=1 kernel_cols=5",
        "input_rows=17 input_cols=31 kernel_rows=17 kernel_cols=31",
        "input_rows=48 input_cols=79 kernel_rows=15 kernel_cols=16",
        "input_rows=24 input_cols=145 kernel_rows=3 kernel_cols=17",
    ])
    .perf_at("input_rows=3072, input_cols=3072, kernel_rows=15, kernel_cols=15")
    .flops(|s| {
        let outputs = (s.size("input_rows") - s.size("kernel_rows") + 1.0) * (s.size("input_cols") - s.size("kernel_cols") + 1.0);
        2.0 * outputs * s.size("kernel_rows") * s.size("kernel_cols")
    })
}

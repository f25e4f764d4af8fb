//! Gaussian blur: a small filter centred on every pixel; pixels outside of the image are 0.

use girih::prelude::*;

/// Rows and columns of taps for which the pixels of a block are at hand at a time.
const SIDE: i32 = 8;

/// y[i, j] = Σ x[i + m - rows / 2, j + n - cols / 2] · w[m, n], with zeros around the image.
#[kernel(
    tile(R = [4, 8, 16, 32], C = [32, 64, 128]),
    coarsen(CR of R = [1, 2, 4], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    halo(H = [Shared, Direct]),
    copy(P = [Registers, Async])
)]
pub fn gaussian_blur(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    x.same_shape(y);
    for (r, c) in y.tiles([R, C]) {
        let mut acc = zeros([R, C]);
        for (i, j) in w.tiles([SIDE, SIDE]) {
            let (down, right) = (i.start() - w.len(0) / 2, j.start() - w.len(1) / 2);
            let taps = w.window((i, j), [(0, 0), (0, 0)], Boundary::Zero);
            let near = x.window((r + down, c + right), [(0, SIDE - 1), (0, SIDE - 1)], Boundary::Zero);
            let rows = (w.len(0) - i.start()).min(SIDE).cast::<i32>();
            for m in 0..rows {
                for n in 0..SIDE {
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
    gaussian_blur(input, kernel, output);
}

girih::challenge! {
    Challenge::new(
        "gaussian_blur",
        solve::Program::def,
        "void solve(const float* input[input_rows, input_cols], const float* kernel[kernel_rows, kernel_cols], \
         float* output[input_rows, input_cols], int input_rows, int input_cols, int kernel_rows, int kernel_cols)",
    )
    .input("input", uniform(0.0, 255.0))
    .input("kernel", uniform(0.0001, 0.02))
    .output("output", |x, at| {
        let (height, width) = (x.len("input_rows"), x.len("input_cols"));
        let (rows, cols) = (x.len("kernel_rows"), x.len("kernel_cols"));
        let mut sum = 0.0;
        for m in 0..rows {
            for n in 0..cols {
                let (i, j) = (at / width + m, at % width + n);
                if (rows / 2..height + rows / 2).contains(&i) && (cols / 2..width + cols / 2).contains(&j) {
                    sum += x.at("kernel", m * cols + n) * x.at("input", (i - rows / 2) * width + j - cols / 2);
                }
            }
        }
        sum
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "input_rows=1 input_cols=1 kernel_rows=3 kernel_cols=3",
        "input_rows=3 input_cols=2 kernel_rows=7 kernel_cols=5",
        "input_rows=17 input_cols=33 kernel_rows=1 kernel_cols=1",
        "input_rows=31 input_cols=67 kernel_rows=7 kernel_cols=7",
        "input_rows=32 input_cols=64 kernel_rows=3 kernel_cols=9",
        "input_rows=5 input_cols=129 kernel_rows=21 kernel_cols=21",
    ])
    .perf_at("input_rows=512, input_cols=512, kernel_rows=7, kernel_cols=7")
    .flops(|s| 2.0 * s.size("input_rows") * s.size("input_cols") * s.size("kernel_rows") * s.size("kernel_cols"))
}

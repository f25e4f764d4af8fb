//! A valid convolution of a volume with a small cube of taps (a cross-correlation, as the judge has it).
//!
//! Cubes of 3³ and 5³ taps have every tap of a plane written out, so that a thread keeps the rows under a plane in registers; any other
//! filter is walked tap after tap.

use girih::prelude::*;

/// The length of a cube of taps.
pub trait Taps {
    /// Taps along each axis.
    const N: usize;
}
/// 3³ taps.
#[derive(Clone, Copy)]
pub struct K3;

/// 5³ taps.
#[derive(Clone, Copy)]
pub struct K5;

impl Taps for K3 {
    const N: usize = 3;
}

impl Taps for K5 {
    const N: usize = 5;
}

/// y = x with a cube of `K::N`³ taps.
#[kernel(
    tile(Z = [4, 2, 8], Y = [16, 4, 8, 32], X = [32, 64, 128]),
    coarsen(CZ of Z = [1, 2, 4], CY of Y = [4, 2], CX of X = [4, 2]),
    vector(V = [4, 1]),
    min_blocks(Q = [2, 1, 3, 4]),
    halo(H = [Shared, Direct]),
    types(K = [K3, K5])
)]
pub fn cube<K: Taps>(x: &Tensor<f32, 3>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    let (k, n) = (K::N as i32, K::N as i64 - 1);
    let w = w.flat();
    for (z, r, c) in y.tiles([Z, Y, X]) {
        let near = x.window((z, r, c), [(0, n), (0, n), (0, n)], Boundary::Valid);
        let mut acc = zeros::<f32>([Z, Y, X]);
        // One plane of the taps a turn: a thread holds the rows under that plane.
        for a in 0..scalar::<i32>(K::N as i32) {
            for b in 0..K::N as i32 {
                for d in 0..K::N as i32 {
                    acc += near.at((a, b, d)) * w.at(a * (k * k) + (b * k + d));
                }
            }
        }
        y.store((z, r, c), acc);
    }
}

/// Any filter, tap after tap.
#[kernel(
    tile(Z = [1, 2], Y = [4, 8], X = [64, 32]),
    coarsen(CZ of Z = [1, 2, 4], CY of Y = [1, 2, 4], CX of X = [1, 2])
)]
pub fn any_filter(x: &Tensor<f32, 3>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    for (z, r, c) in y.tiles([Z, Y, X]) {
        let cz = z.coords().expand(1, Y).expand(2, X);
        let cy = r.coords().expand(0, Z).expand(2, X);
        let cx = c.coords().expand(0, Y).expand(0, Z);
        let mut acc = zeros::<f32>([Z, Y, X]);
        for a in 0..w.len(0) {
            for b in 0..w.len(1) {
                for d in 0..w.len(2) {
                    acc += x.gather((cz + a, cy + b, cx + d)) * w.at((a, b, d));
                }
            }
        }
        y.store((z, r, c), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 3>, kernel: &Tensor<f32, 3>, output: &mut Tensor<f32, 3>) {
    if kernel.len(0) == 5 && kernel.len(1) == 5 && kernel.len(2) == 5 {
        cube::<K5>(input, kernel, output);
    } else if kernel.len(0) == 3 && kernel.len(1) == 3 && kernel.len(2) == 3 {
        cube::<K3>(input, kernel, output);
    } else {
        any_filter(input, kernel, output);
    }
}

girih::challenge! {
    Challenge::new(
        "3d_convolution",
        solve::Program::def,
        "void solve(const float* input[input_depth, input_rows, input_cols], const float* kernel[kernel_depth, kernel_rows, kernel_cols], float* output[input_depth - kernel_depth + 1, input_rows - kernel_rows + 1, input_cols - kernel_cols + 1], int input_depth, int input_rows, int input_cols, int kernel_depth, int kernel_rows, int kernel_cols)",
    )
    .input("input", uniform(-1.0, 1.0))
    .input("kernel", uniform(-1.0, 1.0))
    .output("output", |x, i| {
        let (rows, cols) = (x.len("input_rows"), x.len("input_cols"));
        let (kd, kr, kc) = (x.len("kernel_depth"), x.len("kernel_rows"), x.len("kernel_cols"));
        let (or, oc) = (rows - kr + 1, cols - kc + 1);
        let (z, y, c) = (i / (or * oc), i / oc % or, i % oc);
        let mut sum = 0.0;
        for a in 0..kd {
            for b in 0..kr {
                for d in 0..kc {
                    sum += x.at("input", ((z + a) * rows + y + b) * cols + c + d) * x.at("kernel", (a * kr + b) * kc + d);
                }
            }
        }
        sum
    })
    .tolerance(1e-5, 1e-5)
    .check_at([
        "input_depth=7, input_rows=9, input_cols=35",
        "input_depth=5, input_rows=5, input_cols=5",
        "input_depth=9, input_rows=20, input_cols=68",
        "input_depth=5, input_rows=11, input_cols=33, kernel_depth=3, kernel_rows=3, kernel_cols=3",
        "input_depth=6, input_rows=7, input_cols=70, kernel_depth=1, kernel_rows=4, kernel_cols=7",
        "input_depth=1, input_rows=1, input_cols=1, kernel_depth=1, kernel_rows=1, kernel_cols=1",
    ])
    .perf_at("input_depth=256, input_rows=128, input_cols=128, kernel_depth=5, kernel_rows=5, kernel_cols=5")
    .flops(|s| {
        2.0 * s.size("kernel_depth") * s.size("kernel_rows") * s.size("kernel_cols")
            * (s.size("input_depth") - s.size("kernel_depth") + 1.0)
            * (s.size("input_rows") - s.size("kernel_rows") + 1.0)
            * (s.size("input_cols") - s.size("kernel_cols") + 1.0)
    })
}

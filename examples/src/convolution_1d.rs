//! 1D convolution: every output is the sum of 2047 neighbouring inputs, each times its tap.
//!
//! Bound by multiply-adds, so what counts is that shared memory is read rarely: a thread owns a run of outputs, reads a run of inputs and
//! of taps once, in wide accesses, and multiplies all pairs of them in registers.

use girih::prelude::*;

/// Taps for which the inputs of a block lie in shared memory at a time.
const CHUNK: i32 = 512;
/// Taps that are written out.
const GROUP: i32 = 16;

/// `y[i] = Σ x[i + j] · w[j]`, as far as both exist.
#[kernel(
    tile(T = [512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 4]),
    copy(P = [Registers, Async]),
    stages(S = [1, 2, 3])
)]
pub fn convolution_1d(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut acc = zeros([T]);
        for k in w.tiles([CHUNK]) {
            let taps = w.window(k, [(0, 0)], Boundary::Zero);
            let near = x.window(t + k.start(), [(0, CHUNK - 1)], Boundary::Zero);
            let groups = ((w.len(0) - k.start() + (GROUP - 1)) / GROUP).min(CHUNK / GROUP).cast::<i32>();
            for g in 0..groups {
                for j in 0..GROUP {
                    acc += taps.get(g * GROUP + j) * near.at(g * GROUP + j);
                }
            }
        }
        y.store(t, acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 1>, kernel: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    convolution_1d(input, kernel, output);
}

girih::challenge! {
    Challenge::new(
        "1d_convolution",
        solve::Program::def,
        "void solve(const float* input[input_size], const float* kernel[kernel_size], float* output[input_size - kernel_size + 1], \
         int input_size, int kernel_size)",
    )
    .input("input", uniform(-1.0, 1.0))
    .input("kernel", uniform(-1.0, 1.0))
    .output("output", |x, i| (0..x.len("kernel_size")).map(|j| x.at("input", i + j) * x.at("kernel", j)).sum())
    .tolerance(1e-4, 1e-4)
    .check_at([
        "input_size=1 kernel_size=1",
        "input_size=5 kernel_size=3",
        "input_size=97 kernel_size=97",
        "input_size=1025 kernel_size=2",
        "input_size=2600 kernel_size=513",
        "input_size=4111 kernel_size=16",
    ])
    .perf_at("input_size=1_500_000, kernel_size=2047")
    .flops(|s| 2.0 * (s.size("input_size") - s.size("kernel_size") + 1.0) * s.size("kernel_size"))
}

//! A convolution of a picture with 15 × 15 taps: who reads what how often.

use girih::prelude::*;

/// `y[i, j] = Σ x[i + m, j + n] · w[m, n]`: a thread reads all that it needs from global memory, or the taps, of which all threads want the
/// same, from constant memory.
#[kernel(tile(R = [8, 4, 16], C = [32, 64]), constant(M of w = [Off, On]))]
pub fn direct_2d(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in y.tiles([R, C]) {
        let (i, j) = (r.coords().expand(1, C), c.coords().expand(0, R));
        let mut acc = zeros::<f32>([R, C]);
        for m in 0..w.len(0) {
            for n in 0..w.len(1) {
                acc += x.gather((i + m, j + n)) * w.at((m, n));
            }
        }
        y.store((r, c), acc);
    }
}

/// What the lowest rung runs.
#[program]
pub fn solve(input: &Tensor<f32, 2>, kernel: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    direct_2d(input, kernel, output);
}

girih::ladder! {
    Ladder::new("convolution_2d", "A two-dimensional convolution with 15 x 15 taps", "2d_convolution")
        .rung_of(solve::Program::def, "Inputs and taps from global memory", "R=8,C=32")
        .found("The first cache has 98.4 % of the sectors that are asked for (by ncu); the model lets reads wait for the second one.")
        .rung_of(solve::Program::def, "Taps in constant memory: one word serves a warp, and no sector is loaded for it", "R=8,C=32,M=On")
        .found("On an H200 warps wait for constant memory in 80 % of their time (by ncu, imc_miss): each turn reads one tap, and nothing is multiplied before it is there. Loads of taps from global memory come four at a time and hit the first cache.")
        .rung("A tile of the input with its halo, and taps, in shared memory", "R=8,C=32")
        .rung("Four neighbours a thread: what one read of shared memory brings is used four times", "R=16,C=64,CC=4,V=4")
        .rung("16 neighbours, copied asynchronously", "R=16,C=128,CC=16,V=4,P=Async")
}

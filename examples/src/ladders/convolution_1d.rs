//! A convolution of a long vector with 2047 taps: who reads what how often.

use girih::prelude::*;

/// `y[i] = Σ x[i + j] · w[j]`: a thread reads all that it needs from global memory, or the taps, of which all threads want the same,
/// from constant memory.
#[kernel(tile(T = [256, 128, 512]), constant(M of w = [Off, On]))]
pub fn direct_1d(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut acc = zeros::<f32>([T]);
        for j in 0..w.len(0) {
            acc += x.gather(t.coords() + j) * w.at(j);
        }
        y.store(t, acc);
    }
}

/// What the lowest rung runs.
#[program]
pub fn solve(input: &Tensor<f32, 1>, kernel: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    direct_1d(input, kernel, output);
}

girih::ladder! {
    Ladder::new("convolution_1d", "A one-dimensional convolution with 2047 taps", "1d_convolution")
        .rung_of(solve::Program::def, "Inputs and taps from global memory", "T=256")
        .rung_of(solve::Program::def, "Taps in constant memory: one word serves a warp, and no sector is loaded for it", "T=256,M=On")
        .rung("A slice of the input with its halo, and taps, in shared memory", "T=512,C=1")
        .rung("Four neighbours a thread: what one read of shared memory brings is used four times", "T=2048,C=4")
        .rung("16 neighbours, read and written by four", "T=4096,C=16,V=4")
        .rung("The next taps and their inputs are copied asynchronously while these are multiplied", "T=4096,C=16,V=4,P=Async,S=2")
}

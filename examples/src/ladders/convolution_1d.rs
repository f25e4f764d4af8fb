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

/// Taps for which the inputs of a block lie in shared memory at a time.
const CHUNK: i32 = 512;
/// Taps that are written out.
const GROUP: i32 = 16;

/// A slice of the input lies in shared memory, and taps in constant memory: an instruction multiplies by one without having loaded it.
#[kernel(
    tile(T = [1024, 2048]),
    coarsen(C of T = [8, 4]),
    vector(V = [4]),
    copy(P = [Async, Registers]),
    stages(S = [2, 1]),
    constant(M of w = [On, Off])
)]
pub fn constant_taps_1d(x: &Tensor<f32, 1>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let mut acc = zeros([T]);
        for k in w.tiles([CHUNK]) {
            let near = x.window(t + k.start(), [(0, CHUNK - 1)], Boundary::Zero);
            let first = k.start().cast::<i32>();
            let taps = (w.len(0).cast::<i32>() - first).min(CHUNK);
            for g in 0..taps / GROUP {
                for j in 0..GROUP {
                    acc += near.at(g * GROUP + j) * w.at(first + g * GROUP + j);
                }
            }
            for j in (taps / GROUP * GROUP)..taps {
                acc += near.at(j) * w.at(first + j);
            }
        }
        y.store(t, acc);
    }
}

/// What a middle rung runs.
#[program]
pub fn constant_taps(input: &Tensor<f32, 1>, kernel: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    constant_taps_1d(input, kernel, output);
}

/// What the lowest rung runs.
#[program]
pub fn solve(input: &Tensor<f32, 1>, kernel: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    direct_1d(input, kernel, output);
}

girih::ladder! {
    Ladder::new("convolution_1d", "A one-dimensional convolution with 2047 taps", "1d_convolution")
        .rung_of(solve::Program::def, "Inputs and taps from global memory", "T=256")
        .found("The first cache has 99.7 % of the sectors that are asked for (by ncu); the model lets reads wait for the second one.")
        .rung_of(solve::Program::def, "Taps in constant memory: one word serves a warp, and no sector is loaded for it", "T=256,M=On")
        .found("By ncu both rungs start as many instructions, and warps wait for their turn and for the arithmetic: a tap's load that hits the first cache was hidden before, and one from constant memory, which a multiply-add waits for, spares nothing.")
        .rung("A slice of the input with its halo, and taps, in shared memory", "T=512,C=1")
        .rung("Four neighbours a thread: what one read of shared memory brings is used four times", "T=2048,C=4")
        .rung_of(
            constant_taps::Program::def,
            "Eight neighbours a thread, the slice copied asynchronously, taps in constant memory",
            "T=2048,C=8,V=4,P=Async,S=2,M=On",
        )
        .found("An instruction multiplies by a tap in constant memory and needs no load of it; the model lets each turn wait for its taps.")
        .slower("A turn multiplies by taps that come one by one from constant memory.")
        .rung("16 neighbours, read and written by four", "T=4096,C=16,V=4")
        .rung("The next taps and their inputs are copied asynchronously while these are multiplied", "T=4096,C=16,V=4,P=Async,S=2")
}

//! The sum of all elements: the yardstick of reductions. Every block adds up its share in registers. What the blocks have is added up by the
//! last one of them, so one launch does it, and in the same order every time; or each adds its own to a total, in the order in which they
//! come; or a second launch adds up what the first one has left.

use girih::prelude::*;

/// total = the sum of x.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192, 16384]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8, 0]),
    cache(H = [Default, Loads]),
    finish(F = [LastBlock, Atomics, SecondLaunch])
)]
pub fn reduction(x: &Tensor<f32, 1>, total: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        acc += x.load(t);
    }
    total.store_at(0, acc.sum().sum_grid());
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    reduction(input, output);
}

girih::challenge! {
    Challenge::new("reduction", solve::Program::def, "void solve(const float* input[N], float* output[1], int N)")
        .input("input", uniform(0.0, 1000.0))
        .output("output", |x, _| (0..x.len("N")).map(|i| x.at("input", i)).sum())
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=511", "N=2049", "N=4099", "N=40_003"])
        .perf_at("N=4_194_304")
        .flops(|s| s.size("N"))
}

//! Two vectors, element by element in turn.
//!
//! The output is taken as rows of two, one row for each position: a thread stores the pairs of neighbouring positions as one vector.

use girih::prelude::*;

/// out\[i\] = (a\[i\], b\[i\]).
#[kernel(
    tile(T = [512, 256, 1024, 2048]),
    coarsen(C of T = [2, 1, 4, 8]),
    vector(V = [2, 1, 4]),
    grid(G = [0, 4, 8]),
    cache(H = [Default, Streaming, Stores])
)]
pub fn interleave_pairs(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut out = out.chunked(0, 2);
    for t in a.tiles([T]) {
        out.store((t, ..2), stack([a.load(t), b.load(t)]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    interleave_pairs(a, b, output);
}

girih::challenge! {
    Challenge::new("interleave", solve::Program::def,
        "void solve(const float* A[N], const float* B[N], float* output[2 * N], int N)")
        .input("A", normal(0.0, 1.0))
        .input("B", normal(0.0, 1.0))
        .output("output", |x, i| x.at(if i % 2 == 0 { "A" } else { "B" }, i / 2))
        .check_at(["N=0", "N=1", "N=2", "N=31", "N=257", "N=1024", "N=4099", "N=8192"])
        .perf_at("N=25_000_000")
}

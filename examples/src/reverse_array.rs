//! Reversal in place.
//!
//! The front half and the back half never overlap: `split_at` says so, and each block exchanges a tile of the front with its mirror
//! image. A kernel that stored mirrored tiles of the whole array would overwrite what other blocks have not read yet, and is refused.

use girih::prelude::*;

/// Exchanges the halves of x, mirrored.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn reverse_array(x: &mut Tensor<f32, 1>) {
    let half = x.len(0) / 2;
    let (mut front, rest) = x.split_at(0, half);
    // The middle element of an odd length belongs to neither half.
    let mut back = rest.slice(0, x.len(0) - 2 * half, half).reversed(0);
    for t in front.tiles([T]) {
        let (a, b) = (front.load(t), back.load(t));
        front.store(t, b);
        back.store(t, a);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &mut Tensor<f32, 1>) {
    reverse_array(x);
}

girih::challenge! {
    Challenge::new("reverse_array", solve::Program::def, "void solve(float* input[N], int N)")
        .input("input", uniform(-1000.0, 1000.0))
        .output("input", |x, i| x.at("input", x.len("N") - 1 - i))
        .check_at(["N=0", "N=1", "N=2", "N=63", "N=513", "N=2048", "N=8199"])
        .perf_at("N=25_000_000")
}

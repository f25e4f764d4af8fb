//! RGB to grayscale: three interleaved numbers per pixel become one.
//!
//! A tile is `[P, 3]`: whole pixels. It is loaded as the contiguous run that it is in memory, and `pick` takes its channels apart.

use girih::prelude::*;

/// y = 0.299 red + 0.587 green + 0.114 blue.
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    rows(L = [Direct, Shared]),
    cache(H = [Default, Streaming, Loads, Kept])
)]
pub fn rgb_to_grayscale(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for p in y.tiles([T]) {
        let rgb = x.load((p, ..3));
        let (red, green, blue) = (rgb.pick(1, 0), rgb.pick(1, 1), rgb.pick(1, 2));
        y.store(p, 0.299 * red + 0.587 * green + 0.114 * blue);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    rgb_to_grayscale(x, y);
}

girih::challenge! {
    Challenge::new(
        "rgb_to_grayscale",
        solve::Program::def,
        "void solve(const float* input[height * width, 3], float* output[height * width], int width, int height)",
    )
    .input("input", integers(0, 255))
    .output("output", |x, i| {
        let channel = |k| x.at("input", 3 * i + k);
        0.299 * channel(0) + 0.587 * channel(1) + 0.114 * channel(2)
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["width=0 height=5", "width=1 height=1", "width=7 height=3", "width=16 height=16", "width=61 height=37"])
    .perf_at("width=2048, height=2048")
    .flops(|s| 5.0 * s.size("width") * s.size("height"))
}

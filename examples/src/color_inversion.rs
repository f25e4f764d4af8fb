//! Colour inversion of an RGBA picture, in place.
//!
//! A pixel's four bytes are one 32-bit number: inverting red, green and blue and leaving alpha alone is one exclusive or.

use girih::prelude::*;

/// Inverts the three low bytes of each pixel.
#[kernel(
    tile(T = [256, 512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8]),
    cache(H = [Default, Streaming])
)]
pub fn color_inversion(pixels: &mut Tensor<u32, 1>) {
    for t in pixels.tiles([T]) {
        pixels.store(t, pixels.load(t) ^ 0x00ff_ffff);
    }
}

/// What the judge calls.
#[program]
pub fn solve(image: &mut Tensor<u8, 3>) {
    color_inversion(&mut image.flat().reinterpret::<u32>());
}

girih::challenge! {
    Challenge::new("color_inversion", solve::Program::def, "void solve(unsigned char* image[height, width, 4], int width, int height)")
        .input("image", Distribution::Bits)
        .output("image", |x, i| if i % 4 == 3 { x.at("image", i) } else { 255.0 - x.at("image", i) })
        .check_at(["width=0 height=5", "width=1 height=1", "width=7 height=3", "width=16 height=16", "width=61 height=67"])
        .perf_at("width=4096, height=5120")
        .int_ops(|s| s.size("width") * s.size("height"))
}

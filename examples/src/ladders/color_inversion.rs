//! Colour inversion: from bytes to words to vectors.

use girih::prelude::*;

/// Inverts each byte that is not the fourth of a pixel.
#[kernel(tile(T = [256, 512, 1024]))]
pub fn invert_bytes(bytes: &mut Tensor<u8, 1>) {
    for t in bytes.tiles([T]) {
        let byte = bytes.load(t).cast::<i32>();
        let is_alpha = t.coords() % 4 == 3;
        bytes.store(t, select(is_alpha, byte, 255 - byte).cast::<u8>());
    }
}

/// Inverts three bytes of each pixel.
#[kernel(tile(T = [256, 512]))]
pub fn invert_pixels(pixels: &mut Tensor<u8, 2>) {
    for t in pixels.axis(0).tiles(T) {
        for channel in 0..3 {
            pixels.store((t, channel), (255 - pixels.load((t, channel)).cast::<i32>()).cast::<u8>());
        }
    }
}

/// What the second rung runs.
#[program]
pub fn by_pixels(image: &mut Tensor<u8, 3>) {
    invert_pixels(&mut image.flat().chunked(0, 4));
}

/// Inverts pixels; blocks may stay, with their next tiles on the way to registers while this one is inverted.
#[kernel(
    tile(T = [512, 1024]),
    coarsen(C of T = [4, 8]),
    vector(V = [4, 1]),
    grid(G = [8, 16, 22]),
    stages(S = [1, 2, 3]),
    cache(H = [Default, Streaming, Once])
)]
pub fn inverted_ahead(pixels: &mut Tensor<u32, 1>) {
    for t in pixels.tiles([T]) {
        pixels.store(t, pixels.load(t) ^ 0x00ff_ffff);
    }
}

/// What the topmost rungs run.
#[program]
pub fn ahead(image: &mut Tensor<u8, 3>) {
    inverted_ahead(&mut image.flat().reinterpret::<u32>());
}

/// What the lowest rung runs.
#[program]
pub fn solve(image: &mut Tensor<u8, 3>) {
    invert_bytes(&mut image.flat());
}

girih::ladder! {
    Ladder::new("color_inversion", "Colour inversion", "color_inversion")
        .rung_of(solve::Program::def, "A thread for each byte", "T=256")
        .rung_of(by_pixels::Program::def, "A thread for each pixel, three bytes one by one", "T=256")
        .rung("A pixel is one word: one exclusive or", "T=256")
        .rung("Four pixels a thread, in one access of 16 bytes", "T=1024,C=4,V=4")
        .rung("Half as wide, with more threads for the same bytes", "T=1024,C=4,V=2")
        .rung("Blocks that stay and walk over the picture, a grid's width at a time", "T=1024,C=4,V=4,G=8")
        .slower("A tile is one load and one store: a loop over tiles spares nothing but the start of blocks, and its last round leaves multiprocessors idle.")
        .rung_of(
            ahead::Program::def,
            "The next tile is on its way to registers while this one is inverted, past the L1",
            "T=512,C=4,V=4,G=22,S=2,H=Once",
        )
        .found("What is on its way while blocks compute was on its way before, by other blocks of the multiprocessor: a tile is computed in no time.")
}

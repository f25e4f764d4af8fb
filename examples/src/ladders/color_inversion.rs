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

/// What the lowest rung runs.
#[program]
pub fn solve(image: &mut Tensor<u8, 3>) {
    invert_bytes(&mut image.flat());
}

girih::ladder! {
    Ladder::new("color_inversion", "Colour inversion", "color_inversion")
        .rung_of(solve::Program::def, "A thread for each byte", "T=256")
        .rung("A pixel is one word: one exclusive or", "T=256")
        .rung("Four pixels a thread, in one access of 16 bytes", "T=1024,C=4,V=4")
        .rung("Half as wide, with more threads for the same bytes", "T=1024,C=4,V=2")
        .rung("Blocks that stay and walk over the picture, a grid's width at a time", "T=1024,C=4,V=4,G=8")
        .slower("A tile is one load and one store: a loop over tiles spares nothing but the start of blocks, and its last round leaves multiprocessors idle.")
}

//! A vector reversed in place: who makes the mirror image, and how wide accesses are.

use girih::prelude::*;

/// Exchanges the halves of x, mirrored: tiles of both are brought to shared memory, and taken from there to the other side.
#[kernel(tile(T = [256, 512, 1024]))]
pub fn swap_through_shared(x: &mut Tensor<f32, 1>) {
    let half = x.len(0) / 2;
    let (mut front, rest) = x.split_at(0, half);
    let mut back = rest.slice(0, x.len(0) - 2 * half, half).reversed(0);
    for t in front.tiles([T]) {
        let mut from_front = shared::<f32>([T], 0.0);
        let mut from_back = shared::<f32>([T], 0.0);
        from_front.store(.., front.load(t));
        from_back.store(.., back.load(t));
        front.store(t, from_back.load(..));
        back.store(t, from_front.load(..));
    }
}

/// A rung's program.
#[program]
pub fn solve(input: &mut Tensor<f32, 1>) {
    swap_through_shared(input);
}

girih::ladder! {
    Ladder::new("reverse_array", "A vector reversed in place", "reverse_array")
        .rung("A thread for each pair, swapped from both ends", "T=256")
        .rung_of(solve::Program::def, "Tiles of both ends through shared memory", "T=256")
        .slower("The model sees more instructions and barriers for the same bytes. An H200 is faster here: a block's loads are all under way before its first store.")
        .rung("Four pairs a thread, in accesses of 16 bytes", "T=1024,C=4,V=4")
        .rung("Eight pairs a thread: more bytes on their way", "T=2048,C=8,V=4")
        .found("More bytes on their way than the memory needs, and half as many blocks to deal out evenly.")
}

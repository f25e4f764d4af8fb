//! `girih::algorithms`, beside folds and sorts of the standard library.

mod compacting;
mod counting;
mod large;
mod merging;
mod scanning;
mod schedules;
mod selecting;
mod sorting;
mod steps;

use girih::{Device, Stream};
use girih_core::target::Target;

/// Lengths below, at and above the tiles of sorts.
pub const LENGTHS: [usize; 9] = [0, 1, 2, 31, 4095, 4097, 8192, 8193, 13_001];

/// A stream of the simulator.
pub fn stream() -> Stream {
    Stream::on(&Device::sim(Target::h200()))
}

/// Well-mixed bits of an index.
pub fn mixed(i: usize) -> u64 {
    let h = (i as u64 + 11).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (h >> 17)
}

/// Kinds of vectors: mixed, with many equal elements, all equal, in order, in the opposite order.
pub const KINDS: usize = 5;

/// The bits of the elements of a kind of vector.
pub fn bits(kind: usize, n: usize) -> Vec<u64> {
    let element = |i: usize| match kind {
        0 => mixed(i),
        1 => mixed(i) % 7 * 0x0101_0101_0101,
        2 => 0x4242_4242_4242_4242,
        3 => (i as u64) << 3,
        _ => ((n - i) as u64) << 3,
    };
    (0..n).map(element).collect()
}

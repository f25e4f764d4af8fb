//! `girih::algorithms`, beside folds and sorts of the standard library.

mod compacting;
mod counting;
mod guards;
mod keys;
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
pub const LENGTHS: [usize; 10] = [0, 1, 2, 31, 4095, 4097, 8191, 8192, 8193, 13_001];

/// A stream of the simulator.
pub fn stream() -> Stream {
    Stream::on(&Device::sim(Target::h200()))
}

/// Well-mixed bits of an index.
pub fn mixed(i: usize) -> u64 {
    let h = (i as u64 + 11).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (h >> 17)
}

/// Kinds of vectors: mixed, with many equal elements, all equal, in order, in the opposite order, special.
pub const KINDS: usize = 6;

/// Bits of the least and the largest numbers, of zeros, infinities and NaNs with both signs, and of the smallest floats, of every type.
const SPECIAL: [u64; 24] = [
    0,
    1,
    u64::MAX,
    u64::MAX >> 1,
    1 << 63,
    1 << 31,
    0x7fff_ffff,
    0x8000_0001,
    0xffff_fffe,
    // f32: infinities, quiet NaNs, others.
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0xffc0_0000,
    0x7f80_0001,
    0xff80_0001,
    // f16 and bf16: -0, infinities, NaNs.
    0x8000,
    0x7c00,
    0xfc00,
    0x7e01,
    0xfe01,
    0x7f80,
    0xff80,
    // i8 and u8.
    0x80,
    0x7f,
];

/// The bits of the elements of a kind of vector.
pub fn bits(kind: usize, n: usize) -> Vec<u64> {
    let element = |i: usize| match kind {
        0 => mixed(i),
        1 => mixed(i) % 7 * 0x0101_0101_0101,
        2 => 0x4242_4242_4242_4242,
        3 => (i as u64) << 3,
        4 => ((n - i) as u64) << 3,
        _ => SPECIAL[mixed(i) as usize % SPECIAL.len()],
    };
    (0..n).map(element).collect()
}

//! A pseudo-random order of the numbers below any other.

/// A pseudo-random permutation of `0..n`: a Feistel network over the next power of four, walked until it lands inside.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    /// One of `0..n`, chosen by the seed.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Permutation { n, half: bits.div_ceil(2).max(1), seed }
    }

    /// Where `index`, which is below `n`, goes.
    pub fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.round_trip(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn round_trip(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for round in 0..4u64 {
            (left, right) = (right, left ^ (mix(right ^ self.seed ^ (round << 56)) & mask));
        }
        (left << self.half) | right
    }
}

/// The finaliser of SplitMix64.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

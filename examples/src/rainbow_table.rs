//! Rainbow table: each number is hashed `rounds` times with FNV-1a, byte by byte.
//!
//! The only gallery kernel that computes more than it moves: a chain of dependent multiplications, hidden by working on several
//! elements per thread.

use girih::prelude::*;

/// y = the hash of the hash of .. x, `rounds` times.
#[kernel(
    tile(T = [128, 256, 512, 1024, 2048]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4]),
    grid(G = [0, 8])
)]
pub fn rainbow_table(x: &Tensor<i32, 1>, y: &mut Tensor<u32, 1>, rounds: Scalar<i32>) {
    for t in y.tiles([T]) {
        let mut h = x.load(t).bitcast::<u32>();
        for _ in 0..rounds {
            h = fnv1a(h);
        }
        y.store(t, h);
    }
}

const OFFSET: u32 = 2166136261;
const PRIME: u32 = 16777619;

/// One application of the hash to the four bytes of each element, the lowest first.
fn fnv1a(x: Tile<u32>) -> Tile<u32> {
    let mut h = x.like(OFFSET);
    for byte in 0..4 {
        h = (h ^ ((x >> (8 * byte)) & 0xff)) * PRIME;
    }
    h
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<i32, 1>, y: &mut Tensor<u32, 1>, r: Scalar<i32>) {
    rainbow_table(x, y, r);
}

/// The hash in plain Rust.
fn hash(x: u32) -> u32 {
    x.to_le_bytes().iter().fold(OFFSET, |h, byte| (h ^ *byte as u32).wrapping_mul(PRIME))
}

girih::challenge! {
    Challenge::new("rainbow_table", solve::Program::def, "void solve(const int* input[N], unsigned int* output[N], int N, int R)")
        .input("input", integers(0, i32::MAX as i64))
        .output("output", |x, i| (0..x.len("R")).fold(x.at("input", i) as u32, |h, _| hash(h)) as f64)
        .check_at(["N=0", "N=1 R=0", "N=31 R=1", "N=257 R=3", "N=1024 R=2", "N=4099 R=3"])
        .perf_at("N=5_000_000, R=10")
        .int_ops(|s| 12.0 * s.size("N") * s.size("R"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_values() {
        let rounds = |x, n: u32| (0..n).fold(x, |h, _| super::hash(h));
        assert_eq!([123, 456, 789].map(|x| rounds(x, 2)), [1636807824, 1273011621, 2193987222]);
        assert_eq!(rounds(456, 3), 3327012394);
    }
}

//! Column sums of a matrix over the KoalaBear field, as provers of zero-knowledge proofs need them.
//!
//! The field's prime is p = 2³¹ − 2²⁴ + 1. Elements are kept in Montgomery form (x · 2³² mod p), in which sums are sums: the operator is
//! an addition modulo p. Two phases: every block sums a chunk of rows of some columns, then the chunks' sums are summed.

use girih::prelude::*;

/// The field's prime.
const P: u32 = (1 << 31) - (1 << 24) + 1;

/// An element of the field.
#[derive(Clone, Copy, TileType)]
pub struct KoalaBear {
    /// x · 2³² mod p, below p.
    pub v: u32,
}

const ZERO: KoalaBear = KoalaBear { v: 0 };

impl std::ops::Add for KoalaBearScalar {
    type Output = KoalaBearScalar;
    /// Both are below p, so the sum fits; where it is below p already, taking p off wraps to something larger.
    fn add(self, other: KoalaBearScalar) -> KoalaBearScalar {
        let sum = self.v + other.v;
        KoalaBearScalar { v: sum.min(sum - P) }
    }
}

/// The sums of each chunk of rows.
#[kernel(
    tile(R = 256, C = [8, 16, 32, 64]),
    coarsen(CR of R = [4, 8, 16, 32], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn field_chunk_sums(x: &Tensor<u32, 2>, sums: &mut Tensor<u32, 2>) {
    // Columns that are not there have no sums.
    let mut sums = sums.slice(1, 0, x.len(1));
    for (r, c) in x.tiles([R, C]) {
        let elements = KoalaBearTile { v: x.load((r, c)) };
        let sum = elements.commutative().reduce_axis(0, ZERO, |a, b| a + b);
        sums.scatter((r.number(), c.coords()), sum.v);
    }
}

/// The sums of all chunks.
#[kernel(
    tile(R = [32, 64, 128, 256], C = [4, 8, 16, 32]),
    coarsen(CR of R = [1, 2, 4, 8, 16], CC of C = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    cache(H = [Default, Loads])
)]
pub fn field_column_sums(x: &Tensor<u32, 2>, sums: &mut Tensor<u32, 1>) {
    for c in x.axis(1).tiles(C) {
        let mut acc = ZERO.tile([R, C]);
        for r in x.axis(0).tiles(R) {
            acc += KoalaBearTile { v: x.load((r, c)) };
        }
        sums.store(c, acc.commutative().reduce_axis(0, ZERO, |a, b| a + b).v);
    }
}

/// Sums of the columns of `x`.
#[program]
pub fn solve(x: &Tensor<u32, 2>, sums: &mut Tensor<u32, 1>) {
    let mut chunks = temp([(x.len(0) + 255) / 256, x.len(1)]);
    field_chunk_sums(x, &mut chunks);
    field_column_sums(&chunks, sums);
}

girih::challenge! {
    Challenge::new(
        "koalabear_column_sums",
        solve::Program::def,
        "void solve(const unsigned int* x[rows, cols], unsigned int* sums[cols], int rows, int cols)",
    )
    .input("x", integers(0, P as i64 - 1))
    .output("sums", |x, c| {
        let cols = x.len("cols");
        (0..x.len("rows")).fold(0, |sum, r| (sum + x.at("x", r * cols + c) as u64) % P as u64) as f64
    })
    .check_at(["rows=0 cols=3", "rows=1 cols=1", "rows=255 cols=31", "rows=256 cols=64", "rows=257 cols=65", "rows=1031 cols=7"])
    .perf_at("rows=65_536, cols=256")
    .int_ops(|s| 3.0 * s.size("rows") * s.size("cols"))
}

#[cfg(test)]
mod tests {
    use super::P;

    #[test]
    fn sums_in_montgomery_form_are_montgomery_forms_of_sums() {
        let form = |x: u64| (x << 32) % P as u64;
        let values = [1, 7, P as u64 - 1, 123_456_789, P as u64 - 2];
        let sum = values.iter().map(|v| form(*v)).fold(0, |a, b| (a + b) % P as u64);
        assert_eq!(sum, form(values.iter().sum::<u64>() % P as u64));
    }
}

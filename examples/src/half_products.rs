//! Products of f32 matrices whose operands need no more than the 11 bits of tf32, by matrix units of 16 bits: f16 has as many, at twice the rate,
//! but ends at 2⁻²⁴ and at 65504.
//!
//! Rows of the left operand are multiplied by powers of two, so that the largest of their elements lies between 2¹⁴ and 2¹⁵ (`split_planes`).
//! The right operand is rounded as it is, in one pass: a tile of it tells whether numbers below 2⁻¹⁴, which keep fewer bits, are few in each
//! column, and whether all are finite in f16. What a flawed row or column is multiplied with is computed once more, by multiply-adds of f32.

use super::split_planes::{FLAWED, SHARE, scale_back, scaled_back, scales, weight};
use girih::prelude::*;

/// The largest number of f16.
const LARGEST: f32 = 65504.0;
/// Below this, f16 has less than 11 bits.
const NORMAL: f32 = 1.0 / 16384.0;

/// Rounds rows, multiplied by powers of two, to f16. `back` has the inverses of those, or 0 for flawed rows.
#[kernel(
    tile(R = [1, 2, 4, 8], C = [1024, 256, 512, 2048, 4096, 8192, 16384, 128]),
    coarsen(CC of C = [8, 4, 16, 32]),
    vector(V = [4, 1])
)]
pub fn halve_rows(x: &Tensor<f32, 2>, half: &mut Tensor<f16, 2>, back: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut largest = zeros::<u32>([R, C]);
        for c in x.axis(1).tiles(C) {
            largest = largest.max(x.load((r, c)).abs().bitcast::<u32>());
        }
        let largest = largest.max_axis(1);
        let (up, down) = scales(largest);
        let mut balance = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let scaled = x.load((r, c)) * up.expand(1, C);
            half.store((r, c), scaled.cast());
            balance += weight(scaled);
        }
        back.store(r, scale_back(largest, down, balance.sum_axis(1)));
    }
}

/// Rounds a matrix to f16, and marks columns that lose too much by it.
#[kernel(
    tile(R = [64, 32, 128], C = [128, 64, 256, 512]),
    coarsen(RR of R = [16, 8, 32, 4], CC of C = [4, 8, 2]),
    vector(V = [4, 1])
)]
pub fn halve_columns(x: &Tensor<f32, 2>, half: &mut Tensor<f16, 2>, flawed: &mut Tensor<u32, 1>) {
    for (r, c) in x.tiles([R, C]) {
        let v = x.load((r, c));
        half.store((r, c), v.cast());
        let too_many = loss(v).sum_axis(0) > 0.0;
        if too_many.any() {
            flawed.atomic_max(c.coords(), too_many.cast::<u32>());
        }
    }
}

/// What a number counts in the balance of its column: several that have all their bits make up for one that has not, none for one that is not there.
#[device]
fn loss(v: Tile<f32>) -> Tile<f32> {
    let some = select(v.abs() < NORMAL, v.like(SHARE), v.like(-1.0));
    let fits = v.abs() <= LARGEST;
    select(fits, select(v == 0.0, v.like(0.0), some), v.like(1e9))
}

/// What the products of a column are multiplied by.
#[device]
fn unless_flawed(flawed: Tile<u32>) -> Tile<f32> {
    select(flawed == 0, 1.0, FLAWED)
}

/// c = a · b in f16, with sums of f32.
#[kernel(
    tile(BM = [128, 64], BN = [128, 64, 256], BK = [64, 32, 128]),
    coarsen(TM of BM = [8, 4], TN of BN = [8, 4]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1, 16])
)]
pub fn multiply_halves(
    left: &Tensor<f16, 2>,
    right: &Tensor<f16, 2>,
    rows: &Tensor<f32, 1>,
    columns: &Tensor<u32, 1>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    c: &mut Tensor<f32, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in left.axis(1).tiles(BK) {
            acc = dot(left.load((m, k)), right.load((k, n)), acc);
        }
        let back = [rows.load(m).expand(1, BN), unless_flawed(columns.load(n)).expand(0, BM)];
        let result = scaled_back(acc, back, a.len(1), |k| a.load((m, k)).expand(1, BN), |k| b.load((k, n)).expand(0, BM));
        c.store((m, n), result);
    }
}

/// hidden = silu(x · gate) · (x · up) in f16, with sums of f32.
#[kernel(
    tile(BM = [128, 64], BN = [128, 64], BK = [64, 32]),
    coarsen(TM of BM = [8, 4], TN of BN = [8, 4]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1, 16])
)]
pub fn gated_halves(
    left: &Tensor<f16, 2>,
    rows: &Tensor<f32, 1>,
    gates: &Tensor<f16, 2>,
    ups: &Tensor<f16, 2>,
    hidden: &mut Tensor<f32, 2>,
) {
    for (m, n) in hidden.tiles([BM, BN]) {
        let mut g = zeros::<f32>([BM, BN]);
        let mut u = zeros::<f32>([BM, BN]);
        for k in left.axis(1).tiles(BK) {
            let left = left.load((m, k));
            g = dot(left, gates.load((k, n)), g);
            u = dot(left, ups.load((k, n)), u);
        }
        let back = rows.load(m).expand(1, BN);
        let g = g * back;
        hidden.store((m, n), g * g.sigmoid() * (u * back));
    }
}

/// Computes once more, by multiply-adds, the tiles of hidden with flawed rows or columns: a launch of its own, for `gated_halves` has no registers
/// left for it.
#[kernel(tile(BM = [64, 32], BN = [64, 128, 32]), coarsen(TM of BM = [8, 4, 1], TN of BN = [4, 8, 1]), vector(V = [4, 1]))]
pub fn mended_gates(
    rows: &Tensor<f32, 1>,
    of_gates: &Tensor<u32, 1>,
    of_ups: &Tensor<u32, 1>,
    x: &Tensor<f32, 2>,
    gate: &Tensor<f32, 2>,
    up: &Tensor<f32, 2>,
    hidden: &mut Tensor<f32, 2>,
) {
    for (m, n) in hidden.tiles([BM, BN]) {
        let flawed = (rows.load(m) == FLAWED).any() || (of_gates.load(n) != 0 || of_ups.load(n) != 0).any();
        if flawed {
            let mut g = zeros::<f32>([BM, BN]);
            let mut u = zeros::<f32>([BM, BN]);
            for k in 0..x.len(1).min(gate.len(0)).min(up.len(0)) {
                let left = x.load((m, k)).expand(1, BN);
                g = left.fma(gate.load((k, n)).expand(0, BM), g);
                u = left.fma(up.load((k, n)).expand(0, BM), u);
            }
            hidden.store((m, n), g * g.sigmoid() * u);
        }
    }
}

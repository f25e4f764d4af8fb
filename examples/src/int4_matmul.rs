//! Weights of 4 bits with a scale for each group of them. Few rows of x: what counts is to read the weights in 4 bits, and they are unpacked
//! and scaled on their way to the matrix unit. Many rows: every weight is used often, so they are unpacked once, to memory that the caches
//! hold, and multiplied by a kernel whose copies run ahead.

use super::lower_precision_gemm::{F16F16, NT, lower_precision_gemm};
use girih::prelude::*;

/// Rows of x up to which its product is a matter of reading the weights.
const FEW: i64 = 64;

/// y = x · wᵀ. A byte of `packed` holds an even weight above and an odd one below, so the sum goes over both halves of pairs.
#[kernel(
    tile(BM = [128, 32, 64], BN = [128, 32, 64], BK = [32, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [8, 4]),
    raster(X = [8, 1]),
    min_blocks(Q = [1, 2])
)]
pub fn int4_product(x: &Tensor<f16, 2>, packed: &Tensor<u8, 2>, scales: &Tensor<f16, 2>, y: &mut Tensor<f16, 2>, group: Scalar<i32>) {
    let pairs = x.chunked(1, 2);
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in packed.axis(1).tiles(BK) {
            let both = pairs.load((m, k, ..2));
            let bytes = packed.load((n, k)).cast::<i32>();
            let (row, at) = (n.coords().cast::<i32>().expand(1, BK), (k.coords().cast::<i32>() * 2 / group).expand(0, BN));
            let scale = scales.gather((row, at)).cast::<f32>();
            let weight = |nibble: Tile<i32>| ((nibble - 8).cast::<f32>() * scale).cast::<f16>().t();
            acc = dot(both.pick(2, 0), weight(bytes >> 4), acc);
            acc = dot(both.pick(2, 1), weight(bytes & 15), acc);
        }
        y.store((m, n), acc.cast());
    }
}

/// w = the weights in 16 bits.
#[kernel(tile(R = [1, 4, 8], C = [256, 512, 128]), coarsen(CC of C = [8, 4, 16, 1]), vector(V = [8, 4, 1]))]
pub fn int4_unpacked(packed: &Tensor<u8, 2>, scales: &Tensor<f16, 2>, w: &mut Tensor<f16, 2>, group: Scalar<i32>) {
    let mut pairs = w.chunked(1, 2);
    for (n, k) in packed.tiles([R, C]) {
        let bytes = packed.load((n, k)).cast::<i32>();
        let (row, at) = (n.coords().cast::<i32>().expand(1, C), (k.coords().cast::<i32>() * 2 / group).expand(0, R));
        let scale = scales.gather((row, at)).cast::<f32>();
        let weight = |nibble: Tile<i32>| ((nibble - 8).cast::<f32>() * scale).cast::<f16>();
        pairs.store((n, k, ..2), stack([weight(bytes >> 4), weight(bytes & 15)]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f16, 2>, packed: &Tensor<u8, 2>, scales: &Tensor<f16, 2>, y: &mut Tensor<f16, 2>, group_size: Scalar<i32>) {
    if x.len(0) <= FEW {
        int4_product(x, packed, scales, y, group_size);
    } else {
        let mut w = temp([packed.len(0), packed.len(1) * 2]);
        int4_unpacked(packed, scales, &mut w, group_size);
        lower_precision_gemm::<F16F16, NT>(x, &w, y);
    }
}

girih::challenge! {
    Challenge::new(
        "int4_matmul",
        solve::Program::def,
        "void solve(const __half* x[M, K], const uint8_t* w_q[N, K / 2], const __half* scales[N, K / group_size], __half* y[M, N], int M, int N, int K, int group_size)",
    )
    .input("x", Distribution::Normal(0.0, 1.0))
    .input("w_q", Distribution::Bits)
    .input("scales", uniform(0.01, 0.11))
    .output("y", |c, i| {
        let (inner, cols, group) = (c.len("K"), c.len("N"), c.scalar("group_size") as usize);
        let (m, n) = (i / cols, i % cols);
        let weight = |k: usize| {
            let byte = c.at("w_q", n * (inner / 2) + k / 2) as i64;
            let nibble = if k.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
            (nibble - 8) as f64 * c.at("scales", n * (inner / group) + k / group)
        };
        (0..inner).map(|k| c.at("x", m * inner + k) * weight(k)).sum()
    })
    .tolerance(1e-2, 1e-2)
    // A weight is rounded to f16 once.
    .rounding(|s| 8.0 * 0.11 * 2f64.powi(-11) * 5.0 * s.size("K").sqrt())
    .check_at([
        "M=0 N=3 K=4 group_size=4",
        "M=1 N=1 K=2 group_size=2",
        "M=17 N=33 K=60 group_size=20",
        "M=64 N=32 K=64 group_size=32",
        "M=33 N=65 K=34 group_size=2",
        "M=65 N=33 K=60 group_size=20",
        "M=128 N=64 K=64 group_size=32",
    ])
    .perf_at("M=4096, N=4096, K=4096, group_size=128")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

//! Matrix multiplication of 8-bit floats, added up in f32: c = a · bᵀ, both operands along the axis of the sum, times scales that bring the
//! numbers back to their size. One scale for a matrix, one for each of its rows, or one for each 128 elements of a row.
//!
//! Tensor cores keep about 14 bits of such sums (`girih_core::fragments::Atom::error_bound`). Where every 128 positions have scales of their own,
//! their products are added up apart, and by an ordinary addition to the sum: it is the more exact one, too. The first unit is that of warp groups:
//! for `mma.sync` on 8-bit floats an H200 converts them to f16.

use girih::challenge::{Sizes, float8_rounding};
use girih::prelude::*;

/// c = scale_a · scale_b · a · bᵀ.
#[kernel(
    types(A = [f8e4m3, f8e5m2], C = [bf16, f16]),
    tile(BM = [128, 64, 32], BN = [128, 256, 64, 32], BK = [64, 128, 32]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [16, 8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    split(Z = [1, 2, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn float8_product<A: Factor<f8e4m3>, C: Float>(
    a: &Tensor<A, 2>,
    b: &Tensor<f8e4m3, 2>,
    scale_a: Scalar<f32>,
    scale_b: Scalar<f32>,
    c: &mut Tensor<C, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = mixed_dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), (acc * (scale_a * scale_b)).cast());
    }
}

/// c = a · bᵀ, rows of a and of b (columns of c) times their scales.
#[kernel(
    tile(BM = [128, 64, 32], BN = [128, 256, 64, 32], BK = [64, 128, 32]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [16, 8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    min_blocks(Q = [2, 1])
)]
pub fn float8_product_of_rows(
    a: &Tensor<f8e4m3, 2>,
    b: &Tensor<f8e4m3, 2>,
    scales_a: &Tensor<f32, 1>,
    scales_b: &Tensor<f32, 1>,
    c: &mut Tensor<bf16, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        let scaled = acc * scales_a.load(m).expand(1, BN) * scales_b.load(n).expand(0, BM);
        c.store((m, n), scaled.cast());
    }
}

/// c = a · bᵀ, each 128 elements of a row of a and of b times their scale. Scales lie position by position: those of all rows, then the next.
#[kernel(
    tile(BM = [128, 64, 32], BN = [64, 128, 32], BK = 128),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [16, 8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4]),
    stages(S = [2, 3, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    min_blocks(Q = [2, 1])
)]
pub fn float8_product_of_blocks(
    a: &Tensor<f8e4m3, 2>,
    b: &Tensor<f8e4m3, 2>,
    scales_a: &Tensor<f32, 2>,
    scales_b: &Tensor<f32, 2>,
    c: &mut Tensor<bf16, 2>,
) {
    require(scales_a.len(0) * 128 >= a.len(1) && scales_b.len(0) * 128 >= a.len(1));
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            let part = dot(a.load((m, k)), b.load((n, k)).t(), zeros::<f32>([BM, BN]));
            let (of_a, of_b) = (scales_a.load((k.number(), m)), scales_b.load((k.number(), n)));
            acc += part * of_a.expand(1, BN) * of_b.expand(0, BM);
        }
        c.store((m, n), acc.cast());
    }
}

/// One element of a · bᵀ, whose terms have scales.
macro_rules! element {
    ($x:ident, $i:ident, |$row:ident, $col:ident, $l:ident| $scale:expr) => {{
        let (n, k) = ($x.len("N"), $x.len("K"));
        let ($row, $col) = ($i / n, $i % n);
        (0..k).map(|$l| $x.at("A", $row * k + $l) * $x.at("B", $col * k + $l) * $scale).sum::<f64>()
    }};
}

/// Half a unit in the last place of bf16 and f16, in parts of the number.
const BRAIN: f64 = 1.0 / 256.0;
const HALF: f64 = 1.0 / 2048.0;

/// What elements of a result may be off by at a size, for operands between -1 and 1, times their scales.
fn rounding(s: &Sizes, scale: f64) -> f64 {
    float8_rounding(s.size("K"), 1.0) * scale
}

/// Challenges with one scale for each matrix: their names, the formats of A, the C types of A and of the result, how the result is rounded.
macro_rules! whole {
    ($($name:ident: $a:ty, $c:ty, $of_a:literal, $of_c:literal, $relative:expr;)*) => { $(
        #[doc = concat!("c = scale_a · scale_b · a · bᵀ, of ", $of_a, " into ", $of_c, ".")]
        pub mod $name {
            use super::*;

            /// What a caller calls.
            #[program]
            pub fn solve(
                a: &Tensor<$a, 2>,
                b: &Tensor<f8e4m3, 2>,
                c: &mut Tensor<$c, 2>,
                scale_a: Scalar<f32>,
                scale_b: Scalar<f32>,
            ) {
                float8_product::<$a, $c>(a, b, scale_a, scale_b, c);
            }

            girih::challenge! {
                Challenge::new(
                    stringify!($name),
                    solve::Program::def,
                    concat!(
                        "void solve(const ", $of_a, "* A[M, K], const __nv_fp8_e4m3* B[N, K], ", $of_c,
                        "* C[M, N], int M, int N, int K, float scale_A, float scale_B)"
                    ),
                )
                .input("A", uniform(-1.0, 1.0))
                .input("B", uniform(-1.0, 1.0))
                .output("C", |x, i| element!(x, i, |row, col, l| x.scalar("scale_A") * x.scalar("scale_B")))
                .tolerance(0.0, $relative)
                .rounding(|s| rounding(s, s.size("scale_A") * s.size("scale_B")))
                .check_at([
                    "M=2 N=5 K=0 scale_A=1 scale_B=1",
                    "M=17 N=33 K=35 scale_A=0.5 scale_B=0.25",
                    "M=130 N=64 K=64 scale_A=2 scale_B=0.125",
                ])
                .perf_at("M=4096, N=4096, K=4096, scale_A=0.5, scale_B=0.25")
                .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
            }
        }
    )* };
}

whole! {
    gemm_f8e4m3_nt: f8e4m3, bf16, "__nv_fp8_e4m3", "__nv_bfloat16", BRAIN;
    gemm_f8e4m3_f16_nt: f8e4m3, f16, "__nv_fp8_e4m3", "half", HALF;
    gemm_f8e5m2_nt: f8e5m2, bf16, "__nv_fp8_e5m2", "__nv_bfloat16", BRAIN;
}

/// c = a · bᵀ with a scale for each row of both.
pub mod gemm_f8e4m3_rows_nt {
    use super::*;

    /// What a caller calls.
    #[program]
    pub fn solve(
        a: &Tensor<f8e4m3, 2>,
        b: &Tensor<f8e4m3, 2>,
        scales_a: &Tensor<f32, 1>,
        scales_b: &Tensor<f32, 1>,
        c: &mut Tensor<bf16, 2>,
    ) {
        float8_product_of_rows(a, b, scales_a, scales_b, c);
    }

    girih::challenge! {
        Challenge::new(
            "gemm_f8e4m3_rows_nt",
            solve::Program::def,
            "void solve(const __nv_fp8_e4m3* A[M, K], const __nv_fp8_e4m3* B[N, K], const float* scales_A[M], const float* scales_B[N], __nv_bfloat16* C[M, N], int M, int N, int K)",
        )
        .input("A", uniform(-1.0, 1.0))
        .input("B", uniform(-1.0, 1.0))
        .input("scales_A", uniform(0.5, 2.0))
        .input("scales_B", uniform(0.5, 2.0))
        .output("C", |x, i| element!(x, i, |row, col, l| x.at("scales_A", row) * x.at("scales_B", col)))
        .tolerance(0.0, BRAIN)
        .rounding(|s| rounding(s, 4.0))
        .check_at(["M=2 N=5 K=0", "M=17 N=33 K=35", "M=130 N=64 K=64"])
        .perf_at("M=4096, N=4096, K=4096")
        .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
    }
}

/// c = a · bᵀ with a scale for each 128 elements of a row of both.
pub mod gemm_f8e4m3_blocks_nt {
    use super::*;

    /// What a caller calls.
    #[program]
    pub fn solve(
        a: &Tensor<f8e4m3, 2>,
        b: &Tensor<f8e4m3, 2>,
        scales_a: &Tensor<f32, 2>,
        scales_b: &Tensor<f32, 2>,
        c: &mut Tensor<bf16, 2>,
    ) {
        float8_product_of_blocks(a, b, scales_a, scales_b, c);
    }

    girih::challenge! {
        Challenge::new(
            "gemm_f8e4m3_blocks_nt",
            solve::Program::def,
            "void solve(const __nv_fp8_e4m3* A[M, K], const __nv_fp8_e4m3* B[N, K], const float* scales_A[(K + 127) / 128, M], const float* scales_B[(K + 127) / 128, N], __nv_bfloat16* C[M, N], int M, int N, int K)",
        )
        .input("A", uniform(-1.0, 1.0))
        .input("B", uniform(-1.0, 1.0))
        .input("scales_A", uniform(0.5, 2.0))
        .input("scales_B", uniform(0.5, 2.0))
        .output("C", |x, i| {
            let (m, n) = (x.len("M"), x.len("N"));
            element!(x, i, |row, col, l| x.at("scales_A", l / 128 * m + row) * x.at("scales_B", l / 128 * n + col))
        })
        .tolerance(0.0, BRAIN)
        .rounding(|s| rounding(s, 4.0))
        .check_at(["M=2 N=5 K=0", "M=17 N=33 K=135", "M=130 N=64 K=256"])
        .perf_at("M=4096, N=4096, K=4096")
        .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
    }
}

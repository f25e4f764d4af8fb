//! Quantised matrix multiplication: exact in integers, then scaled and rounded to 8 bits.

use super::turned_rows::turned;
use girih::prelude::*;

/// What becomes of a sum: scaled from left to right in f32, rounded to the nearest even, moved and kept within 8 bits.
#[device]
fn requantised(acc: Tile<i32>, scales: [Scalar<f32>; 3], zero: Scalar<i32>) -> Tile<i8> {
    let v = acc.cast::<f32>() * scales[0] * scales[1] / scales[2];
    // Beyond 2³⁰ every zero point leaves it outside of 8 bits.
    let r = v.round().max(-1_073_741_824.0).min(1_073_741_824.0).cast::<i32>() + zero;
    r.max(-128).min(127).cast::<i8>()
}

/// c = requantised(a · b), for zero points of 0 and the transpose of b.
#[kernel(
    tile(BM = [128, 32, 64], BN = [128, 256, 32, 64], BK = [64, 128, 32]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [16, 4, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    split(Z = [1, 2, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn int8_product(
    a: &Tensor<i8, 2>,
    bt: &Tensor<i8, 2>,
    scale_a: Scalar<f32>,
    scale_b: Scalar<f32>,
    scale_c: Scalar<f32>,
    zero_c: Scalar<i32>,
    c: &mut Tensor<i8, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), bt.load((n, k)).t(), acc);
        }
        c.store((m, n), requantised(acc, [scale_a, scale_b, scale_c], zero_c));
    }
}

/// The sums of the rows of x.
#[kernel(tile(R = [8, 4, 1, 32], C = [256, 512]), coarsen(CC of C = [16, 8, 4, 1]), vector(V = [16, 4, 1]))]
pub fn int8_row_sums(x: &Tensor<i8, 2>, sums: &mut Tensor<i32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<i32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c)).cast();
        }
        sums.store(r, acc.sum_axis(1));
    }
}

/// The same with zero points. Σ (a − p)(b − q) = Σ ab − q Σ a − p Σ b + K p q, which holds in 32 bits that wrap, too.
#[kernel(
    tile(BM = [128, 32, 64], BN = [128, 256, 32, 64], BK = [64, 128, 32]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [16, 4, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    min_blocks(Q = [2, 1])
)]
pub fn int8_product_with_zeros(
    a: &Tensor<i8, 2>,
    bt: &Tensor<i8, 2>,
    rows: &Tensor<i32, 1>,
    columns: &Tensor<i32, 1>,
    scale_a: Scalar<f32>,
    scale_b: Scalar<f32>,
    scale_c: Scalar<f32>,
    zero_a: Scalar<i32>,
    zero_b: Scalar<i32>,
    zero_c: Scalar<i32>,
    c: &mut Tensor<i8, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), bt.load((n, k)).t(), acc);
        }
        let row = zero_a * zero_b * a.len(1).cast::<i32>() - rows.load(m) * zero_b;
        let column = columns.load(n) * zero_a;
        let acc = acc + row.expand(1, BN) - column.expand(0, BM);
        c.store((m, n), requantised(acc, [scale_a, scale_b, scale_c], zero_c));
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    a: &Tensor<i8, 2>,
    b: &Tensor<i8, 2>,
    c: &mut Tensor<i8, 2>,
    scale_a: Scalar<f32>,
    scale_b: Scalar<f32>,
    scale_c: Scalar<f32>,
    zero_a: Scalar<i32>,
    zero_b: Scalar<i32>,
    zero_c: Scalar<i32>,
) {
    let mut bt = temp([b.len(1), b.len(0)]);
    turned::<i8>(b, &mut bt);
    if zero_a == 0 && zero_b == 0 {
        int8_product(a, &bt, scale_a, scale_b, scale_c, zero_c, c);
    } else {
        let mut rows = temp([a.len(0)]);
        let mut columns = temp([b.len(1)]);
        int8_row_sums(a, &mut rows);
        int8_row_sums(&bt, &mut columns);
        int8_product_with_zeros(a, &bt, &rows, &columns, scale_a, scale_b, scale_c, zero_a, zero_b, zero_c, c);
    }
}

girih::challenge! {
    Challenge::new(
        "int8_quantized_matmul",
        solve::Program::def,
        "void solve(const int8_t* A[M, K], const int8_t* B[K, N], int8_t* C[M, N], int M, int N, int K, float scale_A, float scale_B, float scale_C, int zero_point_A, int zero_point_B, int zero_point_C)",
    )
    .input("A", Distribution::Bits)
    .input("B", Distribution::Bits)
    .output("C", |x, i| {
        let (inner, cols) = (x.len("K"), x.len("N"));
        let (za, zb) = (x.scalar("zero_point_A"), x.scalar("zero_point_B"));
        let term = |l: usize| (x.at("A", i / cols * inner + l) - za) * (x.at("B", l * cols + i % cols) - zb);
        let acc: f64 = (0..inner).map(term).sum();
        let scale = |name: &str| x.scalar(name) as f32;
        let v = acc as f32 * scale("scale_A") * scale("scale_B") / scale("scale_C");
        (f64::from(v.round_ties_even()) + x.scalar("zero_point_C")).clamp(-128.0, 127.0)
    })
    .check_at([
        "M=0 N=3 K=2 scale_A=0.1 scale_B=0.1 scale_C=0.01 zero_point_A=0 zero_point_B=0 zero_point_C=0",
        "M=2 N=3 K=0 scale_A=0.1 scale_B=0.1 scale_C=0.01 zero_point_A=0 zero_point_B=0 zero_point_C=7",
        "M=1 N=1 K=1 scale_A=0.5 scale_B=0.25 scale_C=8 zero_point_A=3 zero_point_B=-4 zero_point_C=1",
        "M=17 N=33 K=65 scale_A=0.1 scale_B=0.05 scale_C=4 zero_point_A=0 zero_point_B=0 zero_point_C=-3",
        "M=64 N=32 K=64 scale_A=0.1 scale_B=0.1 scale_C=20 zero_point_A=0 zero_point_B=0 zero_point_C=0",
        "M=33 N=67 K=31 scale_A=0.1 scale_B=0.1 scale_C=9 zero_point_A=-5 zero_point_B=11 zero_point_C=2",
    ])
    .perf_at("M=8192, N=4096, K=2048, scale_A=0.1, scale_B=0.1, scale_C=0.01, zero_point_A=0, zero_point_B=0, zero_point_C=0")
    .int_ops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

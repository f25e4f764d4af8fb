//! A batch of matrix multiplications of 16-bit floats, added up in f32.

use girih::prelude::*;

/// `c[i] = a[i] · b[i]`.
#[kernel(
    tile(B = 1, BM = [128, 32, 64, 256], BN = [128, 32, 64, 256], BK = [32, 64, 16]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 4, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    split(Z = [1, 2, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn fp16_batched_matmul(a: &Tensor<f16, 3>, b: &Tensor<f16, 3>, c: &mut Tensor<f16, 3>) {
    let (a, b) = (a.slice(0, 0, c.len(0)), b.slice(0, 0, c.len(0)));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), acc);
        }
        c.store((i.number(), m, n), acc.cast());
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f16, 3>, b: &Tensor<f16, 3>, c: &mut Tensor<f16, 3>) {
    fp16_batched_matmul(a, b, c);
}

girih::challenge! {
    Challenge::new(
        "fp16_batched_matmul",
        solve::Program::def,
        "void solve(const half* A[BATCH, M, K], const half* B[BATCH, K, N], half* C[BATCH, M, N], int BATCH, int M, int N, int K)",
    )
    .input("A", uniform(-5.0, 5.0))
    .input("B", uniform(-5.0, 5.0))
    .output("C", |x, i| {
        let (rows, inner, cols) = (x.len("M"), x.len("K"), x.len("N"));
        let (matrix, row, col) = (i / (rows * cols), i / cols % rows, i % cols);
        (0..inner).map(|l| x.at("A", (matrix * rows + row) * inner + l) * x.at("B", (matrix * inner + l) * cols + col)).sum()
    })
    .tolerance(0.05, 0.05)
    .check_at([
        "BATCH=0 M=3 N=2 K=5",
        "BATCH=2 M=1 N=3 K=0",
        "BATCH=3 M=1 N=1 K=1",
        "BATCH=2 M=17 N=33 K=20",
        "BATCH=1 M=64 N=32 K=48",
        "BATCH=2 M=33 N=65 K=31",
    ])
    .perf_at("BATCH=32, M=256, N=256, K=256")
    .flops(|s| 2.0 * s.size("BATCH") * s.size("M") * s.size("N") * s.size("K"))
}

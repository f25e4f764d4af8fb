//! General matrix multiplication of 16-bit floats: scaled and added to what is there, in f32, rounded once.

use girih::prelude::*;

/// c = alpha · a · b + beta · c.
#[kernel(
    tile(BM = [128, 32, 64, 256], BN = [128, 32, 64, 256], BK = [32, 64, 16, 128]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 4, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4, 2]),
    operands(O = [Shared, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    raster(X = [8, 1]),
    split(Z = [1, 2, 4, 8, 0]),
    slices(Y = [1, 2, 4]),
    min_blocks(Q = [2, 1])
)]
pub fn gemm(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f16, 2>, alpha: Scalar<f32>, beta: Scalar<f32>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        let before = c.load((m, n)).cast::<f32>();
        c.store((m, n), (acc * alpha + before * beta).cast());
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f16, 2>, alpha: Scalar<f32>, beta: Scalar<f32>) {
    gemm(a, b, c, alpha, beta);
}

girih::challenge! {
    Challenge::new(
        "gemm",
        solve::Program::def,
        "void solve(const half* A[M, K], const half* B[K, N], half* C[M, N], int M, int N, int K, float alpha, float beta)",
    )
    .input("A", uniform(-1.0, 1.0))
    .input("B", uniform(-1.0, 1.0))
    .input("C", uniform(-1.0, 1.0))
    .output("C", |x, i| {
        let (inner, cols) = (x.len("K"), x.len("N"));
        let product: f64 = (0..inner).map(|l| x.at("A", i / cols * inner + l) * x.at("B", l * cols + i % cols)).sum();
        x.scalar("alpha") * product + x.scalar("beta") * x.at("C", i)
    })
    .tolerance(0.05, 0.05)
    .check_at([
        "M=0 N=3 K=2 alpha=1 beta=1",
        "M=1 N=5 K=0 alpha=1 beta=0.5",
        "M=1 N=1 K=1 alpha=-1 beta=0",
        "M=17 N=33 K=65 alpha=2 beta=1",
        "M=64 N=32 K=128 alpha=1 beta=1",
        "M=129 N=67 K=31 alpha=0.5 beta=-1",
    ])
    .perf_at("M=1024, N=1024, K=1024, alpha=1.0, beta=1.0")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

girih::ladder! {
    Ladder::new("gemm", "Matrix multiplication in 16-bit floats, up to matrix units", "gemm")
        .at("M=4096, N=4096, K=4096")
        .rung(
            "A thread for each result, operands from global memory",
            "BM=32,BN=32,BK=32,TM=1,TN=1,V=1,U=Ffma,W=2,O=Direct,S=1,P=Registers,X=1,Z=1,Y=1,Q=1",
        )
        .rung("Operands through shared memory", "BM=32,BN=32,BK=32,TM=1,TN=1,V=1,U=Ffma,W=2,O=Shared,S=1,P=Registers,X=1,Z=1,Y=1,Q=1")
        .rung(
            "8 x 8 results a thread, 16 bytes an access",
            "BM=128,BN=128,BK=32,TM=8,TN=8,V=8,U=Ffma,W=2,O=Shared,S=1,P=Registers,X=1,Z=1,Y=1,Q=1",
        )
        .rung(
            "Asynchronous copies in four stages, ahead of their use",
            "BM=128,BN=128,BK=32,TM=8,TN=8,V=8,U=Ffma,W=2,O=Shared,S=4,P=Async,X=1,Z=1,Y=1,Q=1",
        )
        .rung("Matrix instructions of a warp (mma)", "BM=128,BN=128,BK=32,TM=8,TN=8,V=8,U=Mma,W=8,O=Shared,S=4,P=Async,X=8,Z=1,Y=1,Q=2")
        .rung(
            "Matrix instructions of a warp group, which reads its operands in shared memory (wgmma)",
            "BM=128,BN=128,BK=64,TM=8,TN=8,V=8,U=Wgmma,W=8,O=Shared,S=4,P=Async,X=8,Z=1,Y=1,Q=1",
        )
        .rung(
            "Roles: a warp copies by tensor maps, the others do nothing but multiply",
            "BM=128,BN=256,BK=64,TM=8,TN=8,V=8,U=Wgmma,W=8,O=Shared,S=4,P=Tensor,X=8,Z=1,Y=1,Q=1",
        )
}

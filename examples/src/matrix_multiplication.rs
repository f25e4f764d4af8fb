//! Matrix multiplication in fp32: one body, from one thread per element that reads global memory to tiles in registers and shared memory.

use super::split_planes::planes_product;
use super::split_products::split_matrix_multiplication;
use girih::prelude::*;

/// c = a · b.
#[kernel(
    tile(BM = [128, 32, 64, 16, 256, 8, 1], BN = [128, 32, 64, 16, 256, 512], BK = [16, 8, 32]),
    coarsen(TM of BM = [8, 4, 2, 1, 16], TN of BN = [8, 4, 2, 1, 16]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Transposed, Direct]),
    stages(S = [3, 2, 1, 4]),
    copy(P = [Async, Registers]),
    raster(X = [8, 1]),
    split(Z = [1, 2, 4, 8, 0]),
    slices(Y = [1, 2, 4]),
    min_blocks(Q = [2, 1]),
    opt_level(L = [3, 1])
)]
pub fn matrix_multiplication(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    if variant("multiply-adds") {
        matrix_multiplication(a, b, c);
    } else if variant("split on its way") {
        split_matrix_multiplication(a, b, c);
    } else {
        planes_product(a, b, c);
    }
}

girih::challenge! {
    Challenge::new(
        "matrix_multiplication",
        solve::Program::def,
        "void solve(const float* A[M, N], const float* B[N, K], float* C[M, K], int M, int N, int K)",
    )
    .input("A", uniform(-10.0, 10.0))
    .input("B", uniform(-10.0, 10.0))
    .output("C", |x, i| {
        let (inner, cols) = (x.len("N"), x.len("K"));
        (0..inner).map(|l| x.at("A", i / cols * inner + l) * x.at("B", l * cols + i % cols)).sum()
    })
    .tolerance(1e-4, 1e-4)
    .rounding(|s| girih::challenge::sum_rounding(s.size("N"), 100.0 / 3.0))
    .check_at(["M=0 N=3 K=2", "M=1 N=0 K=5", "M=1 N=1 K=1", "M=17 N=33 K=65", "M=64 N=16 K=128", "M=129 N=35 K=31"])
    .perf_at("M=8192, N=6144, K=4096")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

girih::ladder! {
    Ladder::new("matrix_multiplication", "Matrix multiplication in fp32", "matrix_multiplication")
        .rung_of(
            crate::ladders::matrix_multiplication::solve::Program::def,
            "Rows and columns exchanged: neighbouring threads have neighbouring rows, which lie far apart",
            "BM=32,BN=32,BK=16,O=Direct",
        )
        .rung(
            "A thread for each result, neighbours side by side, operands from global memory",
            "multiply-adds=yes; matrix_multiplication: BM=32,BN=32,BK=16,TM=1,TN=1,V=1,O=Direct,S=1,P=Registers,X=1,Z=1,Y=1,Q=1,L=3",
        )
        .rung(
            "Operands through shared memory",
            "multiply-adds=yes; matrix_multiplication: BM=32,BN=32,BK=16,TM=1,TN=1,V=1,O=Shared,S=1,P=Registers,X=1,Z=1,Y=1,Q=1,L=3",
        )
        .rung_of(
            crate::ladders::matrix_multiplication::by_outer_products::Program::def,
            "A column times a row, turn by turn: 4 x 4 results a thread from 8 operands in registers, past shared memory",
            "BM=64,BN=64,TM=4,TN=4,V=4,X=8",
        )
        .slower("More instructions wait for the cache in each turn than in a loop over shared memory.")
        .found("The column and the row are found in the first cache, which other warps of the block have asked for; the model lets each turn wait for the second one.")
        .rung(
            "8 x 8 results a thread, in registers",
            "multiply-adds=yes; matrix_multiplication: BM=128,BN=128,BK=16,TM=8,TN=8,V=1,O=Shared,S=1,P=Registers,X=1,Z=1,Y=1,Q=1,L=3",
        )
        .rung(
            "16 bytes an access, the left operand transposed on its way to shared memory",
            "multiply-adds=yes; matrix_multiplication: BM=128,BN=128,BK=16,TM=8,TN=8,V=4,O=Transposed,S=1,P=Registers,X=1,Z=1,Y=1,Q=1,L=3",
        )
        .rung(
            "Asynchronous copies in four stages, ahead of their use",
            "multiply-adds=yes; matrix_multiplication: BM=128,BN=128,BK=16,TM=8,TN=8,V=4,O=Shared,S=4,P=Async,X=1,Z=1,Y=1,Q=1,L=3",
        )
        .rung(
            "Two blocks a multiprocessor, in an order that shares the cache",
            "multiply-adds=yes; matrix_multiplication: BM=128,BN=128,BK=16,TM=8,TN=8,V=4,O=Shared,S=4,P=Async,X=8,Z=1,Y=1,Q=2,L=3",
        )
        .rung(
            "Matrix units: operands cut into planes of 16-bit floats, three products of these by warp groups",
            "multiply-adds=no; split on its way=no; split_rows: B=1,R=1,C=1024,CC=8,V=4; split_columns: B=1,R=256,C=16,RR=4,CC=4,V=4; \
             multiply_planes: BM=128,BN=128,BK=64,TM=8,TN=8,V=8,U=Wgmma,W=8,S=3,P=Tensor,G=1,X=8",
        )
}

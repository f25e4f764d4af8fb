//! The dot product of two vectors of 16-bit floats: products and sum in f32, rounded once at the end.

use girih::prelude::*;

/// result = the sum of the products of a's and b's elements.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192, 16384]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4, 8]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn fp16_dot_product(a: &Tensor<f16, 1>, b: &Tensor<f16, 1>, result: &mut Tensor<f16, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in a.tiles([T]).strided() {
        acc += a.load(t).cast::<f32>() * b.load(t).cast::<f32>();
    }
    result.store_at(0, acc.sum().sum_grid().cast::<f16>());
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f16, 1>, b: &Tensor<f16, 1>, result: &mut Tensor<f16, 1>) {
    fp16_dot_product(a, b, result);
}

girih::challenge! {
    Challenge::new(
        "fp16_dot_product",
        solve::Program::def,
        "void solve(const half* A[N], const half* B[N], half* result[1], int N)",
    )
    .input("A", uniform(-1.0, 1.0))
    .input("B", uniform(-1.0, 1.0))
    .output("result", |x, _| (0..x.len("N")).map(|i| x.at("A", i) * x.at("B", i)).sum())
    .tolerance(0.05, 0.05)
    .check_at(["N=0", "N=1", "N=31", "N=511", "N=2049", "N=4099"])
    .perf_at("N=100_000_000")
    .flops(|s| 2.0 * s.size("N"))
}

//! The dot product of two vectors. The judge times five elements, so what matters there is one launch of one small block: short vectors
//! take a kernel that needs no meeting of blocks at its end.

use girih::prelude::*;

/// result = the sum of the products of a's and b's elements.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192]),
    coarsen(C of T = [1, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads]),
    finish(F = [LastBlock, Atomics])
)]
pub fn dot_product(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, result: &mut Tensor<f32, 1>) {
    let mut acc = zeros::<f32>([T]);
    for t in a.tiles([T]).strided() {
        acc += a.load(t) * b.load(t);
    }
    result.store_at(0, acc.sum().sum_grid());
}

/// The same in one block: its grid is the one element of the result.
#[kernel(tile(T = [32, 64, 128, 256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn short_dot_product(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, result: &mut Tensor<f32, 1>) {
    for one in result.tiles([1]) {
        let mut acc = zeros::<f32>([T]);
        for t in a.axis(0).tiles(T) {
            acc += a.load(t) * b.load(t);
        }
        result.store(one, acc.sum().splat([1]));
    }
}

/// Elements that one block adds up sooner than several that have to meet.
const SHORT: i64 = 4096;

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, result: &mut Tensor<f32, 1>) {
    if a.len(0) <= SHORT {
        short_dot_product(a, b, result);
    } else {
        dot_product(a, b, result);
    }
}

girih::challenge! {
    Challenge::new(
        "dot_product",
        solve::Program::def,
        "void solve(const float* A[N], const float* B[N], float* result[1], int N)",
    )
    .input("A", uniform(-1.0, 1.0))
    .input("B", uniform(-1.0, 1.0))
    .output("result", |x, _| (0..x.len("N")).map(|i| x.at("A", i) * x.at("B", i)).sum())
    .tolerance(1e-5, 1e-5)
    .check_at(["N=0", "N=1", "N=5", "N=33", "N=1023", "N=4096", "N=4097", "N=8191"])
    .perf_at("N=5")
    .flops(|s| 2.0 * s.size("N"))
}

//! How many elements equal a given one. The counts of two and three axes share this file's kernel: without gaps an array is one long row.

use girih::prelude::*;

/// count = how many elements of x equal k.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192, 16384]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads]),
    finish(F = [LastBlock, Atomics, SecondLaunch])
)]
pub fn count_equal(x: &Tensor<i32, 1>, count: &mut Tensor<i32, 1>, k: Scalar<i32>) {
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        acc += (x.load(t) == k).cast::<i32>();
    }
    count.store_at(0, acc.sum().sum_grid());
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<i32, 1>, output: &mut Tensor<i32, 1>, k: Scalar<i32>) {
    count_equal(input, output, k);
}

/// Whole numbers from 1 to 100 000, and to 7 in short arrays, where something must be found, too.
fn numbers(lens: &[i64], i: usize) -> f64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let most = if lens[0] < 10_000 { 7 } else { 100_000 };
    (1 + (mixed >> 32) % most) as f64
}

girih::challenge! {
    Challenge::new(
        "count_array_element",
        solve::Program::def,
        "void solve(const int* input[N], int* output[1], int N, int K)",
    )
    .input("input", formula(numbers))
    .output("output", |x, _| (0..x.len("N")).filter(|i| x.at("input", *i) == x.scalar("K")).count() as f64)
    .check_at(["N=0", "N=1", "N=31 K=7", "N=511 K=8", "N=2049 K=1", "N=4099 K=5"])
    .perf_at("N=100_000_000, K=501_010")
    .int_ops(|s| 2.0 * s.size("N"))
}

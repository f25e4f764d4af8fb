//! The sum of a part of an array, both ends included. The part starts and ends anywhere, and a vector only where an address is divisible by
//! its size: the kernel reads whole vectors around the part, and leaves out what lies outside of it.

use girih::prelude::*;

/// total = the sum of x from element `start` to before `end`.
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192, 16384]),
    coarsen(C of T = [1, 4, 8, 16, 32]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2]),
    grid(G = [1, 2, 4, 8]),
    cache(H = [Default, Loads])
)]
pub fn subarray_sum(x: &Tensor<i32, 1>, total: &mut Tensor<i32, 1>, start: Scalar<i32>, end: Scalar<i32>) {
    let mut acc = zeros::<i32>([T]);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let at = t.coords().cast::<i32>();
        acc += if at >= start && at < end { v } else { v.like(0) };
    }
    total.store_at(0, acc.sum().sum_grid());
}

/// The whole vectors of four around the elements `s` to `e` of an axis: the first element, and how many.
pub fn around(s: Scalar<i32>, e: Scalar<i32>, axis: Scalar<i64>) -> (Scalar<i64>, Scalar<i64>) {
    let first = s.cast::<i64>() / 4 * 4;
    let end = ((e.cast::<i64>() + 4) / 4 * 4).min(axis);
    (first, end - first)
}

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<i32, 1>, output: &mut Tensor<i32, 1>, s: Scalar<i32>, e: Scalar<i32>) {
    let (first, length) = around(s, e, input.len(0));
    subarray_sum(&input.slice(0, first, length), output, s - first.cast::<i32>(), e + 1 - first.cast::<i32>());
}

girih::challenge! {
    Challenge::new(
        "subarray_sum",
        solve::Program::def,
        "void solve(const int* input[N], int* output[1], int N, int S, int E)",
    )
    .input("input", integers(1, 10))
    .output("output", |x, _| (x.len("S")..x.len("E") + 1).map(|i| x.at("input", i)).sum())
    .check_at(["N=1 S=0 E=0", "N=31 S=30 E=30", "N=511 S=3 E=509", "N=2049 S=1 E=2048", "N=4099 S=0 E=4098", "N=5003 S=1026 E=4099"])
    .perf_at("N=100_000_000, S=17_651, E=98_765_431")
    .int_ops(|s| s.size("E") - s.size("S") + 1.0)
    .bytes(|s| 4.0 * (s.size("E") - s.size("S") + 2.0))
}

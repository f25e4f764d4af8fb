//! How many elements of a matrix equal a given one.

use crate::count_array_element::count_equal;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<i32, 2>, output: &mut Tensor<i32, 1>, k: Scalar<i32>) {
    count_equal(&input.flat(), output, k);
}

girih::challenge! {
    Challenge::new(
        "count_2d_array_element",
        solve::Program::def,
        "void solve(const int* input[N, M], int* output[1], int N, int M, int K)",
    )
    .input("input", integers(1, 2))
    .output("output", |x, _| (0..x.len("N") * x.len("M")).filter(|i| x.at("input", *i) == x.scalar("K")).count() as f64)
    .check_at(["N=0 M=3", "N=1 M=1", "N=3 M=11 K=2", "N=17 M=31", "N=32 M=64", "N=61 M=67 K=3"])
    .perf_at("N=10_000, M=10_000, K=1")
    .int_ops(|s| 2.0 * s.size("N") * s.size("M"))
}

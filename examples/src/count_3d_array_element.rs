//! How many elements of an array of three axes equal a given one. Here K is a length, and P what is sought.

use crate::count_array_element::count_equal;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<i32, 3>, output: &mut Tensor<i32, 1>, p: Scalar<i32>) {
    count_equal(&input.flat(), output, p);
}

girih::challenge! {
    Challenge::new(
        "count_3d_array_element",
        solve::Program::def,
        "void solve(const int* input[N, M, K], int* output[1], int N, int M, int K, int P)",
    )
    .input("input", integers(1, 2))
    .output("output", |x, _| {
        let elements = x.len("N") * x.len("M") * x.len("K");
        (0..elements).filter(|i| x.at("input", *i) == x.scalar("P")).count() as f64
    })
    .check_at(["N=0 M=3 K=2", "N=1 M=1 K=1", "N=3 M=5 K=7 P=1", "N=11 M=7 K=13", "N=8 M=16 K=32", "N=13 M=17 K=19 P=3"])
    .perf_at("N=500, M=500, K=500, P=2")
    .int_ops(|s| 2.0 * s.size("N") * s.size("M") * s.size("K"))
}

//! A vector of floats in ascending order, in place, by the sort of `girih::algorithms`.

use girih::algorithms::{Ascending, sort_in_place};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(data: &mut Tensor<f32, 1>) {
    sort_in_place::<f32, Ascending>(data);
}

girih::challenge! {
    Challenge::new("sorting", solve::Program::def, "void solve(float* data[N], int N)")
        .input("data", uniform(-1000.0, 1000.0))
        .output_all("data", |x| {
            let mut all: Vec<f64> = (0..x.len("N")).map(|i| x.at("data", i)).collect();
            all.sort_by(f64::total_cmp);
            all
        })
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=2", "N=31", "N=8191", "N=8193", "N=20_011"])
        .perf_at("N=1_000_000")
}

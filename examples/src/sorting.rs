//! A vector of floats in ascending order, in place: a radix sort of the numbers whose order is that of the floats.

use crate::radix_passes::sort_in_place;
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(data: &mut Tensor<f32, 1>) {
    // A negative float's bits are turned over, of others the sign alone.
    sort_in_place(&mut data.reinterpret::<u32>(), scalar(0x7fff_ffffu32), scalar(0x8000_0000u32));
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

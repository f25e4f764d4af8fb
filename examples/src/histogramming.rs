//! How often each bin occurs among integers, by the histogram of `girih::algorithms`; values that are no bin are dropped.

use girih::algorithms::{Value, histogram};
use girih::prelude::*;

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    histogram::<i32, Value>(x, bins);
}

fn count(values: impl Iterator<Item = f64>, bins: usize) -> Vec<f64> {
    let mut counts = vec![0.0; bins];
    for v in values.filter(|v| (0.0..bins as f64).contains(v)) {
        counts[v as usize] += 1.0;
    }
    counts
}

girih::challenge! {
    Challenge::new("histogramming", solve::Program::def, "void solve(const int* input[N], int* histogram[num_bins], int N, int num_bins)")
        .input("input", integers(0, 255))
        .output_all("histogram", |x| count((0..x.len("N")).map(|i| x.at("input", i)), x.len("num_bins")))
        .check_at(["N=0", "N=1", "N=31 num_bins=1", "N=4099 num_bins=256", "N=20011 num_bins=100", "N=8193 num_bins=257", "N=5000 num_bins=8200"])
        .perf_at("N=50_000_000, num_bins=256")
}

/// The worst input there is: every value falls into one bin.
pub mod one_bin {
    girih::challenge! {
        Challenge::new("histogramming_one_bin", super::solve::Program::def, "void solve(const int* input[N], int* histogram[num_bins], int N, int num_bins)")
            .input("input", integers(200, 200))
            .output_all("histogram", |x| super::count((0..x.len("N")).map(|i| x.at("input", i)), x.len("num_bins")))
            .check_at(["N=20011 num_bins=256"])
            .perf_at("N=50_000_000, num_bins=256")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_outside_are_dropped() {
        assert_eq!(super::count([0.0, 3.0, -1.0, 2.0, 3.0].into_iter(), 3), [1.0, 0.0, 1.0]);
    }
}

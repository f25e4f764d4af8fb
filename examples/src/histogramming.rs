//! Histogram: how often each bin occurs among integers; values that are no bin are dropped.
//!
//! Up to 8192 bins each block counts in an array of its own in shared memory, and adds it to the result at the end: one atomic
//! per bin and block. Beyond, blocks count in global memory. With few bins, copies of the array keep lanes that meet in one bin apart,
//! so an input of equal values is no slower than a random one.

use girih::prelude::*;

/// Adds to `bins`, of which there are at most 256, how often each occurs in x.
#[kernel(
    tile(T = [8192, 16384, 4096, 2048]),
    coarsen(C of T = [16, 8, 32, 4]),
    vector(V = [4, 2, 1]),
    grid(G = [4, 2, 1, 8, 0]),
    stages(S = [1, 2]),
    copies(K = [32, 16, 8, 4, 1]),
    cache(H = [Default, Streaming])
)]
pub fn histogram_256(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    let mut own = shared::<i32>([256], 0);
    for t in x.tiles([T]).strided() {
        own.atomic_add(x.load(t), 1);
    }
    bins.atomic_add(iota::<i32>(256), own.load(..));
}

/// The same for up to 8192 bins.
#[kernel(
    tile(T = [8192, 4096, 16384]),
    coarsen(C of T = [16, 8, 32]),
    vector(V = [4, 1]),
    grid(G = [1, 2, 4, 0]),
    copies(K = [1, 2, 4])
)]
pub fn histogram_8192(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    let mut own = shared::<i32>([8192], 0);
    for t in x.tiles([T]).strided() {
        own.atomic_add(x.load(t), 1);
    }
    bins.atomic_add(iota::<i32>(8192), own.load(..));
}

/// The same for any number of bins.
#[kernel(tile(T = [1024, 2048, 4096]), coarsen(C of T = [4, 8, 1]), vector(V = [4, 1]), grid(G = [0, 4]))]
pub fn histogram_global(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        bins.atomic_add(x.load(t), 1);
    }
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<i32, 1>, bins: &mut Tensor<i32, 1>) {
    bins.fill(0);
    let n = bins.len(0);
    if n <= 256 {
        histogram_256(x, bins);
    } else if n <= 8192 {
        histogram_8192(x, bins);
    } else {
        histogram_global(x, bins);
    }
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

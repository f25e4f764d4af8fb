//! The softmax of one long vector. Every element needs the sum over all of them, so two launches: the first finds the largest element and the
//! sum of e^(x − largest), the second normalises.
//!
//! Short vectors are a matter of latency: each chunk leaves its own largest element and sum, and every block of the second launch joins the
//! few hundred of them, from the cache, before it normalises. In long ones the blocks of the first launch meet, and the second reads two
//! numbers.

use girih::prelude::*;

/// The neutral element of [`joined`]: nothing is smaller, and a sum of nothing. (−∞ would give −∞ − −∞.)
const NOTHING: (f32, f32) = (f32::MIN, 0.0);

/// statistics = the largest element of x, and the sum of e^(x − largest).
#[kernel(
    tile(T = [512, 1024, 2048, 4096, 8192]),
    coarsen(C of T = [1, 4, 8, 16]),
    vector(V = [1, 2, 4]),
    grid(G = [1, 2, 4])
)]
pub fn softmax_statistics(x: &Tensor<f32, 1>, statistics: &mut Tensor<f32, 1>) {
    let mut largest = full([T], NOTHING.0);
    let mut sum = zeros::<f32>([T]);
    for t in x.tiles([T]).strided() {
        let v = x.load(t);
        let next = largest.max(v);
        sum = sum * (largest - next).exp_approx() + (v - next).exp_approx();
        largest = next;
    }
    // Inside of a block a maximum and a sum are shorter chains than one operator on pairs.
    let own = largest.max_all();
    let sum = (sum * (largest - own).exp_approx()).sum();
    let (largest, sum) = (own, sum).commutative().reduce_grid(NOTHING, joined);
    statistics.store_at(0, largest);
    statistics.store_at(1, sum);
}

type Statistics = (Scalar<f32>, Scalar<f32>);

/// The statistics of two parts taken together.
fn joined((m, s): Statistics, (n, t): Statistics) -> Statistics {
    let largest = m.max(n);
    (largest, s * (m - largest).exp_approx() + t * (n - largest).exp_approx())
}

/// y = e^(x − largest) / sum.
#[kernel(
    tile(T = [512, 1024, 2048, 4096]),
    coarsen(C of T = [1, 2, 4, 8]),
    vector(V = [1, 2, 4])
)]
pub fn softmax_normalise(x: &Tensor<f32, 1>, statistics: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let (largest, sum) = (statistics.at(0), statistics.at(1));
        y.store(t, (x.load(t) - largest).exp_approx() * (1.0 / sum));
    }
}

/// The largest element of each chunk, and the sum of e^(x − largest) over it.
#[kernel(tile(T = 4096), coarsen(C of T = [4, 8, 16, 32]), vector(V = [1, 2, 4]))]
pub fn softmax_chunks(x: &Tensor<f32, 1>, largest: &mut Tensor<f32, 1>, sums: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let own = v.max_all().max(NOTHING.0);
        largest.scatter(t.number(), own);
        sums.scatter(t.number(), (v - own).exp_approx().sum());
    }
}

/// y = e^(x − largest) / sum, with largest and sum joined from those of the chunks.
#[kernel(
    tile(T = [512, 1024, 2048, 4096], P = [128, 256]),
    coarsen(C of T = [1, 2, 4, 8, 16]),
    vector(V = [1, 2, 4])
)]
pub fn softmax_join(x: &Tensor<f32, 1>, largest: &Tensor<f32, 1>, sums: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        let v = x.load(t);
        let mut most = full([P], NOTHING.0);
        let mut sum = zeros::<f32>([P]);
        for p in sums.axis(0).tiles(P) {
            let part = largest.load(p);
            let next = most.max(part);
            sum = sum * (most - next).exp_approx() + sums.load(p) * (part - next).exp_approx();
            most = next;
        }
        let all = most.max_all();
        let sum = (sum * (most - all).exp_approx()).sum();
        y.store(t, (v - all).exp_approx() * (1.0 / sum));
    }
}

/// Elements of a chunk.
const CHUNK: i64 = 4096;
/// The longest vector whose chunks every block joins by itself.
const SHORT: i64 = 256 * CHUNK;

/// What the judge calls.
#[program]
pub fn solve(input: &Tensor<f32, 1>, output: &mut Tensor<f32, 1>) {
    if input.len(0) <= SHORT && variant("chunks") {
        let chunks = (input.len(0) + CHUNK - 1) / CHUNK;
        let (mut largest, mut sums) = (temp([chunks]), temp([chunks]));
        softmax_chunks(input, &mut largest, &mut sums);
        softmax_join(input, &largest, &sums, output);
    } else {
        let mut statistics = temp([2]);
        softmax_statistics(input, &mut statistics);
        softmax_normalise(input, &statistics, output);
    }
}

girih::challenge! {
    Challenge::new("softmax", solve::Program::def, "void solve(const float* input[N], float* output[N], int N)")
        .input("input", uniform(-10.0, 10.0))
        .output_all("output", |x| {
            let v: Vec<f64> = (0..x.len("N")).map(|i| x.at("input", i)).collect();
            let largest = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = v.iter().map(|v| (v - largest).exp()).sum();
            v.iter().map(|v| (v - largest).exp() / sum).collect()
        })
        .tolerance(1e-5, 1e-5)
        .check_at(["N=0", "N=1", "N=31", "N=511", "N=2049", "N=4095", "N=4097", "N=9001"])
        .perf_at("N=500_000")
        .flops(|s| 5.0 * s.size("N"))
}

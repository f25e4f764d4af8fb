//! Attention without a softmax, whose weights are products of positive features: by associativity the keys meet the values first, and no
//! matrix of scores is ever made.

use girih::prelude::*;

/// x + 1 above zero, exp(x) below.
#[device]
fn feature(x: Tile<f32>) -> Tile<f32> {
    if x > 0.0 { x + 1.0 } else { x.exp() }
}

/// states = φ(k)ᵀ · v and, for each tile of columns, the sums of φ(k): few results of long sums, which blocks share.
#[kernel(
    tile(BM = [64, 32, 128], BN = 64, BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 8, 2], TN of BN = [4, 8, 2]),
    vector(V = [4, 1, 2]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers]),
    split(Z = [32, 16, 64, 8, 1])
)]
pub fn key_states(k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, states: &mut Tensor<f32, 2>, sums: &mut Tensor<f32, 2>) {
    for (m, n) in states.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        let mut sum = zeros::<f32>([BK, BM]);
        for i in k.axis(0).tiles(BK) {
            let features = feature(k.load((i, m)));
            sum += features;
            acc = dot(features.t(), v.load((i, n)), acc);
        }
        states.store((m, n), acc);
        sums.scatter((n.number(), m.coords()), sum.sum_axis(0));
    }
}

/// out = φ(q) · states / (φ(q) · sums).
#[kernel(
    tile(BM = [64, 32, 128, 16], BN = [128, 64, 32], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 2], TN of BN = [8, 4, 2]),
    vector(V = [4, 1, 2]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1])
)]
pub fn attend_to_states(q: &Tensor<f32, 2>, states: &Tensor<f32, 2>, sums: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    for (m, n) in out.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        let mut total = zeros::<f32>([BM, BK]);
        for e in q.axis(1).tiles(BK) {
            let features = feature(q.load((m, e)));
            total += features * sums.load((0, e)).expand(0, BM);
            acc = dot(features, states.load((e, n)), acc);
        }
        out.store((m, n), acc / total.sum_axis(1).expand(1, BN));
    }
}

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let mut states = temp([k.len(1), v.len(1)]);
    let mut sums = temp([(v.len(1) + 63) / 64, k.len(1)]);
    key_states(k, v, &mut states, &mut sums);
    attend_to_states(q, &states, &sums, output);
}

girih::challenge! {
    Challenge::new(
        "linear_attention",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[M, d], const float* V[M, d], float* output[M, d], int M, int d)",
    )
    .input("Q", uniform(-100.0, 100.0))
    .input("K", uniform(-100.0, 100.0))
    .input("V", uniform(-100.0, 100.0))
    .output_all("output", |x| {
        let (rows, d) = (x.len("M"), x.len("d"));
        let feature = |v: f64| if v > 0.0 { v + 1.0 } else { v.exp() };
        let (mut states, mut sums) = (vec![0.0; d * d], vec![0.0; d]);
        for i in 0..rows {
            for a in 0..d {
                let f = feature(x.at("K", i * d + a));
                sums[a] += f;
                (0..d).for_each(|b| states[a * d + b] += f * x.at("V", i * d + b));
            }
        }
        let row = |i: usize| {
            let features: Vec<f64> = (0..d).map(|a| feature(x.at("Q", i * d + a))).collect();
            let total: f64 = features.iter().zip(&sums).map(|(f, z)| f * z).sum();
            (0..d).map(|b| features.iter().enumerate().map(|(a, f)| f * states[a * d + b]).sum::<f64>() / total).collect::<Vec<_>>()
        };
        (0..rows).flat_map(row).collect()
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["M=0 d=8", "M=1 d=1", "M=17 d=20", "M=40 d=66"])
    .perf_at("M=10_000, d=128")
    .flops(|s| 4.0 * s.size("M") * s.size("d").powi(2))
}

//! Attention without a softmax, whose weights are products of positive features: by associativity the keys meet the values first, and no
//! matrix of scores is ever made.

use super::products::{Fma, Product, Split};
use girih::prelude::*;

/// x + 1 above zero, exp(x) below.
#[device]
fn feature(x: Tile<f32>) -> Tile<f32> {
    if x > 0.0 { x + 1.0 } else { x.exp() }
}

/// A tile of φ(k)ᵀ · v, and the sums of φ(k) beside it; `depth` positions a turn.
#[device]
fn states_of<P: Product>(
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    (m, n): (TileIdx, TileIdx),
    shape: [Size; 2],
    depth: Size,
) -> [Tile<f32>; 2] {
    let mut acc = zeros::<f32>(shape);
    let mut sum = zeros::<f32>([depth, shape[0]]);
    for i in k.axis(0).tiles(depth) {
        let features = feature(k.load((i, m)));
        sum += features;
        acc = P::add(features.t(), v.load((i, n)), acc, shape);
    }
    [acc, sum.sum_axis(0)]
}

/// A tile of φ(q) · states / (φ(q) · sums); `depth` features a turn.
#[device]
fn results_of<P: Product>([q, states, sums]: [&Tensor<f32, 2>; 3], (m, n): (TileIdx, TileIdx), shape: [Size; 2], depth: Size) -> Tile<f32> {
    let mut acc = zeros::<f32>(shape);
    let mut total = zeros::<f32>([shape[0], depth]);
    for e in q.axis(1).tiles(depth) {
        let features = feature(q.load((m, e)));
        total += features * sums.load((0, e)).expand(0, shape[0]);
        acc = P::add(features, states.load((e, n)), acc, shape);
    }
    acc * (1.0 / total.sum_axis(1)).expand(1, shape[1])
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
        let [state, sum] = states_of::<Fma>(k, v, (m, n), [BM, BN], BK);
        states.store((m, n), state);
        sums.scatter((n.number(), m.coords()), sum);
    }
}

/// As [`key_states()`], on matrix units.
#[kernel(
    tile(BM = [32, 64, 16, 128], BN = 64, BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 8, 2], TN of BN = [4, 8, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers]),
    split(Z = [32, 16, 64, 8, 1])
)]
pub fn key_states_units(k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, states: &mut Tensor<f32, 2>, sums: &mut Tensor<f32, 2>) {
    for (m, n) in states.tiles([BM, BN]) {
        let [state, sum] = states_of::<Split>(k, v, (m, n), [BM, BN], BK);
        states.store((m, n), state);
        sums.scatter((n.number(), m.coords()), sum);
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
        out.store((m, n), results_of::<Fma>([q, states, sums], (m, n), [BM, BN], BK));
    }
}

/// As [`attend_to_states()`], on matrix units.
#[kernel(
    tile(BM = [64, 32, 128, 16], BN = [64, 128, 32], BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 8, 2], TN of BN = [4, 8, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1])
)]
pub fn attend_to_states_units(q: &Tensor<f32, 2>, states: &Tensor<f32, 2>, sums: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    for (m, n) in out.tiles([BM, BN]) {
        out.store((m, n), results_of::<Split>([q, states, sums], (m, n), [BM, BN], BK));
    }
}

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let mut states = temp([k.len(1), v.len(1)]);
    let mut sums = temp([(v.len(1) + 63) / 64, k.len(1)]);
    if variant("states by matrix units") {
        key_states_units(k, v, &mut states, &mut sums);
    } else {
        key_states(k, v, &mut states, &mut sums);
    }
    if variant("results by matrix units") {
        attend_to_states_units(q, &states, &sums, output);
    } else {
        attend_to_states(q, &states, &sums, output);
    }
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

//! Retention: causal attention whose weights decay by the distance of key and query, without a softmax.
//!
//! A query that is far enough behind a key sees nothing of it in f32, so a block walks the last keys alone, however long the sequence is.

use super::products::{Fma, Product, Split};
use girih::prelude::*;

/// How weights change with the distance: they are halved `halvings` times a step, and may change their sign at each. Behind `width` steps
/// nothing is left.
#[derive(Clone, Copy)]
struct Decay {
    halvings: Scalar<f32>,
    negative: Scalar<bool>,
    width: Scalar<i64>,
}

/// The weighted sums of the values of the keys that queries see.
#[device]
fn retain<P: Product>(
    (q, k, v): (&Tensor<f32, 2>, &Tensor<f32, 2>, &Tensor<f32, 2>),
    (m, d): (TileIdx, TileIdx),
    [queries, keys, inner, columns]: [Size; 4],
    decay: Decay,
) -> Tile<f32> {
    let scale = q.len(1).cast::<f32>().rsqrt();
    let mut acc = zeros::<f32>([queries, columns]);
    for n in k.axis(0).tiles(keys).within(m.start() - decay.width..m.end()) {
        let mut scores = zeros::<f32>([queries, keys]);
        for e in q.axis(1).tiles(inner) {
            scores = P::add(q.load((m, e)), k.load((n, e)).t(), scores, [queries, keys]);
        }
        let age = m.coords().cast::<i32>().expand(1, keys) - n.coords().cast::<i32>().expand(0, queries);
        // Of no step the weight is one, whatever the decay.
        let weight = select(age == 0, 1.0, (-age.cast::<f32>() * decay.halvings).exp2_approx());
        let weight = select(decay.negative && (age & 1) == 1, -weight, weight);
        let there = (n.coords() < k.len(0)).expand(0, queries);
        let weights = select(age >= 0 && age <= decay.width.cast() && there, scores * scale * weight, 0.0);
        acc = P::add(weights, v.load((n, d)), acc, [queries, columns]);
    }
    acc
}

/// `out[n] = Σ decayⁿ⁻ᵐ (q[n] · k[m]) / √d v[m]` over the keys up to n.
#[kernel(
    tile(BM = [32, 16, 64], BN = [32, 64, 16], BE = [64, 32, 16], BD = [64, 32, 128]),
    coarsen(TM of BM = [4, 2, 8], TD of BD = [4, 2, 8]),
    vector(V = [4, 1, 2]),
    stages(S = [1, 2]),
    copy(C = [Registers, Async]),
    min_blocks(Q = [2, 1, 4])
)]
pub fn retention(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 2>,
    halvings: Scalar<f32>,
    negative: Scalar<bool>,
    width: Scalar<i64>,
) {
    for (m, d) in out.tiles([BM, BD]) {
        let decay = Decay { halvings, negative, width };
        out.store((m, d), retain::<Fma>((q, k, v), (m, d), [BM, BN, BE, BD], decay));
    }
}

/// The same on matrix units, where all products have one shape: as many keys a turn as the result has columns.
#[kernel(
    tile(BM = [32, 16, 64], T = [64, 32], BE = [32, 64, 16]),
    coarsen(TM of BM = [4, 2, 8], TN of T = [4, 2, 8]),
    vector(V = [4, 1, 2]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [1, 2]),
    copy(C = [Registers, Async]),
    min_blocks(Q = [2, 1, 4])
)]
pub fn retention_units(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 2>,
    halvings: Scalar<f32>,
    negative: Scalar<bool>,
    width: Scalar<i64>,
) {
    for (m, d) in out.tiles([BM, T]) {
        let decay = Decay { halvings, negative, width };
        out.store((m, d), retain::<Split>((q, k, v), (m, d), [BM, T, BE, T], decay));
    }
}

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, gamma: Scalar<f32>) {
    let halvings = -gamma.abs().log2();
    // Behind so many positions weights are below 2⁻³⁶ of the nearest one's.
    let far = (36.0 / halvings).ceil().cast::<i64>();
    let width = select(gamma.abs() < 1.0, far.min(q.len(0)), q.len(0));
    if variant("matrix units") {
        retention_units(q, k, v, output, halvings, gamma < 0.0, width);
    } else {
        retention(q, k, v, output, halvings, gamma < 0.0, width);
    }
}

girih::challenge! {
    Challenge::new(
        "decaying_causal_attention",
        solve::Program::def,
        "void solve(const float* Q[seq_len, d_model], const float* K[seq_len, d_model], const float* V[seq_len, d_model], \
         float* output[seq_len, d_model], int seq_len, int d_model, float gamma)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K", normal(0.0, 1.0))
    .input("V", normal(0.0, 1.0))
    .output_rows("output", |x, n| {
        let (d, gamma) = (x.len("d_model"), x.scalar("gamma"));
        let mut out = vec![0.0; d];
        for m in 0..=n {
            let product: f64 = (0..d).map(|e| x.at("Q", n * d + e) * x.at("K", m * d + e)).sum();
            let weight = gamma.powi((n - m) as i32) * product / (d as f64).sqrt();
            out.iter_mut().enumerate().for_each(|(e, sum)| *sum += weight * x.at("V", m * d + e));
        }
        out
    })
    .tolerance(1e-3, 1e-3)
    .check_at([
        "seq_len=0, d_model=8, gamma=0.9",
        "seq_len=1, d_model=1, gamma=0.9",
        "seq_len=33, d_model=64, gamma=0.9",
        "seq_len=50, d_model=37, gamma=1.0",
        "seq_len=40, d_model=16, gamma=0.0",
        "seq_len=35, d_model=20, gamma=-0.8",
        "seq_len=20, d_model=40, gamma=1.01",
        "seq_len=130, d_model=16, gamma=0.5",
    ])
    .perf_at("seq_len=4096, d_model=64, gamma=0.9")
    // What is not negligible: 237 keys of each query.
    .flops(|s| 4.0 * s.size("seq_len") * s.size("seq_len").min(237.0) * s.size("d_model"))
}

//! Attention whose scores grow or fall with the distance of key and query, without a mask.
//!
//! What a bias adds to a row, `slope · (query - key)`, soon outweighs all that products can differ by: no product is larger than the longest
//! query times the longest key. Keys behind that reach have weights below 2⁻⁴⁰ of the row's largest, which f32 cannot add to a sum of some
//! of them: they are left out, whatever the inputs. A slope of zero leaves out none.

use super::attention::reference;
use girih::prelude::*;
use std::ops::Range;

/// The largest sum of squares of a row.
#[kernel(
    tile(R = [8, 4, 16, 1], C = [128, 256, 512, 1024]),
    coarsen(CR of R = [1, 2, 4], CC of C = [4, 8]),
    vector(V = [4, 1, 2]),
    grid(G = [2, 1, 4]),
    cache(H = [Default, Loads])
)]
pub fn longest_row(x: &Tensor<f32, 2>, longest: &mut Tensor<f32, 1>) {
    let mut most = zeros::<f32>([R]);
    for r in x.axis(0).tiles(R).strided() {
        let mut squares = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            squares += v * v;
        }
        most = most.max(squares.sum_axis(1));
    }
    longest.store_at(0, most.max_all().max_grid());
}

/// The positions of the keys that count: the first ones where the slope is positive, the last ones where it is negative.
#[device]
fn counting(
    keys: Scalar<i64>,
    slope: Scalar<f32>,
    scale: Scalar<f32>,
    queries: &Tensor<f32, 1>,
    of_keys: &Tensor<f32, 1>,
) -> (Scalar<i64>, Scalar<i64>) {
    // Products differ by twice the largest one at most; exp(-28) is below 2⁻⁴⁰. Rounding is allowed for.
    let spread = 2.002 * scale * (queries.at(0) * of_keys.at(0)).sqrt();
    let reach = ((28.0 + spread) / slope.abs()).min(1.0e9).cast::<i64>() + 2;
    if slope > 0.0 { (scalar(0), keys.min(reach)) } else { ((keys - reach).max(0), keys) }
}

/// scores = q · kᵀ / √d - slope · key, of the keys that count, and 0 of the others: what the query adds, and a key chosen, is the same for a whole row.
#[kernel(
    tile(BM = [32, 16, 64], BN = [32, 16, 64], BK = [64, 32, 128]),
    coarsen(TM of BM = [4, 2, 1], TN of BN = [4, 2, 1]),
    vector(V = [4, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1])
)]
pub fn biased_scores(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    longest_query: &Tensor<f32, 1>,
    longest_key: &Tensor<f32, 1>,
    scores: &mut Tensor<f32, 2>,
    slope: Scalar<f32>,
) {
    let scale = q.len(1).cast::<f32>().rsqrt();
    let (first, end) = counting(k.len(0), slope, scale, longest_query, longest_key);
    for (m, n) in scores.tiles([BM, BN]) {
        if n.start() < end && n.end() > first {
            let mut acc = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BK) {
                acc = dot(q.load((m, e)), k.load((n, e)).t(), acc);
            }
            // From the key that the bias favours most, so that all biases are below zero.
            let away = n.coords() - select(slope > 0.0, first, end - 1);
            let counts = n.coords() >= first && n.coords() < end;
            let score = acc * scale - away.cast::<f32>().expand(0, BM) * slope;
            scores.store((m, n), select(counts.expand(0, BM), score, 0.0));
        } else {
            scores.store((m, n), zeros::<f32>([BM, BN]));
        }
    }
}

/// out = softmax(scores) · v, over the keys that count.
#[kernel(
    tile(BM = [32, 16, 64], BN = [32, 16, 64], BD = [128, 64, 256]),
    coarsen(TM of BM = [4, 2, 8], TD of BD = [4, 2, 8]),
    vector(V = [4, 1]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1])
)]
pub fn weighted_values(
    scores: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    longest_query: &Tensor<f32, 1>,
    longest_key: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 2>,
    slope: Scalar<f32>,
) {
    let scale = v.len(1).cast::<f32>().rsqrt();
    let (first, end) = counting(v.len(0), slope, scale, longest_query, longest_key);
    for (m, d) in out.tiles([BM, BD]) {
        let (mut most, mut total) = (full::<f32>([BM], f32::MIN), zeros::<f32>([BM]));
        let mut acc = zeros::<f32>([BM, BD]);
        for n in v.axis(0).tiles(BN).within(Range { start: first, end }) {
            let score = scores.load((m, n));
            let next = most.max(score.max_axis(1));
            let weights = (score - next.expand(1, BN)).exp();
            let factor = (most - next).exp();
            total = total * factor + weights.sum_axis(1);
            acc = dot(weights, v.load((n, d)), acc * factor.expand(1, BD));
            most = next;
        }
        out.store((m, d), acc * (1.0 / total).expand(1, BD));
    }
}

/// What the judge calls.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, alpha: Scalar<f32>) {
    let mut longest_query = temp([1]);
    let mut longest_key = temp([1]);
    let mut scores = temp([q.len(0), k.len(0)]);
    longest_row(q, &mut longest_query);
    longest_row(k, &mut longest_key);
    biased_scores(q, k, &longest_query, &longest_key, &mut scores, alpha);
    weighted_values(&scores, v, &longest_query, &longest_key, output, alpha);
}

girih::challenge! {
    Challenge::new(
        "attn_w_linear_bias",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[N, d], const float* V[N, d], float* output[M, d], int M, int N, int d, float alpha)",
    )
    .input("Q", uniform(-0.1, 0.1))
    .input("K", uniform(-0.1, 0.1))
    .input("V", uniform(-0.1, 0.1))
    .output_rows("output", |x, i| {
        let (keys, d, slope) = (x.len("N"), x.len("d"), x.scalar("alpha"));
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", j * d + e)).sum::<f64>();
        let score = |j: usize| product(j) / (d as f64).sqrt() + slope * (i as f64 - j as f64);
        reference(0..keys, score, d, |j, e| x.at("V", j * d + e))
    })
    .tolerance(1e-4, 1e-4)
    .check_at(["M=0 N=2 d=4 alpha=0.5", "M=1 N=1 d=1 alpha=0.5", "M=17 N=90 d=20 alpha=0.5", "M=5 N=100 d=33 alpha=-0.75", "M=9 N=40 d=64 alpha=0.0", "M=5 N=70 d=8 alpha=-0.01"])
    .perf_at("M=2048, N=2048, d=1024, alpha=0.5")
    // A slope leaves out keys, as many as the inputs allow.
    .flops(|s| if s.size("alpha") == 0.0 { 4.0 * s.size("M") * s.size("N") * s.size("d") } else { 0.0 })
}

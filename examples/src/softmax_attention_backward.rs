//! The gradients of softmax attention, of which nothing is kept from the forward pass.
//!
//! With P = softmax(Q · Kᵀ / √d), G = dO · Vᵀ and E = P ∘ (G − rowsum(P ∘ G)) / √d they are dQ = E · K, dK = Eᵀ · Q and dV = Pᵀ · dO.
//! P and E are made in memory, where five products on matrix units are all that is multiplied; one pass over the keys that keeps neither takes
//! nine, and products of two shapes (see docs/WISHES.md).

use super::attention::reference;
use super::dense_layers::dense_scaled;
use super::products::{Product, Split};
use super::split_products::split_matrix_multiplication;
use girih::prelude::*;

/// scores = their softmax, row by row; gains = what the loss gains by each score, times `scale`, of what it gains by each weight.
#[kernel(
    tile(R = [1, 2, 4], C = [1024, 512, 2048, 4096]),
    coarsen(CR of R = [1, 2], CC of C = [4, 8, 16]),
    vector(V = [4, 1, 2]),
    cache(H = [Default, Streaming, Stores])
)]
pub fn softmax_gains(scores: &mut Tensor<f32, 2>, gains: &mut Tensor<f32, 2>, scale: Scalar<f32>) {
    scores.same_shape(gains);
    for r in scores.axis(0).tiles(R) {
        let mut most = full::<f32>([R, C], f32::MIN);
        for c in scores.axis(1).tiles(C) {
            most = most.max(scores.load((r, c)));
        }
        let most = most.max_axis(1);
        let (mut total, mut gain) = (zeros::<f32>([R, C]), zeros::<f32>([R, C]));
        for c in scores.axis(1).tiles(C) {
            let weight = (scores.load((r, c)) - most.expand(1, C)).exp();
            total += weight;
            gain += weight * gains.load((r, c));
        }
        let share = 1.0 / total.sum_axis(1);
        let mean = gain.sum_axis(1) * share;
        for c in scores.axis(1).tiles(C) {
            let weight = (scores.load((r, c)) - most.expand(1, C)).exp() * share.expand(1, C);
            let slope = weight * (gains.load((r, c)) - mean.expand(1, C)) * scale;
            scores.store((r, c), weight);
            gains.store((r, c), slope);
        }
    }
}

/// c = aᵀ · b: few results of long sums, which blocks share.
#[kernel(
    types(P = [Split]),
    tile(BM = [64, 32, 128], BN = [64, 32, 128], BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 2, 8], TN of BN = [4, 2, 8]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [3, 2, 1]),
    copy(C = [Async, Overlap, Registers]),
    split(Z = [4, 1, 2, 8, 0]),
    min_blocks(Q = [2, 1])
)]
pub fn turned_product<P: Product>(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(0).tiles(BK) {
            acc = P::add(a.load((k, m)).t(), b.load((k, n)), acc, [BM, BN]);
        }
        c.store((m, n), acc);
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    d_out: &Tensor<f32, 2>,
    d_q: &mut Tensor<f32, 2>,
    d_k: &mut Tensor<f32, 2>,
    d_v: &mut Tensor<f32, 2>,
) {
    let scale = 1.0 / q.len(1).cast::<f32>().sqrt();
    let mut weights = temp([q.len(0), k.len(0)]);
    let mut gains = temp([q.len(0), k.len(0)]);
    dense_scaled::<Split>(q, k, &mut weights, scale);
    dense_scaled::<Split>(d_out, v, &mut gains, scalar(1.0));
    softmax_gains(&mut weights, &mut gains, scale);
    split_matrix_multiplication(&gains, k, d_q);
    turned_product::<Split>(&gains, q, d_k);
    turned_product::<Split>(&weights, d_out, d_v);
}

/// Of a query: its weights, and the slopes of its scores.
fn weights_and_slopes(x: &girih::challenge::Case, i: usize) -> [Vec<f64>; 2] {
    let (keys, d) = (x.len("N"), x.len("d"));
    let scale = 1.0 / (d as f64).sqrt();
    let product = |a: &str, b: &str, j: usize| (0..d).map(|e| x.at(a, i * d + e) * x.at(b, j * d + e)).sum::<f64>();
    let gains: Vec<f64> = (0..keys).map(|j| product("dO", "V", j)).collect();
    // Of values that are the unit vectors an attention is its weights.
    let weights = reference(0..keys, |j| product("Q", "K", j) * scale, keys, |j, e| f64::from(u8::from(j == e)));
    let mean: f64 = weights.iter().zip(&gains).map(|(w, g)| w * g).sum();
    let slopes = weights.iter().zip(&gains).map(|(w, g)| w * (g - mean) * scale).collect();
    [weights, slopes]
}

/// The gradient of the keys (slopes · Q) or of the values (weights · dO).
fn by_keys(x: &girih::challenge::Case, which: usize, factors: &str) -> Vec<f64> {
    let (queries, keys, d) = (x.len("M"), x.len("N"), x.len("d"));
    let mut sums = vec![0.0; keys * d];
    for i in 0..queries {
        for (j, weight) in weights_and_slopes(x, i)[which].iter().enumerate() {
            (0..d).for_each(|e| sums[j * d + e] += weight * x.at(factors, i * d + e));
        }
    }
    sums
}

girih::challenge! {
    Challenge::new(
        "softmax_attention_backward",
        solve::Program::def,
        "void solve(const float* Q[M, d], const float* K[N, d], const float* V[N, d], const float* dO[M, d], \
         float* dQ[M, d], float* dK[N, d], float* dV[N, d], int M, int N, int d)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K", normal(0.0, 1.0))
    .input("V", normal(0.0, 1.0))
    .input("dO", normal(0.0, 1.0))
    .output_rows("dQ", |x, i| {
        let d = x.len("d");
        let mut sums = vec![0.0; d];
        for (j, slope) in weights_and_slopes(x, i)[1].iter().enumerate() {
            sums.iter_mut().enumerate().for_each(|(e, sum)| *sum += slope * x.at("K", j * d + e));
        }
        sums
    })
    .output_all("dK", |x| by_keys(x, 1, "Q"))
    .output_all("dV", |x| by_keys(x, 0, "dO"))
    .tolerance(1e-4, 1e-4)
    .check_at([
        "M=0 N=2 d=4",
        "M=1 N=1 d=1",
        "M=3 N=40 d=8",
        "M=33 N=20 d=20",
        "M=40 N=36 d=33",
    ])
    .perf_at("M=8192, N=4096, d=128")
    .flops(|s| 10.0 * s.size("M") * s.size("N") * s.size("d"))
}

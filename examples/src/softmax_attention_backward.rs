//! The gradients of softmax attention, of which nothing is kept from the forward pass.
//!
//! With P = softmax(Q · Kᵀ / √d), G = dO · Vᵀ and E = P ∘ (G − rowsum(P ∘ G)) / √d they are dQ = E · K, dK = Eᵀ · Q and dV = Pᵀ · dO.
//! P and E are made in memory, where five products on matrix units are all that is multiplied; one pass over the keys that keeps neither takes
//! nine, and products of two shapes (see docs/WISHES.md).

use super::attention::weights_of;
use super::dense_layers::dense_scaled;
use super::products::{Product, Split};
use super::split_planes::planes_product;
use super::split_products::split_matrix_multiplication;
use girih::challenge::Case;
use girih::cores::{each_of, in_parts};
use girih::prelude::*;

/// scores = the softmax of them times `scale`, row by row; gains = what the loss gains by each score, of what it gains by each weight.
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
            let weight = ((scores.load((r, c)) - most.expand(1, C)) * scale).exp();
            total += weight;
            gain += weight * gains.load((r, c));
        }
        let share = 1.0 / total.sum_axis(1);
        let mean = gain.sum_axis(1) * share;
        for c in scores.axis(1).tiles(C) {
            let weight = ((scores.load((r, c)) - most.expand(1, C)) * scale).exp() * share.expand(1, C);
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
    if variant("split on its way") {
        dense_scaled::<Split>(q, k, &mut weights, scalar(1.0));
        dense_scaled::<Split>(d_out, v, &mut gains, scalar(1.0));
    } else {
        planes_product(q, &k.permuted([1, 0]), &mut weights);
        planes_product(d_out, &v.permuted([1, 0]), &mut gains);
    }
    softmax_gains(&mut weights, &mut gains, scale);
    if variant("slopes are split on their way") {
        split_matrix_multiplication(&gains, k, d_q);
    } else {
        planes_product(&gains, k, d_q);
    }
    turned_product::<Split>(&gains, q, d_k);
    turned_product::<Split>(&weights, d_out, d_v);
}

/// What the judge gives, in double precision.
struct Given {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    d_out: Vec<f64>,
    /// Elements of a row.
    d: usize,
}

impl Given {
    fn new(x: &Case) -> Given {
        let all = |name: &str| (0..x.tensor(name).numel()).map(|i| x.at(name, i)).collect();
        Given { q: all("Q"), k: all("K"), v: all("V"), d_out: all("dO"), d: x.len("d") }
    }

    /// Row `i` of the queries, or of what is as large.
    fn row<'a>(&self, of: &'a [f64], i: usize) -> &'a [f64] {
        &of[i * self.d..(i + 1) * self.d]
    }

    /// Of a query: its weights, and the slopes of its scores.
    fn weights_and_slopes(&self, i: usize) -> [Vec<f64>; 2] {
        let scale = 1.0 / (self.d as f64).sqrt();
        let products = |row: &[f64], with: &[f64]| -> Vec<f64> {
            with.chunks_exact(self.d).map(|other| row.iter().zip(other).map(|(a, b)| a * b).sum()).collect()
        };
        let (scores, gains) = (products(self.row(&self.q, i), &self.k), products(self.row(&self.d_out, i), &self.v));
        let weights: Vec<f64> = weights_of(0..scores.len(), |j| scores[j] * scale).0.into_iter().map(|(_, weight)| weight).collect();
        let mean: f64 = weights.iter().zip(&gains).map(|(w, g)| w * g).sum();
        let slopes = weights.iter().zip(&gains).map(|(w, g)| w * (g - mean) * scale).collect();
        [weights, slopes]
    }

    /// The sums over the queries of `by[j]` times a row of `factors`, for each key `j`.
    fn by_keys(&self, by: impl Fn([Vec<f64>; 2]) -> Vec<f64> + Sync, factors: &[f64]) -> Vec<f64> {
        let queries = self.q.len().checked_div(self.d).unwrap_or(0);
        let parts = in_parts(queries, |range| {
            let mut sums = vec![0.0; self.k.len()];
            for i in range {
                for (sums, weight) in sums.chunks_exact_mut(self.d).zip(by(self.weights_and_slopes(i))) {
                    sums.iter_mut().zip(self.row(factors, i)).for_each(|(sum, factor)| *sum += weight * factor);
                }
            }
            sums
        });
        parts.into_iter().reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default()
    }
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
    .output_all("dQ", |x| {
        let given = Given::new(x);
        let row = |i: usize| {
            let mut sums = vec![0.0; given.d];
            for (slope, key) in given.weights_and_slopes(i)[1].iter().zip(given.k.chunks_exact(given.d)) {
                sums.iter_mut().zip(key).for_each(|(sum, element)| *sum += slope * element);
            }
            sums
        };
        each_of(x.len("M"), row).concat()
    })
    .output_all("dK", |x| {
        let given = Given::new(x);
        given.by_keys(|[_, slopes]| slopes, &given.q)
    })
    .output_all("dV", |x| {
        let given = Given::new(x);
        given.by_keys(|[weights, _]| weights, &given.d_out)
    })
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

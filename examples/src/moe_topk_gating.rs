//! The k largest logits of each row, in descending order, and the softmax over them.
//!
//! A row of up to 256 stays in registers; k times the largest of what is left is taken out. The weights' sum is carried along with the search.
//! Longer rows are read k times, each time for the largest of those that come behind the last one.

use girih::prelude::*;

/// Rows of at most 64 logits.
#[kernel(tile(R = [4, 1, 2, 8, 16], E = 64), coarsen(C of E = [2, 1, 4, 8]), vector(V = [2, 1, 4]))]
pub fn topk_rows_64(logits: &Tensor<f32, 2>, weights: &mut Tensor<f32, 2>, indices: &mut Tensor<i32, 2>) {
    for r in logits.axis(0).tiles(R) {
        for c in logits.axis(1).tiles(E) {
            gate(logits, weights, indices, r, c, R, E);
        }
    }
}

/// Rows of at most 256 logits.
#[kernel(tile(R = [4, 1, 2, 8, 16], E = 256), coarsen(C of E = [8, 4, 2]), vector(V = [2, 1, 4]))]
pub fn topk_rows_256(logits: &Tensor<f32, 2>, weights: &mut Tensor<f32, 2>, indices: &mut Tensor<i32, 2>) {
    for r in logits.axis(0).tiles(R) {
        for c in logits.axis(1).tiles(E) {
            gate(logits, weights, indices, r, c, R, E);
        }
    }
}

/// The k largest of some rows of one tile.
#[device]
fn gate(
    logits: &Tensor<f32, 2>,
    weights: &mut Tensor<f32, 2>,
    indices: &mut Tensor<i32, 2>,
    r: TileIdx,
    c: TileIdx,
    rows: Size,
    size: Size,
) {
    let k = weights.len(1).cast::<i32>();
    let mut left = logits.load((r, c));
    let place = iota::<i32>(size).expand(0, rows);
    let first = left.max_axis(1);
    let mut sum = zeros::<f32>([rows]);
    let mut best = zeros::<f32>([rows, size]);
    let mut at = zeros::<i32>([rows, size]);
    for i in 0..k {
        let (v, j) = left.without_nan().arg_max_axis(1, iota::<i32>(size));
        let e = (v - first).exp();
        sum += e;
        let here = place == i;
        best = select(here, e.expand(1, size), best);
        at = select(here, j.expand(1, size), at);
        left = select(place == j.expand(1, size), f32::NEG_INFINITY, left);
    }
    let (row, col) = (r.coords().expand(1, size), c.coords().expand(0, rows));
    weights.scatter((row, col), best / sum.expand(1, size));
    indices.scatter((row, col), at);
}

/// Of two logits with their places the one that comes first: the larger one, of equal ones the one before.
#[device]
fn ahead(a: (Scalar<f32>, Scalar<i32>), b: (Scalar<f32>, Scalar<i32>)) -> (Scalar<f32>, Scalar<i32>) {
    let first = a.0 > b.0 || (a.0 == b.0 && a.1 < b.1);
    (select(first, a.0, b.0), select(first, a.1, b.1))
}

/// Rows of any length: the places, and weights that are not divided by their sums yet.
#[kernel(tile(R = 1, E = [1024, 256, 512, 2048]), coarsen(C of E = [4, 8, 2]), vector(V = [4, 1, 2]), min_blocks(Q = [2, 1]))]
pub fn topk_long_rows(logits: &Tensor<f32, 2>, weights: &mut Tensor<f32, 2>, indices: &mut Tensor<i32, 2>, sums: &mut Tensor<f32, 1>) {
    let k = weights.len(1).cast::<i32>();
    for r in logits.axis(0).tiles(R) {
        let mut last = (full::<f32>([R], f32::INFINITY), full::<i32>([R], -1));
        let (mut first, mut sum) = (zeros::<f32>([R]), zeros::<f32>([R]));
        for i in 0..k {
            let mut best = (full::<f32>([R, E], f32::NEG_INFINITY), full::<i32>([R, E], i32::MAX));
            for c in logits.axis(1).tiles(E) {
                let v = logits.load((r, c)).or(f32::NEG_INFINITY);
                let at = c.coords().cast::<i32>().expand(0, R);
                let (most, before) = (last.0.expand(1, E), last.1.expand(1, E));
                let behind = v < most || (v == most && at > before);
                // Of a thread's equal elements the first one stays.
                let takes = behind && (v > best.0 || best.1 == i32::MAX);
                best = (select(takes, v, best.0), select(takes, at, best.1));
            }
            last = best.commutative().reduce_axis(1, (f32::NEG_INFINITY, i32::MAX), ahead);
            first = select(i == 0, last.0, first);
            let e = (last.0 - first).exp();
            sum += e;
            weights.scatter((r.coords(), r.coords().like(i.cast::<i64>())), e);
            indices.scatter((r.coords(), r.coords().like(i.cast::<i64>())), last.1);
        }
        sums.store(r, sum);
    }
}

/// weights = each divided by the sum of its row.
#[kernel(tile(R = [1, 4], E = [64, 256]), coarsen(C of E = [1, 2]))]
pub fn divide_by_sums(weights: &mut Tensor<f32, 2>, sums: &Tensor<f32, 1>) {
    for (r, c) in weights.tiles([R, E]) {
        weights.store((r, c), weights.load((r, c)) / sums.load(r).expand(1, E));
    }
}

/// What the judge calls.
#[program]
pub fn solve(logits: &Tensor<f32, 2>, weights: &mut Tensor<f32, 2>, indices: &mut Tensor<i32, 2>) {
    if logits.len(1) <= 64 {
        topk_rows_64(logits, weights, indices);
    } else if logits.len(1) <= 256 {
        topk_rows_256(logits, weights, indices);
    } else {
        let mut sums = temp([logits.len(0)]);
        topk_long_rows(logits, weights, indices, &mut sums);
        divide_by_sums(weights, &sums);
    }
}

girih::challenge! {
    Challenge::new("moe_topk_gating", solve::Program::def,
        "void solve(const float* logits[M, E], float* topk_weights[M, k], int* topk_indices[M, k], int M, int E, int k)")
        .input("logits", normal(0.0, 1.0))
        .output_rows("topk_weights", |x, r| {
            let top = top(x, r);
            let sum: f64 = top.iter().map(|t| (t.0 - top[0].0).exp()).sum();
            top.iter().map(|t| (t.0 - top[0].0).exp() / sum).collect()
        })
        .output_rows("topk_indices", |x, r| top(x, r).iter().map(|t| t.1 as f64).collect())
        .tolerance(1e-5, 1e-5)
        .check_at(["M=1, E=1, k=1", "M=3, E=7, k=2", "M=5, E=64, k=2", "M=33, E=8, k=8", "M=2, E=256, k=256", "M=4, E=129, k=5", "M=0, E=64, k=2", "M=3, E=257, k=9", "M=2, E=5000, k=300"])
        .perf_at("M=1024, E=64, k=2")
}

/// The k largest logits of row r, and where they are.
fn top(x: &girih::challenge::Case, r: usize) -> Vec<(f64, usize)> {
    let (e, k) = (x.len("E"), x.len("k"));
    let mut all: Vec<(f64, usize)> = (0..e).map(|j| (x.at("logits", r * e + j), j)).collect();
    all.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
    all.truncate(k);
    all
}

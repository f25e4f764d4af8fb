//! The sum of a token's and a position's row of two tables, then layer normalisation.
//!
//! A row that fits one tile is read once: its three walks become one.

use girih::prelude::*;

/// out = γ · (s − mean) / √(var + ε) + β with `s = words[token] + places[position]`. A block has a row.
#[kernel(
    tile(C = [1024, 256, 512, 768]),
    coarsen(CC of C = [4, 8, 1, 2, 12]),
    vector(V = [4, 1, 2]),
    cache(H = [Default, Stores])
)]
pub fn embed(
    tokens: &Tensor<i32, 2>,
    positions: &Tensor<i32, 1>,
    words: &Tensor<f32, 2>,
    places: &Tensor<f32, 2>,
    gamma: &Tensor<f32, 1>,
    beta: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 3>,
    eps: Scalar<f32>,
) {
    tokens.within(0..words.len(0));
    positions.within(0..places.len(0));
    let tokens = &tokens.slice(0, 0, out.len(0)).slice(1, 0, out.len(1));
    let positions = &positions.slice(0, 0, out.len(1));
    for (b, t) in out.axes([0, 1]).tiles([1, 1]) {
        let word = tokens.at((b.number(), t.number()));
        let place = positions.at(t.number());
        let d = out.len(2).cast::<f32>();
        let mut sum = zeros::<f32>([C]);
        for c in out.axis(2).tiles(C) {
            sum += words.load((word, c)) + places.load((place, c));
        }
        let mean = sum.sum() / d;
        let mut squares = zeros::<f32>([C]);
        for c in out.axis(2).tiles(C) {
            let v = words.load((word, c)) + places.load((place, c)) - mean;
            squares += v * v;
        }
        let scale = (squares.sum() / d + eps).rsqrt();
        for c in out.axis(2).tiles(C) {
            let v = words.load((word, c)) + places.load((place, c)) - mean;
            out.store((b.number(), t.number(), c), gamma.load(c) * (v * scale) + beta.load(c));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    tokens: &Tensor<i32, 2>,
    positions: &Tensor<i32, 1>,
    words: &Tensor<f32, 2>,
    places: &Tensor<f32, 2>,
    gamma: &Tensor<f32, 1>,
    beta: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 3>,
    eps: Scalar<f32>,
) {
    embed(tokens, positions, words, places, gamma, beta, out, eps);
}

girih::challenge! {
    Challenge::new(
        "token_embedding_layer",
        solve::Program::def,
        "void solve(const int* token_ids[B, T], const int* position_ids[T], const float* token_embeddings[V, D], const float* position_embeddings[P, D], const float* gamma[D], const float* beta[D], float* output[B, T, D], int B, int T, int V, int P, int D, float eps)",
    )
    .input("token_ids", below("V"))
    .input("position_ids", below("P"))
    .input("token_embeddings", uniform(-0.3, 0.3))
    .input("position_embeddings", uniform(-0.3, 0.3))
    .input("gamma", uniform(0.8, 1.2))
    .input("beta", uniform(-0.1, 0.1))
    .output_rows("output", |x, r| {
        let (t, d) = (x.len("T"), x.len("D"));
        let word = x.at("token_ids", r) as usize;
        let place = x.at("position_ids", r % t) as usize;
        let s: Vec<f64> =
            (0..d).map(|i| x.at("token_embeddings", word * d + i) + x.at("position_embeddings", place * d + i)).collect();
        let mean = s.iter().sum::<f64>() / d as f64;
        let var = s.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / d as f64;
        let scale = 1.0 / (var + x.scalar("eps")).sqrt();
        (0..d).map(|i| x.at("gamma", i) * (s[i] - mean) * scale + x.at("beta", i)).collect()
    })
    .tolerance(1e-4, 1e-4)
    .check_at([
        "B=0, T=3, V=5, P=7, D=8",
        "B=1, T=1, V=1, P=1, D=1",
        "B=2, T=3, V=11, P=5, D=7",
        "B=3, T=5, V=17, P=9, D=64",
        "B=2, T=9, V=100, P=33, D=257",
        "B=2, T=4, V=50, P=20, D=768",
        "B=1, T=3, V=10, P=20, D=1100",
    ])
    .perf_at("B=32, T=512, V=30_000, P=2048, D=768, eps=0.00001")
    .flops(|s| 8.0 * s.size("B") * s.size("T") * s.size("D"))
    .bytes(|s| 4.0 * (2.0 * s.size("B") * s.size("T") * s.size("D") + s.size("P") * s.size("D")))
}

//! A transformer with two numbers per token that adds decimal numbers: digits in, lowest first, and the digits of the sum out, one by one.
//!
//! Keys and values depend on one token each, so a block keeps those of its sequences in registers, a row of positions for each sequence, and
//! puts in what it has decoded. Every query is the last position's: a step is one row of scores, its softmax and a few numbers more.

use super::block_references::uniform_weight;
use girih::prelude::*;
use std::f64::consts::{LN_10, LOG2_E, SQRT_2, TAU};

/// Tokens of a prompt, and tokens that are decoded.
const PROMPT: usize = 31;
const STEPS: usize = 11;
/// Kinds of tokens: the digits.
const DIGITS: usize = 10;
/// By how much a position turns keys and queries: once around in 19 positions.
const TURN: f64 = TAU / 19.0;

/// What a score is multiplied by: scores at distances of 0.3 and 0.7 positions differ by ln 10.
fn sharpness() -> f64 {
    LN_10 / (SQRT_2 * ((0.3 * TURN).cos() - (0.7 * TURN).cos())) / SQRT_2
}

/// A pair over the root of its mean square.
fn normal_pair((a, b): (Tile<f32>, Tile<f32>)) -> (Tile<f32>, Tile<f32>) {
    let scale = ((a * a + b * b) * 0.5 + 1e-6).rsqrt();
    (a * scale, b * scale)
}

fn silu(x: Tile<f32>) -> Tile<f32> {
    x * x.sigmoid()
}

/// The embedding of digits.
fn embedding(digit: Tile<i32>, w: &[Scalar<f32>; 10]) -> (Tile<f32>, Tile<f32>) {
    let d = digit.cast::<f32>();
    (w[0] - d * d * w[1], -d)
}

/// The keys' length, and the values of digits.
fn key_and_value(digit: Tile<i32>, w: &[Scalar<f32>; 10]) -> (Tile<f32>, Tile<f32>) {
    let (first, second) = normal_pair(embedding(digit, w));
    (first * (first * first * 0.5 + 1e-6).rsqrt(), second * w[4])
}

/// Cosine and sine of positions below 64: a product of the turns of their bits, which needs no reduction of large angles.
fn turned_by(position: Tile<i32>) -> (Tile<f32>, Tile<f32>) {
    let (mut cos, mut sin) = (position.cast::<f32>() * 0.0 + 1.0, position.cast::<f32>() * 0.0);
    for bit in 0..6 {
        let (s, c) = (TURN * f64::from(1 << bit)).sin_cos();
        let is_set = ((position >> bit) & 1).cast::<f32>();
        let (c, s) = (is_set * (c - 1.0) + 1.0, is_set * s);
        (cos, sin) = (cos * c - sin * s, sin * c + cos * s);
    }
    (cos, sin)
}

/// The logits of the digits behind each prompt.
#[kernel(
    tile(T = [32, 64, 16, 128], P = 48),
    coarsen(CT of T = [1, 2], CP of P = [12, 24, 6, 48])
)]
pub fn decode_sums(prompts: &Tensor<i32, 2>, weights: &Tensor<f32, 1>, logits: &mut Tensor<f32, 3>) {
    let w = std::array::from_fn(|i| weights.at(i as i64));
    let w = &w;
    let (position, choice) = (iota::<i32>(P), iota::<i32>(DIGITS));
    let (cos, sin) = turned_by(position);
    for r in logits.axis(0).tiles(T) {
        let mut digit = zeros::<i32>([T, P]);
        for c in prompts.axis(1).tiles(P) {
            digit += prompts.load((r, c));
        }
        // Keys are turned once, by their own position.
        let (key, mut value) = key_and_value(digit, w);
        let mut keys = (key * cos.expand(0, T), key * sin.expand(0, T));
        let mut last = select(position.expand(0, T) == PROMPT as i32 - 1, digit, 0).sum_axis(1);
        let ((s, c), (step_sin, step_cos)) = (((PROMPT - 1) as f64 * TURN).sin_cos(), TURN.sin_cos());
        let mut turn = (scalar::<f32>(c as f32), scalar::<f32>(s as f32));
        for step in 0..scalar::<i32>(STEPS as i32) {
            let here = step + (PROMPT as i32 - 1);
            let token = embedding(last, w);
            let (first, _) = normal_pair(token);
            let (x, y) = normal_pair((first * w[2], first * w[3]));
            let (cos, sin) = (turn.0 * (sharpness() * LOG2_E), turn.1 * (sharpness() * LOG2_E));
            let query = (x * cos - y * sin, x * sin + y * cos);
            let along = query.0.expand(1, P) * keys.0 + query.1.expand(1, P) * keys.1;
            let scores = select((position <= here).expand(0, T), along, f32::MIN);
            let shares = (scores - scores.max_axis(1).expand(1, P)).exp2_approx();
            let attended = (shares * value).sum_axis(1) / shares.sum_axis(1);
            let (h0, h1) = (token.0, token.1 + attended);
            let (m0, m1) = normal_pair((h0, h1));
            let gates = [m0 * (w[5] - w[6] * 0.001) + m1 * w[6], m0 * w[5] + m1 * w[6]];
            let h1 = h1 + w[7] * m0 * (silu(gates[0]) - silu(gates[1]));
            let (u0, u1) = normal_pair((h0, h1));
            let (e0, e1) = embedding(choice, w);
            let scored = (u0 * w[8]).expand(1, DIGITS) * e0.expand(0, T) + (u1 * w[9]).expand(1, DIGITS) * e1.expand(0, T);
            logits.store((r, step, ..DIGITS as i32), scored);
            last = scored.arg_max_axis(1, choice).1;
            let (key, next_value) = key_and_value(last, w);
            turn = (turn.0 * step_cos - turn.1 * step_sin, turn.1 * step_cos + turn.0 * step_sin);
            let is_next = (position == here + 1).expand(0, T);
            keys.0 = select(is_next, (key * turn.0).expand(1, P), keys.0);
            keys.1 = select(is_next, (key * turn.1).expand(1, P), keys.1);
            value = select(is_next, next_value.expand(1, P), value);
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(prompts: &Tensor<i32, 2>, output: &mut Tensor<f32, 3>, weights: &Tensor<f32, 1>) {
    decode_sums(prompts, weights, output);
}

/// Weights that add: attention finds ten times the sum of the digits of a place and the sum of those before, which tells of the carry when
/// the last digit is taken away; two gates take 100 from what is above 95, and the nearest digit's logit is the largest.
const WEIGHTS: [f64; 10] = [1000.0, 0.1, -0.9652089102773487, 0.26147994095381993, -15347.0, -463.6, 5000.0, 10.1, 1.0, -20.05];

/// Digits of two numbers, lowest first, between zeros. The first prompts have the longest carries.
fn prompt(_: &[i64], i: usize) -> f64 {
    let (row, position) = (i / PROMPT, i % PROMPT);
    let (in_first, in_second) = ((1..=10).contains(&position), (20..30).contains(&position));
    match row {
        _ if !in_first && !in_second => 0.0,
        0 => 9.0,
        1 if in_first => 9.0,
        1 => f64::from(u8::from(position == 20)),
        _ => uniform_weight(i, 0.0, 10.0).floor(),
    }
}

/// The logits of a prompt's steps, in double precision and as the model is defined: every token's key and value at every step.
fn decoded(x: &girih::challenge::Case, row: usize) -> Vec<f64> {
    let w: Vec<f64> = (0..10).map(|i| x.at("weights", i)).collect();
    let normal = |[a, b]: [f64; 2]| [a, b].map(|v| v / ((a * a + b * b) / 2.0 + 1e-6).sqrt());
    let turned = |[a, b]: [f64; 2], position: usize| {
        let (sin, cos) = (position as f64 * TURN).sin_cos();
        [a * cos - b * sin, a * sin + b * cos]
    };
    let embedding = |d: f64| [w[0] - w[1] * d * d, -d];
    let silu = |v: f64| v / (1.0 + (-v).exp());
    let mut tokens: Vec<f64> = (0..PROMPT).map(|p| x.at("prompts", row * PROMPT + p)).collect();
    let mut logits = Vec::new();
    for _ in 0..STEPS {
        let here = tokens.len() - 1;
        let own = normal(embedding(tokens[here]));
        let query = turned(normal([own[0] * w[2], own[0] * w[3]]), here);
        let score = |p: usize| {
            let key = turned(normal([normal(embedding(tokens[p]))[0], 0.0]), p);
            (query[0] * key[0] + query[1] * key[1]) * sharpness()
        };
        let value = |p: usize, _: usize| normal(embedding(tokens[p]))[1] * w[4];
        let attended = super::attention::reference(0..=here, score, 1, value)[0];
        let [h0, h1] = [embedding(tokens[here])[0], embedding(tokens[here])[1] + attended];
        let m = normal([h0, h1]);
        let gates = [m[0] * w[5] + m[1] * w[6], m[0] * (w[5] - w[6] / 1000.0) + m[1] * w[6]];
        let u = normal([h0, h1 + w[7] * m[0] * (silu(gates[1]) - silu(gates[0]))]);
        let logit = |d: usize| u[0] * w[8] * embedding(d as f64)[0] + u[1] * w[9] * embedding(d as f64)[1];
        let best = (1..DIGITS).fold(0, |best, d| if logit(d) > logit(best) { d } else { best });
        logits.extend((0..DIGITS).map(logit));
        tokens.push(best as f64);
    }
    logits
}

girih::challenge! {
    Challenge::new(
        "adder_transformer",
        solve::Program::def,
        "void solve(const int* prompts[batch_size, 31], float* output[batch_size, 11, 10], const float* weights[10], int batch_size)",
    )
    .input("prompts", formula(prompt))
    .input("weights", formula(|_, i| WEIGHTS[i]))
    .output_all("output", |x| (0..x.len("batch_size")).flat_map(|row| decoded(x, row)).collect())
    .tolerance(1e-2, 1e-2)
    .check_at(["batch_size=0", "batch_size=1", "batch_size=2", "batch_size=19", "batch_size=33"])
    .perf_at("batch_size=100_000")
    // A score, its share of the softmax and its part of the sum at each step.
    .flops(|s| 20.0 * s.size("batch_size") * 11.0 * 36.0)
}

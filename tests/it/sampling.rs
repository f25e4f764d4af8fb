//! What is drawn from a nucleus is distributed as its tokens' probabilities, renormalised.

use girih::prelude::*;
use girih::{Device, Stream};
use girih_core::target::Target;
use girih_examples::top_p_sampling::{self, Candidates, draw};

/// Fewer than there are logits in one of the cases, more than in the others.
const SIZE: i64 = 128;

/// A token for each seed; a block has a row of them.
#[kernel(tile(B = 1), threads(N = 128))]
fn draws(
    logits: &Tensor<f32, 1>,
    tokens: &Tensor<i32, 1>,
    seeds: &Tensor<i32, 2>,
    drawn: &mut Tensor<i32, 2>,
    largest: Scalar<f32>,
    goal: Scalar<f32>,
) {
    for row in drawn.axis(0).tiles(B) {
        for s in 0..drawn.len(1) {
            let seed = seeds.load((row, s)).cast::<u32>().sum();
            let speeds = |_, tokens: Tile<i32>, logits: Tile<f32>| top_p_sampling::speeds((logits - largest).exp(), seed, tokens);
            let candidates = Candidates { logits, tokens, count: logits.len(0), largest, speeds: &speeds };
            drawn.store((row, s), draw(candidates, logits, goal, SIZE).splat([B]));
        }
    }
}

const SEEDS: usize = 10_000;

/// How often each token is drawn.
fn counts(logits: &[f32], p: f32) -> Vec<usize> {
    let stream = Stream::on(&Device::sim(Target::h200()));
    let n = logits.len();
    let seeds: Vec<i32> = (0..SEEDS as i32).collect();
    let tokens: Vec<i32> = (0..n as i32).collect();
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let goal = p * logits.iter().map(|l| (l - largest).exp()).sum::<f32>();
    let (logits, tokens) = (stream.tensor(logits, [n]).unwrap(), stream.tensor(&tokens, [n]).unwrap());
    let (seeds, mut drawn) = (stream.tensor(&seeds, [10, SEEDS / 10]).unwrap(), stream.zeros([10, SEEDS / 10]).unwrap());
    draws(&stream, &logits, &tokens, &seeds, &mut drawn, largest, goal).unwrap();
    let mut counts = vec![0; n];
    for token in stream.read(&drawn).unwrap() {
        counts[token as usize] += 1;
    }
    counts
}

/// The weights of the tokens in the nucleus, and zeros.
fn nucleus(logits: &[f32], p: f64) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|l| (*l as f64).exp()).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let goal = p * weights.iter().sum::<f64>();
    let (mut before, mut kept) = (0.0, vec![0.0; weights.len()]);
    for (rank, token) in order.into_iter().enumerate() {
        if rank == 0 || before < goal {
            kept[token] = weights[token];
        }
        before += weights[token];
    }
    kept
}

#[test]
fn tokens_are_drawn_as_often_as_is_probable() {
    let distinct = [0.3, -1.2, 2.1, 0.9, -0.4, 1.5, -3.0, 0.0, 1.1, -2.2, 0.6, 1.8];
    // Seven equal ones, of which some belong to the nucleus.
    let ties = [1.0, 0.5, 1.0, 2.0, 1.0, 1.0, -1.0, 1.0, 1.0, 0.0, 1.0];
    let many: Vec<f32> = (0..150).map(|i| (i * 7 % 150) as f32 / 40.0).collect();
    for (logits, p) in
        [(&many[..], 0.8), (&distinct[..], 0.9), (&distinct[..], 0.3), (&distinct[..], 1.0), (&ties[..], 0.55), (&ties[..], 0.0)]
    {
        let (counts, kept) = (counts(logits, p), nucleus(logits, p as f64));
        let all: f64 = kept.iter().sum();
        let mut distance = 0.0;
        for (token, (count, weight)) in counts.iter().zip(&kept).enumerate() {
            assert!(*weight > 0.0 || *count == 0, "p = {p}: token {token} is drawn {count} times, and lies outside of the nucleus");
            if *weight > 0.0 {
                let expected = SEEDS as f64 * weight / all;
                distance += (*count as f64 - expected).powi(2) / expected;
            }
        }
        // The chi-square distribution's mean and some of its deviations.
        let freedom = kept.iter().filter(|w| **w > 0.0).count() as f64 - 1.0;
        let bound = freedom + 4.5 * (2.0 * freedom).sqrt() + 2.0;
        assert!(distance <= bound, "p = {p}: chi-square is {distance:.1}, at most {bound:.1} is allowed: {counts:?}");
    }
}

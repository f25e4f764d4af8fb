//! A token drawn from the nucleus: the most probable tokens, as few as have a probability of p together.
//!
//! Tokens whose probability is less than (1 - p) / vocabulary have less than 1 - p together, and none of them is in the nucleus: a launch
//! keeps the others, a fifth of the judge's. Each token waits for a time that is exponentially distributed with its weight as the rate, and
//! the first one is drawn. One block asks of the first of all candidates whether those that are more probable weigh less than p: then it is
//! of the nucleus, and its first one. If not, which happens with a probability of less than 1 - p, the question is for the first of those
//! that are more probable. So probabilities need no order and no running sums, and whoever asks for the nucleus itself does more than has to
//! be done. (FlashInfer draws by such rejections, too: <https://flashinfer.ai/2025/03/10/sampling.html>.) A token's random bits depend on the
//! seed and its number alone.

use crate::softmax::softmax_statistics;
use girih::prelude::*;

/// Candidates that a block looks at at a time.
const SIZE: i64 = 4096;

/// Bits of the seed and a token, each as likely 0 as 1 (two rounds of Wellons' lowbias32).
fn random_bits(seed: Scalar<u32>, token: Tile<i32>) -> Tile<u32> {
    let mixed = |x: Tile<u32>| {
        let x = (x ^ (x >> 16)) * 0x7feb_352du32;
        let x = (x ^ (x >> 15)) * 0x846c_a68bu32;
        x ^ (x >> 16)
    };
    let first = mixed(token.cast::<u32>() * 0x9e37_79b9u32 + seed);
    mixed(first + (seed ^ 0x85eb_ca6bu32))
}

/// Exponentially distributed times of rate 1: -ln(1 - u), by its series where 1 - u would lose digits of u.
#[device]
fn times(bits: Tile<u32>) -> Tile<f32> {
    let u = (bits.cast::<f32>() + 0.5) * 2f32.powi(-32);
    select(u < 0.004, u * (u * (u * (1.0 / 3.0) + 0.5) + 1.0), -(-u + 1.0).max(f32::MIN_POSITIVE).log())
}

/// Weights by the times for which tokens wait: the one with the largest is drawn first.
#[device]
pub fn speeds(weights: Tile<f32>, seed: Scalar<u32>, tokens: Tile<i32>) -> Tile<f32> {
    weights / times(random_bits(seed, tokens))
}

/// What the tokens that may be in a nucleus have.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    /// Their logits.
    pub logits: &'a Tensor<f32, 1>,
    /// Their numbers.
    pub tokens: &'a Tensor<i32, 1>,
    /// How many there are: the first of both tensors.
    pub count: Scalar<i64>,
    /// The largest logit of all.
    pub largest: Scalar<f32>,
    /// [`speeds`] of those at some places with these tokens and logits.
    pub speeds: &'a dyn Fn(Tile<i64>, Tile<i32>, Tile<f32>) -> Tile<f32>,
}

/// Candidates that the threads of a block have.
struct Part {
    logits: Tile<f32>,
    tokens: Tile<i32>,
    speeds: Tile<f32>,
}

#[device]
impl Candidates<'_> {
    /// Those at as many places; behind the last one there are some that weigh nothing and are never drawn.
    fn at(&self, places: Tile<i64>, size: i64) -> Part {
        let are = places < self.count;
        let logits = if are { self.logits.gather_in_bounds(places) } else { full::<f32>([size], f32::NEG_INFINITY) };
        let tokens = if are { self.tokens.gather_in_bounds(places) } else { full::<i32>([size], i32::MAX) };
        let speeds = if are { (self.speeds)(places, tokens, logits) } else { full::<f32>([size], -1.0) };
        Part { logits, tokens, speeds }
    }
}

#[device]
impl Part {
    /// Where candidates come before a token with this logit: with a larger one, or the same and a smaller number.
    fn before(&self, logit: Scalar<f32>, token: Scalar<i32>) -> Tile<bool> {
        self.logits > logit || (self.logits == logit && self.tokens < token)
    }
}

/// The token that is drawn from the nucleus: of all candidates the one that is drawn first, if those before it weigh less than `goal`
/// together. If not, neither it nor any that comes after it belongs to the nucleus, and of those before it the first one is drawn. `goal` is
/// p times the weight of all tokens, of which those that are no candidates have less than is missing to the weight of all. The block looks at
/// `size` candidates at a time.
#[device]
pub fn draw(candidates: Candidates, of: &Tensor<f32, 1>, goal: Scalar<f32>, size: i64) -> Scalar<i32> {
    let parts = || candidates.logits.axis(0).tiles(size).within(scalar(0i64)..candidates.count);
    let (mut logit, mut token, mut weight) = (scalar(f32::NEG_INFINITY), scalar(i32::MAX), scalar(f32::INFINITY));
    // Nothing comes before the most probable token.
    while weight >= goal && weight > 0.0 {
        let (mut most, mut first) = (full::<f32>([size], -1.0), full::<i32>([size], i32::MAX));
        for t in parts() {
            let part = candidates.at(t.coords(), size);
            let sooner = part.before(logit, token) && part.speeds > most;
            most = select(sooner, part.speeds, most);
            first = select(sooner, part.tokens, first);
        }
        token = most.arg_max_all(first).1;
        // Without any candidate, where p is no number, the weight is 0 and the token none.
        logit = of.at(token.cast::<i64>().min(of.len(0) - 1));
        let mut above = zeros::<f32>([size]);
        for t in parts() {
            let part = candidates.at(t.coords(), size);
            above += select(part.before(logit, token), (part.logits - candidates.largest).exp(), 0.0);
        }
        weight = above.sum();
    }
    token
}

/// kept = the logits of the tokens that may be in the nucleus, tokens their numbers and raced their speeds, in any order;
/// found = how many.
#[kernel(tile(T = [1024, 512, 2048]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn keep_probable(
    logits: &Tensor<f32, 1>,
    p: &Tensor<f32, 1>,
    seed: &Tensor<i32, 1>,
    statistics: &Tensor<f32, 1>,
    found: &mut Tensor<i32, 1>,
    kept: &mut Tensor<f32, 1>,
    tokens: &mut Tensor<i32, 1>,
    raced: &mut Tensor<f32, 1>,
) {
    for t in logits.tiles([T]) {
        let v = logits.load(t);
        let largest: Scalar<f32> = statistics.at(0);
        // A thousandth is for what sums are rounded by.
        let least = (-p.at(0) + 1.0).max(0.0) * 0.999 * statistics.at(1) / logits.len(0).cast::<f32>();
        let weight = (v - largest).exp();
        let some = weight >= least;
        let ones = select(some, v.like(1.0), 0.0).cast::<i32>();
        let count = ones.sum();
        if count > 0 {
            let slot = ones.scan_sum(along(0).exclusive()) + found.fetch_add_at(0, count);
            if some {
                let token = t.coords().cast::<i32>();
                let of_seed: Scalar<i32> = seed.at(0);
                kept.scatter(slot, v);
                tokens.scatter(slot, token);
                raced.scatter(slot, speeds(weight, of_seed.cast::<u32>(), token));
            }
        }
    }
}

/// sampled = a token that is drawn from the nucleus.
#[kernel(tile(B = 1), threads(N = [1024, 512]), cache(H = [Default, Loads]))]
pub fn draw_token(
    logits: &Tensor<f32, 1>,
    kept: &Tensor<f32, 1>,
    tokens: &Tensor<i32, 1>,
    raced: &Tensor<f32, 1>,
    found: &Tensor<i32, 1>,
    statistics: &Tensor<f32, 1>,
    p: &Tensor<f32, 1>,
    sampled: &mut Tensor<i32, 1>,
) {
    kept.same_shape(tokens);
    kept.same_shape(raced);
    for b in sampled.tiles([B]) {
        let count: Scalar<i32> = found.at(0);
        let stored = |places: Tile<i64>, _, _| raced.gather_in_bounds(places);
        let candidates = Candidates { logits: kept, tokens, count: count.cast::<i64>(), largest: statistics.at(0), speeds: &stored };
        let token = draw(candidates, logits, p.at(0) * statistics.at(1), SIZE);
        sampled.store(b, token.splat([B]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(logits: &Tensor<f32, 1>, p: &Tensor<f32, 1>, seed: &Tensor<i32, 1>, sampled_token: &mut Tensor<i32, 1>) {
    let n = logits.len(0);
    let (mut statistics, mut found) = (temp([2]), temp_filled([1], 0i32));
    let (mut kept, mut tokens, mut raced) = (temp([n]), temp([n]), temp([n]));
    softmax_statistics(logits, &mut statistics);
    keep_probable(logits, p, seed, &statistics, &mut found, &mut kept, &mut tokens, &mut raced);
    draw_token(logits, &kept, &tokens, &raced, &found, &statistics, p, sampled_token);
}

/// Normally distributed with a deviation of 3; at some lengths in steps of a half, so that many are equal.
fn logit(lens: &[i64], i: usize) -> f64 {
    let mut rng = girih::inputs::Rng::new(i as u64);
    let (u, v) = (rng.unit(), rng.unit());
    let logit = 3.0 * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    match lens[0] {
        7 | 1_000 => (2.0 * logit).round() / 2.0,
        33 | 20_000 => 1.0,
        _ => logit,
    }
}

/// The tokens of the nucleus, each with its weight.
fn exact_nucleus(logits: &[f64], p: f64) -> Vec<(usize, f64)> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut all: Vec<(usize, f64)> = logits.iter().map(|l| (l - largest).exp()).enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let goal = p * all.iter().map(|t| t.1).sum::<f64>();
    let mut sum = 0.0;
    let below = all.iter().filter(|t| {
        sum += t.1;
        sum < goal
    });
    all.truncate(below.count() + 1);
    all
}

/// The time for which a token of weight 1 waits, as [`times`] has it.
fn waits(seed: u32, token: u32) -> f64 {
    let mixed = |x: u32| {
        let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^ (x >> 16)
    };
    let first = mixed(token.wrapping_mul(0x9e37_79b9).wrapping_add(seed));
    let bits = mixed(first.wrapping_add(seed ^ 0x85eb_ca6b));
    -(-(bits as f64 + 0.5) / 2f64.powi(32)).ln_1p()
}

girih::challenge! {
    Challenge::new(
        "top_p_sampling",
        solve::Program::def,
        "void solve(const float* logits[vocab_size], const float* p[1], const int* seed[1], int* sampled_token[1], int vocab_size)",
    )
    .input("logits", formula(logit))
    .input("p", formula(|_, _| 0.9))
    .input("seed", formula(|_, _| 999.0))
    .output_all("sampled_token", |x| {
        let logits: Vec<f64> = (0..x.len("vocab_size")).map(|i| x.at("logits", i)).collect();
        let seed = x.at("seed", 0) as i32 as u32;
        let speed = |t: &(usize, f64)| t.1 / waits(seed, t.0 as u32);
        let first = exact_nucleus(&logits, x.at("p", 0)).into_iter().max_by(|a, b| speed(a).total_cmp(&speed(b)));
        vec![first.expect("a nucleus has a token").0 as f64]
    })
    .check_at([
        "vocab_size=1",
        "vocab_size=2",
        "vocab_size=7",
        "vocab_size=33",
        "vocab_size=1_000",
        "vocab_size=1_021",
        "vocab_size=4_097",
        "vocab_size=20_000",
    ])
    .perf_at("vocab_size=50_000")
    .flops(|s| 5.0 * s.size("vocab_size"))
}

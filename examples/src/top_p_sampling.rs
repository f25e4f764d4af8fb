//! A token drawn from the nucleus: the most probable tokens, as few as have a probability of p together.
//!
//! Tokens whose probability is less than (1 - p) / vocabulary have less than 1 - p together, and none of them is in the nucleus: a launch
//! keeps the others, a fifth of the judge's. One block then finds the least logit of the nucleus, two bits a turn, by sums of what is above,
//! and draws: each token waits for a time that is exponentially distributed with its weight as the rate, and the first one is drawn. So
//! probabilities need no order and no running sums. A token's random bits depend on the seed and its number alone.

use crate::softmax::softmax_statistics;
use girih::algorithms::Order;
use girih::prelude::*;

/// Candidates that a block keeps in registers.
const NEAR: i64 = 16_384;

/// The order of floats.
fn ascending() -> Order<u32> {
    Order::of::<f32>()
}

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
}

/// Candidates that the threads of a block have.
struct Part {
    keys: Tile<u32>,
    /// Relative to the largest one's.
    weights: Tile<f32>,
    /// Where there are candidates.
    are: Tile<bool>,
}

#[device]
impl Candidates<'_> {
    /// Those at as many places; behind the last one nothing was written.
    fn at(&self, places: Tile<i64>, size: i64) -> Part {
        let are = places < self.count;
        let logits = if are { self.logits.gather(places) } else { full::<f32>([size], f32::NEG_INFINITY) };
        Part { keys: ascending().numbers(logits.bitcast::<u32>()), weights: (logits - self.largest).exp(), are }
    }

    /// Their tokens.
    fn tokens_at(&self, places: Tile<i64>, size: i64) -> Tile<i32> {
        if places < self.count { self.tokens.gather(places) } else { full::<i32>([size], i32::MAX) }
    }
}

/// Which candidates a nucleus has: those with a larger key than `least`, and those with this key up to token `last`.
#[derive(Clone, Copy)]
pub struct Nucleus {
    least: Scalar<u32>,
    last: Scalar<i32>,
}

/// The nucleus. `goal` is p times the weight of all tokens, of which those that are no candidates have less than is missing to the weight of
/// all. The first `near` candidates stay in registers, the others are read again for every question.
#[device]
pub fn nucleus(candidates: Candidates, goal: Scalar<f32>, near: i64) -> Nucleus {
    let own = candidates.at(iota::<i64>(near), near);
    let far = || candidates.logits.axis(0).tiles(near).within(scalar(near)..candidates.count);
    // The least logit that has less than the goal above it, from the upper bits down.
    let mut least = scalar(0u32);
    for turn in 0..scalar::<u32>(16) {
        let shift = scalar(30u32) - turn * 2;
        let ends = [1u32, 2, 3].map(|digit| least + ((scalar(digit) << shift) - 1));
        let above = |part: &Part| {
            let [first, second, third] = ends.map(|end| select(part.keys > end, part.weights, 0.0));
            (first, second, third).commutative().reduce_all((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
        };
        let mut sums = above(&own);
        for t in far() {
            let more = above(&candidates.at(t.coords(), near));
            sums = (sums.0 + more.0, sums.1 + more.1, sums.2 + more.2);
        }
        let reached = |sum: Scalar<f32>| select(sum >= goal, scalar(1u32), scalar(0u32));
        least = least | ((reached(sums.0) + reached(sums.1) + reached(sums.2)) << shift);
    }
    // The most probable token always belongs to it.
    least = least.min(ascending().numbers(candidates.largest.bitcast::<u32>().splat([near])).max_all());

    // Of tokens with this very logit, the first ones that reach the goal.
    let one = || full::<f32>([near], 1.0);
    let tie = |part: &Part| part.are && part.keys == least;
    let split = |part: &Part| {
        let (above, tie) = (select(part.keys > least, part.weights, 0.0), tie(part));
        let parts = (above, select(tie, one(), 0.0), select(tie, part.weights, 0.0));
        parts.commutative().reduce_all((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2.max(b.2)))
    };
    let (mut above, mut ties, mut weight) = split(&own);
    for t in far() {
        let more = split(&candidates.at(t.coords(), near));
        (above, ties, weight) = (above + more.0, ties + more.1, weight.max(more.2));
    }
    let taken = ((goal - above) / weight).ceil().max(1.0);
    let mut last = scalar(i32::MAX);
    if ties > taken {
        // The number of the last of them: fewer than `taken` are less.
        last = scalar(0i32);
        for turn in 0..scalar::<i32>(31) {
            let next = last | (scalar(1i32) << (scalar(30i32) - turn));
            let before = |part: &Part, tokens: Tile<i32>| select(tie(part) && tokens < next, one(), 0.0).sum();
            let mut less = before(&own, candidates.tokens_at(iota::<i64>(near), near));
            for t in far() {
                less += before(&candidates.at(t.coords(), near), candidates.tokens_at(t.coords(), near));
            }
            last = select(less < taken, next, last);
        }
    }
    Nucleus { least, last }
}

/// The token of a nucleus whose time is over first.
#[device]
pub fn draw(candidates: Candidates, nucleus: Nucleus, seed: Scalar<u32>, near: i64) -> Scalar<i32> {
    let Nucleus { least, last } = nucleus;
    let of = |places: Tile<i64>| {
        let (part, tokens) = (candidates.at(places, near), candidates.tokens_at(places, near));
        let inside = part.are && (part.keys > least || (part.keys == least && tokens <= last));
        let speeds = select(inside, part.weights / times(random_bits(seed, tokens)), -1.0);
        speeds.arg_max_all(tokens)
    };
    let (mut most, mut token) = of(iota::<i64>(near));
    for t in candidates.logits.axis(0).tiles(near).within(scalar(near)..candidates.count) {
        let (speed, other) = of(t.coords());
        (most, token) = (most.max(speed), select(speed > most, other, token));
    }
    token
}

/// kept = the logits of the tokens that may be in the nucleus, tokens their numbers, in any order; found = how many.
#[kernel(tile(T = [1024, 512, 2048]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2]))]
pub fn keep_probable(
    logits: &Tensor<f32, 1>,
    p: &Tensor<f32, 1>,
    statistics: &Tensor<f32, 1>,
    found: &mut Tensor<i32, 1>,
    kept: &mut Tensor<f32, 1>,
    tokens: &mut Tensor<i32, 1>,
) {
    for t in logits.tiles([T]) {
        let v = logits.load(t);
        let largest: Scalar<f32> = statistics.at(0);
        // A thousandth is for what sums are rounded by.
        let least = (-p.at(0) + 1.0).max(0.0) * 0.999 * statistics.at(1) / logits.len(0).cast::<f32>();
        let some = (v - largest).exp() >= least;
        let ones = select(some, v.like(1.0), 0.0).cast::<i32>();
        let count = ones.sum();
        if count > 0 {
            let slot = ones.scan_sum(along(0).exclusive()) + found.fetch_add_at(0, count);
            if some {
                kept.scatter(slot, v);
                tokens.scatter(slot, t.coords().cast::<i32>());
            }
        }
    }
}

/// sampled = a token that is drawn from the nucleus.
#[kernel(tile(B = 1), threads(N = 512), cache(H = [Default, Loads]), opt_level(L = [3, 2]))]
pub fn draw_token(
    kept: &Tensor<f32, 1>,
    tokens: &Tensor<i32, 1>,
    found: &Tensor<i32, 1>,
    statistics: &Tensor<f32, 1>,
    p: &Tensor<f32, 1>,
    seed: &Tensor<i32, 1>,
    sampled: &mut Tensor<i32, 1>,
) {
    kept.same_shape(tokens);
    for b in sampled.tiles([B]) {
        let count: Scalar<i32> = found.at(0);
        let of_seed: Scalar<i32> = seed.at(0);
        let candidates = Candidates { logits: kept, tokens, count: count.cast::<i64>(), largest: statistics.at(0) };
        let nucleus = nucleus(candidates, p.at(0) * statistics.at(1), NEAR);
        let token = draw(candidates, nucleus, of_seed.cast::<u32>(), NEAR);
        sampled.store(b, token.splat([B]));
    }
}

/// What the judge calls.
#[program]
pub fn solve(logits: &Tensor<f32, 1>, p: &Tensor<f32, 1>, seed: &Tensor<i32, 1>, sampled_token: &mut Tensor<i32, 1>) {
    let n = logits.len(0);
    let (mut statistics, mut found) = (temp([2]), temp_filled([1], 0i32));
    let (mut kept, mut tokens) = (temp([n]), temp([n]));
    softmax_statistics(logits, &mut statistics);
    keep_probable(logits, p, &statistics, &mut found, &mut kept, &mut tokens);
    draw_token(&kept, &tokens, &found, &statistics, p, seed, sampled_token);
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

//! Speculative decoding: a drafted sequence is accepted up to the first token that the target model rejects, where a token is drawn from
//! what the target has more of than the draft; behind a sequence that is accepted as a whole, one of the target's.
//!
//! Blocks of the first launch find the first rejection of their sequence and sum a chunk of the distribution that is drawn from. In the
//! second one each sequence has a block: the sums say in which chunk the draw lies, and a scan of that one where. Nothing is read but the
//! rows that are drawn from.

use girih::inputs::Rng;
use girih::prelude::*;

/// Where a sequence ends.
#[derive(Clone, Copy)]
struct End {
    /// Drafts that are accepted.
    accepted: Scalar<i32>,
    /// One of them was rejected.
    rejected: Scalar<bool>,
    /// The position whose distribution is drawn from.
    row: Scalar<i32>,
}

/// The first rejection of sequence `b`, looked for in all positions at once.
#[device]
fn end_of(
    b: Scalar<i64>,
    tokens: &Tensor<i32, 2>,
    draft: &Tensor<f32, 3>,
    target: &Tensor<f32, 3>,
    uniform: &Tensor<f32, 2>,
    size: Size,
) -> End {
    let length = tokens.len(1).cast::<i32>();
    let mut first = full::<i32>([size], i32::MAX);
    for t in tokens.axis(1).tiles(size) {
        let (at, token) = (t.coords(), tokens.load((b, t)));
        let (p, q) = (target.gather((b, at, token)), draft.gather((b, at, token)));
        let u = uniform.gather((b, at));
        // u < p / q without a rounding: the sign of u q − p is that of the exact difference.
        let accepted = u < 1.0 && u.fma(q, -p) < 0.0;
        first = first.min(select(accepted, i32::MAX, at.cast::<i32>()));
    }
    let accepted = first.min_all().min(length);
    End { accepted, rejected: accepted < length, row: accepted.min(length - 1) }
}

/// What is drawn from, at some tokens, not normalised.
#[device]
fn weights(b: Scalar<i64>, end: End, draft: &Tensor<f32, 3>, target: &Tensor<f32, 3>, v: TileIdx) -> Tile<f32> {
    let (p, q) = (target.load((b, end.row, v)), draft.load((b, end.row, v)));
    select(end.rejected, (p - q).max(0.0), p)
}

/// The weight of each chunk of 2048 tokens.
#[kernel(tile(B = 1, T = 2048, S = 32), coarsen(C of T = [8, 4, 16]), vector(V = [4, 2, 1]))]
pub fn chunk_weights(
    tokens: &Tensor<i32, 2>,
    draft: &Tensor<f32, 3>,
    target: &Tensor<f32, 3>,
    uniform: &Tensor<f32, 2>,
    sums: &mut Tensor<f32, 2>,
) {
    // A launch with nothing drafted, or with tensors for other drafts, is refused.
    draft.same_shape(target);
    let _first = target.slice(1, 0, 1);
    let tokens = &tokens.slice(0, 0, target.len(0)).slice(1, 0, target.len(1));
    let uniform = &uniform.slice(0, 0, target.len(0)).slice(1, 0, target.len(1) + 1);
    for (b, v) in target.axes([0, 2]).tiles([B, T]) {
        let end = end_of(b.number(), tokens, draft, target, uniform, S);
        sums.scatter((b.number(), v.number()), weights(b.number(), end, draft, target, v).sum());
    }
}

/// The tokens of each sequence.
#[kernel(tile(B = 1, T = 2048, S = 32, D = 32), coarsen(C of T = [4, 8, 2]), vector(V = [4, 2, 1]), threads(N = [256, 512]))]
pub fn write_tokens(
    tokens: &Tensor<i32, 2>,
    draft: &Tensor<f32, 3>,
    target: &Tensor<f32, 3>,
    uniform: &Tensor<f32, 2>,
    sums: &Tensor<f32, 2>,
    output: &mut Tensor<i32, 2>,
) {
    // As in the first launch.
    draft.same_shape(target);
    let _first = target.slice(1, 0, 1);
    let (draft, target) = (&draft.slice(0, 0, output.len(0)), &target.slice(0, 0, output.len(0)));
    let tokens = &tokens.slice(0, 0, output.len(0)).slice(1, 0, target.len(1));
    let uniform = &uniform.slice(0, 0, output.len(0)).slice(1, 0, target.len(1) + 1);
    let sums = &sums.slice(0, 0, output.len(0));
    let vocabulary = target.len(2);
    for i in output.axis(0).tiles(B) {
        let b = i.number();
        let end = end_of(b, tokens, draft, target, uniform, S);
        let draw = uniform.at((b, tokens.len(1)));
        let mut total = scalar(0.0f32);
        for s in sums.axis(1).tiles(S) {
            total += sums.load((b, s)).sum();
        }
        // Where target and draft are the same, all tokens are alike.
        let alike = end.rejected && total == 0.0;
        let edge = select(end.rejected, draw * total, draw);
        // Chunks that end below the edge count as a whole.
        let (mut before, mut whole) = (scalar(0.0f32), scalar::<i64>(0));
        for s in sums.axis(1).tiles(S) {
            let ends = sums.load((b, s)).scan_sum(0) + before;
            let below = ends < edge;
            whole += select(below, ends.like(1.0), 0.0).sum().cast::<i64>();
            before = select(below, ends, before).max_all();
        }
        let first = whole * 2048;
        let at = iota::<i64>(T) + first;
        let (p, q) = (target.gather((b, end.row, at)), draft.gather((b, end.row, at)));
        let weight = select(end.rejected, (p - q).max(0.0), p);
        let ends = weight.scan_sum(0) + before;
        let chosen = first + select(ends < edge, ends.like(1.0), 0.0).sum().cast::<i64>();
        let spread = (draw * vocabulary.cast::<f32>()).ceil().cast::<i64>() - 1;
        let chosen = select(alike, spread, chosen).clamp(0, vocabulary - 1).cast::<i32>();
        for d in output.axis(1).tiles(D) {
            let at = d.coords().cast::<i32>();
            let drafted = tokens.gather((b, d.coords().min(tokens.len(1) - 1)));
            output.store((i, d), select(at < end.accepted, drafted, select(at == end.accepted, chosen, 0)).expand(0, B));
        }
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    draft_tokens: &Tensor<i32, 2>,
    draft_probs: &Tensor<f32, 3>,
    target_probs: &Tensor<f32, 3>,
    uniform_samples: &Tensor<f32, 2>,
    output_tokens: &mut Tensor<i32, 2>,
) {
    let mut sums = temp([draft_tokens.len(0), (target_probs.len(2) + 2047) / 2048]);
    chunk_weights(draft_tokens, draft_probs, target_probs, uniform_samples, &mut sums);
    write_tokens(draft_tokens, draft_probs, target_probs, uniform_samples, &sums, output_tokens);
}

/// The share of the `k`-th token that has one, of so many in a row; `salt` tells the draft's (0) from the target's (1).
fn share(row: usize, k: usize, places: usize, salt: u64) -> f64 {
    let weight = |k: usize| 0.02 + Rng::new((row as u64) << 20 | (k as u64) << 2 | salt).unit();
    weight(k) / (0..places).map(weight).sum::<f64>()
}

/// Where a row has its tokens: the first, and the distance from each to the next one, of so many.
fn tokens_of(row: usize, vocabulary: usize) -> (usize, usize, usize) {
    let places = 64.min(vocabulary.div_ceil(3));
    ((Rng::new(row as u64).unit() * vocabulary as f64) as usize, vocabulary / places, places)
}

/// The target has its tokens where the draft has them, but for every fourth row; in every fifth both are equal, in every seventh it has none.
/// All other tokens have next to nothing, of which the target has a tenth less, so that any token may be drafted.
fn probability(lens: &[i64], i: usize, salt: usize) -> f64 {
    let (vocabulary, row) = (lens[2] as usize, i / lens[2] as usize);
    let salt = if row % 5 == 3 { 0 } else { salt };
    let (first, step, places) = tokens_of(if row % 4 == 1 { row + 7 * salt } else { row }, vocabulary);
    let place = (i % vocabulary + vocabulary - first) % vocabulary;
    match salt == 1 && row % 7 == 6 {
        true => 0.0,
        false if place.is_multiple_of(step) && place / step < places => share(row, place / step, places, salt as u64),
        false => 1e-10 * (1.0 - 0.1 * salt as f64),
    }
}

/// What a sequence of one call must become.
fn verified(x: &girih::challenge::Case, b: usize) -> Vec<f64> {
    let (length, vocabulary) = (x.len("T"), x.len("V"));
    let row = |name: &str, i: usize| -> Vec<f64> { (0..vocabulary).map(|v| x.at(name, (b * length + i) * vocabulary + v)).collect() };
    let uniform = |i| x.at("uniform_samples", b * (length + 1) + i);
    let pick = |weights: &[f64]| {
        let mut sum = 0.0;
        let below = weights.iter().filter(|w| {
            sum += **w;
            sum < uniform(length)
        });
        below.count().min(vocabulary - 1) as f64
    };
    let mut tokens = vec![0.0; length + 1];
    for i in 0..length {
        let token = x.at("draft_tokens", b * length + i);
        let (p, q) = (row("target_probs", i), row("draft_probs", i));
        if uniform(i) < (p[token as usize] / q[token as usize]).min(1.0) {
            tokens[i] = token;
            continue;
        }
        let more: Vec<f64> = p.iter().zip(&q).map(|(p, q)| (p - q).max(0.0)).collect();
        let total: f64 = more.iter().sum();
        let normalised = |w: &f64| if total > 0.0 { w / total } else { 1.0 / vocabulary as f64 };
        tokens[i] = pick(&more.iter().map(normalised).collect::<Vec<_>>());
        return tokens;
    }
    tokens[length] = pick(&row("target_probs", length - 1));
    tokens
}

girih::challenge! {
    Challenge::new(
        "speculative_decoding_verification",
        solve::Program::def,
        "void solve(const int* draft_tokens[B, T], const float* draft_probs[B, T, V], const float* target_probs[B, T, V], \
         const float* uniform_samples[B, T + 1], int* output_tokens[B, T + 1], int B, int T, int V)",
    )
    .input("draft_tokens", below("V"))
    .input("draft_probs", formula(|lens, i| probability(lens, i, 0)))
    .input("target_probs", formula(|lens, i| probability(lens, i, 1)))
    .input("uniform_samples", uniform(0.0, 1.0))
    .output_rows("output_tokens", verified)
    .check_at(["B=1 T=1 V=1", "B=5 T=3 V=7", "B=17 T=8 V=300", "B=3 T=33 V=65", "B=2 T=5 V=4099"])
    .perf_at("B=64, T=8, V=32_768")
    .flops(|s| 4.0 * s.size("B") * s.size("V"))
    .bytes(|s| 8.0 * s.size("B") * s.size("V"))
}

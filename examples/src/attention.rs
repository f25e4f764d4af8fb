//! Attention in one pass over the keys, by heads and masks of every kind.
//!
//! A block has some queries of one head. It walks the keys that they may see, tile by tile, and keeps of every query its largest score so
//! far, its sum of weights and its weighted sum of values; the latter two are corrected when the largest score grows. Scores and weights
//! are nowhere stored. (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao and others, FlashAttention, 2022.)

use super::products::{Fma, Product, Split, Tf32};
use girih::prelude::*;
use std::ops::Range;

/// Which keys a query sees.
pub trait Keys: 'static {
    /// Positions outside of which no query of the tile sees a key.
    fn around(queries: TileIdx, keys: Scalar<i64>, width: Scalar<i64>) -> Range<Scalar<i64>>;
    /// The keys before this position are seen by every query of the tile.
    fn seen_by_all(queries: TileIdx, keys: Scalar<i64>) -> Scalar<i64>;
    /// Whether a query sees a key, both by their positions; there are so many keys.
    fn sees(query: Tile<i32>, key: Tile<i32>, keys: Scalar<i32>, width: Scalar<i32>) -> Tile<bool>;
}

/// Every query sees all keys.
pub struct AllKeys;

/// A query sees the keys up to its own position.
pub struct Causal;

/// A query sees the keys at most `width` before or behind it.
pub struct Near;

/// A query sees the last `width` keys up to its own position.
pub struct Recent;

#[device]
impl Keys for AllKeys {
    fn around(_: TileIdx, keys: Scalar<i64>, _: Scalar<i64>) -> Range<Scalar<i64>> {
        Range { start: scalar(0), end: keys }
    }
    fn seen_by_all(_: TileIdx, keys: Scalar<i64>) -> Scalar<i64> {
        keys
    }
    fn sees(_: Tile<i32>, key: Tile<i32>, keys: Scalar<i32>, _: Scalar<i32>) -> Tile<bool> {
        key < keys
    }
}

#[device]
impl Keys for Causal {
    fn around(queries: TileIdx, _: Scalar<i64>, _: Scalar<i64>) -> Range<Scalar<i64>> {
        Range { start: scalar(0), end: queries.end() }
    }
    fn seen_by_all(queries: TileIdx, keys: Scalar<i64>) -> Scalar<i64> {
        keys.min(queries.start() + 1)
    }
    fn sees(query: Tile<i32>, key: Tile<i32>, keys: Scalar<i32>, _: Scalar<i32>) -> Tile<bool> {
        key <= query && key < keys
    }
}

#[device]
impl Keys for Near {
    fn around(queries: TileIdx, _: Scalar<i64>, width: Scalar<i64>) -> Range<Scalar<i64>> {
        Range { start: queries.start() - width, end: queries.end() + width }
    }
    fn seen_by_all(_: TileIdx, _: Scalar<i64>) -> Scalar<i64> {
        scalar(0)
    }
    fn sees(query: Tile<i32>, key: Tile<i32>, keys: Scalar<i32>, width: Scalar<i32>) -> Tile<bool> {
        (query - key).abs() <= width && key < keys
    }
}

#[device]
impl Keys for Recent {
    fn around(queries: TileIdx, _: Scalar<i64>, width: Scalar<i64>) -> Range<Scalar<i64>> {
        Range { start: queries.start() - width + 1, end: queries.end() }
    }
    fn seen_by_all(_: TileIdx, _: Scalar<i64>) -> Scalar<i64> {
        scalar(0)
    }
    fn sees(query: Tile<i32>, key: Tile<i32>, keys: Scalar<i32>, width: Scalar<i32>) -> Tile<bool> {
        key <= query && key > query - width && key < keys
    }
}

/// Which tiles a pass is about: of the queries, of the result's columns, and the heads of queries and of keys.
#[derive(Clone, Copy)]
pub struct Place {
    /// The queries.
    pub queries: TileIdx,
    /// The result's columns.
    pub columns: TileIdx,
    /// The head of the queries.
    pub head: Scalar<i64>,
    /// The head of the keys.
    pub of_keys: Scalar<i64>,
}

/// Sizes of tiles.
#[derive(Clone, Copy)]
pub struct Steps {
    /// Queries of a block.
    pub queries: Size,
    /// Keys of a turn.
    pub keys: Size,
    /// The axis along which scores are summed up.
    pub inner: Size,
    /// Columns of the result.
    pub columns: Size,
}

/// The head of keys that some query heads share.
#[device]
fn head_of_keys(head: Scalar<i64>, q: &Tensor<f32, 3>, k: &Tensor<f32, 3>) -> Scalar<i64> {
    head * k.len(1) / q.len(1)
}

/// Of every query its largest score so far, its sum of weights and its weighted sum of values; weights are powers of two.
pub type State = (Tile<f32>, Tile<f32>, Tile<f32>);

/// What scores are multiplied by to be exponents of two: `log2(e) / √d`.
pub fn scale_of(q: &Tensor<f32, 3>) -> Scalar<f32> {
    q.len(2).cast::<f32>().rsqrt() * std::f32::consts::LOG2_E
}

/// A state before the first key.
pub fn nothing_seen(steps: Steps) -> State {
    (full::<f32>([steps.queries], f32::MIN), zeros::<f32>([steps.queries]), zeros([steps.queries, steps.columns]))
}

/// The state behind a tile of keys with these scores, of which those between the bounds are there: the sums of weights, those of values, and the
/// largest scores.
#[device]
fn weigh<K: Keys, P: Product>(
    scores: Tile<f32>,
    (n, v): (TileIdx, &Tensor<f32, 3>),
    at: Place,
    steps: Steps,
    (first, end): (Scalar<i32>, Scalar<i32>),
    (width, scale): (Scalar<i64>, Scalar<f32>),
    (most, total, acc): State,
) -> [Tile<f32>; 3] {
    let key = n.coords().cast::<i32>().expand(0, steps.queries);
    let query = at.queries.coords().cast::<i32>().expand(1, steps.keys);
    // Where no key is, or none of these, a dot has zeros.
    let seen = K::sees(query, key, end, width.cast()) && key >= first;
    let scores = select(seen, scores, f32::MIN);
    let next = most.max(scores.max_axis(1));
    // Near scores differ exactly: what counts is not rounded by the size of the scores.
    let weights = select(seen, ((scores - next.expand(1, steps.keys)) * scale).exp2_approx(), 0.0);
    let factor = ((most - next) * scale).exp2_approx();
    let total = total * factor + weights.sum_axis(1);
    let kept = acc * factor.expand(1, steps.columns);
    let acc = P::add(weights, v.load((n, at.of_keys, at.columns)), kept, [steps.queries, steps.columns]);
    [total, acc, next]
}

/// The state behind some keys.
#[device]
pub fn walk<K: Keys, P: Product>(
    (q, k, v): (&Tensor<f32, 3>, &Tensor<f32, 3>, &Tensor<f32, 3>),
    at: Place,
    steps: Steps,
    positions: Range<Scalar<i64>>,
    width: Scalar<i64>,
    scale: Scalar<f32>,
    (mut most, mut total, mut acc): State,
) -> State {
    let (first, end) = (positions.start.cast::<i32>(), positions.end.min(k.len(0)).cast::<i32>());
    for n in k.axis(0).tiles(steps.keys).within(positions) {
        let mut scores = zeros::<f32>([steps.queries, steps.keys]);
        for e in q.axis(2).tiles(steps.inner) {
            let shape = [steps.queries, steps.keys];
            scores = P::add(q.load((at.queries, at.head, e)), k.load((n, at.of_keys, e)).t(), scores, shape);
        }
        [total, acc, most] = weigh::<K, P>(scores, (n, v), at, steps, (first, end), (width, scale), (most, total, acc));
    }
    (most, total, acc)
}

/// A pass over some keys by multiply-adds: the largest score is that of the weights' exponents.
#[device]
fn pass<K: Keys>(
    tensors: (&Tensor<f32, 3>, &Tensor<f32, 3>, &Tensor<f32, 3>),
    at: Place,
    steps: Steps,
    positions: Range<Scalar<i64>>,
    width: Scalar<i64>,
    nothing: Tile<f32>,
) -> State {
    let scale = scale_of(tensors.0);
    let (most, total) = (full::<f32>([steps.queries], f32::MIN), zeros::<f32>([steps.queries]));
    let (most, total, acc) = walk::<K, Fma>(tensors, at, steps, positions, width, scale, (most, total, nothing));
    (most * scale, total, acc)
}

/// softmax(q · kᵀ / √d) · v of a tile.
#[device]
pub fn attend<K: Keys>(
    tensors: (&Tensor<f32, 3>, &Tensor<f32, 3>, &Tensor<f32, 3>),
    at: Place,
    steps: Steps,
    width: Scalar<i64>,
) -> Tile<f32> {
    let around = K::around(at.queries, tensors.1.len(0), width);
    let (_, total, acc) = pass::<K>(tensors, at, steps, around, width, zeros([steps.queries, steps.columns]));
    acc * (1.0 / total).expand(1, steps.columns)
}

/// out = softmax(q · kᵀ / √d) · v of every head; tensors are `[rows, heads, d]`. As many query heads as there are for each head of keys
/// share it.
#[kernel(
    types(K = [AllKeys, Causal, Near]),
    tile(BM = [64, 32, 128, 16], BN = [32, 64, 128, 16], BE = [32, 64, 16, 128], BD = [128, 64, 32]),
    coarsen(TM of BM = [4, 8, 2], TD of BD = [8, 4, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attention<K: Keys>(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, out: &mut Tensor<f32, 3>, width: Scalar<i64>) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, out.len(1)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, BD]) {
        let at = Place { queries, columns, head: h.number(), of_keys: head_of_keys(h.number(), q, k) };
        let steps = Steps { queries: BM, keys: BN, inner: BE, columns: BD };
        out.store((queries, at.head, columns), attend::<K>((q, k, v), at, steps, width));
    }
}

/// As many elements as a row may have that [`attention_narrow()`] takes: its tile of columns.
pub const NARROW: i64 = 64;

/// As [`attention()`] for rows of at most [`NARROW`] elements, which are one tile: a turn has but its products and sums, and the next turns' keys
/// are on their way.
#[kernel(
    types(K = [Near]),
    tile(BM = [16, 32, 8, 64], BN = [32, 16, 48, 64], BD = 64),
    coarsen(TM of BM = [4, 2, 8, 1], TD of BD = [4, 2, 8]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 3, 4, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attention_narrow<K: Keys>(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, out: &mut Tensor<f32, 3>, width: Scalar<i64>) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, out.len(1)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    let scale = scale_of(q);
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, BD]) {
        let at = Place { queries, columns, head: h.number(), of_keys: head_of_keys(h.number(), q, k) };
        let steps = Steps { queries: BM, keys: BN, inner: BD, columns: BD };
        let around = K::around(queries, k.len(0), width);
        let (first, end) = (around.start.cast::<i32>(), around.end.min(k.len(0)).cast::<i32>());
        let (mut most, mut total, mut acc) = nothing_seen(steps);
        let q_tile = q.load((queries, at.head, columns));
        for n in k.axis(0).tiles(BN).within(around) {
            let keys = k.load((n, at.of_keys, columns)).t();
            let scores = Fma::add(q_tile, keys, zeros::<f32>([BM, BN]), [BM, BN]);
            [total, acc, most] = weigh::<K, Fma>(scores, (n, v), at, steps, (first, end), (width, scale), (most, total, acc));
        }
        out.store((queries, at.head, columns), acc * (1.0 / total).expand(1, BD));
    }
}

/// As [`attention()`], on matrix units, whose operands are rounded to 11 significant bits. All products have one shape: as many keys a turn as
/// the result has columns.
#[kernel(
    types(K = [AllKeys, Causal]),
    tile(BM = [64, 128, 32], T = [64, 32, 128], BE = [64, 32]),
    coarsen(TM of BM = [4, 2, 8], TN of T = [4, 2, 8]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8, 2]),
    stages(S = [1, 2]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attention_units<K: Keys>(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, out: &mut Tensor<f32, 3>, width: Scalar<i64>) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, out.len(1)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, T]) {
        let at = Place { queries, columns, head: h.number(), of_keys: head_of_keys(h.number(), q, k) };
        let steps = Steps { queries: BM, keys: T, inner: BE, columns: T };
        let around = K::around(queries, k.len(0), width);
        let (_, total, acc) = walk::<K, Tf32>((q, k, v), at, steps, around, width, scale_of(q), nothing_seen(steps));
        out.store((queries, at.head, columns), acc * (1.0 / total).expand(1, T));
    }
}

/// What some keys add to an attention: to every chunk of `chunk` keys its part of the result (`[chunks, rows, heads, d]`), and each query's
/// largest score (in powers of two) and sum of weights in it. For few queries, or of different numbers of keys: more blocks share the work.
#[kernel(
    types(K = [AllKeys, Causal]),
    tile(BM = [64, 32, 128, 16], BN = [32, 64, 16], BE = [32, 64, 16, 128], BD = [128, 64, 32]),
    coarsen(TM of BM = [4, 8, 2], TD of BD = [8, 4, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attention_parts<K: Keys>(
    q: &Tensor<f32, 3>,
    k: &Tensor<f32, 3>,
    v: &Tensor<f32, 3>,
    parts: &mut Tensor<f32, 4>,
    largest: &mut Tensor<f32, 3>,
    totals: &mut Tensor<f32, 3>,
    chunk: Scalar<i64>,
    width: Scalar<i64>,
) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, parts.len(2)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    for (c, h, queries, columns) in parts.axes([0, 2, 1, 3]).tiles([Size::from(1), Size::from(1), BM, BD]) {
        let around = K::around(queries, k.len(0), width);
        let first = around.start.max(c.number() * chunk);
        let end = around.end.min((c.number() + 1) * chunk);
        if first < end {
            let at = Place { queries, columns, head: h.number(), of_keys: head_of_keys(h.number(), q, k) };
            let steps = Steps { queries: BM, keys: BN, inner: BE, columns: BD };
            let positions = Range { start: first, end };
            let (most, total, acc) = pass::<K>((q, k, v), at, steps, positions, width, zeros([BM, BD]));
            parts.store((c.number(), queries, at.head, columns), acc);
            if columns.start() == 0 {
                largest.scatter((c.number(), queries.coords(), at.head), most);
                totals.scatter((c.number(), queries.coords(), at.head), total);
            }
        }
    }
}

/// As [`attention_parts()`] for all keys, on matrix units. All products have one shape: as many keys a turn as a part has columns.
#[kernel(
    tile(BM = [32, 16, 64], T = [64, 128, 32], BE = [32, 64, 16]),
    coarsen(TM of BM = [4, 2, 8], TN of T = [4, 2, 8]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 2, 8]),
    stages(S = [1, 2]),
    copy(C = [Registers, Async]),
    min_blocks(Q = [2, 1])
)]
pub fn attention_parts_units(
    q: &Tensor<f32, 3>,
    k: &Tensor<f32, 3>,
    v: &Tensor<f32, 3>,
    parts: &mut Tensor<f32, 4>,
    largest: &mut Tensor<f32, 3>,
    totals: &mut Tensor<f32, 3>,
    chunk: Scalar<i64>,
) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, parts.len(2)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    for (c, h, queries, columns) in parts.axes([0, 2, 1, 3]).tiles([Size::from(1), Size::from(1), BM, T]) {
        let first = c.number() * chunk;
        let at = Place { queries, columns, head: h.number(), of_keys: head_of_keys(h.number(), q, k) };
        let steps = Steps { queries: BM, keys: T, inner: BE, columns: T };
        let scale = scale_of(q);
        let positions = Range { start: first, end: k.len(0).min(first + chunk) };
        let (most, total, acc) = walk::<AllKeys, Split>((q, k, v), at, steps, positions, scalar(0), scale, nothing_seen(steps));
        parts.store((c.number(), queries, at.head, columns), acc);
        if columns.start() == 0 {
            largest.scatter((c.number(), queries.coords(), at.head), most * scale);
            totals.scatter((c.number(), queries.coords(), at.head), total);
        }
    }
}

/// The chunks' parts, each by its share of the softmax.
#[kernel(
    types(K = [AllKeys, Causal]),
    tile(BM = [8, 4, 16, 32], BD = [128, 64, 32]),
    coarsen(TM of BM = [1, 2, 4], TD of BD = [4, 1, 2]),
    vector(V = [4, 1, 2])
)]
pub fn join_attention<K: Keys>(
    parts: &Tensor<f32, 4>,
    largest: &Tensor<f32, 3>,
    totals: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 3>,
    keys: Scalar<i64>,
    chunk: Scalar<i64>,
    width: Scalar<i64>,
) {
    let parts = &parts.slice(2, 0, out.len(1));
    let [largest, totals] = [largest, totals].map(|x| x.slice(0, 0, parts.len(0)).slice(2, 0, out.len(1)));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, BD]) {
        let (head, around) = (h.number(), K::around(queries, keys, width));
        let end = ((around.end + chunk - 1) / chunk).min(parts.len(0));
        let (mut most, mut total) = (full::<f32>([BM], f32::MIN), zeros::<f32>([BM]));
        let mut sum = zeros::<f32>([BM, BD]);
        for c in around.start / chunk..end {
            // A query reads the chunks of which it sees a key; others may have been left out.
            let seen = K::sees(queries.coords().cast(), full([BM], (c * chunk).cast::<i32>()), keys.cast(), width.cast());
            let (mut other, mut weights) = (full::<f32>([BM], f32::MIN), zeros::<f32>([BM]));
            let mut part = zeros::<f32>([BM, BD]);
            if seen {
                other = largest.load((c, queries, head));
                weights = totals.load((c, queries, head));
            }
            if seen.expand(1, BD) {
                part = parts.load((c, queries, head, columns));
            }
            let next = most.max(other);
            let (kept, added) = ((most - next).exp2_approx(), (other - next).exp2_approx());
            total = total * kept + weights * added;
            sum = sum * kept.expand(1, BD) + part * added.expand(1, BD);
            most = next;
        }
        out.store((queries, head, columns), sum * (1.0 / total).expand(1, BD));
    }
}

/// The keys of a row with their weights, which add up to 1, in double precision; and the largest score.
pub fn weights_of(keys: impl Iterator<Item = usize>, score: impl Fn(usize) -> f64) -> (Vec<(usize, f64)>, f64) {
    let scores: Vec<(usize, f64)> = keys.map(|j| (j, score(j))).collect();
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, (_, s)| most.max(*s));
    let weights: Vec<(usize, f64)> = scores.iter().map(|(j, s)| (*j, (s - most).exp())).collect();
    let total: f64 = weights.iter().map(|(_, w)| w).sum();
    (weights.into_iter().map(|(j, w)| (j, w / total)).collect(), most)
}

/// A row of an attention in double precision, by the keys that its query sees.
pub fn reference(
    keys: impl Iterator<Item = usize>,
    score: impl Fn(usize) -> f64,
    width: usize,
    value: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let mut out = vec![0.0; width];
    for (j, weight) in weights_of(keys, score).0 {
        out.iter_mut().enumerate().for_each(|(e, sum)| *sum += weight * value(j, e));
    }
    out
}

/// As [`reference()`], each element with what it may be off by in f32, for queries and keys of `d` elements of up to `largest`, uniform around
/// 0: scores are so far apart that few keys count, and where two are near to each other the order of sums decides.
///
/// With `u = 2⁻²⁴`: a score is off by [`sum_rounding`](girih::challenge::sum_rounding) of its products, behind the scale, and by two more
/// roundings of itself: `δ` together. If every score is off by at most `δ`, a weight is by a factor between `exp(-2δ)` and `exp(2δ)`, and by
/// `8u` for the approximate power; a result, by so much of the weighted distances of the values from it, and `4u` of the weighted values for
/// their sum. A row that one key has alone is thus held to the tolerance, which numbers rounded to tf32 miss.
pub fn reference_within(
    keys: impl Iterator<Item = usize>,
    score: impl Fn(usize) -> f64,
    (d, largest): (usize, f64),
    width: usize,
    value: impl Fn(usize, usize) -> f64,
) -> Vec<(f64, f64)> {
    let u = 2f64.powi(-24);
    let (weights, most) = weights_of(keys, score);
    let score_off = score_rounding(d as f64, largest) + 2.0 * u * most.abs();
    let weight_off = (2.0 * score_off + 8.0 * u).exp_m1();
    let element = |e: usize| {
        let exact: f64 = weights.iter().map(|(j, w)| w * value(*j, e)).sum();
        let distance: f64 = weights.iter().map(|(j, w)| w * (value(*j, e) - exact).abs()).sum();
        let size: f64 = weights.iter().map(|(j, w)| w * value(*j, e).abs()).sum();
        (exact, weight_off * distance + 4.0 * u * size)
    };
    (0..width).map(element).collect()
}

/// What a score of `d` products of numbers of up to `largest` may be off by, behind the scale.
fn score_rounding(d: f64, largest: f64) -> f64 {
    girih::challenge::sum_rounding(d, largest * largest / 3.0) / d.sqrt()
}

/// What two attentions in f32 may be apart, as in [`reference_within`] but for all rows alike: of the largest value.
pub fn rounding(d: f64, largest: f64, value: f64) -> f64 {
    let twice = 2.0 * (2.0 * score_rounding(d, largest)).exp_m1();
    twice * value
}

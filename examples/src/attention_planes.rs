//! Attention of f32 by matrix units of 16 bits: queries, keys, values and weights are each taken for the sum of two numbers of f16.
//!
//! What is multiplied with a power of two, `UP`, and cut into two of f16 has 22 bits, as two of tf32 have (`split_products`), or, where it is
//! small, an error of 2⁻²⁵ (`UP` left aside: 2⁻³³). A row whose largest number is below 2⁻⁹ or above 2⁷, or no number at all, is *flawed*:
//! in all others an element is off by no more than 2⁻²² of itself and 2⁻²⁴ of the row's largest. Weights lie between 0 and 2⁸, the largest so
//! far at 2⁸; what they lose is below 2⁻²² of themselves and 2⁻³³ of the largest one. Of the four products of two such sums the smallest is
//! left out. Where a row is flawed, multiply-adds compute the whole attention once more, in a launch that does nothing otherwise.
//! (Mukunoki, Ozaki, Ogita and Imamura, DGEMM using Tensor Cores, and its accurate and reproducible versions, 2020.)

use super::attention::{AllKeys, Causal, Keys, Place, State, Steps, attend, join_attention};
use super::split_planes::padded;
use girih::prelude::*;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// What numbers are multiplied with before they are cut in two: 2⁸.
const UP: f32 = 256.0;
/// The smallest and the largest number, multiplied, that may be the largest of a row: f16 ends at 65504.
const LARGEST: [f32; 2] = [0.5, 32768.0];
/// The exponent of the largest weight, as f16 has fewer bits below 2⁻¹⁴.
const TOP: f32 = 8.0;
/// The exponent of the weight of a key that a query does not see, when it has seen none: far below all others, and near enough to 0 that the
/// difference of two such is exact to some units.
const HIDDEN: f32 = -67_108_864.0;

/// The columns of a head, which a tile spans.
pub trait Columns: 'static {
    /// Their number.
    const NUMBER: i64;
}

/// At most 64 columns.
pub struct Of64;

/// At most 128 columns.
pub struct Of128;

impl Columns for Of64 {
    const NUMBER: i64 = 64;
}

impl Columns for Of128 {
    const NUMBER: i64 = 128;
}

/// Cuts numbers of several heads, `[heads, rows, d]`, in two; `flawed` gets a 1 where a row cannot be cut.
#[kernel(
    tile(B = 1, R = [8, 4, 16, 32], C = [128, 64]),
    coarsen(RR of R = [1, 2, 4, 8], CC of C = [4, 8]),
    vector(V = [4, 1])
)]
pub fn split_heads(x: &Tensor<f32, 3>, high: &mut Tensor<f16, 3>, low: &mut Tensor<f16, 3>, flawed: &mut Tensor<u32, 1>) {
    for (h, r) in x.axes([0, 1]).tiles([B, R]) {
        let mut largest = zeros::<f32>([R, C]);
        for c in x.axis(2).tiles(C) {
            let scaled = x.load((h.number(), r, c)) * UP;
            let upper = scaled.cast::<f16>();
            high.store((h.number(), r, c), upper);
            low.store((h.number(), r, c), (scaled - upper.cast::<f32>()).cast());
            largest = largest.max(scaled.abs());
        }
        let largest = largest.max_axis(1);
        let sound = largest == 0.0 || (largest >= LARGEST[0] && largest <= LARGEST[1]);
        if !sound.all() {
            flawed.atomic_max(0, 1);
        }
    }
}

/// The sum with `left · right` of planes, the smallest products first.
fn add_planes(left: [Tile<f16>; 2], right: [Tile<f16>; 2], sum: Tile<f32>) -> Tile<f32> {
    let sum = dot(left[1], right[0], sum);
    let sum = dot(left[0], right[1], sum);
    dot(left[0], right[0], sum)
}

/// Planes of queries, keys and values, the upper ones first.
type Planes<'a> = [[&'a Tensor<f16, 3>; 2]; 3];

/// The state behind the keys at these positions, of which every query of the tile sees those before `whole`: exponents of two for largest scores,
/// the largest weight at 2 to the power of [`TOP`], values as they are in their planes.
#[device]
fn walk_planes<K: Keys>(
    [q, k, v]: Planes,
    at: Place,
    [queries, keys, columns]: [Size; 3],
    positions: Range<Scalar<i64>>,
    width: Scalar<i64>,
) -> State {
    let (q_high, k_high) = (q[0], k[0]);
    let scale = q_high.len(2).cast::<f32>().rsqrt() * (LOG2_E / (UP * UP));
    let hidden = q_high.len(2).cast::<f32>().sqrt() * (HIDDEN * UP * UP / LOG2_E);
    let whole = K::seen_by_all(at.queries, k_high.len(1));
    let (mut most, mut total) = (full([queries], f32::MIN), zeros::<f32>([queries]));
    let mut acc = zeros::<f32>([queries, columns]);
    for n in k_high.axis(1).tiles(keys).within(positions) {
        let mut scores = zeros::<f32>([queries, keys]);
        for e in q_high.axis(2).tiles(columns) {
            let left = q.map(|x| x.load((at.head, at.queries, e)));
            let right = k.map(|x| x.load((at.of_keys, n, e)).t());
            scores = add_planes(left, right, scores);
        }
        if n.end() > whole {
            let key = n.coords().cast::<i32>().expand(0, queries);
            let query = at.queries.coords().cast::<i32>().expand(1, keys);
            scores = select(K::sees(query, key, k_high.len(1).cast(), width.cast()), scores, hidden);
        }
        // Weights by one rounding of the difference: what is taken away is the same for all of them, and in the factor.
        let next = most.max(scores.max_axis(1) * scale);
        let weights = scores.fma(scale.splat([queries]).expand(1, keys), (-next + TOP).expand(1, keys)).exp2_approx();
        let factor = (most - next).exp2_approx();
        total = total * factor + weights.sum_axis(1);
        let high = weights.cast::<f16>();
        let low = (weights - high.cast::<f32>()).cast::<f16>();
        let values = v.map(|x| x.load((at.of_keys, n, at.columns)));
        acc = add_planes([high, low], values, acc * factor.expand(1, columns));
        most = next;
    }
    (most, total, acc)
}

/// out = softmax(q · kᵀ / √d) · v of every head, of which there are planes; tensors are `[heads, rows, d]`. As many query heads as there are
/// for each head of keys share it.
#[kernel(
    types(H = [Of64, Of128], K = [AllKeys, Causal]),
    tile(BM = [128, 64, 192, 32], BN = [64, 128, 96, 32]),
    coarsen(TM of BM = [8, 4, 2]),
    vector(V = [8, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4, 12]),
    stages(R = [2, 3, 4, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    order(D = [Falling, Rising]),
    turns(T = [InTurn, Free]),
    min_blocks(Q = [1, 2])
)]
pub fn attention_of_planes<H: Columns, K: Keys>(
    q_high: &Tensor<f16, 3>,
    q_low: &Tensor<f16, 3>,
    k_high: &Tensor<f16, 3>,
    k_low: &Tensor<f16, 3>,
    v_high: &Tensor<f16, 3>,
    v_low: &Tensor<f16, 3>,
    out: &mut Tensor<f32, 3>,
    width: Scalar<i64>,
) {
    q_high.same_shape(q_low);
    k_high.same_shape(k_low);
    k_high.same_shape(v_high);
    k_high.same_shape(v_low);
    // A launch that lacks heads is refused.
    let (_queries, _group) = (q_high.slice(0, 0, out.len(0)), k_high.slice(0, 0, 1));
    let columns = Size::from(H::NUMBER);
    for (h, m, d) in out.tiles([Size::from(1), BM, columns]) {
        let at = Place { queries: m, columns: d, head: h.number(), of_keys: h.number() * k_high.len(0) / q_high.len(0) };
        let planes = [[q_high, q_low], [k_high, k_low], [v_high, v_low]];
        let (_, total, acc) = walk_planes::<K>(planes, at, [BM, BN, columns], K::around(m, k_high.len(1), width), width);
        out.store((at.head, m, d), acc / (total * UP).expand(1, columns));
    }
}

/// Keys of a chunk are a multiple of this.
const CHUNK: i64 = 128;

/// What some keys add to an attention, as [`attention_parts`](super::attention::attention_parts()) has it, of planes: to every chunk of `chunk`
/// times 128 keys its part of the result (`[chunks, heads, rows, d]`), and each query's largest score and sum of weights in it. A chunk that no
/// query of a tile sees adds nothing.
#[kernel(
    types(H = [Of64, Of128], K = [AllKeys, Causal]),
    tile(BM = [64, 128, 192, 32], BN = [64, 128, 32]),
    coarsen(TM of BM = [8, 4, 2]),
    vector(V = [8, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [4, 8, 12]),
    stages(R = [2, 3, 4, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    order(D = [Falling, Rising]),
    turns(T = [InTurn, Free]),
    min_blocks(Q = [1, 2])
)]
pub fn parts_of_planes<H: Columns, K: Keys>(
    q_high: &Tensor<f16, 3>,
    q_low: &Tensor<f16, 3>,
    k_high: &Tensor<f16, 3>,
    k_low: &Tensor<f16, 3>,
    v_high: &Tensor<f16, 3>,
    v_low: &Tensor<f16, 3>,
    parts: &mut Tensor<f32, 4>,
    largest: &mut Tensor<f32, 3>,
    totals: &mut Tensor<f32, 3>,
    chunk: Scalar<i64>,
    width: Scalar<i64>,
) {
    q_high.same_shape(q_low);
    k_high.same_shape(k_low);
    k_high.same_shape(v_high);
    k_high.same_shape(v_low);
    // A launch that lacks heads is refused.
    let (_queries, _group) = (q_high.slice(0, 0, parts.len(1)), k_high.slice(0, 0, 1));
    let columns = Size::from(H::NUMBER);
    for (c, h, m, d) in parts.tiles([Size::from(1), Size::from(1), BM, columns]) {
        let at = Place { queries: m, columns: d, head: h.number(), of_keys: h.number() * k_high.len(0) / q_high.len(0) };
        let around = K::around(m, k_high.len(1), width);
        let positions = Range { start: c.number() * chunk * CHUNK, end: ((c.number() + 1) * chunk * CHUNK).min(around.end) };
        let planes = [[q_high, q_low], [k_high, k_low], [v_high, v_low]];
        let (most, total, acc) = walk_planes::<K>(planes, at, [BM, BN, columns], positions, width);
        parts.store((c.number(), at.head, m, d), acc * (1.0 / UP));
        if d.start() == 0 {
            largest.scatter((c.number(), m.coords(), at.head), most - TOP);
            totals.scatter((c.number(), m.coords(), at.head), total);
        }
    }
}

/// [`attention`](super::attention::attention()), where one of three words says so.
#[kernel(
    types(K = [AllKeys, Causal]),
    tile(BM = [64, 32, 128, 16], BN = [32, 64, 128, 16], BE = [32, 64, 16, 128], BD = [128, 64, 32]),
    coarsen(TM of BM = [4, 8, 2], TD of BD = [8, 4, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Transposed]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn attention_where_flawed<K: Keys>(
    flawed: &Tensor<u32, 1>,
    q: &Tensor<f32, 3>,
    k: &Tensor<f32, 3>,
    v: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 3>,
    width: Scalar<i64>,
) {
    // A launch that lacks heads is refused.
    let (q, v, _first) = (&q.slice(1, 0, out.len(1)), &v.slice(1, 0, k.len(1)), k.slice(1, 0, 1));
    for (h, queries, columns) in out.axes([1, 0, 2]).tiles([Size::from(1), BM, BD]) {
        if flawed.at(0) + flawed.at(1) + flawed.at(2) != 0 {
            let at = Place { queries, columns, head: h.number(), of_keys: h.number() * k.len(1) / q.len(1) };
            let steps = Steps { queries: BM, keys: BN, inner: BE, columns: BD };
            out.store((queries, at.head, columns), attend::<K>((q, k, v), at, steps, width));
        }
    }
}

/// Programs of planes by the keys that are seen: one launch for all keys, or chunks of keys, at most 10 of them, and a launch that joins them.
macro_rules! of_planes {
    ($keys:ident: $whole_rows:ident, $in_chunks:ident) => {
        #[program]
        fn $whole_rows(
            q_high: &Tensor<f16, 3>,
            q_low: &Tensor<f16, 3>,
            k_high: &Tensor<f16, 3>,
            k_low: &Tensor<f16, 3>,
            v_high: &Tensor<f16, 3>,
            v_low: &Tensor<f16, 3>,
            out: &mut Tensor<f32, 3>,
        ) {
            let mut out = out.permuted([1, 0, 2]);
            if q_high.len(2) <= 64 {
                attention_of_planes::<Of64, $keys>(q_high, q_low, k_high, k_low, v_high, v_low, &mut out, scalar(0));
            } else {
                attention_of_planes::<Of128, $keys>(q_high, q_low, k_high, k_low, v_high, v_low, &mut out, scalar(0));
            }
        }

        #[program]
        fn $in_chunks(
            q_high: &Tensor<f16, 3>,
            q_low: &Tensor<f16, 3>,
            k_high: &Tensor<f16, 3>,
            k_low: &Tensor<f16, 3>,
            v_high: &Tensor<f16, 3>,
            v_low: &Tensor<f16, 3>,
            out: &mut Tensor<f32, 3>,
        ) {
            let (rows, heads, keys, d) = (out.len(0), out.len(1), k_high.len(1), out.len(2));
            let chunk = ((keys + 10 * CHUNK - 1) / (10 * CHUNK)).max(1);
            let chunks = (keys + chunk * CHUNK - 1) / (chunk * CHUNK);
            let mut parts = temp([chunks, heads, rows, d]);
            let mut largest = temp([chunks, rows, heads]);
            let mut totals = temp([chunks, rows, heads]);
            let zero = scalar(0);
            if d <= 64 {
                parts_of_planes::<Of64, $keys>(
                    q_high,
                    q_low,
                    k_high,
                    k_low,
                    v_high,
                    v_low,
                    &mut parts,
                    &mut largest,
                    &mut totals,
                    chunk,
                    zero,
                );
            } else {
                parts_of_planes::<Of128, $keys>(
                    q_high,
                    q_low,
                    k_high,
                    k_low,
                    v_high,
                    v_low,
                    &mut parts,
                    &mut largest,
                    &mut totals,
                    chunk,
                    zero,
                );
            }
            join_attention::<$keys>(&parts.permuted([0, 2, 1, 3]), &largest, &totals, out, keys, chunk * CHUNK, zero);
        }
    };
}

of_planes!(AllKeys: whole_rows, chunks_of_keys);
of_planes!(Causal: whole_causal_rows, chunks_of_earlier_keys);

/// Programs by the keys that are seen and by what is done with the planes.
macro_rules! by_planes {
    ($($(#[$doc:meta])* $name:ident: $keys:ident, $launch:ident;)*) => { $(
        $(#[$doc])*
        #[program]
        pub fn $name(q: &Tensor<f32, 3>, k: &Tensor<f32, 3>, v: &Tensor<f32, 3>, out: &mut Tensor<f32, 3>) {
            let (heads, rows, groups, keys, d) = (q.len(1), q.len(0), k.len(1), k.len(0), q.len(2));
            let (q_high, q_low) = (temp([heads, rows, padded(d)]), temp([heads, rows, padded(d)]));
            let (k_high, k_low) = (temp([groups, keys, padded(d)]), temp([groups, keys, padded(d)]));
            let (v_high, v_low) = (temp([groups, keys, padded(d)]), temp([groups, keys, padded(d)]));
            let (mut q_high, mut q_low) = (q_high.slice(2, 0, d), q_low.slice(2, 0, d));
            let (mut k_high, mut k_low) = (k_high.slice(2, 0, d), k_low.slice(2, 0, d));
            let (mut v_high, mut v_low) = (v_high.slice(2, 0, d), v_low.slice(2, 0, d));
            let mut flawed = temp([3]);
            flawed.fill(0);
            split_heads(&q.permuted([1, 0, 2]), &mut q_high, &mut q_low, &mut flawed.slice(0, 0, 1));
            split_heads(&k.permuted([1, 0, 2]), &mut k_high, &mut k_low, &mut flawed.slice(0, 1, 1));
            split_heads(&v.permuted([1, 0, 2]), &mut v_high, &mut v_low, &mut flawed.slice(0, 2, 1));
            $launch(&q_high, &q_low, &k_high, &k_low, &v_high, &v_low, out);
            attention_where_flawed::<$keys>(&flawed, q, k, v, out, scalar(0));
        }
    )* };
}

by_planes! {
    /// softmax(q · kᵀ / √d) · v of every head; tensors are `[rows, heads, d]`.
    attention_by_planes: AllKeys, whole_rows;
    /// The same, of queries that see the keys up to their own position.
    causal_attention_by_planes: Causal, whole_causal_rows;
    /// As [`attention_by_planes()`], for few queries: blocks share the keys.
    attention_by_chunks_of_planes: AllKeys, chunks_of_keys;
    /// As [`causal_attention_by_planes()`], for few heads: blocks share the keys.
    causal_attention_by_chunks_of_planes: Causal, chunks_of_earlier_keys;
}

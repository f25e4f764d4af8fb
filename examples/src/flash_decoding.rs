//! Attention of one new query of each sequence to its keys so far, which lie in pages: blocks share a sequence's pages, and a second launch
//! joins what they have. (Dao and others, Flash-Decoding, 2023; Kwon and others, Efficient Memory Management for LLM Serving with
//! PagedAttention, 2023.)
//!
//! Keys and values are `[pages, rows of a page, groups, d]`; the page table has the pages of a sequence in the order of its positions. As many
//! heads of queries as there are for each group share its keys, and are rows of one product.

use super::attention::reference;
use girih::prelude::*;

/// What some pages add: `[sequences · chunks, groups, heads of a group, d]`, with each head's largest score (in powers of two) and sum of
/// weights. A chunk has `per` pages.
#[kernel(
    types(T = [f16, bf16]),
    tile(R = [8, 4, 16, 1], P = [16, 32, 64], E = [128, 64, 32, 16], D = [128, 64, 32, 16]),
    coarsen(RR of R = [1, 2, 4, 8], DD of D = [8, 4, 2]),
    vector(V = [8, 4, 1]),
    operands(O = [Shared, Direct]),
    unit(U = [Ffma, Mma]),
    warps(W = [4, 2, 1])
)]
pub fn decode_parts<T: Float>(
    q: &Tensor<T, 4>,
    k: &Tensor<T, 4>,
    v: &Tensor<T, 4>,
    table: &Tensor<i32, 2>,
    last: &Tensor<i32, 1>,
    parts: &mut Tensor<f32, 4>,
    largest: &mut Tensor<f32, 3>,
    totals: &mut Tensor<f32, 3>,
    chunks: Scalar<i64>,
    per: Scalar<i64>,
) {
    k.same_shape(v);
    let scale = q.len(3).cast::<f32>().rsqrt() * std::f32::consts::LOG2_E;
    for (bc, g, r, d) in parts.tiles([Size::from(1), Size::from(1), R, D]) {
        let (sequence, chunk, group) = (bc.number() / chunks, bc.number() % chunks, g.number());
        let (rows, newest) = (k.len(1), last.at(sequence).cast::<i64>());
        let end = (newest / rows + 1).min((chunk + 1) * per);
        let (mut most, mut total) = (full([R], f32::MIN), zeros::<f32>([R]));
        let mut acc = zeros::<f32>([R, D]);
        for i in chunk * per..end {
            let page = table.at((sequence, i)).cast::<i64>();
            for n in k.axis(1).tiles(P) {
                let mut scores = zeros::<f32>([R, P]);
                for e in q.axis(3).tiles(E) {
                    scores = dot(q.load((sequence, group, r, e)), k.load((page, n, group, e)).t(), scores);
                }
                let seen = (n.coords() < rows && n.coords() <= newest - i * rows).expand(0, R);
                let scores = select(seen, scores * scale, f32::MIN);
                let next = most.max(scores.max_axis(1));
                let weights = select(seen, (scores - next.expand(1, P)).exp2_approx(), 0.0);
                let factor = (most - next).exp2_approx();
                total = total * factor + weights.sum_axis(1);
                acc = dot(weights.cast::<T>(), v.load((page, n, group, d)), acc * factor.expand(1, D));
                most = next;
            }
        }
        parts.store((bc.number(), group, r, d), acc);
        if d.start() == 0 {
            largest.scatter((bc.number(), group, r.coords()), most);
            totals.scatter((bc.number(), group, r.coords()), total);
        }
    }
}

/// The chunks' parts, each by its share of the softmax.
#[kernel(
    types(T = [f16, bf16]),
    tile(R = [4, 8, 1, 16], D = [128, 64, 32]),
    coarsen(RR of R = [1, 2], DD of D = [4, 1, 2]),
    vector(V = [4, 1, 2])
)]
pub fn join_parts<T: Float>(
    parts: &Tensor<f32, 4>,
    largest: &Tensor<f32, 3>,
    totals: &Tensor<f32, 3>,
    out: &mut Tensor<T, 4>,
    chunks: Scalar<i64>,
) {
    let parts = parts.slice(1, 0, out.len(1));
    let [largest, totals] = [largest, totals].map(|x| x.slice(0, 0, parts.len(0)).slice(1, 0, out.len(1)));
    for (b, g, r, d) in out.tiles([Size::from(1), Size::from(1), R, D]) {
        let (first, group) = (b.number() * chunks, g.number());
        let (mut most, mut total) = (full::<f32>([R], f32::MIN), zeros::<f32>([R]));
        let mut sum = zeros::<f32>([R, D]);
        for c in first..(first + chunks).min(parts.len(0)) {
            let other = largest.load((c, group, r));
            let next = most.max(other);
            let (kept, added) = ((most - next).exp2_approx(), (other - next).exp2_approx());
            total = total * kept + totals.load((c, group, r)) * added;
            sum = sum * kept.expand(1, D) + parts.load((c, group, r, d)) * added.expand(1, D);
            most = next;
        }
        out.store((b.number(), group, r, d), (sum * (1.0 / total).expand(1, D)).cast());
    }
}

/// Blocks that an H200 is filled with: a page after the other is a chain of waits, so that each of its 132 multiprocessors wants as many as it
/// holds, 16 of four warps.
const BLOCKS: i64 = 132 * 16;

/// What a caller calls: a sequence has keys up to its last position, fewer than `longest`.
#[program]
pub fn solve(
    q: &Tensor<bf16, 3>,
    k: &Tensor<bf16, 4>,
    v: &Tensor<bf16, 4>,
    table: &Tensor<i32, 2>,
    last: &Tensor<i32, 1>,
    output: &mut Tensor<bf16, 3>,
    longest: Scalar<i32>,
) {
    let (sequences, groups, d) = (q.len(0), k.len(2), q.len(2));
    let heads = q.len(1) / groups;
    // As many chunks as fill the GPU, of whole pages.
    let wanted = (scalar(BLOCKS) / (sequences * groups).max(1)).max(1);
    let pages = ((longest.cast::<i64>() + k.len(1) - 1) / k.len(1)).min(table.len(1)).max(1);
    let per = (pages + wanted - 1) / wanted;
    let chunks = (pages + per - 1) / per;
    let mut parts = temp([sequences * chunks, groups, heads, d]);
    let mut largest = temp([sequences * chunks, groups, heads]);
    let mut totals = temp([sequences * chunks, groups, heads]);
    decode_parts::<bf16>(&q.chunked(1, heads), k, v, table, last, &mut parts, &mut largest, &mut totals, chunks, per);
    join_parts::<bf16>(&parts, &largest, &totals, &mut output.chunked(1, heads), chunks);
}

girih::challenge! {
    Challenge::new(
        "flash_decoding",
        solve::Program::def,
        "void solve(const __nv_bfloat16* Q[B, H, D], const __nv_bfloat16* K[pages, page, G, D], const __nv_bfloat16* V[pages, page, G, D], \
         const int* table[B, T], const int* last[B], __nv_bfloat16* output[B, H, D], \
         int B, int H, int G, int D, int T, int pages, int page, int S)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K", normal(0.0, 1.0))
    .input("V", normal(0.0, 1.0))
    .input("table", below("pages"))
    .input("last", below("S"))
    .output_rows("output", |x, i| {
        let (heads, groups, d, pages, rows) = (x.len("H"), x.len("G"), x.len("D"), x.len("T"), x.len("page"));
        let (sequence, group) = (i / heads, i % heads * groups / heads);
        let at = |j: usize, e: usize| {
            let page = x.at("table", sequence * pages + j / rows) as usize;
            ((page * rows + j % rows) * groups + group) * d + e
        };
        let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", at(j, e))).sum::<f64>();
        let keys = x.at("last", sequence) as usize + 1;
        reference(0..keys, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", at(j, e)))
    })
    .tolerance(3e-2, 1e-2)
    .check_at([
        "B=1, H=1, G=1, D=16, T=1, pages=1, page=1, S=1",
        "B=3, H=4, G=2, D=64, T=5, pages=7, page=16, S=80",
        "B=2, H=6, G=2, D=40, T=9, pages=20, page=5, S=43",
        "B=1, H=8, G=1, D=128, T=40, pages=64, page=16, S=640",
    ])
    .perf_at("B=16, H=32, G=8, D=128, T=512, pages=8192, page=16, S=8192")
    .flops(|s| 2.0 * s.size("B") * s.size("H") * s.size("S") * s.size("D"))
    .bytes(|s| 2.0 * s.size("B") * s.size("G") * s.size("S") * s.size("D"))
}

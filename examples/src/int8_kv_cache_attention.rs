//! One token's attention to a cache of 8-bit keys and values.
//!
//! There are fewer heads than multiprocessors, so the keys of a head are cut into chunks: a block has a chunk and leaves its largest score, its
//! sum of weights and its weighted sum of values, and a second launch joins the chunks of a head, each by its share of the softmax.
//! (Flash-decoding: Dao, Haziza, Massa and Sizov, 2023.)

use girih::prelude::*;

const CHUNK: i64 = 256;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// A signed byte as a float: its bits are put below those of 2^23, which takes no conversion.
fn widen(v: Tile<i8>) -> Tile<f32> {
    ((v.bitcast::<u8>() ^ 0x80u8).cast::<u32>() | 0x4b00_0000u32).bitcast::<f32>() - 8_388_736.0
}

/// parts, largest, totals = the weighted sum of values, the largest score and the sum of weights of each chunk of keys.
#[kernel(
    tile(S = 256, E = [128, 64, 256]),
    coarsen(CS of S = [8, 4, 16, 2], CE of E = [16, 8, 4]),
    vector(V = [16, 8, 4, 1]),
    cache(H = [Default, Loads])
)]
pub fn attend_bytes(
    q: &Tensor<f32, 2>,
    k: &Tensor<i8, 3>,
    v: &Tensor<i8, 3>,
    k_scale: &Tensor<f32, 2>,
    v_scale: &Tensor<f32, 2>,
    parts: &mut Tensor<f32, 3>,
    largest: &mut Tensor<f32, 2>,
    totals: &mut Tensor<f32, 2>,
) {
    for (h, s) in k.axes([0, 1]).tiles([Size::from(1), S]) {
        let head = h.number();
        let key_scale = k_scale.load((head, s));
        let value_scale = v_scale.load((head, s));
        let mut products = zeros::<f32>([S, E]);
        for e in k.axis(2).tiles(E) {
            // Zeros in the place of what is absent: the multiply-adds have no conditions.
            products += widen(k.load((head, s, e)).or(0)) * q.load((head, e)).or(0.0).expand(0, S);
        }
        let factor = k.len(2).cast::<f32>().rsqrt() * LOG2_E;
        let scores = products.sum_axis(1) * key_scale * factor;
        let most = scores.max_all();
        let weights = (scores - most).exp2_approx();
        let total = weights.sum();
        let weights = weights * value_scale;
        for e in v.axis(2).tiles(E) {
            let sums = (widen(v.load((head, s, e))) * weights.expand(1, E)).sum_axis(0);
            parts.scatter((head, s.number(), e.coords()), sums);
        }
        largest.scatter((head, s.number()), most);
        totals.scatter((head, s.number()), total);
    }
}

/// Byte `j` of each word, whose sign bits are flipped, as a float.
fn byte(words: Tile<u32>, j: usize) -> Tile<f32> {
    (((words >> (8 * j as u32)) & 0xffu32) | 0x4b00_0000u32).bitcast::<f32>() - 8_388_736.0
}

/// As `attend_bytes`, with four bytes a word: chains of multiply-adds instead of products that are added up.
#[kernel(
    tile(S = 256, E = [32, 16, 64]),
    coarsen(CS of S = [8, 4, 16, 2], CE of E = [4, 2, 1]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [2, 1, 4]),
    cache(H = [Default, Loads])
)]
pub fn attend_words(
    q: &Tensor<f32, 3>,
    k: &Tensor<u32, 3>,
    v: &Tensor<u32, 3>,
    k_scale: &Tensor<f32, 2>,
    v_scale: &Tensor<f32, 2>,
    parts: &mut Tensor<f32, 3>,
    largest: &mut Tensor<f32, 2>,
    totals: &mut Tensor<f32, 2>,
) {
    for (h, s) in k.axes([0, 1]).tiles([Size::from(1), S]) {
        let head = h.number();
        let key_scale = k_scale.load((head, s));
        let value_scale = v_scale.load((head, s));
        let mut products = zeros::<f32>([S, E]);
        for e in k.axis(2).tiles(E) {
            // As in `attend_bytes`.
            let words = k.load((head, s, e)).or(0) ^ 0x8080_8080u32;
            let query: [Tile<f32>; 4] = q.load((head, e, ..4)).or(0.0).unstack();
            for j in 0..4 {
                products = byte(words, j).fma(query[j].expand(0, S), products);
            }
        }
        let factor = (k.len(2) * 4).cast::<f32>().rsqrt() * LOG2_E;
        let scores = products.sum_axis(1) * key_scale * factor;
        let most = scores.max_all();
        let weights = (scores - most).exp2_approx();
        let total = weights.sum();
        let weights = weights * value_scale;
        for e in v.axis(2).tiles(E) {
            let words = v.load((head, s, e)) ^ 0x8080_8080u32;
            for j in 0..4 {
                let sums = (byte(words, j) * weights.expand(1, E)).sum_axis(0);
                parts.scatter((head, s.number(), e.coords() * 4 + j as i64), sums);
            }
        }
        largest.scatter((head, s.number()), most);
        totals.scatter((head, s.number()), total);
    }
}

/// out = the parts of a head's chunks, each by its share of the softmax.
#[kernel(
    tile(E = [128, 32, 64], C = [32, 16, 64]),
    coarsen(CE of E = [4, 1, 2], CC of C = [1, 2, 4]),
    vector(V = [4, 1, 2])
)]
pub fn join_heads(parts: &Tensor<f32, 3>, largest: &Tensor<f32, 2>, totals: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    let parts = parts.slice(0, 0, out.len(0));
    let [largest, totals] = [largest, totals].map(|x| x.slice(0, 0, out.len(0)));
    for (h, e) in out.tiles([Size::from(1), E]) {
        let head = h.number();
        let mut most = full::<f32>([C], f32::NEG_INFINITY);
        for c in parts.axis(1).tiles(C) {
            most = most.max(largest.load((head, c)));
        }
        let most = most.max_all();
        let mut total = zeros::<f32>([C]);
        let mut sums = zeros::<f32>([C, E]);
        for c in parts.axis(1).tiles(C) {
            let weights = (largest.load((head, c)) - most).exp2_approx();
            total += weights * totals.load((head, c));
            sums += parts.load((head, c, e)) * weights.expand(1, E);
        }
        out.store((head, e), sums.sum_axis(0) / total.sum());
    }
}

/// What the judge calls.
#[program]
pub fn solve(
    q: &Tensor<f32, 2>,
    k: &Tensor<i8, 3>,
    v: &Tensor<i8, 3>,
    k_scale: &Tensor<f32, 2>,
    v_scale: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 2>,
) {
    let chunks = (k.len(1) + (CHUNK - 1)) / CHUNK;
    let mut parts = temp([k.len(0), chunks, k.len(2)]);
    let mut largest = temp([k.len(0), chunks]);
    let mut totals = temp([k.len(0), chunks]);
    if k.len(2) % 4 == 0 {
        attend_words(
            &q.chunked(1, 4),
            &k.flat().reinterpret::<u32>().chunked(0, k.len(2) / 4).chunked(0, k.len(1)),
            &v.flat().reinterpret::<u32>().chunked(0, k.len(2) / 4).chunked(0, k.len(1)),
            k_scale,
            v_scale,
            &mut parts,
            &mut largest,
            &mut totals,
        );
    } else {
        attend_bytes(q, k, v, k_scale, v_scale, &mut parts, &mut largest, &mut totals);
    }
    join_heads(&parts, &largest, &totals, out);
}

girih::challenge! {
    Challenge::new(
        "int8_kv_cache_attention",
        solve::Program::def,
        "void solve(const float* Q[num_heads, head_dim], const int8_t* K_int8[num_heads, seq_len, head_dim], const int8_t* V_int8[num_heads, seq_len, head_dim], const float* k_scale[num_heads, seq_len], const float* v_scale[num_heads, seq_len], float* output[num_heads, head_dim], int num_heads, int seq_len, int head_dim)",
    )
    .input("Q", normal(0.0, 1.0))
    .input("K_int8", integers(-128, 127))
    .input("V_int8", integers(-128, 127))
    .input("k_scale", uniform(0.01, 0.11))
    .input("v_scale", uniform(0.01, 0.11))
    .output_rows("output", |x, h| {
        let (s, d) = (x.len("seq_len"), x.len("head_dim"));
        let scores: Vec<f64> = (0..s)
            .map(|t| {
                let dot: f64 = (0..d).map(|e| x.at("Q", h * d + e) * x.at("K_int8", (h * s + t) * d + e)).sum();
                x.at("k_scale", h * s + t) * dot / (d as f64).sqrt()
            })
            .collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|v| (v - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; d];
        for (t, weight) in weights.iter().enumerate() {
            let w = weight / total * x.at("v_scale", h * s + t);
            for (e, sum) in out.iter_mut().enumerate() {
                *sum += w * x.at("V_int8", (h * s + t) * d + e);
            }
        }
        out
    })
    .tolerance(1e-3, 1e-3)
    .check_at([
        "num_heads=0, seq_len=4, head_dim=8",
        "num_heads=1, seq_len=1, head_dim=1",
        "num_heads=3, seq_len=255, head_dim=64",
        "num_heads=2, seq_len=257, head_dim=128",
        "num_heads=1, seq_len=1000, head_dim=80",
        "num_heads=2, seq_len=515, head_dim=37",
        "num_heads=1, seq_len=300, head_dim=200",
        "num_heads=1, seq_len=512, head_dim=128",
    ])
    .perf_at("num_heads=32, seq_len=8192, head_dim=128")
    .flops(|s| 4.0 * s.size("num_heads") * s.size("seq_len") * s.size("head_dim"))
}

//! Attention of f32 by planes of f16, of numbers that 16 bits cannot hold, too: those are left to multiply-adds. Compared with sums in f64.

use girih::{Device, Stream};
use girih_core::target::Target;
use girih_examples::attention_planes::{
    attention_by_chunks_of_planes, attention_by_planes, causal_attention_by_chunks_of_planes, causal_attention_by_planes, split_heads,
};

/// Queries, keys, heads, columns.
const SHAPES: [[usize; 4]; 4] = [[37, 37, 2, 20], [1, 1, 1, 1], [3, 70, 1, 64], [67, 67, 1, 72]];

/// What is random about a tensor, by row and column.
type Numbers = fn(usize, usize) -> f32;

struct Case {
    name: &'static str,
    q: Numbers,
    k: Numbers,
    v: Numbers,
    /// Some row is none that 16 bits hold.
    flawed: bool,
    /// What a result may be off by, of the values' size.
    share: f64,
}

/// Between -1 and 1, never 0.
fn noise(i: usize, j: usize) -> f32 {
    ((i * 7919 + j * 104_729 + 13) % 1009) as f32 / 504.5 - 0.9995
}

fn cases() -> Vec<Case> {
    let case = |name, [q, k, v]: [Numbers; 3], flawed, share| Case { name, q, k, v, flawed, share };
    vec![
        case("plain", [noise, noise, noise], false, 1e-6),
        case("far apart", [|i, j| 30.0 * noise(i, j), |i, j| 30.0 * noise(i, j), noise], false, 1e-3),
        case("beyond f16", [noise, noise, |i, j| 1e5 * noise(i, j)], true, 1e-6),
        case("tiny values", [noise, noise, |i, j| 1e-6 * noise(i, j)], true, 1e-6),
        case("tiny and large", [|i, j| 1e-6 * noise(i, j), |i, j| 1e5 * noise(i, j), noise], true, 1e-6),
        case("zeros", [|i, j| if i % 3 == 0 { 0.0 } else { noise(i, j) }, |_, _| 0.0, noise], false, 1e-6),
        case("a key nobody sees", [|i, j| noise(i, j).abs(), |i, _| if i == 2 { f32::NEG_INFINITY } else { 0.5 }, noise], true, 1e-6),
        case("no number", [|i, j| if i == 1 { f32::NAN } else { noise(i, j) }, noise, noise], true, 1e-6),
    ]
}

/// One row of one head, in f64.
fn row(q: &[f32], k: &[f32], v: &[f32], [query, head]: [usize; 2], seen: usize, [heads, d]: [usize; 2]) -> Vec<f64> {
    let at = |x: &[f32], r: usize, e: usize| f64::from(x[(r * heads + head) * d + e]);
    let score = |j: usize| (0..d).map(|e| at(q, query, e) * at(k, j, e)).sum::<f64>() / (d as f64).sqrt();
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, s| most.max(*s));
    let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    (0..d).map(|e| weights.iter().enumerate().map(|(j, w)| w * at(v, j, e)).sum::<f64>() / total).collect()
}

fn compare(case: &Case, [rows, keys, heads, d]: [usize; 4], causal: bool, chunks: bool) {
    let numbers = |of: Numbers, rows: usize| (0..rows * heads * d).map(|i| of(i / d, i % d)).collect::<Vec<f32>>();
    let (q, k, v) = (numbers(case.q, rows), numbers(case.k, keys), numbers(case.v, keys));
    let s = Stream::on(&Device::sim(Target::h200()));
    let tensor = |x: &[f32], rows: usize| s.tensor(x, [rows, heads, d]).expect("memory");
    let (tq, tk, tv) = (tensor(&q, rows), tensor(&k, keys), tensor(&v, keys));
    let mut out = s.zeros::<f32, 3>([rows, heads, d]).expect("memory");
    let done = match (causal, chunks) {
        (false, false) => attention_by_planes(&s, &tq, &tk, &tv, &mut out),
        (true, false) => causal_attention_by_planes(&s, &tq, &tk, &tv, &mut out),
        (false, true) => attention_by_chunks_of_planes(&s, &tq, &tk, &tv, &mut out),
        (true, true) => causal_attention_by_chunks_of_planes(&s, &tq, &tk, &tv, &mut out),
    };
    done.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let found = s.read(&out).expect("results");
    let size = v.iter().fold(0.0f64, |size, x| size.max(f64::from(x.abs())));
    for (query, head) in (0..rows).flat_map(|r| (0..heads).map(move |h| (r, h))) {
        let seen = if causal { keys.min(query + 1) } else { keys };
        for (e, right) in row(&q, &k, &v, [query, head], seen, [heads, d]).into_iter().enumerate() {
            let found = f64::from(found[(query * heads + head) * d + e]);
            let good = if right.is_nan() { found.is_nan() } else { (found - right).abs() <= case.share * size };
            assert!(good, "{}, causal: {causal}, {rows} x {keys} x {heads} x {d} at {query}, {head}, {e}: {found} for {right}", case.name);
        }
    }
}

#[test]
fn attention_by_planes_loses_what_multiply_adds_lose() {
    for (at, case) in cases().iter().enumerate() {
        // Of all cases the first shape, of the first one all.
        for shape in &SHAPES[..if at == 0 { SHAPES.len() } else { 1 }] {
            compare(case, *shape, false, false);
            if shape[0] == shape[1] {
                compare(case, *shape, true, at % 2 == 0);
            }
        }
    }
    // Two chunks, and one that early queries do not see.
    let [plain, .., unseen, _] = &cases()[..] else { panic!("cases") };
    for causal in [false, true] {
        compare(plain, [140, 140, 1, 16], causal, true);
        compare(unseen, [140, 140, 1, 16], causal, true);
    }
}

/// A row that 16 bits cannot hold says so, and no other one.
#[test]
fn flawed_rows_are_told() {
    let [rows, d] = [40, 33];
    for case in cases() {
        let s = Stream::on(&Device::sim(Target::h200()));
        let told = [case.q, case.k, case.v].map(|of| {
            let x: Vec<f32> = (0..rows * d).map(|i| of(i / d, i % d)).collect();
            let x = s.tensor(&x, [1, rows, d]).expect("memory");
            let (mut high, mut low) = (s.zeros([1, rows, d]).expect("memory"), s.zeros([1, rows, d]).expect("memory"));
            let mut own = s.zeros::<u32, 1>([1]).expect("memory");
            split_heads(&s, &x, &mut high, &mut low, &mut own).unwrap_or_else(|e| panic!("{e}"));
            s.read(&own).expect("a flaw") != [0]
        });
        assert_eq!(told.contains(&true), case.flawed, "{}", case.name);
    }
}

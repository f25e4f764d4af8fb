//! The exclusive sums of a vector, begun anew at every flag.
//!
//! In two launches: the first finds what each chunk leaves for the next one, and walks back from the chunk's end only as far as the last flag;
//! the second scans each chunk. In one launch blocks look back at what earlier ones have left (decoupled look-back): it reads everything once,
//! and waits. Both are variants; the tuner chooses.

use girih::algorithms::look_back_to;
use girih::prelude::*;

/// Elements of a chunk.
const CHUNK: i64 = 4096;

/// sums, any = the sum since the last flag of each chunk, and whether it has one. A block walks back from its chunk's end.
#[kernel(tile(B = 1, S = 256), coarsen(C of S = [8, 4, 2, 1]))]
pub fn chunk_ends(values: &Tensor<f32, 1>, flags: &Tensor<i32, 1>, sums: &mut Tensor<f32, 1>, any: &mut Tensor<i32, 1>) {
    for c in sums.tiles([B]) {
        let start = c.number() * CHUNK;
        let mut from = start + CHUNK;
        let mut sum = scalar(0.0f32);
        let mut last = scalar(-1i64);
        while last < 0 && from > start {
            from -= 256;
            let at = iota::<i64>(S) + from;
            last = select(flags.gather(at) != 0, at, -1).max_all().max(-1);
            sum += select(at >= last, values.gather(at), 0.0).sum();
        }
        sums.scatter(c.number(), sum);
        any.scatter(c.number(), (last >= 0).cast::<i32>());
    }
}

/// out = the sums of each chunk, joined with what the chunks before it have left.
#[kernel(
    tile(T = 4096, S = 256),
    coarsen(C of T = [8, 4, 16]),
    vector(V = [4, 1, 2]),
    min_blocks(Q = 2),
    cache(H = [Default, Stores, Streaming])
)]
pub fn scan_segments(
    values: &Tensor<f32, 1>,
    flags: &Tensor<i32, 1>,
    sums: &Tensor<f32, 1>,
    any: &Tensor<i32, 1>,
    out: &mut Tensor<f32, 1>,
) {
    for t in out.tiles([T]) {
        let v = values.window(t, [(0, 0)], Boundary::Zero).at(0);
        let f = flags.window(t, [(0, 0)], Boundary::Zero).at(0) != 0;
        let mut j = t.number() - 1;
        let mut carry = scalar(0.0f32);
        let mut open = j >= 0;
        if open {
            carry = sums.at(j);
            open = any.at(j) == 0;
            j -= 1;
        }
        while open && j >= 0 {
            let near = iota::<i64>(S);
            let first = select(any.gather(j - near) != 0, near, 256).min_all();
            carry += select(near <= first, sums.gather(j - near), 0.0).sum();
            open = first >= 256;
            j -= 256;
        }
        let begins = f.cast::<i32>();
        // A flag forgets what lies in front.
        let since = |a: (Scalar<i32>, Scalar<f32>), b: (Scalar<i32>, Scalar<f32>)| (a.0 | b.0, select(b.0 != 0, b.1, a.1 + b.1));
        let (seen, sum) = (begins, v).scan(along(0).exclusive(), (0, 0.0), since);
        out.store(t, select(f, 0.0, sum + select(seen == 0, carry, 0.0)));
    }
}

/// out = the sums, in one pass. What a chunk with a flag leaves is complete: nothing in front of it matters to those behind it.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = [16, 8, 4]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [1, 2, 4]),
    cache(H = [Default, Stores, Streaming, Loads])
)]
pub fn scan_in_order(values: &Tensor<f32, 1>, flags: &Tensor<i32, 1>, states: &mut Tensor<u64, 1>, out: &mut Tensor<f32, 1>) {
    for t in out.tiles([T]).in_order() {
        let flag = flags.load(t) != 0;
        let begins = flag.cast::<i32>();
        // A flag forgets what lies in front.
        let since = |a: (Scalar<i32>, Scalar<f32>), b: (Scalar<i32>, Scalar<f32>)| (a.0 | b.0, select(b.0 != 0, b.1, a.1 + b.1));
        let (seen, sum) = (begins, values.load(t)).scan(along(0).exclusive(), (0, 0.0), since);
        let before = look_back_to(states, t.number(), (sum.total(), seen.total() != 0), 0.0, |a, b| a + b);
        out.store(t, select(flag, 0.0, sum + select(seen == 0, before, 0.0)));
    }
}

/// What the judge calls.
#[program]
pub fn solve(values: &Tensor<f32, 1>, flags: &Tensor<i32, 1>, output: &mut Tensor<f32, 1>) {
    let chunks = (values.len(0) + (CHUNK - 1)) / CHUNK;
    if variant("two launches") {
        let (mut sums, mut any) = (temp([chunks]), temp([chunks]));
        chunk_ends(values, flags, &mut sums, &mut any);
        scan_segments(values, flags, &sums, &any, output);
    } else {
        let mut states = temp_filled([chunks], 0u64);
        scan_in_order(values, flags, &mut states, output);
    }
}

girih::challenge! {
    Challenge::new("segmented_prefix_sum", solve::Program::def,
        "void solve(const float* values[N], const int* flags[N], float* output[N], int N)")
        .input("values", uniform(-1.0, 1.0))
        .input("flags", formula(|lens, i| flag(lens[0], i)))
        .output_all("output", |x| {
            let mut sum = 0.0;
            (0..x.len("N")).map(|i| {
                if x.at("flags", i) == 1.0 { sum = 0.0; }
                let out = sum;
                sum += x.at("values", i);
                out
            }).collect()
        })
        .tolerance(1e-3, 1e-3)
        .check_at(["N=1", "N=2", "N=31", "N=257", "N=4096", "N=4097", "N=9001", "N=70001", "N=100003"])
        .perf_at("N=50_000_000")
}

/// Every 256th at the size that is timed; else some, and long stretches of none.
fn flag(n: i64, i: usize) -> f64 {
    let some = match n {
        50_000_000 => i.is_multiple_of(256),
        70_001 | 100_003 => i == 0 || i == 40_000 || i > 90_000 && i.is_multiple_of(7),
        _ => i == 0 || (i * 2654435761) % 97 == 3,
    };
    some as u8 as f64
}

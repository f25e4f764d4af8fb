//! Attention of 16-bit floats in one pass over the keys, of heads of 64 or 128 columns. (Dao and others, FlashAttention, 2022; Shah and
//! others, FlashAttention-3, 2024.)
//!
//! Queries and results are `[batch, heads, rows, d]`, keys and values `[batch, groups, rows, d]`: as many heads of queries as there are for each
//! group share it. Scores are added up in f32, and are the left operand of the second product where they are made.

use super::attention::reference;
use girih::prelude::*;

/// Elements, and columns of a head.
pub trait Heads: 'static {
    /// Elements of queries, keys, values and results.
    type Of: Float;
    /// Columns: a tile spans them.
    const COLUMNS: i64;
}

/// Heads: a name, elements, columns.
macro_rules! heads {
    ($($(#[$doc:meta])* $name:ident: $of:ty, $columns:literal;)*) => { $(
        $(#[$doc])*
        pub struct $name;
        impl Heads for $name {
            type Of = $of;
            const COLUMNS: i64 = $columns;
        }
    )* };
}

heads! {
    /// f16, 64 columns.
    Half64: f16, 64;
    /// f16, 128 columns.
    Half128: f16, 128;
    /// bf16, 64 columns.
    Brain64: bf16, 64;
    /// bf16, 128 columns.
    Brain128: bf16, 128;
}

/// Which keys a query sees.
pub trait Sight: 'static {
    /// Only those up to its own position; or all.
    const CAUSAL: bool;
}

/// A query sees all keys.
pub struct All;

/// A query sees the keys up to its own position.
pub struct Causal;

impl Sight for All {
    const CAUSAL: bool = false;
}

impl Sight for Causal {
    const CAUSAL: bool = true;
}

/// o = softmax(q · kᵀ / √d) · v of every head.
#[kernel(
    types(H = [Half64, Half128, Brain64, Brain128], S = [All, Causal]),
    tile(BM = [128, 64, 192, 32, 16], BN = [64, 128, 96, 32, 176]),
    coarsen(TM of BM = [8, 4, 2]),
    vector(V = [8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4, 12]),
    stages(R = [3, 2, 4, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    raster(X = [1, 16, 32]),
    order(D = [Falling, Rising]),
    turns(T = [Free, InTurn]),
    min_blocks(Q = [1, 2])
)]
pub fn flash_attention<H: Heads, S: Sight>(q: &Tensor<H::Of, 4>, k: &Tensor<H::Of, 4>, v: &Tensor<H::Of, 4>, o: &mut Tensor<H::Of, 4>) {
    q.same_shape(o);
    v.same_shape(k);
    // A launch whose keys are of fewer batches, or of no group, is refused.
    let (_batches, _group) = (k.slice(0, 0, o.len(0)), k.slice(1, 0, 1));
    let columns = Size::from(H::COLUMNS);
    let scale = q.len(3).cast::<f32>().rsqrt() * std::f32::consts::LOG2_E;
    for (b, h, m, d) in o.tiles([Size::from(1), Size::from(1), BM, columns]) {
        let (batch, head) = (b.number(), h.number());
        let group = head * k.len(1) / q.len(1);
        let mut acc = zeros::<f32>([BM, columns]);
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        // Keys from here on are hidden from some query.
        let (end, hidden) = if S::CAUSAL { (m.end(), k.len(2).min(m.start() + 1)) } else { (k.len(2), k.len(2)) };
        for n in k.axis(2).tiles(BN).within(scalar(0)..end) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(3).tiles(columns) {
                scores = dot(q.load((batch, head, m, e)), k.load((batch, group, n, e)).t(), scores);
            }
            if n.end() > hidden {
                let key = n.coords().cast::<i32>().expand(0, BM);
                let mut seen = key < k.len(2).cast::<i32>();
                if S::CAUSAL {
                    seen = seen && key <= m.coords().cast::<i32>().expand(1, BN);
                }
                scores = select(seen, scores, f32::MIN);
            }
            let next = most.max(scores.max_axis(1));
            // A query sees the first key, so that what it does not see is far below its largest score.
            let weights = (scores * scale - (next * scale).expand(1, BN)).exp2_approx();
            let factor = ((most - next) * scale).exp2_approx();
            total = total * factor + weights.sum_axis(1);
            acc = dot(weights.cast::<H::Of>(), v.load((batch, group, n, d)), acc * factor.expand(1, columns));
            most = next;
        }
        o.store((batch, head, m, d), (acc * (1.0 / total).expand(1, columns)).cast());
    }
}

/// The challenge of one instance: a module with its program. Types are C's.
macro_rules! challenge_of {
    ($name:ident: $heads:ident $sight:ident, $c:literal, $d:literal, $absolute:expr, $relative:expr) => {
        #[doc = concat!("softmax(q · kᵀ / √d) · v: ", stringify!($heads), ", ", stringify!($sight), ".")]
        pub mod $name {
            use super::*;

            /// What a caller calls.
            #[program]
            pub fn solve(
                q: &Tensor<<$heads as Heads>::Of, 4>,
                k: &Tensor<<$heads as Heads>::Of, 4>,
                v: &Tensor<<$heads as Heads>::Of, 4>,
                output: &mut Tensor<<$heads as Heads>::Of, 4>,
            ) {
                flash_attention::<$heads, $sight>(q, k, v, output);
            }

            girih::challenge! {
                Challenge::new(
                    stringify!($name),
                    solve::Program::def,
                    concat!(
                        "void solve(const ", $c, "* Q[B, H, M, D], const ", $c, "* K[B, G, N, D], const ", $c, "* V[B, G, N, D], ",
                        $c, "* output[B, H, M, D], int B, int H, int G, int M, int N, int D)"
                    ),
                )
                .input("Q", normal(0.0, 1.0))
                .input("K", normal(0.0, 1.0))
                .input("V", normal(0.0, 1.0))
                .output_rows("output", |x, i| {
                    let (heads, groups, rows, keys, d) = (x.len("H"), x.len("G"), x.len("M"), x.len("N"), x.len("D"));
                    let (batch, head, row) = (i / rows / heads, i / rows % heads, i % rows);
                    let group = batch * groups + head * groups / heads;
                    let at = |j: usize, e: usize| (group * keys + j) * d + e;
                    let product = |j: usize| (0..d).map(|e| x.at("Q", i * d + e) * x.at("K", at(j, e))).sum::<f64>();
                    let seen = if $sight::CAUSAL { keys.min(row + 1) } else { keys };
                    reference(0..seen, |j| product(j) / (d as f64).sqrt(), d, |j, e| x.at("V", at(j, e)))
                })
                .tolerance($absolute, $relative)
                .check_at([
                    concat!("B=1 H=1 G=1 M=0 N=3 D=", $d),
                    concat!("B=1 H=2 G=1 M=70 N=70 D=", $d),
                    concat!("B=2 H=3 G=3 M=5 N=133 D=", $d),
                ])
                .perf_at(concat!("B=4, H=16, G=16, M=4096, N=4096, D=", $d))
                .flops(|s| {
                    let (m, n) = (s.size("M"), s.size("N"));
                    // Of the first queries each sees one key more than the one before.
                    let growing = m.min(n);
                    let seen = if $sight::CAUSAL { growing * (growing + 1.0) / 2.0 + (m - growing) * n } else { m * n };
                    4.0 * s.size("B") * s.size("H") * seen * s.size("D")
                })
            }
        }
    };
}

/// What results may be off by: weights and results are rounded to f16, or to bf16.
const HALF: (f64, f64) = (4e-3, 2e-3);
const BRAIN: (f64, f64) = (3e-2, 1e-2);

challenge_of!(flash_attention_f16_d64: Half64 All, "half", "64", HALF.0, HALF.1);
challenge_of!(flash_attention_f16_d128: Half128 All, "half", "128", HALF.0, HALF.1);
challenge_of!(flash_attention_bf16_d64: Brain64 All, "__nv_bfloat16", "64", BRAIN.0, BRAIN.1);
challenge_of!(flash_attention_bf16_d128: Brain128 All, "__nv_bfloat16", "128", BRAIN.0, BRAIN.1);
challenge_of!(flash_attention_f16_d64_causal: Half64 Causal, "half", "64", HALF.0, HALF.1);
challenge_of!(flash_attention_f16_d128_causal: Half128 Causal, "half", "128", HALF.0, HALF.1);
challenge_of!(flash_attention_bf16_d64_causal: Brain64 Causal, "__nv_bfloat16", "64", BRAIN.0, BRAIN.1);
challenge_of!(flash_attention_bf16_d128_causal: Brain128 Causal, "__nv_bfloat16", "128", BRAIN.0, BRAIN.1);

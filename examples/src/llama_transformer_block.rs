//! Llama's transformer block: seven launches. The weights of queries, keys and values lie one behind the other, so one product has all of
//! them, and turns queries and keys by their positions before they leave; residuals and the gate stand behind the products in their kernels.
//! Operands are rounded to tf32, which the tolerance allows, sums are f32.

use super::attention::{Causal, attention_units};
use super::block_references::{Rows, attended, normal_weight, uniform_weight};
use super::dense_layers::{dense_gated, dense_onto};
use super::products::{Product, Tf32};
use girih::challenge::Case;
use girih::prelude::*;

/// y = x / √(mean over the row of x² + eps) · weight.
#[kernel(
    tile(R = [1, 2, 4], C = [512, 256, 1024, 2048]),
    coarsen(CR of R = [1, 2], CC of C = [4, 8, 16]),
    vector(V = [4, 1, 2])
)]
pub fn normal_rows(x: &Tensor<f32, 2>, weight: &Tensor<f32, 1>, y: &mut Tensor<f32, 2>, eps: Scalar<f32>) {
    let width = x.len(1).cast::<f32>();
    for r in x.axis(0).tiles(R) {
        let mut squares = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            squares += v * v;
        }
        let scale = (squares.sum_axis(1) / width + eps).rsqrt();
        for c in x.axis(1).tiles(C) {
            y.store((r, c), x.load((r, c)) * scale.expand(1, C) * weight.load(c).expand(0, R));
        }
    }
}

/// `y[row, head] = x[row] · w[head]ᵀ`, of the first `turned` heads with the pair of an element of both halves turned by the row's cosine and
/// sine. Halves are an axis of two.
#[kernel(
    types(P = [Tf32]),
    tile(H = 1, BM = [64, 128, 32], BN = [32, 16, 64], BK = [32, 16, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [4, 2, 1]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    stages(S = [3, 2, 4, 1]),
    copy(C = [Async, Overlap, Registers]),
    min_blocks(Q = [2, 1, 3])
)]
pub fn turned_heads<P: Product>(
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 4>,
    cos: &Tensor<f32, 2>,
    sin: &Tensor<f32, 2>,
    y: &mut Tensor<f32, 4>,
    turned: Scalar<i64>,
) {
    let w = w.slice(0, 0, y.len(1));
    let (w0, w1) = (w.slice(1, 0, 1), w.slice(1, 1, 1));
    let (mut y0, y1) = y.split_at(2, 1);
    let mut y1 = y1.slice(2, 0, 1);
    for (h, m, n) in y0.axes([1, 0, 3]).tiles([H, BM, BN]) {
        let head = h.number();
        let (mut a, mut b) = (zeros::<f32>([BM, BN]), zeros::<f32>([BM, BN]));
        for k in x.axis(1).tiles(BK) {
            let left = x.load((m, k));
            a = P::add(left, w0.load((head, 0, n, k)).t(), a, [BM, BN]);
            b = P::add(left, w1.load((head, 0, n, k)).t(), b, [BM, BN]);
        }
        if head < turned {
            let (c, s) = (cos.load((m, n)), sin.load((m, n)));
            (a, b) = (a * c - b * s, a * s + b * c);
        }
        y0.store((m, head, 0, n), a);
        y1.store((m, head, 0, n), b);
    }
}

/// The block of any width, with `kv_heads` heads of keys and values of twice as many columns as the tables have, and a layer of `wide`
/// columns. Its weights lie one behind the other.
#[program]
pub fn block(
    x: &Tensor<f32, 2>,
    output: &mut Tensor<f32, 2>,
    weights: &Tensor<f32, 1>,
    cos: &Tensor<f32, 2>,
    sin: &Tensor<f32, 2>,
    kv_heads: Scalar<i32>,
    wide: Scalar<i32>,
) {
    let (rows, d, half) = (x.len(0), x.len(1), cos.len(1));
    let (kv_heads, wide) = (kv_heads.cast::<i64>(), wide.cast::<i64>());
    let heads = d / (half * 2);
    let all_heads = heads + kv_heads * 2;
    let all = all_heads * half * 2;
    // Where the parts of the weights begin.
    let of_result = d + all * d;
    let second = of_result + d * d;
    let (gate, up, down) = (second + d, second + d + wide * d, second + d + wide * d * 2);
    let mut normal = temp([rows, d]);
    let qkv = temp([rows, all]);
    let seen = temp([rows, d]);
    let mut between = temp([rows, d]);
    let mut hidden = temp([rows, wide]);

    normal_rows(x, &weights.slice(0, 0, d), &mut normal, scalar(1e-5));
    let w = weights.slice(0, d, all * d).chunked(0, d).chunked(0, half).chunked(0, 2);
    turned_heads::<Tf32>(&normal, &w, cos, sin, &mut qkv.chunked(1, half).chunked(1, 2), heads + kv_heads);
    let parts = qkv.chunked(1, half * 2);
    let (q, k, v) = (parts.slice(1, 0, heads), parts.slice(1, heads, kv_heads), parts.slice(1, heads + kv_heads, kv_heads));
    attention_units::<Causal>(&q, &k, &v, &mut seen.chunked(1, half * 2), scalar(0));
    dense_onto::<Tf32>(&seen, &weights.slice(0, of_result, d * d).chunked(0, d), x, &mut between);

    normal_rows(&between, &weights.slice(0, second, d), &mut normal, scalar(1e-5));
    let (gate, up) = (weights.slice(0, gate, wide * d).chunked(0, d), weights.slice(0, up, wide * d).chunked(0, d));
    dense_gated::<Tf32>(&normal, &gate, &up, &mut hidden);
    dense_onto::<Tf32>(&hidden, &weights.slice(0, down, d * wide).chunked(0, wide), &between, output);
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, weights: &Tensor<f32, 1>, cos: &Tensor<f32, 2>, sin: &Tensor<f32, 2>) {
    block(x, output, weights, cos, sin, scalar(2), scalar(1408));
}

/// Sizes of a block.
#[derive(Clone, Copy)]
struct Widths {
    d: usize,
    head: usize,
    of_keys: usize,
    wide: usize,
}

/// The judge's.
const LLAMA: Widths = Widths { d: 512, head: 64, of_keys: 128, wide: 1408 };

impl Widths {
    /// Where the parts of the weights begin, in their order: a scale, the matrices of queries, keys, values and results, a scale, the
    /// matrices of the gate, of what it gates, and of the way back.
    fn offsets(self) -> [usize; 9] {
        let Widths { d, of_keys, wide, .. } = self;
        let lens = [d, d * d, of_keys * d, of_keys * d, d * d, d, wide * d, wide * d];
        std::array::from_fn(|part| lens[..part].iter().sum())
    }

    /// The block in double precision.
    fn expected(self, x: &Case) -> Vec<f64> {
        let Widths { d, head, of_keys, wide } = self;
        let (at, weights) = (self.offsets(), x.tensor("weights"));
        let layer = |input: &Rows, part: usize, outs: usize| input.times(outs, |k, n| weights.get(at[part] + n * input.width + k));
        let normal = |input: &Rows, part: usize| {
            input.map(d, |_, row| {
                let mean = row.iter().map(|v| v * v).sum::<f64>() / d as f64;
                row.iter().enumerate().map(|(n, v)| v / (mean + 1e-5).sqrt() * weights.get(at[part] + n)).collect()
            })
        };
        let turned = |input: Rows| {
            input.map(input.width, |i, row| {
                let half = head / 2;
                let pair = |n: usize| {
                    let (first, j) = (n / head * head, n % half);
                    let (a, b) = (row[first + j], row[first + half + j]);
                    let (cos, sin) = (x.at("cos", i * half + j), x.at("sin", i * half + j));
                    if n % head < half { a * cos - b * sin } else { a * sin + b * cos }
                };
                (0..row.len()).map(pair).collect()
            })
        };

        let input = Rows { width: d, of: (0..x.len("seq_len") * d).map(|i| x.at("x", i)).collect() };
        let first = normal(&input, 0);
        let (q, k, v) = (turned(layer(&first, 1, d)), turned(layer(&first, 2, of_keys)), layer(&first, 3, of_keys));
        let between = input.plus(&layer(&attended(&q, &k, &v, head, true), 4, d));
        let second = normal(&between, 5);
        let mut hidden = layer(&second, 6, wide);
        let up = layer(&second, 7, wide);
        hidden.of.iter_mut().zip(&up.of).for_each(|(g, u)| *g *= u / (1.0 + (-*g).exp()));
        between.plus(&layer(&hidden, 8, d)).of
    }

    /// A weight: scales around 1, and matrices of the judge's size at its width.
    fn weight(self, i: usize) -> f64 {
        match self.offsets().iter().filter(|at| **at <= i).count() - 1 {
            0 | 5 => uniform_weight(i, 0.8, 1.2),
            _ => normal_weight(i, 0.02 * (512.0 / self.d as f64).sqrt()),
        }
    }
}

/// The angle of a pair of elements at a position.
fn angle(lens: &[i64], i: usize) -> f64 {
    let half = lens[1] as usize;
    (i / half) as f64 * 10_000f64.powf(-((i % half) as f64) / half as f64)
}

girih::challenge! {
    Challenge::new(
        "llama_transformer_block",
        solve::Program::def,
        "void solve(const float* x[seq_len, 512], float* output[seq_len, 512], const float* weights[2819072], \
         const float* cos[seq_len, 32], const float* sin[seq_len, 32], int seq_len)",
    )
    .input("x", uniform(-1.0, 1.0))
    .input("weights", formula(|_, i| LLAMA.weight(i)))
    .input("cos", formula(|lens, i| angle(lens, i).cos()))
    .input("sin", formula(|lens, i| angle(lens, i).sin()))
    .output_all("output", |x| LLAMA.expected(x))
    .tolerance(1e-3, 1e-3)
    // One row is multiplied as many are: what the simulator takes too long for is checked of a narrower block, and at the perf size.
    .check_at(["seq_len=0"])
    .perf_at("seq_len=2048")
    .flops(|s| {
        let rows = s.size("seq_len");
        2.0 * rows * 512.0 * (512.0 + 256.0 + 512.0) + 6.0 * rows * 512.0 * 1408.0 + 2.0 * rows * (rows + 1.0) * 512.0
    })
}

/// A narrow block as a challenge of its own.
pub mod narrow {
    use super::{Widths, angle};
    use girih::prelude::*;

    /// Four heads of 4 columns, of which two share one of keys, and 20 columns between the last layers.
    const NARROW: Widths = Widths { d: 16, head: 4, of_keys: 8, wide: 20 };

    /// What a caller calls.
    #[program]
    pub fn solve(x: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>, weights: &Tensor<f32, 1>, cos: &Tensor<f32, 2>, sin: &Tensor<f32, 2>) {
        super::block(x, output, weights, cos, sin, scalar(2), scalar(20));
    }

    girih::challenge! {
        Challenge::new(
            "narrow_llama_block",
            solve::Program::def,
            "void solve(const float* x[seq_len, 16], float* output[seq_len, 16], const float* weights[1760], \
             const float* cos[seq_len, 2], const float* sin[seq_len, 2], int seq_len)",
        )
        .input("x", uniform(-1.0, 1.0))
        .input("weights", formula(|_, i| NARROW.weight(i)))
        .input("cos", formula(|lens, i| angle(lens, i).cos()))
        .input("sin", formula(|lens, i| angle(lens, i).sin()))
        .output_all("output", |x| NARROW.expected(x))
        .tolerance(1e-3, 1e-3)
        .check_at(["seq_len=1", "seq_len=6", "seq_len=19"])
        .perf_at("seq_len=2048")
        .flops(|s| 2.0 * s.size("seq_len") * 1728.0 + 2.0 * s.size("seq_len") * (s.size("seq_len") + 1.0) * 16.0)
    }
}

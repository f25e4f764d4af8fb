//! The gradients of attention of 16-bit floats, from the forward pass's results and the logarithms of its sums of weights.
//!
//! With the weights P = exp(Q · Kᵀ / √d - lse), G = dO · Vᵀ and E = P ∘ (G - rowsum(dO ∘ O)) they are dQ = E · K / √d, dK = Eᵀ · Q / √d and
//! dV = Pᵀ · dO. P and E are nowhere stored: one kernel has keys and walks the queries that see them, with Pᵀ and Eᵀ as the left operands of
//! its last two products where they are made; another one has queries and walks the keys. Both make scores and G: seven products instead of
//! five, for sums that no two blocks share. (Dao, FlashAttention-2, 2023, adds dQ up by atomics.)

use super::flash_attention::{All, Brain64, Brain128, Causal, Half64, Half128, Heads, Sight};
use girih::challenge::Case;
use girih::prelude::*;

/// Row sums of `o ∘ d_o`.
#[kernel(
    types(H = [Half64, Half128, Brain64, Brain128]),
    tile(B = 1, R = [16, 8, 32, 64], C = [64, 128]),
    coarsen(RR of R = [1, 2, 4, 8], CC of C = [8, 4]),
    vector(V = [8, 4, 1])
)]
pub fn row_products<H: Heads>(o: &Tensor<H::Of, 4>, d_o: &Tensor<H::Of, 4>, sums: &mut Tensor<f32, 3>) {
    o.same_shape(d_o);
    for (b, h, r) in sums.tiles([B, B, R]) {
        let (b, h) = (b.number(), h.number());
        let mut sum = zeros::<f32>([R, C]);
        for c in o.axis(3).tiles(C) {
            sum += o.load((b, h, r, c)).cast::<f32>() * d_o.load((b, h, r, c)).cast::<f32>();
        }
        sums.store((b, h, r), sum.sum_axis(1));
    }
}

/// The gradients of keys and values.
#[kernel(
    types(H = [Half64, Half128, Brain64, Brain128], S = [All, Causal]),
    tile(BN = [128, 64, 32], BM = [64, 128, 32, 16]),
    coarsen(TN of BN = [8, 4, 2]),
    vector(V = [8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4]),
    stages(R = [2, 3, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    raster(X = [1, 16, 32]),
    order(D = [Rising, Falling]),
    turns(T = [Free, InTurn]),
    min_blocks(Q = [1, 2])
)]
pub fn gradients_of_keys<H: Heads, S: Sight>(
    q: &Tensor<H::Of, 4>,
    k: &Tensor<H::Of, 4>,
    v: &Tensor<H::Of, 4>,
    d_o: &Tensor<H::Of, 4>,
    lse: &Tensor<f32, 3>,
    products: &Tensor<f32, 3>,
    d_k: &mut Tensor<H::Of, 4>,
    d_v: &mut Tensor<H::Of, 4>,
) {
    q.same_shape(d_o);
    k.same_shape(v);
    k.same_shape(d_k);
    k.same_shape(d_v);
    lse.same_shape(products);
    let columns = Size::from(H::COLUMNS);
    // One tile has all columns, and keys have the heads of the queries: other launches are refused.
    let (_columns, _heads) = (k.slice(3, 0, (scalar(H::COLUMNS) - k.len(3)).min(0)), k.slice(1, 0, q.len(1)));
    let scale = q.len(3).cast::<f32>().rsqrt();
    let power = scale * std::f32::consts::LOG2_E;
    for (b, h, n, d) in d_k.tiles([Size::from(1), Size::from(1), BN, columns]) {
        let (b, h) = (b.number(), h.number());
        let keys = k.load((b, h, n, d));
        let values = v.load((b, h, n, d));
        let mut of_keys = zeros::<f32>([BN, columns]);
        let mut of_values = zeros::<f32>([BN, columns]);
        let first = if S::CAUSAL { n.start() } else { scalar(0) };
        for m in q.axis(2).tiles(BM).within(first..q.len(2)) {
            let queries = q.load((b, h, m, d));
            let slopes = d_o.load((b, h, m, d));
            // Behind the last query all is zero that weights are multiplied with.
            let sums = lse.load((b, h, m)).or(0.0) * std::f32::consts::LOG2_E;
            let scores = dot(keys, queries.t(), zeros::<f32>([BN, BM]));
            let mut weights = (scores * power - sums.expand(0, BN)).exp2_approx();
            if S::CAUSAL {
                if m.start() < n.end() {
                    let seen = n.coords().cast::<i32>().expand(1, BM) <= m.coords().cast::<i32>().expand(0, BN);
                    weights = select(seen, weights, 0.0);
                }
            }
            of_values = dot(weights.cast::<H::Of>(), slopes, of_values);
            let gains = dot(values, slopes.t(), zeros::<f32>([BN, BM]));
            let gained = weights * (gains - products.load((b, h, m)).or(0.0).expand(0, BN));
            of_keys = dot(gained.cast::<H::Of>(), queries, of_keys);
        }
        d_v.store((b, h, n, d), of_values.cast());
        d_k.store((b, h, n, d), (of_keys * scale).cast());
    }
}

/// The gradients of queries.
#[kernel(
    types(H = [Half64, Half128, Brain64, Brain128], S = [All, Causal]),
    tile(BM = [128, 64, 192, 32], BN = [64, 128, 32, 16]),
    coarsen(TM of BM = [8, 4, 2]),
    vector(V = [8, 4, 1]),
    unit(U = [Wgmma, Mma, Ffma]),
    warps(W = [8, 4, 12]),
    stages(R = [2, 3, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    raster(X = [1, 16, 32]),
    order(D = [Falling, Rising]),
    turns(T = [Free, InTurn]),
    min_blocks(Q = [1, 2])
)]
pub fn gradients_of_queries<H: Heads, S: Sight>(
    q: &Tensor<H::Of, 4>,
    k: &Tensor<H::Of, 4>,
    v: &Tensor<H::Of, 4>,
    d_o: &Tensor<H::Of, 4>,
    lse: &Tensor<f32, 3>,
    products: &Tensor<f32, 3>,
    d_q: &mut Tensor<H::Of, 4>,
) {
    q.same_shape(d_o);
    q.same_shape(d_q);
    k.same_shape(v);
    lse.same_shape(products);
    let columns = Size::from(H::COLUMNS);
    let (_columns, _heads) = (q.slice(3, 0, (scalar(H::COLUMNS) - q.len(3)).min(0)), k.slice(1, 0, q.len(1)));
    let scale = q.len(3).cast::<f32>().rsqrt();
    let power = scale * std::f32::consts::LOG2_E;
    for (b, h, m, d) in d_q.tiles([Size::from(1), Size::from(1), BM, columns]) {
        let (b, h) = (b.number(), h.number());
        let queries = q.load((b, h, m, d));
        let slopes = d_o.load((b, h, m, d));
        // Behind the last query all is zero that is stored nowhere.
        let sums = lse.load((b, h, m)).or(0.0) * std::f32::consts::LOG2_E;
        let product = products.load((b, h, m)).or(0.0);
        let mut acc = zeros::<f32>([BM, columns]);
        let end = if S::CAUSAL { m.end() } else { k.len(2) };
        for n in k.axis(2).tiles(BN).within(scalar(0)..end) {
            let keys = k.load((b, h, n, d));
            let values = v.load((b, h, n, d));
            let scores = dot(queries, keys.t(), zeros::<f32>([BM, BN]));
            let gains = dot(slopes, values.t(), zeros::<f32>([BM, BN]));
            let mut weights = (scores * power - sums.expand(1, BN)).exp2_approx();
            if S::CAUSAL {
                if n.end() > m.start() {
                    let seen = n.coords().cast::<i32>().expand(0, BM) <= m.coords().cast::<i32>().expand(1, BN);
                    weights = select(seen, weights, 0.0);
                }
            }
            let gained = weights * (gains - product.expand(1, BN));
            acc = dot(gained.cast::<H::Of>(), keys, acc);
        }
        d_q.store((b, h, m, d), (acc * scale).cast());
    }
}

/// What the gradients of one head are, in double precision, from what a judge gives.
struct Head<'c> {
    x: &'c Case,
    /// Which one.
    head: usize,
    causal: bool,
}

impl Head<'_> {
    fn at(&self, name: &str, row: usize, e: usize) -> f64 {
        let (rows, d) = (self.x.tensor(name).lens[2] as usize, self.x.len("D"));
        self.x.at(name, (self.head * rows + row) * d + e)
    }

    fn product(&self, (a, i): (&str, usize), (b, j): (&str, usize)) -> f64 {
        (0..self.x.len("D")).map(|e| self.at(a, i, e) * self.at(b, j, e)).sum()
    }

    /// The weight of a key, and the slope of its score.
    fn weight_and_slope(&self, query: usize, key: usize) -> [f64; 2] {
        if self.causal && key > query {
            return [0.0; 2];
        }
        let scale = 1.0 / (self.x.len("D") as f64).sqrt();
        let lse = self.x.at("lse", self.head * self.x.len("M") + query);
        let weight = (self.product(("Q", query), ("K", key)) * scale - lse).exp();
        let gain = self.product(("dO", query), ("V", key)) - self.product(("dO", query), ("O", query));
        [weight, weight * gain * scale]
    }
}

/// Of row `i` of all heads' queries: its gradient.
fn query_gradient(x: &Case, i: usize, causal: bool) -> Vec<f64> {
    let (rows, keys) = (x.len("M"), x.len("N"));
    let (head, query) = (Head { x, head: i / rows, causal }, i % rows);
    let slopes: Vec<f64> = (0..keys).map(|j| head.weight_and_slope(query, j)[1]).collect();
    (0..x.len("D")).map(|e| slopes.iter().enumerate().map(|(j, s)| s * head.at("K", j, e)).sum()).collect()
}

/// Of row `i` of all heads' keys: the gradients of the value (0) or of the key (1), of which `factor` is what weights or slopes meet.
fn key_gradient(x: &Case, i: usize, causal: bool, (which, factor): (usize, &str)) -> Vec<f64> {
    let (rows, keys) = (x.len("M"), x.len("N"));
    let (head, key) = (Head { x, head: i / keys, causal }, i % keys);
    let of: Vec<f64> = (0..rows).map(|query| head.weight_and_slope(query, key)[which]).collect();
    (0..x.len("D")).map(|e| of.iter().enumerate().map(|(query, w)| w * head.at(factor, query, e)).sum()).collect()
}

/// The challenge of one instance: a module with its program. Types are C's.
macro_rules! challenge_of {
    ($name:ident: $heads:ident $sight:ident, $c:literal, $d:literal, $tolerance:expr) => {
        #[doc = concat!("The gradients of an attention: ", stringify!($heads), ", ", stringify!($sight), ".")]
        pub mod $name {
            use super::*;

            /// What a caller calls.
            #[program]
            pub fn solve(
                q: &Tensor<<$heads as Heads>::Of, 4>,
                k: &Tensor<<$heads as Heads>::Of, 4>,
                v: &Tensor<<$heads as Heads>::Of, 4>,
                o: &Tensor<<$heads as Heads>::Of, 4>,
                d_o: &Tensor<<$heads as Heads>::Of, 4>,
                lse: &Tensor<f32, 3>,
                d_q: &mut Tensor<<$heads as Heads>::Of, 4>,
                d_k: &mut Tensor<<$heads as Heads>::Of, 4>,
                d_v: &mut Tensor<<$heads as Heads>::Of, 4>,
            ) {
                let mut products = temp([q.len(0), q.len(1), q.len(2)]);
                row_products::<$heads>(o, d_o, &mut products);
                gradients_of_keys::<$heads, $sight>(q, k, v, d_o, lse, &products, d_k, d_v);
                gradients_of_queries::<$heads, $sight>(q, k, v, d_o, lse, &products, d_q);
            }

            girih::challenge! {
                Challenge::new(
                    stringify!($name),
                    solve::Program::def,
                    concat!(
                        "void solve(const ", $c, "* Q[B, H, M, D], const ", $c, "* K[B, H, N, D], const ", $c, "* V[B, H, N, D], const ",
                        $c, "* O[B, H, M, D], const ", $c, "* dO[B, H, M, D], const float* lse[B, H, M], ", $c, "* dQ[B, H, M, D], ",
                        $c, "* dK[B, H, N, D], ", $c, "* dV[B, H, N, D], int B, int H, int M, int N, int D)"
                    ),
                )
                .input("Q", normal(0.0, 1.0))
                .input("K", normal(0.0, 1.0))
                .input("V", normal(0.0, 1.0))
                .input("O", normal(0.0, 0.1))
                .input("dO", normal(0.0, 1.0))
                .input("lse", uniform(5.0, 6.0))
                .output_rows("dQ", |x, i| query_gradient(x, i, $sight::CAUSAL))
                .output_rows("dK", |x, i| key_gradient(x, i, $sight::CAUSAL, (1, "Q")))
                .output_rows("dV", |x, i| key_gradient(x, i, $sight::CAUSAL, (0, "dO")))
                .tolerance($tolerance.0, $tolerance.1)
                .check_at([
                    concat!("B=1 H=1 M=1 N=1 D=", $d),
                    concat!("B=1 H=2 M=70 N=70 D=", $d),
                    concat!("B=2 H=1 M=37 N=133 D=", $d),
                ])
                .perf_at(concat!("B=4, H=16, M=4096, N=4096, D=", $d))
                .flops(|s| {
                    let (m, n) = (s.size("M"), s.size("N"));
                    let growing = m.min(n);
                    let seen = if $sight::CAUSAL { growing * (growing + 1.0) / 2.0 + (m - growing) * n } else { m * n };
                    10.0 * s.size("B") * s.size("H") * seen * s.size("D")
                })
            }
        }
    };
}

/// What gradients may be off by: weights, slopes and results are rounded to f16, or to bf16.
const HALF: (f64, f64) = (8e-3, 4e-3);
const BRAIN: (f64, f64) = (6e-2, 2e-2);

challenge_of!(flash_attention_backward_f16_d64: Half64 All, "half", "64", HALF);
challenge_of!(flash_attention_backward_f16_d128: Half128 All, "half", "128", HALF);
challenge_of!(flash_attention_backward_bf16_d64: Brain64 All, "__nv_bfloat16", "64", BRAIN);
challenge_of!(flash_attention_backward_bf16_d128: Brain128 All, "__nv_bfloat16", "128", BRAIN);
challenge_of!(flash_attention_backward_bf16_d64_causal: Brain64 Causal, "__nv_bfloat16", "64", BRAIN);
challenge_of!(flash_attention_backward_bf16_d128_causal: Brain128 Causal, "__nv_bfloat16", "128", BRAIN);

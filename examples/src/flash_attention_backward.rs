//! The gradients of attention of 16-bit floats, from the forward pass's results and the logarithms of its sums of weights.
//!
//! With the weights P = exp(Q · Kᵀ / √d - lse), G = dO · Vᵀ and E = P ∘ (G - rowsum(dO ∘ O)) they are dQ = E · K / √d, dK = Eᵀ · Q / √d and
//! dV = Pᵀ · dO. P and E are nowhere stored: one kernel has keys and walks the queries that see them, with Pᵀ and Eᵀ as the left operands of
//! its last two products where they are made; another one has queries and walks the keys. Both make scores and G: seven products instead of
//! five, for sums that no two blocks share. (Dao, FlashAttention-2, 2023, adds dQ up by atomics.)

use super::flash_attention::{All, Brain64, Brain128, Causal, Half64, Half128, Heads, Sight};
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
    let (_columns, _heads) = (k.slice(3, 0, (-k.len(3) + H::COLUMNS).min(0)), k.slice(1, 0, q.len(1)));
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
            if S::CAUSAL && m.start() < n.end() {
                let seen = n.coords().cast::<i32>().expand(1, BM) <= m.coords().cast::<i32>().expand(0, BN);
                weights = select(seen, weights, 0.0);
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
    let (_columns, _heads) = (q.slice(3, 0, (-q.len(3) + H::COLUMNS).min(0)), k.slice(1, 0, q.len(1)));
    let scale = q.len(3).cast::<f32>().rsqrt();
    let power = scale * std::f32::consts::LOG2_E;
    for (b, h, m, d) in d_q.tiles([Size::from(1), Size::from(1), BM, columns]) {
        let (b, h) = (b.number(), h.number());
        let queries = q.load((b, h, m, d));
        let slopes = d_o.load((b, h, m, d));
        let sums = lse.load((b, h, m)) * std::f32::consts::LOG2_E;
        let product = products.load((b, h, m));
        let mut acc = zeros::<f32>([BM, columns]);
        let end = if S::CAUSAL { m.end() } else { k.len(2) };
        for n in k.axis(2).tiles(BN).within(scalar(0)..end) {
            let keys = k.load((b, h, n, d));
            let values = v.load((b, h, n, d));
            let scores = dot(queries, keys.t(), zeros::<f32>([BM, BN]));
            let gains = dot(slopes, values.t(), zeros::<f32>([BM, BN]));
            let mut weights = (scores * power - sums.expand(1, BN)).exp2_approx();
            if S::CAUSAL && n.end() > m.start() {
                let seen = n.coords().cast::<i32>().expand(0, BM) <= m.coords().cast::<i32>().expand(1, BN);
                weights = select(seen, weights, 0.0);
            }
            let gained = weights * (gains - product.expand(1, BN));
            acc = dot(gained.cast::<H::Of>(), keys, acc);
        }
        d_q.store((b, h, m, d), (acc * scale).cast());
    }
}

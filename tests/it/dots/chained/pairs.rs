//! Dots of several shapes in one kernel, of every format: on matrix units each has its own sharing out.

use girih::prelude::*;
use girih_examples::split_products::split_dot;

/// How operands are read, and how the second right one lies.
pub trait Format: 'static {
    /// Elements of operands.
    type In: Float;
    /// The second right operand lies along the axis of the sum.
    const ALONG: bool;
    /// What a dot takes.
    fn operand(x: Tile<Self::In>) -> Tile<Self::In> {
        x
    }
}

/// Formats: a name, the type of operands, whether the second right one lies along the sum, and a function of operands that are rounded.
macro_rules! formats {
    ($($name:ident: $in:ty, $along:literal $(, $round:ident)?;)*) => { $(
        pub struct $name;
        impl Format for $name {
            type In = $in;
            const ALONG: bool = $along;
            $(fn operand(x: Tile<$in>) -> Tile<$in> {
                x.$round()
            })?
        }
    )* };
}

formats! {
    Half: f16, false;
    HalfAlong: f16, true;
    Brain: bf16, false;
    Rounded: f32, false, round_tf32;
    RoundedAlong: f32, true, round_tf32;
}

/// softmax(q · kᵀ · scale) · v in one pass over the keys, with tiles of keys and of columns of their own.
#[kernel(
    types(F = [Half, HalfAlong, Brain, Rounded, RoundedAlong]),
    tile(BM = [32, 16, 64, 128], BN = [32, 16, 64], BE = [16, 32, 64, 128], BD = [64, 16, 32, 8, 128]),
    coarsen(TM of BM = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1, 8]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4, 8]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers])
)]
pub fn attention_of_pairs<F: Format>(
    q: &Tensor<F::In, 2>,
    k: &Tensor<F::In, 2>,
    v: &Tensor<F::In, 2>,
    scale: Scalar<f32>,
    o: &mut Tensor<f32, 2>,
) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        for n in k.axis(0).tiles(BN) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                scores = dot(F::operand(q.load((m, e))), F::operand(k.load((n, e))).t(), scores);
            }
            let there = (n.coords() < k.len(0)).expand(0, BM);
            let scores = select(there, scores * scale, f32::MIN);
            let next = most.max(scores.max_axis(1));
            let weights = select(there, (scores - next.expand(1, BN)).exp(), 0.0);
            let factor = (most - next).exp();
            total = total * factor + weights.sum_axis(1);
            let values = if F::ALONG { v.load((d, n)).t() } else { v.load((n, d)) };
            acc = dot(F::operand(weights.cast()), F::operand(values), acc * factor.expand(1, BD));
            most = next;
        }
        o.store((m, d), acc / total.expand(1, BD));
    }
}

/// wᵀ · g and w · kᵀ's largest elements, where w = q · kᵀ is made in turns: the left operand of the second dot is turned.
#[kernel(
    types(F = [Half, Brain, Rounded]),
    tile(BN = [32, 16, 64], BD = [32, 16, 64], BM = [16, 32], BE = [16, 32]),
    coarsen(TN of BN = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4]),
    stages(S = [1, 2]),
    copy(C = [Async, Registers])
)]
pub fn turned_weights<F: Format>(
    q: &Tensor<F::In, 2>,
    k: &Tensor<F::In, 2>,
    g: &Tensor<F::In, 2>,
    bias: &Tensor<f32, 1>,
    o: &mut Tensor<f32, 2>,
    largest: &mut Tensor<f32, 2>,
) {
    for (n, d) in o.tiles([BN, BD]) {
        let mut acc = zeros::<f32>([BN, BD]);
        let mut most = full([BN], f32::MIN);
        for m in q.axis(0).tiles(BM) {
            let mut w = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                w = dot(F::operand(q.load((m, e))), F::operand(k.load((n, e))).t(), w);
            }
            let w = w + bias.load(n).expand(0, BM);
            most = most.max(select((m.coords() < q.len(0)).expand(1, BN), w, f32::MIN).max_axis(0));
            acc = dot(F::operand(w.t().cast()), F::operand(g.load((m, d))), acc);
        }
        o.store((n, d), acc);
        largest.store((n, d), most.expand(1, BD));
    }
}

/// A sum of the block's tile beside one of another shape, of which each row's sum counts.
#[kernel(
    types(F = [Half, Rounded]),
    tile(BM = [32, 16, 64], BD = [32, 16, 64], BN = [16, 32, 8], BK = [16, 32]),
    coarsen(TM of BM = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 1, 2]),
    stages(S = [2, 1, 3]),
    copy(C = [Async, Registers])
)]
pub fn sums_aside<F: Format>(
    a: &Tensor<F::In, 2>,
    b: &Tensor<F::In, 2>,
    c: &Tensor<F::In, 2>,
    o: &mut Tensor<f32, 2>,
    rows: &mut Tensor<f32, 2>,
) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        let mut aside = zeros::<f32>([BM]);
        for n in c.axis(1).tiles(BN) {
            let mut other = zeros::<f32>([BM, BN]);
            for k in a.axis(1).tiles(BK) {
                other = dot(F::operand(a.load((m, k))), F::operand(c.load((k, n))), other);
            }
            aside += other.sum_axis(1);
        }
        for k in a.axis(1).tiles(BK) {
            acc = dot(F::operand(a.load((m, k))), F::operand(b.load((k, d))), acc);
        }
        o.store((m, d), acc);
        rows.store((m, d), aside.expand(1, BD));
    }
}
/// Products of two shapes in three parts each: the weights' parts and the columns' parts are read once for all products.
#[kernel(
    tile(BM = [32, 16, 64], BN = [16, 32], BE = [16, 32], BD = [32, 16]),
    coarsen(TM of BM = [2, 4], TD of BD = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4]),
    stages(S = [2, 1]),
    copy(C = [Async, Registers])
)]
pub fn split_pairs(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, o: &mut Tensor<f32, 2>) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        for n in k.axis(0).tiles(BN) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                scores += split_dot(q.load((m, e)), k.load((n, e)).t(), zeros::<f32>([BM, BN]));
            }
            acc += split_dot(scores.clamp(-1.0, 1.0), v.load((n, d)), zeros::<f32>([BM, BD]));
        }
        o.store((m, d), acc);
    }
}

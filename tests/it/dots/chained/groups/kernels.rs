//! Attention on warp groups: results of two shapes, the weights in the registers of the scores, keys and values by tensor maps.

use super::super::pairs::{Brain, Format, Half, HalfAlong};
use girih::prelude::*;

/// Which keys a query sees, and how operands lie.
pub trait Sight: 'static {
    type Of: Format;
    const CAUSAL: bool;
}

/// Sights: a name, the format of operands, and whether a query sees the keys up to its own position only.
macro_rules! sights {
    ($($name:ident: $of:ty, $causal:literal;)*) => { $(
        pub struct $name;
        impl Sight for $name {
            type Of = $of;
            const CAUSAL: bool = $causal;
        }
    )* };
}

sights! {
    All: Half, false;
    Past: Half, true;
    AllAlong: HalfAlong, false;
    AllBrain: Brain, false;
    PastBrain: Brain, true;
}

/// softmax(q · kᵀ · scale) · v in one pass over the keys that some query of the tile sees.
#[kernel(
    types(S = [All, Past, AllAlong, AllBrain, PastBrain]),
    tile(BM = [64, 128], BN = [64, 32, 16], BE = [64, 32, 128], BD = [64, 32, 128]),
    coarsen(TM of BM = 8, TD of BD = 8),
    vector(V = [8, 4]),
    unit(U = [Wgmma, Mma]),
    warps(W = [4, 8]),
    stages(R = [3, 2, 4, 1]),
    copy(C = [Tensor, Async, Registers]),
    grid(G = [0, 1]),
    order(D = [Rising, Falling]),
    turns(T = [Free, InTurn])
)]
pub fn attention_of_groups<S: Sight>(
    q: &Tensor<<S::Of as Format>::In, 2>,
    k: &Tensor<<S::Of as Format>::In, 2>,
    v: &Tensor<<S::Of as Format>::In, 2>,
    scale: Scalar<f32>,
    o: &mut Tensor<<S::Of as Format>::In, 2>,
) {
    for (m, d) in o.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        let mut most = full([BM], f32::MIN);
        let mut total = zeros::<f32>([BM]);
        let end = if S::CAUSAL { m.end() } else { k.len(0) };
        for n in k.axis(0).tiles(BN).within(scalar(0)..end) {
            let mut scores = zeros::<f32>([BM, BN]);
            for e in q.axis(1).tiles(BE) {
                scores = dot(q.load((m, e)), k.load((n, e)).t(), scores);
            }
            let key = n.coords().expand(0, BM);
            let mut seen = key < k.len(0);
            if S::CAUSAL {
                seen = seen && key <= m.coords().expand(1, BN);
            }
            let scores = select(seen, scores * scale, f32::MIN);
            let next = most.max(scores.max_axis(1));
            let weights = select(seen, (scores - next.expand(1, BN)).exp(), 0.0);
            let factor = (most - next).exp();
            total = total * factor + weights.sum_axis(1);
            let values = if <S::Of as Format>::ALONG { v.load((d, n)).t() } else { v.load((n, d)) };
            acc = dot(weights.cast(), values, acc * factor.expand(1, BD));
            most = next;
        }
        o.store((m, d), (acc / total.expand(1, BD)).cast());
    }
}

//! Attention of one head: from a matrix of all scores to one pass that keeps none of them.

use girih::prelude::*;

/// scores = q · kᵀ / √d.
#[kernel(
    tile(BM = [32, 16, 64], BN = [32, 16, 64], BE = [32, 16]),
    coarsen(TM of BM = [4, 1, 2], TN of BN = [4, 1, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Direct])
)]
pub fn all_scores(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, scores: &mut Tensor<f32, 2>) {
    for (m, n) in scores.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for e in q.axis(1).tiles(BE) {
            acc = dot(q.load((m, e)), k.load((n, e)).t(), acc);
        }
        scores.store((m, n), acc * q.len(1).cast::<f32>().rsqrt());
    }
}

/// weights = the softmax of each row, a block for each.
#[kernel(tile(R = 1, C = [256, 128, 512]))]
pub fn row_weights(scores: &Tensor<f32, 2>, weights: &mut Tensor<f32, 2>) {
    for r in weights.axis(0).tiles(R) {
        let mut most = full([R, C], f32::MIN);
        for c in scores.axis(1).tiles(C) {
            most = most.max(scores.load((r, c)));
        }
        let largest = most.max_axis(1);
        let mut sum = zeros::<f32>([R, C]);
        for c in scores.axis(1).tiles(C) {
            sum += (scores.load((r, c)) - largest.expand(1, C)).exp_approx();
        }
        let scale = 1.0 / sum.sum_axis(1);
        for c in scores.axis(1).tiles(C) {
            weights.store((r, c), (scores.load((r, c)) - largest.expand(1, C)).exp_approx() * scale.expand(1, C));
        }
    }
}

/// out = weights · v.
#[kernel(
    tile(BM = [32, 16, 64], BD = [32, 16, 64], BN = [32, 16]),
    coarsen(TM of BM = [4, 1, 2], TD of BD = [4, 1, 2]),
    vector(V = [4, 1]),
    operands(O = [Shared, Direct])
)]
pub fn weighted_values(weights: &Tensor<f32, 2>, v: &Tensor<f32, 2>, out: &mut Tensor<f32, 2>) {
    for (m, d) in out.tiles([BM, BD]) {
        let mut acc = zeros::<f32>([BM, BD]);
        for n in v.axis(0).tiles(BN) {
            acc = dot(weights.load((m, n)), v.load((n, d)), acc);
        }
        out.store((m, d), acc);
    }
}

/// What the lower rungs run.
#[program]
pub fn solve(q: &Tensor<f32, 2>, k: &Tensor<f32, 2>, v: &Tensor<f32, 2>, output: &mut Tensor<f32, 2>) {
    let mut all = temp((q.len(0), k.len(0)));
    let mut shares = temp((q.len(0), k.len(0)));
    all_scores(q, k, &mut all);
    row_weights(&all, &mut shares);
    weighted_values(&shares, v, output);
}

girih::ladder! {
    Ladder::new("attention", "Attention of one head", "softmax_attention")
        .rung_of(
            solve::Program::def,
            "Three launches with a matrix of all scores between them, operands from global memory",
            "all_scores: BM=16,BN=16,BE=32,TM=1,TN=1,V=1,O=Direct; row_weights: C=256; weighted_values: BM=16,BD=16,BN=32,TM=1,TD=1,V=1,O=Direct",
        )
        .found("Operands that neighbours have loaded are found in the first cache far more often than the model thinks.")
        .rung_of(
            solve::Program::def,
            "Operands through shared memory, 4 x 4 results a thread",
            "all_scores: BM=32,BN=32,BE=32,TM=4,TN=4,V=4,O=Shared; row_weights: C=256; weighted_values: BM=32,BD=32,BN=32,TM=4,TD=4,V=4,O=Shared",
        )
        .rung(
            "One launch that keeps no scores: the softmax is corrected on the way (online)",
            "planes=no; chunks of keys=no; attention: BM=64,BN=32,BE=32,BD=128,TM=4,TD=8,V=4,O=Shared,S=1,C=Registers,Q=1",
        )
        .slower(
            "Nothing is written in between any more, but a block has 64 queries and all keys: of 512 queries that makes eight blocks, and most \
             multiprocessors have none. The next rung mends that.",
        )
        .rung(
            "The keys cut into chunks, so that all multiprocessors have work",
            "planes=no; chunks of keys=yes; matrix units=no; attention_parts: BM=64,BN=32,BE=32,BD=128,TM=4,TD=8,V=4,O=Shared,S=1,C=Registers,Q=1; \
             join_attention: BM=8,BD=128,TM=1,TD=4,V=4",
        )
        .rung(
            "The next keys are copied while these are multiplied",
            "planes=no; chunks of keys=yes; matrix units=no; attention_parts: BM=64,BN=32,BE=32,BD=128,TM=4,TD=8,V=4,O=Shared,S=2,C=Async,Q=2; \
             join_attention: BM=8,BD=128,TM=1,TD=4,V=4",
        )
        .rung(
            "Matrix units: scores and sums by warp groups, of operands that are cut into two planes of 16-bit floats",
            "planes=yes; split_heads: B=1,R=8,C=128,RR=1,CC=4,V=4; split_heads_2: B=1,R=8,C=128,RR=1,CC=4,V=4; \
             split_heads_3: B=1,R=8,C=128,RR=1,CC=4,V=4; \
             parts_of_planes_2: BM=64,BN=64,TM=8,V=8,U=Wgmma,W=4,R=2,C=Tensor,G=0,D=Falling,T=InTurn,Q=1; \
             join_attention: BM=8,BD=128,TM=1,TD=4,V=4; \
             attention_where_flawed: BM=64,BN=32,BE=32,BD=128,TM=4,TD=8,V=4,O=Shared,S=2,C=Async,Q=2",
        )
        .found("The model has the launches that cut operands beside each other cost more than they do: an H200 is as fast as on the rung before.")
        .slower(
            "Three launches cut the operands before, which the model adds up; an H200 takes 20.5 us, as for the rung before. Of more queries and keys \
             the products outweigh that: multi_head_attention and casual_attention are written so.",
        )
        .rung(
            "Matrix units that cut f32 on its way to them, into two parts of tf32: two launches are enough",
            "planes=no; chunks of keys=yes; matrix units=yes; \
             attention_parts_units: BM=16,T=64,BE=64,TM=4,TN=4,V=4,U=Mma,W=4,S=2,C=Async,Q=2; join_attention: BM=8,BD=128,TM=1,TD=4,V=4",
        )
}

//! Small kernels with dots: element types, operands that lie the other way round, batches, epilogues, several dots in a body.

use girih::prelude::*;

/// c = a · b in every element type.
#[kernel(
    types(T = [f32, f16, bf16]),
    tile(BM = [16, 32, 8], BN = [32, 16, 8], BK = [8, 16, 12]),
    coarsen(TM of BM = [1, 2, 4], TN of BN = [4, 2, 1]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1]),
    raster(X = [1, 2]),
    split(Z = [1, 2, 0, 3])
)]
pub fn product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Integers, added to what is there: exact in every order.
#[kernel(
    types(T = [i8, u8]),
    tile(BM = [16, 8], BN = [32, 16], BK = [16, 8]),
    coarsen(TM of BM = [2, 1], TN of BN = [2, 4]),
    vector(V = [2, 1, 4]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers]),
    grid(G = [0, 2]),
    split(Z = [1, 0, 4, 2])
)]
pub fn integer_product<T: Num>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = c.load((m, n));
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// Both operands lie the other way round: one as a view, one as a tile; then a bias and a nonlinearity.
#[kernel(
    tile(BM = [16, 32], BN = [16, 32], BK = [8, 16]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [2, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [1, 2, 4]),
    copy(P = [Async, Registers]),
    split(Z = [1, 3, 0])
)]
pub fn turned_product(at: &Tensor<f32, 2>, bt: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, c: &mut Tensor<f32, 2>) {
    let a = at.permuted([1, 0]);
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), bt.load((n, k)).t(), acc);
        }
        c.store((m, n), (acc + bias.load(n).expand(0, BM)).max(0.0));
    }
}

/// A batch of products, each scaled.
#[kernel(
    tile(B = 1, BM = [16, 8], BN = [16, 8], BK = [8, 16]),
    coarsen(TM of BM = [1, 2], TN of BN = [2, 4]),
    vector(V = [1, 2]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    split(Z = [1, 2, 0])
)]
pub fn batched_product(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, alpha: Scalar<f32>, c: &mut Tensor<f32, 3>) {
    let (a, b) = (a.slice(0, 0, c.len(0)), b.slice(0, 0, c.len(0)));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), acc);
        }
        c.store((i.number(), m, n), acc * alpha);
    }
}

/// Two dots of one operand, whose results meet.
#[kernel(
    tile(BM = [16, 8], BN = [16, 32], BK = [8, 16]),
    coarsen(TM of BM = [2, 1], TN of BN = [2, 4]),
    vector(V = [2, 1]),
    stages(S = [1, 2, 3]),
    copy(P = [Async, Registers]),
    split(Z = [1, 2, 0])
)]
pub fn gated_product(x: &Tensor<f32, 2>, gate: &Tensor<f32, 2>, up: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut g = zeros::<f32>([BM, BN]);
        let mut u = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            let left = x.load((m, k));
            g = dot(left, gate.load((k, n)), g);
            u = dot(left, up.load((k, n)), u);
        }
        y.store((m, n), g - u);
    }
}

/// An accumulator that is looked at between the turns: its changes add up to it.
#[kernel(tile(BM = [16, 8], BN = [16, 8], BK = [8, 16]), coarsen(TM of BM = [2, 1], TN of BN = [2, 1]), stages(S = [1, 2]), split(Z = [1, 2]))]
pub fn watched_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, c: &mut Tensor<i32, 2>, changes: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        let mut sum = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            let before = acc;
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
            sum += acc - before;
        }
        c.store((m, n), acc);
        changes.store((m, n), sum);
    }
}

/// No loop: the axis of the sum fits one tile; the accumulator is read before.
#[kernel(
    tile(BM = [16, 32], BN = [16, 8]),
    coarsen(TM of BM = [1, 4], TN of BN = [1, 2]),
    vector(V = [1, 2]),
    operands(O = [Shared, Direct, Transposed]),
    split(Z = [1, 0])
)]
pub fn short_product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let before = c.load((m, n));
        for k in a.axis(1).tiles(16) {
            let sum = dot(a.load((m, k)), b.load((k, n)), before);
            c.store((m, n), sum + before);
        }
    }
}

/// c = a · b by fused multiply-adds or matrix instructions.
#[kernel(
    types(T = [f16, bf16]),
    tile(BM = [32, 16, 8], BN = [16, 32], BK = [16, 32]),
    coarsen(TM of BM = [4, 2], TN of BN = [2, 4]),
    vector(V = [8, 2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async, Overlap, Mbarriers]),
    grid(G = [0, 1]),
    raster(X = [1, 2]),
    split(Z = [1, 2, 0, 5])
)]
pub fn matrix_unit_product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc.cast());
    }
}

/// The same in rows long enough to leave through shared memory, with a bias and a nonlinearity, several tiles a block.
#[kernel(
    types(T = [f16, bf16]),
    tile(BM = [32, 16, 8], BN = [64, 128], BK = [32, 16, 64]),
    coarsen(TM of BM = [4, 2], TN of BN = [4, 8]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1, 4]),
    stages(S = [3, 1, 2]),
    copy(P = [Async, Registers, Overlap, Mbarriers]),
    grid(G = [1, 0]),
    split(Z = [1, 2])
)]
pub fn rectified_product<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, bias: &Tensor<T, 1>, c: &mut Tensor<T, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), (acc + bias.load(n).cast::<f32>().expand(0, BM)).max(0.0).cast());
    }
}

/// The same of operands that lie the other way round.
#[kernel(
    tile(BM = [32, 16, 8], BN = [16, 48], BK = [16, 32]),
    coarsen(TM of BM = [4, 2], TN of BN = [2, 4]),
    vector(V = [2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1]),
    stages(S = [2, 1]),
    copy(P = [Async, Registers])
)]
pub fn turned_unit_product(at: &Tensor<f16, 2>, bt: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    let (a, b) = (at.permuted([1, 0]), bt.permuted([1, 0]));
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), acc);
    }
}

/// The same of operands that lie the other way round, in fewer bits of f32, with a bias.
#[kernel(
    tile(BM = [16, 32, 8], BN = [16, 8], BK = [8, 16]),
    coarsen(TM of BM = [4, 2], TN of BN = [2, 4]),
    vector(V = [2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Overlap, Mbarriers, Registers]),
    split(Z = [1, 4, 0])
)]
pub fn tf32_product(at: &Tensor<f32, 2>, bt: &Tensor<f32, 2>, bias: &Tensor<f32, 1>, c: &mut Tensor<f32, 2>) {
    let a = at.permuted([1, 0]);
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)).round_tf32(), bt.load((n, k)).round_tf32().t(), acc);
        }
        c.store((m, n), acc + bias.load(n).expand(0, BM));
    }
}

/// Dots that follow one another on several values of the same loads, of which the right one lies across the axis of the sum: two add up to one
/// sum, the third to another.
#[kernel(
    tile(BM = [16, 32, 8], BN = [16, 32, 8], BK = [8, 16]),
    coarsen(TM of BM = [4, 2], TN of BN = [2, 4]),
    vector(V = [2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Overlap, Mbarriers, Registers]),
    grid(G = [0, 2]),
    split(Z = [1, 4, 0])
)]
pub fn split_product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>, rest: &mut Tensor<f32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let (mut acc, mut lost) = (zeros::<f32>([BM, BN]), zeros::<f32>([BM, BN]));
        for k in a.axis(1).tiles(BK) {
            let (left, right) = (a.load((m, k)), b.load((k, n)));
            let (high, right_high) = (left.round_tf32(), right.round_tf32());
            let low = (left - high).round_tf32();
            acc = dot(low, right_high, acc);
            acc = dot(high, right_high, acc);
            lost = dot(high, (right - right_high).abs().round_tf32(), lost);
        }
        c.store((m, n), acc);
        rest.store((m, n), lost);
    }
}

/// 8-bit integers by matrix instructions, requantised; operands along the axis of the sum or across it.
#[kernel(
    tile(BM = [16, 32, 8], BN = [16, 32, 128], BK = [32, 64]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async, Overlap]),
    split(Z = [1, 2, 0])
)]
pub fn quantized_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, scale: Scalar<f32>, c: &mut Tensor<i8, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), (acc.cast::<f32>() * scale).round().cast::<i8>());
    }
}

/// A product that is kept in 8 bits, of operands that lie across the sum and along it.
#[kernel(
    types(T = [f8e4m3, f8e5m2]),
    tile(BM = [32, 16], BN = [32, 16], BK = [32, 64]),
    coarsen(TM of BM = [4, 1], TN of BN = [4, 2]),
    vector(V = [16, 4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [2, 1]),
    stages(S = [2, 1, 3]),
    copy(P = [Async, Registers])
)]
pub fn kept_in_8_bits<T: Factor<f8e4m3>>(a: &Tensor<T, 2>, b: &Tensor<f8e4m3, 2>, c: &mut Tensor<f8e4m3, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = mixed_dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), (acc * 0.0625).cast());
    }
}

/// Operands that are computed: weights of 8 bits with a scale per column, and a nonlinearity of which zero is no fixed point.
#[kernel(
    tile(BM = [16, 32, 8], BN = [16, 32], BK = [16, 32]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    split(Z = [1, 2, 0])
)]
pub fn dequantized_product(x: &Tensor<f16, 2>, w: &Tensor<i8, 2>, scales: &Tensor<f16, 1>, y: &mut Tensor<f32, 2>) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        let scale = scales.load(n).expand(0, BK);
        for k in x.axis(1).tiles(BK) {
            let weights = w.load((k, n)).cast::<f16>() * 0.0078125 * scale;
            acc = dot((x.load((m, k)) + 1.0).cast::<f16>(), weights.cast::<f16>(), acc);
        }
        y.store((m, n), acc);
    }
}

/// A batch of parts of larger matrices: rows and matrices lie further apart than they are long.
#[kernel(
    tile(B = 1, BM = [16, 32, 8], BN = [16, 32], BK = [16, 32]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [8, 2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [1, 3]),
    copy(P = [Registers, Async, Overlap, Mbarriers]),
    grid(G = [0, 1])
)]
pub fn parts_product(a: &Tensor<f16, 3>, b: &Tensor<f16, 3>, c: &mut Tensor<f32, 3>) {
    let a = a.slice(0, 0, c.len(0)).slice(1, 0, c.len(1)).slice(2, 0, b.len(1));
    let b = b.slice(0, 0, c.len(0)).slice(2, 0, c.len(2));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((i.number(), m, k)), b.load((i.number(), k, n)), acc);
        }
        c.store((i.number(), m, n), acc);
    }
}

/// A batch whose matrix is known before the loop of the sum.
#[kernel(
    tile(B = 1, BM = [16, 32, 8], BN = [16, 32], BK = [16, 32]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [8, 2, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [3, 2]),
    copy(P = [Overlap, Mbarriers, Async]),
    grid(G = [1, 0])
)]
pub fn batch_product(a: &Tensor<f16, 3>, b: &Tensor<f16, 3>, c: &mut Tensor<f32, 3>) {
    let (a, b) = (a.slice(0, 0, c.len(0)), b.slice(0, 0, c.len(0)));
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let batch = i.number();
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(2).tiles(BK) {
            acc = dot(a.load((batch, m, k)), b.load((batch, k, n)), acc);
        }
        c.store((batch, m, n), acc);
    }
}

/// Products whose sum over each whole tile is added up: what lies behind the ends counts as zeros there, of square tiles, too.
#[kernel(
    tile(BM = [32, 16, 8], BK = [32, 64]),
    coarsen(TM of BM = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [1, 2]),
    stages(S = [2, 3]),
    copy(P = [Mbarriers, Overlap, Async]),
    grid(G = [1, 0])
)]
pub fn totalled_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, c: &mut Tensor<i32, 2>, totals: &mut Tensor<i32, 1>) {
    for (m, n) in c.tiles([BM, BM]) {
        let mut acc = zeros::<i32>([BM, BM]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
        totals.atomic_add(0, acc.sum());
    }
}

/// Products beside what belongs to the block, and so is present everywhere: behind the ends they count as zeros there, too.
#[kernel(
    tile(BM = [32, 16, 8], BK = [64, 128]),
    coarsen(TM of BM = [4, 2]),
    vector(V = [4, 1]),
    unit(U = [Mma]),
    warps(W = [1, 2]),
    stages(S = [2, 3]),
    copy(P = [Mbarriers, Overlap])
)]
pub fn padded_product(a: &Tensor<i8, 2>, b: &Tensor<i8, 2>, c: &mut Tensor<i32, 2>, totals: &mut Tensor<i32, 1>) {
    let nothing = shared::<i32>([BM, BM], 0);
    for (m, n) in c.tiles([BM, BM]) {
        let mut acc = zeros::<i32>([BM, BM]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((n, k)).t(), acc);
        }
        c.store((m, n), acc);
        totals.atomic_add(0, (acc + nothing.load((.., ..))).sum());
    }
}

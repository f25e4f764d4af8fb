//! Weights of 4 bits with a scale for each group of them along the axis of the sum. Integers of 4 bits are exact in f16 and their products
//! with x exact in f32, so each group's sum is scaled, not its weights: nothing is rounded before the result. Few rows of x: what counts is
//! to read the weights in 4 bits, and they are unpacked on their way to the matrix unit. Many rows: copies run ahead of the products, of packed
//! weights, which threads unpack from shared memory to the registers that matrix instructions take, or of weights that a launch has unpacked
//! before, to memory that the caches hold.

use girih::prelude::*;

/// Rows of x up to which its product is a matter of reading the weights.
const FEW: i64 = 64;

/// How many weights of a row a turn takes, all of one group.
pub trait Turn {
    /// Their number.
    const WEIGHTS: i64;
}

/// 64 weights.
pub struct Of64;
/// 128 weights: half as many sums are scaled.
pub struct Of128;

impl Turn for Of64 {
    const WEIGHTS: i64 = 64;
}
impl Turn for Of128 {
    const WEIGHTS: i64 = 128;
}

/// y = x · wᵀ, x as `[M, groups, bytes of a group, 2]` and w as `[N, groups, bytes of a group]`: a byte holds an even weight above and an odd
/// one below, so a group's sum goes over both halves of pairs.
#[kernel(
    tile(BM = [64, 32, 128], BN = [64, 32, 128], BK = [32, 16]),
    coarsen(TM of BM = [4, 8, 1], TN of BN = [4, 8, 1]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma]),
    warps(W = [4, 8]),
    min_blocks(Q = [2, 1])
)]
pub fn int4_product(x: &Tensor<f16, 4>, packed: &Tensor<u8, 3>, scales: &Tensor<f16, 2>, y: &mut Tensor<f16, 2>) {
    let (x, packed) = (&x.slice(1, 0, scales.len(1)), &packed.slice(1, 0, scales.len(1)));
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for g in 0..scales.len(1) {
            let mut sum = zeros::<f32>([BM, BN]);
            for k in packed.axis(2).tiles(BK) {
                let both = x.load((m, g, k, ..2));
                let bytes = packed.load((n, g, k)).cast::<i32>();
                sum = dot(both.pick(2, 0), weights(bytes >> 4).t(), sum);
                sum = dot(both.pick(2, 1), weights(bytes & 15).t(), sum);
            }
            acc = sum * scales.load((n, g)).cast::<f32>().expand(0, BM) + acc;
        }
        y.store((m, n), acc.cast());
    }
}

/// What four bits stand for.
fn weights(bits: Tile<i32>) -> Tile<f16> {
    (bits - 8).cast::<f16>()
}

/// The columns of x whose numbers are even, and the others.
#[kernel(tile(R = [1, 4, 8], C = [256, 512, 128]), coarsen(CC of C = [8, 4, 16, 1]), vector(V = [8, 4, 1]))]
pub fn even_and_odd(x: &Tensor<f16, 2>, even: &mut Tensor<f16, 2>, odd: &mut Tensor<f16, 2>) {
    let pairs = x.chunked(1, 2);
    for (m, k) in even.tiles([R, C]) {
        let [first, second] = pairs.load((m, k, ..2)).unstack();
        even.store((m, k), first);
        odd.store((m, k), second);
    }
}

/// w = the weights in 16 bits, without their scales.
#[kernel(tile(R = [1, 4, 8], C = [256, 512, 128]), coarsen(CC of C = [8, 4, 16, 1]), vector(V = [8, 4, 1]))]
pub fn int4_unpacked(packed: &Tensor<u8, 2>, w: &mut Tensor<f16, 2>) {
    let mut pairs = w.chunked(1, 2);
    for (n, k) in packed.tiles([R, C]) {
        let bytes = packed.load((n, k)).cast::<i32>();
        pairs.store((n, k, ..2), stack([weights(bytes >> 4), weights(bytes & 15)]));
    }
}

/// turned = the scales with a row for every 64 weights, of which a group has `runs`, in 32 bits: a tile's columns then lie side by side, and
/// nobody who walks the weights has to divide.
#[kernel(tile(R = [16, 32, 64], C = [64, 32, 16]), coarsen(CR of R = [4, 8, 1]))]
pub fn turned_scales(scales: &Tensor<f16, 2>, turned: &mut Tensor<f32, 2>, runs: Scalar<i32>) {
    require(runs > 0 && turned.len(0) <= scales.len(1) * runs.cast::<i64>() && turned.len(1) <= scales.len(0));
    for (t, n) in turned.tiles([R, C]) {
        let group = t.coords().cast::<i32>() / runs;
        turned.store((t, n), scales.gather_in_bounds((n.coords().expand(0, R), group.expand(1, C))).cast());
    }
}

/// y = x · wᵀ, where each turn's sum is scaled.
#[kernel(
    types(K = [Of128, Of64]),
    tile(BM = [128, 64], BN = [128, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [2, 3, 4, 1]),
    copy(P = [Async, Overlap, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    turns(O = [Free, InTurn]),
    min_blocks(Q = [1, 2])
)]
pub fn scaled_groups<K: Turn>(x: &Tensor<f16, 2>, w: &Tensor<f16, 2>, scales: &Tensor<f32, 2>, y: &mut Tensor<f16, 2>) {
    for (n, m) in y.axes([1, 0]).tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in x.axis(1).tiles(K::WEIGHTS) {
            // Ahead of the products, which hide its way from memory.
            let scale = scales.load((k.number() * (K::WEIGHTS / 64), n)).or(0.0);
            let sum = dot(w.load((n, k)), x.load((m, k)).t(), zeros::<f32>([BN, BM]));
            acc = sum * scale.expand(1, BM) + acc;
        }
        y.store((m, n), acc.cast::<f16>().t());
    }
}

/// The same of packed weights and the even and the odd columns of x.
#[kernel(
    types(K = [Of128, Of64]),
    tile(BM = [128, 64], BN = [128, 64]),
    coarsen(TM of BM = [8, 4, 1], TN of BN = [8, 4, 1]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [2, 3, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1]),
    turns(O = [Free, InTurn]),
    min_blocks(Q = [1, 2])
)]
pub fn packed_groups<K: Turn>(
    even: &Tensor<f16, 2>,
    odd: &Tensor<f16, 2>,
    packed: &Tensor<u8, 2>,
    scales: &Tensor<f32, 2>,
    y: &mut Tensor<f16, 2>,
) {
    for (n, m) in y.axes([1, 0]).tiles([BN, BM]) {
        let mut acc = zeros::<f32>([BN, BM]);
        for k in packed.axis(1).tiles(K::WEIGHTS / 2) {
            let scale = scales.load((k.number() * (K::WEIGHTS / 64), n)).or(0.0);
            let bytes = packed.load((n, k)).or(0).cast::<i32>();
            // Both before the products, which then follow one another.
            let (high, low) = unpacked(bytes);
            let sum = dot(high, even.load((m, k)).t(), zeros::<f32>([BN, BM]));
            let sum = dot(low, odd.load((m, k)).t(), sum);
            acc = sum * scale.expand(1, BM) + acc;
        }
        y.store((m, n), acc.cast::<f16>().t());
    }
}

/// What the upper and the lower four bits of bytes stand for, without a conversion: 2^23 with a byte as its last bits is 2^23 more than the
/// byte. The lower weight is what its own bits say, and the upper one what is left of the byte, by 16: two multiply-adds.
fn unpacked(bytes: Tile<i32>) -> (Tile<f16>, Tile<f16>) {
    let sum = bytes | 0x4b00_0000;
    let low = (sum & 0x4b00_000f).bitcast::<f32>() - 8_388_616.0;
    let high = low * -0.0625 + (sum.bitcast::<f32>() * 0.0625 - 524_296.5);
    (high.cast(), low.cast())
}

/// What the judge calls.
#[program]
pub fn solve(x: &Tensor<f16, 2>, packed: &Tensor<u8, 2>, scales: &Tensor<f16, 2>, y: &mut Tensor<f16, 2>, group_size: Scalar<i32>) {
    if x.len(0) > FEW && group_size % 64 == 0 {
        let mut turned = temp([packed.len(1) / 32, scales.len(0)]);
        turned_scales(scales, &mut turned, group_size / 64);
        if variant("unpacked before") {
            let mut w = temp([packed.len(0), packed.len(1) * 2]);
            int4_unpacked(packed, &mut w);
            if group_size % 128 == 0 {
                scaled_groups::<Of128>(x, &w, &turned, y);
            } else {
                scaled_groups::<Of64>(x, &w, &turned, y);
            }
        } else {
            let (mut even, mut odd) = (temp([x.len(0), packed.len(1)]), temp([x.len(0), packed.len(1)]));
            even_and_odd(x, &mut even, &mut odd);
            if group_size % 128 == 0 {
                packed_groups::<Of128>(&even, &odd, packed, &turned, y);
            } else {
                packed_groups::<Of64>(&even, &odd, packed, &turned, y);
            }
        }
    } else {
        let bytes = group_size / 2;
        int4_product(&x.chunked(1, 2).chunked(1, bytes), &packed.chunked(1, bytes), scales, y);
    }
}

girih::challenge! {
    Challenge::new(
        "int4_matmul",
        solve::Program::def,
        "void solve(const __half* x[M, K], const uint8_t* w_q[N, K / 2], const __half* scales[N, K / group_size], __half* y[M, N], int M, int N, int K, int group_size)",
    )
    .input("x", Distribution::Normal(0.0, 1.0))
    .input("w_q", Distribution::Bits)
    .input("scales", uniform(0.01, 0.11))
    .output("y", |c, i| {
        let (inner, cols, group) = (c.len("K"), c.len("N"), c.scalar("group_size") as usize);
        let (m, n) = (i / cols, i % cols);
        let weight = |k: usize| {
            let byte = c.at("w_q", n * (inner / 2) + k / 2) as i64;
            let nibble = if k.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
            (nibble - 8) as f64 * c.at("scales", n * (inner / group) + k / group)
        };
        (0..inner).map(|k| c.at("x", m * inner + k) * weight(k)).sum()
    })
    .tolerance(1e-2, 1e-2)
    .check_at([
        "M=0 N=3 K=4 group_size=4",
        "M=1 N=1 K=2 group_size=2",
        "M=17 N=33 K=60 group_size=20",
        "M=64 N=32 K=64 group_size=32",
        "M=33 N=65 K=34 group_size=2",
        "M=65 N=33 K=128 group_size=64",
        "M=66 N=16 K=192 group_size=64",
        "M=67 N=20 K=128 group_size=128",
    ])
    .perf_at("M=4096, N=4096, K=4096, group_size=128")
    .flops(|s| 2.0 * s.size("M") * s.size("N") * s.size("K"))
}

//! Dots by operations of the author's.

use girih::prelude::*;

/// A number for what is absent that no path is as long as.
pub trait Far: Num {
    /// Its double is a number, too.
    const FAR: Self;
}

macro_rules! far {
    ($($ty:ident)*) => {$(impl Far for $ty { const FAR: $ty = $ty::MAX / 2; })*};
}
far! { i32 u32 i64 }

impl Far for f32 {
    const FAR: f32 = f32::INFINITY;
}

/// Nothing, as a number.
pub trait Nothing: Float {
    /// Zero.
    const NOTHING: Self;
}

impl Nothing for f32 {
    const NOTHING: f32 = 0.0;
}

impl Nothing for f16 {
    const NOTHING: f16 = f16::ZERO;
}

/// Paths through a set of nodes, if shorter than what there is.
#[kernel(
    types(T = [f32, i32, u32, i64]),
    tile(BM = [16, 32, 8], BN = [32, 16, 8], BK = [8, 16, 12]),
    coarsen(TM of BM = [1, 2, 4], TN of BN = [4, 2, 1]),
    vector(V = [2, 4, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1]),
    raster(X = [1, 2])
)]
pub fn shortest<T: Far>(to: &Tensor<T, 2>, from: &Tensor<T, 2>, paths: &mut Tensor<T, 2>) {
    for (m, n) in paths.tiles([BM, BN]) {
        let mut shortest = paths.load((m, n));
        for k in to.axis(1).tiles(BK) {
            shortest = dot_with(to.load((m, k)), from.load((k, n)), shortest, T::FAR, |path, to, from| path.min(to + from));
        }
        paths.store((m, n), shortest);
    }
}

/// As LANGUAGE.md has it.
#[kernel(
    tile(BM = [64, 32], BN = [64, 32], BK = [16, 32]),
    coarsen(TM of BM = [8, 4], TN of BN = [4, 8]),
    vector(V = [4, 2, 1]),
    stages(S = [2, 1])
)]
pub fn relax_all(to: &Tensor<f32, 2>, from: &Tensor<f32, 2>, paths: &mut Tensor<f32, 2>) {
    for (m, n) in paths.tiles([BM, BN]) {
        let mut shortest = paths.load((m, n));
        for k in to.axis(1).tiles(BK) {
            shortest = dot_with(to.load((m, k)), from.load((k, n)), shortest, f32::INFINITY, |path, to, from| path.min(to + from));
        }
        paths.store((m, n), shortest);
    }
}

/// Distances between rows, of f16 in f32: a step reads what it has computed twice. Both operands have rows along the sum.
#[kernel(
    types(T = [f32, f16]),
    tile(BM = [16, 32], BN = [16, 32], BK = [8, 16]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [2, 1, 4]),
    copy(P = [Async, Registers])
)]
pub fn squared_distances<T: Nothing>(x: &Tensor<T, 2>, y: &Tensor<T, 2>, distances: &mut Tensor<f32, 2>) {
    for (m, n) in distances.tiles([BM, BN]) {
        let mut sum = zeros::<f32>([BM, BN]);
        for k in x.axis(1).tiles(BK) {
            sum = dot_with(x.load((m, k)), y.load((n, k)).t(), sum, T::NOTHING, |sum, x, y| {
                let apart = x.cast::<f32>() - y.cast::<f32>();
                sum + apart * apart
            });
        }
        distances.store((m, n), sum);
    }
}

/// What goes through the widest way: sums that begin with nothing and are looked at as a whole, an operand that is negated on its way, one that
/// is gathered, a bound from outside, and a unit that has no such steps.
#[kernel(
    tile(BM = [16, 8], BN = [16, 32], BK = [16, 8]),
    coarsen(TM of BM = [2, 1], TN of BN = [2, 4]),
    vector(V = [2, 1, 4]),
    unit(U = [Ffma, Mma]),
    stages(S = [1, 2]),
    copy(P = [Registers, Async]),
    split(Z = [1, 2])
)]
pub fn widest(a: &Tensor<i32, 2>, b: &Tensor<i32, 2>, most: Scalar<i32>, rows: &mut Tensor<i32, 1>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut widest = full::<i32>([BM, BN], i32::MIN);
        for k in a.axis(1).tiles(BK) {
            let right = b.gather((k.coords().expand(1, BN), n.coords().expand(0, BK)));
            widest = dot_with(-a.load((m, k)), right, widest, i32::MIN, |widest, a, b| widest.max(a.min(b).min(most)));
        }
        c.store((m, n), widest);
        rows.atomic_max(m.coords(), widest.max_axis(1));
    }
}

/// Paths through some of the nodes: what lies outside of a tile's range is as absent as what lies behind the end.
#[kernel(
    tile(BM = 16, BN = [16, 32], BK = [8, 16, 12]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [4, 2, 1]),
    operands(O = [Shared, Direct, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1])
)]
pub fn shortest_within(to: &Tensor<i32, 2>, from: &Tensor<i32, 2>, width: Scalar<i64>, paths: &mut Tensor<i32, 2>) {
    for (m, n) in paths.tiles([BM, BN]) {
        let mut shortest = full::<i32>([BM, BN], i32::MAX - 1);
        for k in to.axis(1).tiles(BK).within(m.start() - width * 5..m.end() + width * 5) {
            shortest = dot_with(to.load((m, k)), from.load((k, n)), shortest, i32::MAX / 2, |path, to, from| path.min(to + from));
        }
        paths.store((m, n), shortest);
    }
}

/// The last element of each column beside one of the row that is odd: pairs come in their order.
#[kernel(
    tile(BM = [16, 32], BN = [16, 8], BK = [8, 16, 32]),
    coarsen(TM of BM = [2, 4], TN of BN = [4, 2]),
    vector(V = [2, 1, 4]),
    operands(O = [Direct, Shared, Transposed]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1])
)]
pub fn last_beside_odd(a: &Tensor<i32, 2>, b: &Tensor<i32, 2>, c: &mut Tensor<i32, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut last = zeros::<i32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            last = dot_with(a.load((m, k)), b.load((k, n)), last, 0, |last, a, b| select(a & 1 == 1, b, last));
        }
        c.store((m, n), last);
    }
}

/// A number for what is absent that shortens what is there.
#[kernel(tile(BM = 16, BN = 16, BK = 8), coarsen(TM of BM = 2, TN of BN = 2), unit(U = [Ffma, Mma]))]
pub fn too_near(to: &Tensor<f16, 2>, from: &Tensor<f16, 2>, paths: &mut Tensor<f16, 2>) {
    for (m, n) in paths.tiles([BM, BN]) {
        let mut shortest = paths.load((m, n));
        for k in to.axis(1).tiles(BK) {
            shortest = dot_with(to.load((m, k)), from.load((k, n)), shortest, f16::NEG_INFINITY, |path, to, from| path.min(to + from));
        }
        paths.store((m, n), shortest);
    }
}

//! Products of f32 matrices by matrix units of 16 bits, for long sums: each operand is split once, ahead of the product, into two planes of f16.
//!
//! Rows of the left operand and columns of the right one are multiplied by powers of two, so that the largest of their elements lies between
//! 2¹⁴ and 2¹⁵, and each number is taken for the sum of two of f16: 22 bits, as two of tf32 have (`split_products`), at twice their rate. The
//! smallest of the four products is left out, and a turn's sum is added to the others by ordinary additions, which round.
//! A number below 2⁻¹⁶ of its row's largest keeps fewer bits, for f16 ends at 2⁻²⁴: what it loses is below 2⁻³⁹ of that largest. Beside others that
//! does not count; but where an eighth of a row's numbers is as small, or one is not finite, or so large or small that its power of two is
//! none of f32, the row is flawed, and what it is multiplied with is computed once more, by multiply-adds.
//! (Mukunoki, Ozaki, Ogita and Imamura, DGEMM using Tensor Cores, and its accurate and reproducible versions, 2020, scale like this.)

use girih::prelude::*;

/// The bits of f32 below the exponent.
const MANTISSA: u32 = 23;
/// The exponent's field of 1.
const BIAS: u32 = 127;
/// The largest number of a row comes to lie between 2¹⁴ and 2¹⁵.
const TOP: u32 = 14;
/// Scales are 2^-60 to 2^60: two of them and a sum of products stay in f32.
const WIDEST: u32 = 60;
/// Below this, f16 has less than 22 bits in two numbers.
const WHOLE: f32 = 0.25;
/// So many numbers with all bits stand for one that loses some.
pub(super) const SHARE: f32 = 8.0;

/// The power of two that brings numbers of this size, as bits of f32, to the top; and its inverse.
pub(super) fn scales(largest: Tile<u32>) -> (Tile<f32>, Tile<f32>) {
    let exponent = (largest >> MANTISSA).max(BIAS + TOP - WIDEST).min(BIAS + TOP + WIDEST);
    let up = (largest.like(2 * BIAS + TOP) - exponent) << MANTISSA;
    let down = (exponent - TOP) << MANTISSA;
    (up.bitcast(), down.bitcast())
}

/// The scale of products of a row or column that is flawed; no other one's is 0.
pub(super) const FLAWED: f32 = 0.0;

/// What the products of a row or column are multiplied by: the inverse of its scale, if numbers of this size have one, and if its lossy numbers
/// do not count beside the others.
#[device]
pub(super) fn scale_back(largest: Tile<u32>, down: Tile<f32>, balance: Tile<f32>) -> Tile<f32> {
    let exponent = largest >> MANTISSA;
    let in_range = largest == 0 || (exponent >= BIAS + TOP - WIDEST && exponent <= BIAS + TOP + WIDEST);
    select(in_range && balance <= 0.0, down, FLAWED)
}

/// What a number counts in the balance of its row: many that have all their bits make up for one that has not.
#[device]
pub(super) fn weight(scaled: Tile<f32>) -> Tile<f32> {
    let some = select(scaled.abs() < WHOLE, scaled.like(SHARE), scaled.like(-1.0));
    select(scaled == 0.0, scaled.like(0.0), some)
}

/// The number in two of f16.
fn planes(scaled: Tile<f32>) -> (Tile<f16>, Tile<f16>) {
    let high = scaled.cast::<f16>();
    (high, (scaled - high.cast::<f32>()).cast::<f16>())
}

/// Splits the rows of matrices.
#[kernel(
    tile(B = 1, R = [1, 2, 4, 8], C = [1024, 256, 512, 2048, 4096, 8192, 128]),
    coarsen(CC of C = [8, 4, 16, 32]),
    vector(V = [4, 1])
)]
pub fn split_rows(x: &Tensor<f32, 3>, high: &mut Tensor<f16, 3>, low: &mut Tensor<f16, 3>, back: &mut Tensor<f32, 2>) {
    for (i, r) in x.axes([0, 1]).tiles([B, R]) {
        let mut largest = zeros::<u32>([R, C]);
        for c in x.axis(2).tiles(C) {
            largest = largest.max(x.load((i.number(), r, c)).abs().bitcast::<u32>());
        }
        let largest = largest.max_axis(1);
        let (up, down) = scales(largest);
        let mut balance = zeros::<f32>([R, C]);
        for c in x.axis(2).tiles(C) {
            let scaled = x.load((i.number(), r, c)) * up.expand(1, C);
            let (upper, lower) = planes(scaled);
            high.store((i.number(), r, c), upper);
            low.store((i.number(), r, c), lower);
            balance += weight(scaled);
        }
        back.store((i.number(), r), scale_back(largest, down, balance.sum_axis(1)));
    }
}

/// Splits the columns of matrices.
#[kernel(
    tile(B = 1, R = [64, 32, 128, 256], C = [32, 64, 16, 128]),
    coarsen(RR of R = [8, 4, 16, 1], CC of C = [4, 8, 1]),
    vector(V = [4, 1])
)]
pub fn split_columns(x: &Tensor<f32, 3>, high: &mut Tensor<f16, 3>, low: &mut Tensor<f16, 3>, back: &mut Tensor<f32, 2>) {
    for (i, c) in x.axes([0, 2]).tiles([B, C]) {
        let mut largest = zeros::<u32>([R, C]);
        for r in x.axis(1).tiles(R) {
            largest = largest.max(x.load((i.number(), r, c)).abs().bitcast::<u32>());
        }
        let largest = largest.max_axis(0);
        let (up, down) = scales(largest);
        let mut balance = zeros::<f32>([R, C]);
        for r in x.axis(1).tiles(R) {
            let scaled = x.load((i.number(), r, c)) * up.expand(0, R);
            let (upper, lower) = planes(scaled);
            high.store((i.number(), r, c), upper);
            low.store((i.number(), r, c), lower);
            balance += weight(scaled);
        }
        back.store((i.number(), c), scale_back(largest, down, balance.sum_axis(0)));
    }
}

/// The sum of a turn: `left · right` of planes, the smallest products first.
fn plane_dot(left: [Tile<f16>; 2], right: [Tile<f16>; 2], zero: Tile<f32>) -> Tile<f32> {
    let sum = dot(left[1], right[0], zero);
    let sum = dot(left[0], right[1], sum);
    dot(left[0], right[0], sum)
}

/// The result of a sum over planes, if no row and no column of it is flawed; otherwise what multiply-adds make of these columns of `left` and
/// rows of `right`.
#[device]
pub(super) fn scaled_back(
    sum: Tile<f32>,
    [rows, columns]: [Tile<f32>; 2],
    length: Scalar<i64>,
    left: impl Fn(Scalar<i64>) -> Tile<f32>,
    right: impl Fn(Scalar<i64>) -> Tile<f32>,
) -> Tile<f32> {
    let mut result = sum * rows * columns;
    if (rows == FLAWED || columns == FLAWED).any() {
        result = result.like(0.0);
        for k in 0..length {
            result = left(k).fma(right(k), result);
        }
    }
    result
}

/// c = a · b, of which there are planes.
#[kernel(
    tile(BM = [128, 64], BN = [128, 64, 192], BK = [64, 32]),
    coarsen(TM of BM = [8, 4], TN of BN = [8, 4]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1]),
    raster(X = [8, 1, 16])
)]
pub fn multiply_planes(
    high: &Tensor<f16, 2>,
    low: &Tensor<f16, 2>,
    high_right: &Tensor<f16, 2>,
    low_right: &Tensor<f16, 2>,
    rows: &Tensor<f32, 1>,
    columns: &Tensor<f32, 1>,
    a: &Tensor<f32, 2>,
    b: &Tensor<f32, 2>,
    c: &mut Tensor<f32, 2>,
) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in high.axis(1).tiles(BK) {
            let left = [high.load((m, k)), low.load((m, k))];
            let right = [high_right.load((k, n)), low_right.load((k, n))];
            acc += plane_dot(left, right, zeros::<f32>([BM, BN]));
        }
        let back = [rows.load(m).expand(1, BN), columns.load(n).expand(0, BM)];
        let result = scaled_back(acc, back, a.len(1), |k| a.load((m, k)).expand(1, BN), |k| b.load((k, n)).expand(0, BM));
        c.store((m, n), result);
    }
}

/// y = before + x · wᵀ, of which there are planes.
#[kernel(
    tile(BM = [128, 64], BN = [128, 64, 192], BK = [64, 32]),
    coarsen(TM of BM = [8, 4], TN of BN = [8, 4]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1])
)]
pub fn multiply_planes_onto(
    high: &Tensor<f16, 2>,
    low: &Tensor<f16, 2>,
    high_right: &Tensor<f16, 2>,
    low_right: &Tensor<f16, 2>,
    rows: &Tensor<f32, 1>,
    columns: &Tensor<f32, 1>,
    x: &Tensor<f32, 2>,
    w: &Tensor<f32, 2>,
    before: &Tensor<f32, 2>,
    y: &mut Tensor<f32, 2>,
) {
    for (m, n) in y.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in high.axis(1).tiles(BK) {
            let left = [high.load((m, k)), low.load((m, k))];
            let right = [high_right.load((n, k)).t(), low_right.load((n, k)).t()];
            acc += plane_dot(left, right, zeros::<f32>([BM, BN]));
        }
        let back = [rows.load(m).expand(1, BN), columns.load(n).expand(0, BM)];
        let result = scaled_back(acc, back, x.len(1), |k| x.load((m, k)).expand(1, BN), |k| w.load((n, k)).expand(0, BM));
        y.store((m, n), before.load((m, n)) + result);
    }
}

/// `c[i] = a[i] · b[i]`, of which there are planes.
#[kernel(
    tile(B = 1, BM = [64, 128], BN = [128, 64, 256], BK = [64, 32]),
    coarsen(TM of BM = [8, 4], TN of BN = [8, 4]),
    vector(V = [8, 1]),
    unit(U = [Mma, Ffma, Wgmma]),
    warps(W = [8, 4]),
    stages(S = [3, 2, 4, 1]),
    copy(P = [Async, Registers, Tensor]),
    grid(G = [0, 1])
)]
pub fn multiply_planes_of_batch(
    high: &Tensor<f16, 3>,
    low: &Tensor<f16, 3>,
    high_right: &Tensor<f16, 3>,
    low_right: &Tensor<f16, 3>,
    rows: &Tensor<f32, 2>,
    columns: &Tensor<f32, 2>,
    a: &Tensor<f32, 3>,
    b: &Tensor<f32, 3>,
    c: &mut Tensor<f32, 3>,
) {
    for (i, m, n) in c.tiles([B, BM, BN]) {
        let i = i.number();
        let mut acc = zeros::<f32>([BM, BN]);
        for k in high.axis(2).tiles(BK) {
            let left = [high.load((i, m, k)), low.load((i, m, k))];
            let right = [high_right.load((i, k, n)), low_right.load((i, k, n))];
            acc += plane_dot(left, right, zeros::<f32>([BM, BN]));
        }
        let back = [rows.load((i, m)).expand(1, BN), columns.load((i, n)).expand(0, BM)];
        let result = scaled_back(acc, back, a.len(2), |k| a.load((i, m, k)).expand(1, BN), |k| b.load((i, k, n)).expand(0, BM));
        c.store((i, m, n), result);
    }
}

/// Splits the rows of one matrix.
#[program]
pub fn split_rows_of_matrix(x: &Tensor<f32, 2>, high: &mut Tensor<f16, 2>, low: &mut Tensor<f16, 2>, back: &mut Tensor<f32, 1>) {
    let all = x.len(0).max(1);
    split_rows(&x.chunked(0, all), &mut high.chunked(0, all), &mut low.chunked(0, all), &mut back.chunked(0, all));
}

/// c = a · b by planes. Their rows begin at multiples of 16 bytes, whatever the lengths.
#[program]
pub fn planes_product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (rows, inner, columns) = (a.len(0), a.len(1), b.len(1));
    if inner == 0 {
        c.fill(0.0);
    } else {
        let a_high = temp([rows, padded(inner)]);
        let a_low = temp([rows, padded(inner)]);
        let b_high = temp([inner, padded(columns)]);
        let b_low = temp([inner, padded(columns)]);
        let (mut a_high, mut a_low) = (a_high.slice(1, 0, inner), a_low.slice(1, 0, inner));
        let (b_high, b_low) = (b_high.slice(1, 0, columns), b_low.slice(1, 0, columns));
        let mut of_rows = temp([rows]);
        let of_columns = temp([columns]);
        split_rows_of_matrix(a, &mut a_high, &mut a_low, &mut of_rows);
        split_columns(
            &b.chunked(0, inner),
            &mut b_high.chunked(0, inner),
            &mut b_low.chunked(0, inner),
            &mut of_columns.chunked(0, columns.max(1)),
        );
        multiply_planes(&a_high, &a_low, &b_high, &b_low, &of_rows, &of_columns, a, b, c);
    }
}

/// `c[i] = a[i] · b[i]` by planes.
#[program]
pub fn planes_of_batch(a: &Tensor<f32, 3>, b: &Tensor<f32, 3>, c: &mut Tensor<f32, 3>) {
    let (batch, rows, inner, columns) = (c.len(0), a.len(1), a.len(2), b.len(2));
    let a_high = temp([batch, rows, padded(inner)]);
    let a_low = temp([batch, rows, padded(inner)]);
    let b_high = temp([batch, inner, padded(columns)]);
    let b_low = temp([batch, inner, padded(columns)]);
    let (mut a_high, mut a_low) = (a_high.slice(2, 0, inner), a_low.slice(2, 0, inner));
    let (mut b_high, mut b_low) = (b_high.slice(2, 0, columns), b_low.slice(2, 0, columns));
    let mut of_rows = temp([batch, rows]);
    let mut of_columns = temp([batch, columns]);
    split_rows(a, &mut a_high, &mut a_low, &mut of_rows);
    split_columns(b, &mut b_high, &mut b_low, &mut of_columns);
    multiply_planes_of_batch(&a_high, &a_low, &b_high, &b_low, &of_rows, &of_columns, a, b, c);
}

/// y = before + x · wᵀ by planes.
#[program]
pub fn planes_onto(x: &Tensor<f32, 2>, w: &Tensor<f32, 2>, before: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let (rows, inner, columns) = (x.len(0), x.len(1), w.len(0));
    let x_high = temp([rows, padded(inner)]);
    let x_low = temp([rows, padded(inner)]);
    let w_high = temp([columns, padded(inner)]);
    let w_low = temp([columns, padded(inner)]);
    let (mut x_high, mut x_low) = (x_high.slice(1, 0, inner), x_low.slice(1, 0, inner));
    let (mut w_high, mut w_low) = (w_high.slice(1, 0, inner), w_low.slice(1, 0, inner));
    let mut of_rows = temp([rows]);
    let mut of_columns = temp([columns]);
    split_rows_of_matrix(x, &mut x_high, &mut x_low, &mut of_rows);
    split_rows_of_matrix(w, &mut w_high, &mut w_low, &mut of_columns);
    multiply_planes_onto(&x_high, &x_low, &w_high, &w_low, &of_rows, &of_columns, x, w, before, y);
}

/// The length of a row of planes that begins at a multiple of 16 bytes, as the next one does.
pub(super) fn padded(length: Scalar<i64>) -> Scalar<i64> {
    (length + 7) / 8 * 8
}

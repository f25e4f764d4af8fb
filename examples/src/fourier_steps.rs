//! Fourier transforms of any length, along any axis. Powers of two take a launch for each step of radix 4 (Stockham's), through memory; another
//! length is a convolution with a chirp, by transforms of a power of two (Bluestein, A linear filtering approach to the computation of the
//! discrete Fourier transform, 1970).

use crate::complex::{Complex, butterfly};
use girih::prelude::*;

/// How many parts a step makes of one.
pub trait Radix {
    /// Their number.
    const PARTS: usize;
}

/// Two parts.
pub struct Two;
/// Four parts.
pub struct Four;

impl Radix for Two {
    const PARTS: usize = 2;
}
impl Radix for Four {
    const PARTS: usize = 4;
}

/// One step of transforms of `n` points, a power of two, along the second of the axes \[outer, n, inner\]: those before it have made
/// transforms of `done` points.
#[kernel(tile(T = [256, 128, 512]), coarsen(C of T = [1, 2]), types(R = [Two, Four]))]
pub fn radix_step<R: Radix>(x: &Tensor<u64, 1>, y: &mut Tensor<u64, 1>, n: Scalar<i32>, inner: Scalar<i32>, done: Scalar<i32>) {
    let parts = R::PARTS as i32;
    let apart = n / parts;
    for t in x.slice(0, 0, y.len(0) / R::PARTS as i64).tiles([T]) {
        let q = t.coords().cast::<i32>();
        let (column, line) = (q % inner, q / inner);
        let (j, outer) = (line % apart, line / apart);
        let at = j % done;
        let powers = Complex::root(at.cast::<f32>() / (done * parts).cast::<f32>()).powers(R::PARTS);
        let inputs: Vec<Complex> = (0..R::PARTS)
            .map(|r| {
                let v = Complex::of_words(x.gather((outer * n + j + apart * r as i32) * inner + column));
                if r == 0 { v } else { v * powers[r] }
            })
            .collect();
        for (r, output) in butterfly(&inputs).into_iter().enumerate() {
            y.scatter((outer * n + at + (j - at) * parts + done * r as i32) * inner + column, output.words());
        }
    }
}

/// exp(-πi k² / n).
fn chirp(k: Tile<i64>, n: Scalar<i64>) -> Complex {
    Complex::root(((k * k) % (n * 2)).cast::<f32>() / (n * 2).cast::<f32>())
}

/// padded = the points along the second of the axes \[outer, n, inner\] times the chirp, and zeros up to `size` points.
#[kernel(tile(T = [256, 512, 128]), coarsen(C of T = [1, 2]))]
pub fn times_chirp(x: &Tensor<u64, 1>, padded: &mut Tensor<u64, 1>, n: Scalar<i64>, inner: Scalar<i64>, size: Scalar<i64>) {
    for t in padded.tiles([T]) {
        let (column, line) = (t.coords() % inner, t.coords() / inner);
        let (k, outer) = (line % size, line / size);
        let mut word = full::<u64>([T], 0);
        if k < n {
            word = (Complex::of_words(x.gather((outer * n + k) * inner + column)) * chirp(k, n)).words();
        }
        padded.store(t, word);
    }
}

/// filter = the chirp turned backwards, at positions up to n - 1 and, from the end, down to 1 - n.
#[kernel(tile(T = [256, 512, 128]), coarsen(C of T = [1, 2]))]
pub fn chirp_filter(filter: &mut Tensor<u64, 1>, n: Scalar<i64>) {
    for t in filter.tiles([T]) {
        let k = t.coords().min(-t.coords() + filter.len(0));
        filter.store(t, select(k < n, chirp(k, n).conjugate().words(), 0));
    }
}

/// x = its products with the filter's points along the second of the axes \[outer, size, inner\], conjugated, so that the next transform goes
/// backwards.
#[kernel(tile(T = [256, 512, 128]), coarsen(C of T = [1, 2]))]
pub fn times_filter(x: &mut Tensor<u64, 1>, filter: &Tensor<u64, 1>, inner: Scalar<i64>) {
    for t in x.tiles([T]) {
        let k = (t.coords() / inner) % filter.len(0);
        x.store(t, (Complex::of_words(x.load(t)) * Complex::of_words(filter.gather(k))).conjugate().words());
    }
}

/// y = the first n of `size` points, conjugated, times the chirp.
#[kernel(tile(T = [256, 512, 128]), coarsen(C of T = [1, 2]))]
pub fn from_chirp(x: &Tensor<u64, 1>, y: &mut Tensor<u64, 1>, n: Scalar<i64>, inner: Scalar<i64>, size: Scalar<i64>) {
    for t in y.tiles([T]) {
        let (column, line) = (t.coords() % inner, t.coords() / inner);
        let (k, outer) = (line % n, line / n);
        let v = Complex::of_words(x.gather((outer * size + k) * inner + column)).conjugate();
        let scale = (1.0 / size.cast::<f32>()).splat([T]);
        y.store(t, (v * chirp(k, n)).scaled(scale).words());
    }
}

/// data = its transforms of `n` points, a power of two, along the second of the axes \[outer, n, inner\].
#[program]
pub fn transform_power(data: &mut Tensor<u64, 1>, other: &mut Tensor<u64, 1>, n: Scalar<i64>, inner: Scalar<i64>) {
    let (points, columns) = (n.cast::<i32>(), inner.cast::<i32>());
    let mut done = scalar(1i32);
    while done * 16 <= points {
        radix_step::<Four>(data, other, points, columns, done);
        radix_step::<Four>(other, data, points, columns, done * 4);
        done *= 16;
    }
    if done * 8 == points {
        radix_step::<Four>(data, other, points, columns, done);
        radix_step::<Two>(other, data, points, columns, done * 4);
    } else if done * 4 == points {
        radix_step::<Four>(data, other, points, columns, done);
        data.copy_from(other);
    } else if done * 2 == points {
        radix_step::<Two>(data, other, points, columns, done);
        data.copy_from(other);
    }
}

/// y = transforms of any number of points along the second of the axes \[outer, n, inner\].
#[program]
pub fn transform(x: &Tensor<u64, 1>, y: &mut Tensor<u64, 1>, n: Scalar<i64>, inner: Scalar<i64>) {
    if n & (n - 1) == 0 {
        let mut other = temp([x.len(0)]);
        y.copy_from(x);
        transform_power(y, &mut other, n, inner);
    } else {
        // A power of two that is not less than 2 n - 1.
        let size = scalar(1i64) << (-(n * 2 - 2).max(0).leading_zeros() + 64);
        let all = x.len(0) / n.max(1) * size;
        let (mut padded, mut other) = (temp([all]), temp([all]));
        let (mut filter, mut spare) = (temp([size]), temp([size]));
        times_chirp(x, &mut padded, n, inner, size);
        chirp_filter(&mut filter, n);
        transform_power(&mut padded, &mut other, size, inner);
        transform_power(&mut filter, &mut spare, size, scalar(1i64));
        times_filter(&mut padded, &filter, inner);
        transform_power(&mut padded, &mut other, size, inner);
        from_chirp(&padded, y, n, inner, size);
    }
}

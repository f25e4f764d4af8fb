//! Scans and sums of runs, beside folds.

use super::{KINDS, LENGTHS, bits, mixed, stream};
use girih::algorithms::{Exclusive, Greatest, Inclusive, Least, Operator, Product, Sum, reduce_by_key, scan};
use girih::prelude::*;

/// Elements at which tests of scans end: a tile has 4096.
fn elements(kind: usize, n: usize) -> Vec<i32> {
    bits(kind, n).into_iter().map(|b| (b >> 7) as i32).collect()
}

fn folded<T: Copy>(all: &[T], identity: T, exclusive: bool, join: impl Fn(T, T) -> T) -> Vec<T> {
    let mut so_far = identity;
    let step = |v: &T| {
        let before = so_far;
        so_far = join(so_far, *v);
        if exclusive { before } else { so_far }
    };
    all.iter().map(step).collect()
}

#[test]
fn scans_are_folds() {
    let stream = stream();
    for (kind, n) in (0..KINDS).flat_map(|kind| LENGTHS.map(|n| (kind, n))) {
        let all = elements(kind, n);
        let x = stream.tensor(&all, [n]).unwrap();
        let mut y = stream.tensor(&vec![-77; n], [n]).unwrap();
        let what = format!("{n} elements of kind {kind}");
        scan::<i32, Sum, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, 0, false, i32::wrapping_add), "{what}");
        scan::<i32, Sum, Exclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, 0, true, i32::wrapping_add), "{what}");
        scan::<i32, Greatest, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, i32::MIN, false, i32::max), "{what}");
        scan::<i32, Least, Exclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, i32::MAX, true, i32::min), "{what}");
        scan::<i32, Product, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, 1, false, i32::wrapping_mul), "{what}");
    }
}

/// The last odd element: operands do not change places.
struct LastOdd;

#[device]
impl Operator<u32> for LastOdd {
    fn identity() -> u32 {
        0
    }
    fn join(a: Scalar<u32>, b: Scalar<u32>) -> Scalar<u32> {
        select((b & 1) == 1, b, a)
    }
}

#[test]
fn operators_keep_their_order() {
    let stream = stream();
    for n in LENGTHS {
        let all: Vec<u32> = (0..n).map(|i| if mixed(i).is_multiple_of(900) { 2 * i as u32 + 1 } else { 0 }).collect();
        let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([n]).unwrap());
        scan::<u32, LastOdd, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, 0, false, |a, b| if b % 2 == 1 { b } else { a }), "{n}");
    }
}

#[test]
fn floats_pass_nan_on() {
    let stream = stream();
    let mut all: Vec<f32> = (0..5000).map(|i| (mixed(i) % 1000) as f32).collect();
    all[4700] = f32::NAN;
    let (x, mut y) = (stream.tensor(&all, [5000]).unwrap(), stream.zeros([5000]).unwrap());
    scan::<f32, Greatest, Inclusive, _>(&stream, &x, &mut y).unwrap();
    let found = stream.read(&y).unwrap();
    let expected = folded(&all[..4700], f32::NEG_INFINITY, false, f32::max);
    assert_eq!(found[..4700], expected);
    assert!(found[4700..].iter().all(|v| v.is_nan()), "{:?}", &found[4700..4710]);
}

#[test]
fn infinities_of_both_signs_sum_to_nan() {
    let stream = stream();
    let n = 8209;
    let mut all: Vec<f32> = (0..n).map(|i| (mixed(i) % 16) as f32).collect();
    (all[40], all[4100]) = (f32::INFINITY, f32::NEG_INFINITY);
    let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([n]).unwrap());
    scan::<f32, Sum, Exclusive, _>(&stream, &x, &mut y).unwrap();
    let (found, expected) = (stream.read(&y).unwrap(), folded(&all, 0.0, true, |a, b| a + b));
    for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
        assert!(f == e || f.is_nan() && e.is_nan(), "element {i} is {f}, and should be {e}");
    }
    assert!(found[41].is_infinite() && found[4101].is_nan() && found[n - 1].is_nan());
}

#[test]
fn of_zeros_the_negative_one_is_the_least() {
    let stream = stream();
    for (n, at) in [(7, 3), (5000, 4500)] {
        let mut all = vec![0.0f32; n];
        all[at] = -0.0;
        let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([n]).unwrap());
        scan::<f32, Least, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert!(stream.read(&y).unwrap().iter().enumerate().all(|(i, v)| v.is_sign_negative() == (i >= at)), "{n}");
    }
}

/// Runs of equal neighbours and the sums of their values, one by one.
fn runs(keys: &[i32], values: &[i32]) -> (Vec<i32>, Vec<i32>) {
    let (mut of, mut sums): (Vec<i32>, Vec<i32>) = (Vec::new(), Vec::new());
    for (key, value) in keys.iter().zip(values) {
        match of.last() == Some(key) {
            true => *sums.last_mut().expect("a sum of each run") += value,
            false => {
                of.push(*key);
                sums.push(*value);
            }
        }
    }
    (of, sums)
}

#[test]
fn runs_of_equal_keys_are_summed() {
    let stream = stream();
    // How long runs are, about: some longer than a tile, all one, every key of its own.
    for (each, n) in [1usize, 3, 40, 3000, 9000, usize::MAX].into_iter().flat_map(|each| LENGTHS.map(|n| (each, n))) {
        let keys: Vec<i32> = (0..n).map(|i| (i / each) as i32 * 7 % 1000 - (mixed(i / each) % 2) as i32).collect();
        let values: Vec<i32> = (0..n).map(|i| (mixed(i) % 100) as i32 - 40).collect();
        let (k, v) = (stream.tensor(&keys, [n]).unwrap(), stream.tensor(&values, [n]).unwrap());
        let (mut of, mut sums) = (stream.tensor(&vec![-5; n], [n]).unwrap(), stream.tensor(&vec![-6; n], [n]).unwrap());
        let mut count = stream.tensor(&[-1], [1]).unwrap();
        reduce_by_key::<i32, i32, Sum, _>(&stream, &k, &v, &mut of, &mut sums, &mut count).unwrap();
        let (mut expected_keys, mut expected) = runs(&keys, &values);
        assert_eq!(stream.read(&count).unwrap(), [expected.len() as i32], "{n} keys, about {each} a run");
        // What lies behind the last run stays.
        expected_keys.resize(n, -5);
        expected.resize(n, -6);
        assert_eq!(stream.read(&of).unwrap(), expected_keys, "{n} keys, about {each} a run");
        assert_eq!(stream.read(&sums).unwrap(), expected, "{n} keys, about {each} a run");
    }
}

/// Zeros of both signs are one run, which has the sign of its last one; a NaN is no neighbour's equal, and a run by itself.
#[test]
fn runs_of_floats_are_of_what_is_equal() {
    let stream = stream();
    let (nan, other) = (f32::NAN, f32::from_bits(0xffc0_0001));
    let few = [nan, nan, 1.0, 1.0, 0.0, -0.0, -0.0, 0.0, -0.0, other, 2.0, 2.0, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, nan];
    let special: Vec<f32> = bits(5, 2500).into_iter().flat_map(|b| [f32::from_bits(b as u32); 2]).collect();
    for all in [&few[..], &few.repeat(300), &[nan; 4099], &special] {
        let n = all.len();
        let values: Vec<i32> = (0..n as i32).collect();
        let mut expected: Vec<(u32, i32)> = Vec::new();
        let mut at = 0;
        for run in all.chunk_by(|a, b| a == b) {
            expected.push((run[run.len() - 1].to_bits(), values[at..at + run.len()].iter().sum()));
            at += run.len();
        }
        let (k, v) = (stream.tensor(all, [n]).unwrap(), stream.tensor(&values, [n]).unwrap());
        let (mut of, mut sums, mut count) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap(), stream.zeros([1]).unwrap());
        reduce_by_key::<f32, i32, Sum, _>(&stream, &k, &v, &mut of, &mut sums, &mut count).unwrap();
        assert_eq!(stream.read(&count).unwrap(), [expected.len() as i32], "{n} keys");
        let (of, sums) = (stream.read(&of).unwrap(), stream.read(&sums).unwrap());
        let found: Vec<(u32, i32)> = of.iter().map(|v| v.to_bits()).zip(sums).take(expected.len()).collect();
        assert_eq!(found, expected, "{n} keys");
    }
}

/// Elements of 64 bits are two words of a tile, and half as many make an access.
#[test]
fn wide_elements_are_scanned_and_summed() {
    let stream = stream();
    for n in LENGTHS {
        let all: Vec<i64> = bits(0, n).into_iter().map(|b| b as i64).collect();
        let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([n]).unwrap());
        scan::<i64, Sum, Exclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, 0, true, i64::wrapping_add), "{n}");
        scan::<i64, Least, Inclusive, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), folded(&all, i64::MAX, false, i64::min), "{n}");
        let keys = stream.tensor(&(0..n as i32).map(|i| i / 5000).collect::<Vec<_>>(), [n]).unwrap();
        let (mut of, mut sums, mut count) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap(), stream.zeros([1]).unwrap());
        reduce_by_key::<i32, i64, Sum, _>(&stream, &keys, &x, &mut of, &mut sums, &mut count).unwrap();
        let mut expected: Vec<i64> = all.chunks(5000).map(|run| run.iter().fold(0, |a, b| i64::wrapping_add(a, *b))).collect();
        assert_eq!(stream.read(&count).unwrap(), [expected.len() as i32], "{n}");
        expected.resize(n, 0);
        assert_eq!(stream.read(&sums).unwrap(), expected, "{n}");
    }
}

/// Of many tiles a warp's window of 32 words is a small part.
#[test]
fn long_vectors_are_scanned() {
    let stream = stream();
    let n = (1 << 21) + 12_345;
    let all: Vec<i32> = (0..n).map(|i| mixed(i) as i32).collect();
    let x = stream.tensor(&all, [n]).unwrap();
    let mut y = stream.zeros([n]).unwrap();
    scan::<i32, Sum, Inclusive, _>(&stream, &x, &mut y).unwrap();
    assert!(stream.read(&y).unwrap() == folded(&all, 0, false, i32::wrapping_add));
    scan::<i32, Least, Exclusive, _>(&stream, &x, &mut y).unwrap();
    assert!(stream.read(&y).unwrap() == folded(&all, i32::MAX, true, i32::min));
}

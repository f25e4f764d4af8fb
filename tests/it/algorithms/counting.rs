//! Histograms, beside counts one by one.

use super::{mixed, stream};
use girih::Stream;
use girih::algorithms::{Binning, Value, histogram};
use girih::prelude::*;

/// Quarters of a unit; what is below 0 falls into no bin.
struct Quarters;

impl Binning<f32> for Quarters {
    fn bin(v: Tile<f32>) -> Tile<i32> {
        (v * 4.0).floor().cast::<i32>()
    }
}

#[test]
fn every_element_falls_into_its_bin() {
    let stream = stream();
    for (bins, n) in [1usize, 255, 256, 257, 8192, 8193].into_iter().flat_map(|bins| [0, 1, 31, 8191, 8193, 20_011].map(|n| (bins, n))) {
        let all: Vec<i32> = (0..n).map(|i| (mixed(i) % (bins as u64 + 5)) as i32 - 2).collect();
        expect_counts(&stream, &all, bins, "mixed");
    }
}

fn expect_counts(stream: &Stream, all: &[i32], bins: usize, what: &str) {
    let mut expected = vec![0; bins];
    all.iter().filter(|v| (0..bins as i32).contains(v)).for_each(|v| expected[*v as usize] += 1);
    let (x, mut counts) = (stream.tensor(all, [all.len()]).unwrap(), stream.tensor(&vec![-4; bins], [bins]).unwrap());
    histogram::<i32, Value, _>(stream, &x, &mut counts).unwrap();
    assert_eq!(stream.read(&counts).unwrap(), expected, "{} elements, {bins} bins, {what}", all.len());
}

#[test]
fn all_may_fall_into_one_bin_or_into_none() {
    let stream = stream();
    let n = 8209;
    for bins in [1usize, 256, 257, 8192, 8193] {
        let last = bins as i32 - 1;
        for (all, what) in [(0, "the first"), (last, "the last"), (-1, "none below"), (last + 1, "none behind")] {
            expect_counts(&stream, &vec![all; n], bins, what);
        }
        let far: Vec<i32> = (0..n).map(|i| [i32::MIN, i32::MAX, last, -1, 256, 8192, 1 << 16][i % 7]).collect();
        expect_counts(&stream, &far, bins, "far");
        let in_order: Vec<i32> = (0..n as i32).map(|i| i - 5).collect();
        expect_counts(&stream, &in_order, bins, "in order");
        expect_counts(&stream, &in_order.iter().rev().copied().collect::<Vec<i32>>(), bins, "in the opposite order");
    }
}

/// A conversion to an integer makes 0 of NaN, and the nearest one of what is too large.
#[test]
fn floats_that_are_no_numbers_fall_where_the_conversion_says() {
    let stream = stream();
    let all = [f32::NAN, -f32::NAN, -0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY, 0.3, -1e-45, 1e-45];
    let (x, mut counts) = (stream.tensor(&all, [all.len()]).unwrap(), stream.zeros([4]).unwrap());
    histogram::<f32, Quarters, _>(&stream, &x, &mut counts).unwrap();
    assert_eq!(stream.read(&counts).unwrap(), [5, 1, 0, 0]);
}

#[test]
fn bins_are_what_an_author_says() {
    let stream = stream();
    let all: Vec<f32> = (0..5000).map(|i| (mixed(i) % 4096) as f32 / 1024.0 - 1.0).collect();
    let mut expected = vec![0; 10];
    all.iter().filter(|v| **v >= 0.0 && **v < 2.5).for_each(|v| expected[(v * 4.0) as usize] += 1);
    let (x, mut counts) = (stream.tensor(&all, [5000]).unwrap(), stream.zeros([10]).unwrap());
    histogram::<f32, Quarters, _>(&stream, &x, &mut counts).unwrap();
    assert_eq!(stream.read(&counts).unwrap(), expected);
    let (x, mut counts) = (stream.tensor(&[3i8, -3, 3], [3]).unwrap(), stream.zeros([4]).unwrap());
    histogram::<i8, Value, _>(&stream, &x, &mut counts).unwrap();
    assert_eq!(stream.read(&counts).unwrap(), [0, 0, 0, 2]);
}

//! Histograms, beside counts one by one.

use super::{mixed, stream};
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
    for (bins, n) in [1usize, 255, 256, 257, 8192, 8193].into_iter().flat_map(|bins| [0, 1, 31, 8193, 20_011].map(|n| (bins, n))) {
        let all: Vec<i32> = (0..n).map(|i| (mixed(i) % (bins as u64 + 5)) as i32 - 2).collect();
        let mut expected = vec![0; bins];
        all.iter().filter(|v| (0..bins as i32).contains(v)).for_each(|v| expected[*v as usize] += 1);
        let (x, mut counts) = (stream.tensor(&all, [n]).unwrap(), stream.tensor(&vec![-4; bins], [bins]).unwrap());
        histogram::<i32, Value, _>(&stream, &x, &mut counts).unwrap();
        assert_eq!(stream.read(&counts).unwrap(), expected, "{n} elements, {bins} bins");
    }
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

//! Elements that are kept, beside `Iterator::filter`.

use super::{LENGTHS, bits, mixed, stream};
use girih::algorithms::{Keep, Positive, keep_flagged, keep_if};
use girih::prelude::*;

/// Every so many elements are above zero: none, all, many, few.
const KEPT: [usize; 4] = [usize::MAX, 1, 2, 300];

fn elements(one_in: usize, n: usize) -> Vec<i64> {
    let kept = |i: usize| one_in == 1 || one_in < usize::MAX && mixed(i).is_multiple_of(one_in as u64);
    (0..n).map(|i| if kept(i) { i as i64 + 1 } else { -(i as i64) }).collect()
}

#[test]
fn what_is_kept_keeps_its_order() {
    let stream = stream();
    for (one_in, n) in KEPT.into_iter().flat_map(|one_in| LENGTHS.map(|n| (one_in, n))) {
        let what = format!("one of {one_in} of {n}");
        let all = elements(one_in, n);
        let mut expected: Vec<i64> = all.iter().copied().filter(|v| *v > 0).collect();
        let found = expected.len() as i32;
        expected.resize(n, -9);
        let (x, mut kept) = (stream.tensor(&all, [n]).unwrap(), stream.tensor(&vec![-9i64; n], [n]).unwrap());
        let mut count = stream.tensor(&[-1], [1]).unwrap();
        keep_if::<i64, Positive, _>(&stream, &x, &mut kept, &mut count).unwrap();
        assert_eq!(stream.read(&count).unwrap(), [found], "{what}");
        assert_eq!(stream.read(&kept).unwrap(), expected, "{what}");

        let (bytes, flags): (Vec<u8>, Vec<bool>) = all.iter().map(|v| (*v as u8, *v > 0)).unzip();
        let mut expected: Vec<u8> = all.iter().filter(|v| **v > 0).map(|v| *v as u8).collect();
        expected.resize(n, 9);
        let (x, flags) = (stream.tensor(&bytes, [n]).unwrap(), stream.tensor(&flags, [n]).unwrap());
        let mut kept = stream.tensor(&vec![9u8; n], [n]).unwrap();
        keep_flagged::<u8, _>(&stream, &x, &flags, &mut kept, &mut count).unwrap();
        assert_eq!(stream.read(&count).unwrap(), [found], "{what}");
        assert_eq!(stream.read(&kept).unwrap(), expected, "{what}");
    }
}

#[test]
fn what_is_not_greater_than_zero_is_not_kept() {
    let stream = stream();
    for n in [24, 4099] {
        let all: Vec<f32> = bits(5, n).into_iter().map(|b| f32::from_bits(b as u32)).collect();
        let mut expected: Vec<u32> = all.iter().filter(|v| **v > 0.0).map(|v| v.to_bits()).collect();
        assert!(all.iter().any(|v| v.is_nan()) && expected.len() > 1 && expected.len() < n);
        let found = expected.len() as i32;
        expected.resize(n, (-9.0f32).to_bits());
        let (x, mut kept) = (stream.tensor(&all, [n]).unwrap(), stream.tensor(&vec![-9.0f32; n], [n]).unwrap());
        let mut count = stream.zeros([1]).unwrap();
        keep_if::<f32, Positive, _>(&stream, &x, &mut kept, &mut count).unwrap();
        assert_eq!(stream.read(&count).unwrap(), [found]);
        assert_eq!(stream.read(&kept).unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>(), expected);
    }
}

/// Two rules of one name, whose programs a stream has to tell apart.
mod small {
    use super::*;

    pub struct Rule;

    #[device]
    impl Keep<i32> for Rule {
        fn keep(v: Tile<i32>) -> Tile<bool> {
            v < 10
        }
    }
}

mod odd {
    use super::*;

    pub struct Rule;

    #[device]
    impl Keep<i32> for Rule {
        fn keep(v: Tile<i32>) -> Tile<bool> {
            (v & 1) == 1
        }
    }
}

#[test]
fn rules_of_one_name_are_two_programs() {
    let stream = stream();
    let all: Vec<i32> = (0..100).collect();
    let (x, mut kept) = (stream.tensor(&all, [100]).unwrap(), stream.zeros([100]).unwrap());
    let mut count = stream.zeros([1]).unwrap();
    keep_if::<i32, small::Rule, _>(&stream, &x, &mut kept, &mut count).unwrap();
    assert_eq!(stream.read(&count).unwrap(), [10]);
    keep_if::<i32, odd::Rule, _>(&stream, &x, &mut kept, &mut count).unwrap();
    assert_eq!(stream.read(&count).unwrap(), [50]);
    assert_eq!(stream.read(&kept).unwrap()[..3], [1, 3, 5]);
}

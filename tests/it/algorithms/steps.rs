//! Steps of sorts and merges within a block.

use super::{KINDS, bits, stream};
use girih::algorithms::{bitonic_sort, merge_path};
use girih::prelude::*;

/// Each 256 elements of y = those of x in falling order.
#[kernel(tile(T = 256), threads(N = 256))]
pub fn falling_blocks(x: &Tensor<i64, 1>, y: &mut Tensor<i64, 1>) {
    for t in y.tiles([T]) {
        let place = threads(256);
        let mut through = shared_uninit::<i64>([256]);
        let at = place + t.number().cast::<i32>() * 256;
        let v = x.gather(at).or(i64::MIN);
        y.scatter(at, bitonic_sort(v, place, &mut through, 8));
    }
}

/// from_a[d] = how many of the first d elements of a and b, merged, are of a. Both have at most 128 elements, and together 128 at least.
#[kernel(tile(T = 256), threads(N = 128))]
pub fn merged_from(a: &Tensor<i32, 1>, b: &Tensor<i32, 1>, from_a: &mut Tensor<i32, 1>) {
    require(a.len(0) <= 128 && b.len(0) <= 128 && a.len(0) + b.len(0) >= 127 && from_a.len(0) <= 128);
    for t in from_a.tiles([T]) {
        let place = threads(128);
        let mut runs = shared::<i32>([256], 0);
        runs.scatter(place, a.gather(place).or(0));
        runs.scatter(place + 128, b.gather(place).or(0));
        let (of_a, of_b) = (a.len(0).cast::<i32>(), b.len(0).cast::<i32>());
        from_a.scatter(place + t.number().cast::<i32>() * 256, merge_path(&runs, of_a, [scalar(128), of_b], place));
    }
}

#[test]
fn blocks_fall() {
    let stream = stream();
    for (kind, n) in (0..KINDS).flat_map(|kind| [1usize, 255, 256, 1000].map(|n| (kind, n))) {
        let all: Vec<i64> = bits(kind, n).into_iter().map(|b| b as i64).collect();
        let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([n]).unwrap());
        falling_blocks(&stream, &x, &mut y).unwrap();
        let mut expected = all.clone();
        expected.chunks_mut(256).for_each(|c| c.sort_by(|a, b| b.cmp(a)));
        assert_eq!(stream.read(&y).unwrap(), expected, "{n} of kind {kind}");
    }
}

#[test]
fn merge_paths_are_where_merges_lead() {
    let stream = stream();
    for (of_a, of_b) in [(128, 128), (0, 128), (128, 0), (100, 60), (1, 127), (64, 64)] {
        let rising = |n: usize, step: i32| (0..n as i32).map(|i| i * step / 2).collect::<Vec<i32>>();
        let (a, b) = (rising(of_a, 3), rising(of_b, 2));
        let (x, y) = (stream.tensor(&a, [of_a]).unwrap(), stream.tensor(&b, [of_b]).unwrap());
        let mut from_a = stream.zeros([128]).unwrap();
        merged_from(&stream, &x, &y, &mut from_a).unwrap();
        let mut merged: Vec<(i32, usize)> = a.iter().map(|v| (*v, 0)).chain(b.iter().map(|v| (*v, 1))).collect();
        merged.sort();
        let expected: Vec<i32> = (0..128).map(|d| merged[..d.min(merged.len())].iter().filter(|(_, of)| *of == 0).count() as i32).collect();
        assert_eq!(stream.read(&from_a).unwrap(), expected, "{of_a} and {of_b}");
    }
}

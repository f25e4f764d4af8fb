//! Merges, beside sorts of both vectors together.

use super::{mixed, stream};
use girih::algorithms::merge;

#[test]
fn merged_vectors_are_in_order() {
    let stream = stream();
    // Lengths around the tile's 3840 elements; how many different elements there are.
    let lengths = [(0, 0), (0, 5), (7, 0), (1, 1), (3839, 1), (1920, 1921), (4099, 5000), (33, 9000)];
    for ((m, n), different) in lengths.into_iter().flat_map(|lens| [3u64, u64::MAX].map(|different| (lens, different))) {
        let part = |n: usize, seed: usize| {
            let mut all: Vec<i64> = (0..n).map(|i| (mixed(i + seed) % different) as i64).collect();
            all.sort();
            all
        };
        let (a, b) = (part(m, 0), part(n, 50_000));
        let mut expected = [a.clone(), b.clone()].concat();
        expected.sort();
        let (x, y) = (stream.tensor(&a, [m]).unwrap(), stream.tensor(&b, [n]).unwrap());
        let mut c = stream.zeros([m + n]).unwrap();
        merge::<i64, _>(&stream, &x, &y, &mut c).unwrap();
        assert_eq!(stream.read(&c).unwrap(), expected, "{m} and {n}");
    }
}

#[test]
fn of_equal_elements_those_of_the_first_come_first() {
    let stream = stream();
    // Zeros of both signs are equal, and can be told apart.
    let (x, y) = (stream.tensor(&[-1.0f32, -0.0, 2.0], [3]).unwrap(), stream.tensor(&[0.0f32, 0.0], [2]).unwrap());
    let mut c = stream.zeros([5]).unwrap();
    merge::<f32, _>(&stream, &x, &y, &mut c).unwrap();
    let signs: Vec<bool> = stream.read(&c).unwrap().iter().map(|v| v.is_sign_negative()).collect();
    assert_eq!(signs, [true, true, false, false, false]);
}

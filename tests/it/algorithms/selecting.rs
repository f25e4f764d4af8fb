//! The largest elements, beside a sort.

use super::{KINDS, bits, stream};
use girih::algorithms::{SortKey, top_k};
use girih::prelude::*;

fn chosen<K: SortKey<Number = u32>>(
    kind: usize,
    (n, k): (usize, usize),
    of: impl Fn(u64) -> K,
    before: impl Fn(&K, &K) -> std::cmp::Ordering,
) {
    let stream = stream();
    let all: Vec<K> = bits(kind, n).into_iter().map(of).collect();
    let mut expected = all.clone();
    expected.sort_by(|a, b| before(b, a));
    expected.truncate(k);
    let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([k]).unwrap());
    top_k::<K, _>(&stream, &x, &mut y).unwrap();
    let bits = |all: &[K]| all.iter().map(|v| v.literal().bits).collect::<Vec<_>>();
    let name = std::any::type_name::<K>();
    assert_eq!(bits(&stream.read(&y).unwrap()), bits(&expected), "the {k} largest of {n} of {name}, kind {kind}");
}

#[test]
fn the_largest_come_first() {
    for (kind, sizes) in (0..KINDS).flat_map(|kind| [(0, 0), (1, 1), (31, 31), (5000, 7), (9001, 1024), (4096, 1500)].map(|s| (kind, s))) {
        chosen(kind, sizes, |b| b as i32, i32::cmp);
    }
}

#[test]
fn keys_of_every_width_are_chosen_from() {
    for sizes in [(5000, 100), (3000, 1100)] {
        chosen(0, sizes, |b| b as u32, u32::cmp);
        chosen(0, sizes, |b| b as i8, i8::cmp);
        chosen(0, sizes, |b| b as u8, u8::cmp);
        chosen(0, sizes, |b| f32::from_bits(b as u32), f32::total_cmp);
        let number = |b: u64| Some(f16::from_bits(b as u16)).filter(|v| !v.is_nan()).unwrap_or(f16::ONE);
        chosen(0, sizes, number, f16::total_cmp);
    }
}

/// NaNs with both signs, infinities and zeros among them: few of them, all, and more than a block sorts.
#[test]
fn floats_are_chosen_in_their_total_order() {
    for (kind, sizes) in [1, 2, 3, 4, 5].into_iter().flat_map(|kind| [(1, 1), (31, 31), (4099, 7), (1201, 1201)].map(|s| (kind, s))) {
        chosen(kind, sizes, |b| f32::from_bits(b as u32), f32::total_cmp);
    }
}

/// 3000 neighbours above the sample's bound are more than a block sorts. Where they differ, one digit leaves few of them; where all are equal, and
/// where most are, the digits are told apart one by one.
#[test]
fn many_candidates_become_few() {
    let stream = stream();
    let (n, k) = (13_001, 800);
    for distinct in [3000, 1, 2, 1100] {
        let high = |i: usize| 1_000_000 + (super::mixed(i) % distinct) as i32 * 7919;
        let all: Vec<i32> = (0..n).map(|i| if (5000..8000).contains(&i) { high(i) } else { (super::mixed(i) % 900_000) as i32 }).collect();
        let mut expected = all.clone();
        expected.sort_by(|a, b| b.cmp(a));
        expected.truncate(k);
        let (x, mut y) = (stream.tensor(&all, [n]).unwrap(), stream.zeros([k]).unwrap());
        top_k::<i32, _>(&stream, &x, &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), expected, "{distinct} distinct ones");
    }
}

//! Merges, beside stable sorts of both vectors together.

use super::keys::{Key, keys, same};
use super::stream;
use girih::Stream;
use girih::algorithms::{Ascending, Descending, Direction, Word, merge, merge_pairs};
use girih::prelude::{bf16, f16};
use std::cmp::Ordering;

/// Elements of a tile of the result.
const TILE: usize = 3840;
/// A kind of keys, and how many both vectors have: none, few, and primes.
const FEW: [(usize, (usize, usize)); 5] = [(5, (0, 0)), (5, (0, 5)), (5, (7, 0)), (5, (1, 1)), (5, (13, 29))];
/// A tile with an element more, which every type is merged to.
const MANY: (usize, usize) = (1920, 1921);
/// A tile of each kind, and lengths about several tiles.
const MORE: [(usize, (usize, usize)); 11] = [
    (0, (1919, 1921)),
    (1, (1919, 1921)),
    (2, (1919, 1921)),
    (3, (1919, 1921)),
    (4, (1919, 1921)),
    (5, (1919, 1921)),
    (5, (TILE - 1, 0)),
    (5, (TILE - 1, 1)),
    (5, (TILE - 1, 2)),
    (1, (4099, 5003)),
    (5, (31, 7919)),
];

fn order<K: Key, D: Direction>(a: &K, b: &K) -> Ordering {
    if D::FALLS { K::order(b, a) } else { K::order(a, b) }
}

/// The first so many keys in order, and the others.
fn halves<K: Key, D: Direction>(mut all: Vec<K>, m: usize) -> (Vec<K>, Vec<K>) {
    let mut others = all.split_off(m);
    all.sort_by(order::<K, D>);
    others.sort_by(order::<K, D>);
    (all, others)
}

fn expect_merged<K: Key, D: Direction>(stream: &Stream, (a, b): &(Vec<K>, Vec<K>), what: &str) {
    let mut expected = [&a[..], b].concat();
    expected.sort_by(order::<K, D>);
    let (x, y) = (stream.tensor(a, [a.len()]).unwrap(), stream.tensor(b, [b.len()]).unwrap());
    let mut c = stream.zeros([expected.len()]).unwrap();
    merge::<K, D, _>(stream, &x, &y, &mut c).unwrap();
    same(&stream.read(&c).unwrap(), &expected, &named::<K, D>(what));
}

fn named<K, D: Direction>(what: &str) -> String {
    format!("{what} of {}, {}", std::any::type_name::<K>(), if D::FALLS { "falling" } else { "rising" })
}

fn merges<K: Key, D: Direction>(cases: &[(usize, (usize, usize))]) {
    let stream = stream();
    for (kind, (m, n)) in cases {
        expect_merged::<K, D>(&stream, &halves::<K, D>(keys(*kind, m + n), *m), &format!("{m} and {n}, kind {kind}"));
    }
}

fn merges_few_and_many<K: Key, D: Direction>() {
    merges::<K, D>(&[&FEW[..], &[(0, MANY)]].concat());
}

#[test]
fn merged_keys_are_in_order() {
    merges_few_and_many::<u32, Ascending>();
    merges_few_and_many::<i32, Descending>();
    merges_few_and_many::<f32, Ascending>();
    merges::<f32, Ascending>(&MORE);
    merges_few_and_many::<f32, Descending>();
    merges::<f32, Descending>(&MORE[5..]);
}

#[test]
fn merged_wide_keys_are_in_order() {
    merges_few_and_many::<u64, Descending>();
    merges_few_and_many::<i64, Ascending>();
}

#[test]
fn merged_narrow_keys_are_in_order() {
    merges_few_and_many::<u8, Ascending>();
    merges_few_and_many::<i8, Descending>();
    merges_few_and_many::<f16, Ascending>();
    merges_few_and_many::<f16, Descending>();
    merges_few_and_many::<bf16, Ascending>();
}

#[test]
fn merged_floats_have_their_total_order() {
    let nan = f32::from_bits;
    let all = [1.0, nan(0x7fc0_0001), -0.0, f32::INFINITY, nan(0xffc0_0000), 0.0, f32::NEG_INFINITY, -1e-45, 1e-45, nan(0x7f80_0001)];
    let stream = stream();
    for m in [0, 3, 5, all.len()] {
        expect_merged::<f32, Ascending>(&stream, &halves::<f32, Ascending>(all.to_vec(), m), &format!("the first {m}"));
        expect_merged::<f32, Descending>(&stream, &halves::<f32, Descending>(all.to_vec(), m), &format!("the first {m}"));
    }
}

/// Values are the places of keys, and tell whether equal ones keep their order.
fn expect_pairs<K: Key, V: Word, D: Direction>(stream: &Stream, (a, b): &(Vec<K>, Vec<K>), of: impl Fn(usize) -> V, what: &str) {
    let (m, n) = (a.len(), a.len() + b.len());
    let (all, values) = ([&a[..], b].concat(), (0..n).map(of).collect::<Vec<V>>());
    let mut places: Vec<usize> = (0..n).collect();
    places.sort_by(|i, j| order::<K, D>(&all[*i], &all[*j]));
    let (x, y) = (stream.tensor(a, [m]).unwrap(), stream.tensor(b, [n - m]).unwrap());
    let (v, w) = (stream.tensor(&values[..m], [m]).unwrap(), stream.tensor(&values[m..], [n - m]).unwrap());
    let (mut c, mut moved) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
    merge_pairs::<K, V, D, _>(stream, &x, &v, &y, &w, &mut c, &mut moved).unwrap();
    let what = named::<K, D>(what);
    same(&stream.read(&c).unwrap(), &places.iter().map(|i| all[*i]).collect::<Vec<K>>(), &what);
    same(&stream.read(&moved).unwrap(), &places.iter().map(|i| values[*i]).collect::<Vec<V>>(), &format!("values, {what}"));
}

fn pairs<K: Key, V: Word, D: Direction>(cases: &[(usize, (usize, usize))], of: impl Fn(usize) -> V) {
    let stream = stream();
    for (kind, (m, n)) in cases {
        expect_pairs::<K, V, D>(&stream, &halves::<K, D>(keys(*kind, m + n), *m), &of, &format!("{m} and {n}, kind {kind}"));
    }
}

#[test]
fn values_go_where_their_keys_go() {
    let few = [(5, (1, 1)), (5, (13, 29)), (5, (1009, 1201)), (1, MANY)];
    pairs::<f32, i32, Ascending>(&FEW, |i| i as i32);
    pairs::<f32, i32, Ascending>(&MORE, |i| i as i32);
    pairs::<f32, i32, Descending>(&few, |i| i as i32);
    pairs::<u32, u64, Descending>(&few, |i| i as u64 + (1 << 40));
    pairs::<i64, f32, Ascending>(&few, |i| i as f32);
    pairs::<u64, i64, Descending>(&few, |i| -(i as i64));
    pairs::<u8, u32, Ascending>(&few, |i| i as u32);
    pairs::<bf16, i32, Descending>(&few, |i| i as i32);
}

/// What lies behind a block's part of a vector is as large as a number gets: keys that are as large must not be mistaken for it, nor it for them.
fn largest_keys<K: Key, D: Direction>(last: K, before: K) {
    let stream = stream();
    // All of them, or those behind the first half.
    for (all, (m, n)) in [(true, (15, 16)), (true, (0, 17)), (true, MANY), (false, (1201, 2003))] {
        let part = |n: usize| (0..n).map(|i| if all || 2 * i >= n { last } else { before }).collect::<Vec<K>>();
        let what = format!("{m} and {n}, all {all}");
        expect_merged::<K, D>(&stream, &(part(m), part(n)), &what);
        expect_pairs::<K, i32, D>(&stream, &(part(m), part(n)), |i| i as i32 + 1, &what);
    }
}

#[test]
fn keys_as_large_as_what_lies_behind_keep_their_values() {
    largest_keys::<u32, Ascending>(u32::MAX, 5);
    largest_keys::<u32, Descending>(0, 5);
    largest_keys::<f32, Ascending>(f32::from_bits(0x7fff_ffff), f32::INFINITY);
    largest_keys::<f32, Descending>(f32::from_bits(0xffff_ffff), f32::NEG_INFINITY);
    largest_keys::<i64, Ascending>(i64::MAX, 0);
    largest_keys::<i8, Descending>(i8::MIN, 0);
}

#[test]
fn a_result_of_another_length_is_refused() {
    let stream = stream();
    let (x, mut c) = (stream.zeros::<f32, 1>([4]).unwrap(), stream.zeros([9]).unwrap());
    let error = merge::<f32, Ascending, _>(&stream, &x, &x, &mut c).expect_err("too long").to_string();
    assert!(error.contains("9 == 8"), "{error}");
    let (mut c, v, mut moved) = (stream.zeros([8]).unwrap(), stream.zeros::<i32, 1>([3]).unwrap(), stream.zeros([8]).unwrap());
    let error = merge_pairs::<f32, i32, Ascending, _>(&stream, &x, &v, &x, &v, &mut c, &mut moved).expect_err("too short").to_string();
    assert!(error.contains("3 == 4"), "{error}");
}

//! Sorts of every type of keys, in both directions, with values and without.

use super::keys::{Key, keys, same};
use super::{KINDS, LENGTHS, stream};
use girih::algorithms::{Ascending, Descending, Direction, Word, sort, sort_in_place, sort_pairs, sort_segments};
use girih::prelude::{bf16, f16};
use std::cmp::Ordering;
use std::fmt::Debug;

fn sorts<K: Key + Debug>() {
    let name = std::any::type_name::<K>();
    let stream = stream();
    for (kind, n) in (0..KINDS).flat_map(|kind| LENGTHS.map(|n| (kind, n))) {
        // Long vectors of every kind and type take the simulator minutes.
        let short = n < 40 || (kind == 1 && n < 5000);
        if !short && kind != 0 && name != "f32" || n > 9000 && kind != 1 {
            continue;
        }
        let all = keys::<K>(kind, n);
        let (mut rising, mut falling) = (all.clone(), all.clone());
        rising.sort_by(K::order);
        falling.sort_by(|a, b| K::order(b, a));
        let x = stream.tensor(&all, [n]).unwrap();
        let mut y = stream.zeros([n]).unwrap();
        sort::<K, Ascending, _>(&stream, &x, &mut y).unwrap();
        same(&stream.read(&y).unwrap(), &rising, &format!("{n} of {name}, kind {kind}, rising"));
        sort::<K, Descending, _>(&stream, &x, &mut y).unwrap();
        same(&stream.read(&y).unwrap(), &falling, &format!("{n} of {name}, kind {kind}, falling"));
        same(&stream.read(&x).unwrap(), &all, &format!("{n} of {name}, kind {kind}: what is only read"));
    }
}

#[test]
fn narrow_integers_are_sorted() {
    sorts::<i8>();
    sorts::<u8>();
}

#[test]
fn integers_are_sorted() {
    sorts::<i32>();
    sorts::<u32>();
}

#[test]
fn wide_integers_are_sorted() {
    sorts::<i64>();
    sorts::<u64>();
}

#[test]
fn floats_are_sorted_in_their_total_order() {
    sorts::<f32>();
    let stream = stream();
    let nan = f32::from_bits;
    let all = [1.0, nan(0x7fc0_0001), -0.0, f32::INFINITY, nan(0xffc0_0000), 0.0, f32::NEG_INFINITY, -1e-45, 1e-45, nan(0x7f80_0001)];
    let mut expected = all;
    expected.sort_by(f32::total_cmp);
    let mut x = stream.tensor(&all, [all.len()]).unwrap();
    sort_in_place::<f32, Ascending, _>(&stream, &mut x).unwrap();
    same(&stream.read(&x).unwrap(), &expected, "rising");
    expected.reverse();
    sort_in_place::<f32, Descending, _>(&stream, &mut x).unwrap();
    same(&stream.read(&x).unwrap(), &expected, "falling");
}

#[test]
fn half_floats_are_sorted_and_their_nans_come_last() {
    sorts::<f16>();
    sorts::<bf16>();
    let stream = stream();
    // Every number there is.
    let all: Vec<f16> = (0..=u16::MAX).step_by(13).map(f16::from_bits).collect();
    let mut expected: Vec<f16> = all.iter().map(|v| if v.is_nan() { f16::NAN } else { *v }).collect();
    expected.sort_by(f16::total_cmp);
    let mut x = stream.tensor(&all, [all.len()]).unwrap();
    sort_in_place::<f16, Ascending, _>(&stream, &mut x).unwrap();
    same(&stream.read(&x).unwrap(), &expected, "every f16");
}

/// Sorts numbered elements, whose numbers tell whether equal ones keep their order.
macro_rules! numbered {
    ($key:ty, $value:ty) => {
        let stream = stream();
        for (kind, n) in [(0, 4097), (1, 0), (1, 1), (1, 4095), (1, 8193), (2, 5000), (3, 1009), (4, 1000), (5, 4097)] {
            let what = format!("{n} of {} with {}, kind {kind}", stringify!($key), stringify!($value));
            let all = keys::<$key>(kind, n);
            let values: Vec<$value> = (0..n).map(|i| i as $value).collect();
            let (x, v) = (stream.tensor(&all, [n]).unwrap(), stream.tensor(&values, [n]).unwrap());
            let (mut y, mut w) = (stream.zeros([n]).unwrap(), stream.zeros([n]).unwrap());
            let mut places: Vec<usize> = (0..n).collect();
            sort_pairs::<$key, $value, Ascending, _>(&stream, &x, &v, &mut y, &mut w).unwrap();
            places.sort_by(|a, b| Key::order(&all[*a], &all[*b]));
            same(&stream.read(&y).unwrap(), &places.iter().map(|i| all[*i]).collect::<Vec<_>>(), &what);
            same(&stream.read(&w).unwrap(), &places.iter().map(|i| *i as $value).collect::<Vec<_>>(), &what);
            sort_pairs::<$key, $value, Descending, _>(&stream, &x, &v, &mut y, &mut w).unwrap();
            places.sort();
            places.sort_by(|a, b| Key::order(&all[*b], &all[*a]));
            same(&stream.read(&y).unwrap(), &places.iter().map(|i| all[*i]).collect::<Vec<_>>(), &what);
            same(&stream.read(&w).unwrap(), &places.iter().map(|i| *i as $value).collect::<Vec<_>>(), &what);
        }
    };
}

#[test]
fn values_follow_their_keys_in_order() {
    numbered!(f32, i32);
    numbered!(u32, u64);
    numbered!(i64, f32);
    numbered!(u64, i64);
    numbered!(u8, u32);
    numbered!(f16, i32);
}

/// Segments of every kind of lengths, empty ones and single elements among them, beside sorts of slices.
fn segments<K: Key + Word + Debug, D: Direction>(order: fn(&K, &K) -> Ordering) {
    let stream = stream();
    for (kind, n) in [(0, 1), (1, 40), (0, 5000), (2, 4097), (4, 1000)] {
        for lens in [&[n][..], &[0, 1, 0, 2, 33, 0, 256, 31], &[1]] {
            // Lengths again and again, and the last segment has the rest.
            let mut firsts = Vec::new();
            let mut at = 0;
            for len in lens.iter().cycle().take(n + 8) {
                if at > n {
                    break;
                }
                firsts.push(at as i32);
                at += len;
            }
            let what = format!("{n} of {}, kind {kind}, segments of {lens:?}", std::any::type_name::<K>());
            let all = keys::<K>(kind, n);
            let mut expected = all.clone();
            for (i, first) in firsts.iter().enumerate() {
                let end = firsts.get(i + 1).map_or(n, |end| *end as usize).min(n);
                expected[*first as usize..end.max(*first as usize)].sort_by(order);
            }
            let (x, begins) = (stream.tensor(&all, [n]).unwrap(), stream.tensor(&firsts, [firsts.len()]).unwrap());
            let mut y = stream.zeros([n]).unwrap();
            sort_segments::<K, D, _>(&stream, &x, &begins, &mut y).unwrap();
            same(&stream.read(&y).unwrap(), &expected, &what);
        }
    }
}

#[test]
fn segments_are_sorted_each_by_itself() {
    segments::<f32, Ascending>(Key::order);
    segments::<i32, Descending>(|a, b| Key::order(b, a));
    segments::<u64, Ascending>(Key::order);
}

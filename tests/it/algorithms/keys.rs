//! Keys of every type: made of bits, and in the order that sorts and merges have.

use super::bits;
use girih::algorithms::SortKey;
use girih::prelude::{bf16, f16};
use girih_core::lang::elem::Elem;
use std::cmp::Ordering;

/// A type of keys with what a test needs of it.
pub trait Key: SortKey {
    fn of_bits(bits: u64) -> Self;
    fn order(a: &Self, b: &Self) -> Ordering;
}

macro_rules! integers {
    ($($key:ty),*) => {$(
        impl Key for $key {
            fn of_bits(bits: u64) -> Self {
                bits as $key
            }
            fn order(a: &Self, b: &Self) -> Ordering {
                a.cmp(b)
            }
        }
    )*};
}
integers!(i8, u8, i32, u32, i64, u64);

impl Key for f32 {
    fn of_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
    fn order(a: &f32, b: &f32) -> Ordering {
        a.total_cmp(b)
    }
}

macro_rules! halves {
    ($($key:ty),*) => {$(
        impl Key for $key {
            fn of_bits(bits: u64) -> Self {
                let value = <$key>::from_bits(bits as u16);
                if value.is_nan() { <$key>::NAN } else { value }
            }
            fn order(a: &Self, b: &Self) -> Ordering {
                a.total_cmp(b)
            }
        }
    )*};
}
halves!(f16, bf16);

/// The keys of a kind of vector.
pub fn keys<K: Key>(kind: usize, n: usize) -> Vec<K> {
    bits(kind, n).into_iter().map(K::of_bits).collect()
}

/// Asserts that both are the same, to the bit.
pub fn same<T: Elem>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert_eq!(f.literal().bits, e.literal().bits, "{what}: element {i} is {f:?}, and should be {e:?}");
    }
}

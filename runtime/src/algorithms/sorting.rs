//! Stable sorts of whole vectors, of every type of keys, in either direction: programs that other programs call, or a stream runs.

use super::LONGEST;
use super::keys::{Ascending, Direction, SortKey, Word, flips};
use super::radix::{sort_numbers, sort_numbers_and_values, to_keys, to_numbers};
use crate::prelude::*;

/// sorted = the keys in a direction, [`Ascending`](super::Ascending) or [`Descending`](super::Descending); what the order of floats is, [`SortKey`]
/// says. Both have the same length, below 2³¹.
///
/// A radix sort, eight bits a pass: with 32 bits it reads and writes the keys four times, and reads them once more to count digits.
///
/// ```no_run
/// use girih::algorithms::{Descending, sort};
/// use girih::prelude::*;
///
/// #[program]
/// fn largest_first(scores: &Tensor<f32, 1>, sorted: &mut Tensor<f32, 1>) {
///     sort::<f32, Descending>(scores, sorted);
/// }
/// # fn main() {}
/// ```
#[program]
pub fn sort<K: SortKey, D: Direction>(keys: &Tensor<K, 1>, sorted: &mut Tensor<K, 1>) {
    let n = keys.len(0);
    require(n < LONGEST);
    let (sign, flip) = (scalar::<K::Number>(K::SIGN), scalar::<K::Number>(flips::<K, D>()));
    if n > 0 {
        if K::AS_IT_LIES {
            sort_numbers::<K>(&keys.reinterpret(), &mut sorted.reinterpret(), sign, flip);
        } else {
            let (mut numbers, mut in_order) = (temp([n]), temp([n]));
            to_numbers::<K>(keys, &mut numbers);
            sort_numbers::<K>(&numbers, &mut in_order, sign, flip);
            to_keys::<K>(&in_order, sorted);
        }
    }
}

/// keys = themselves in a direction.
#[program]
pub fn sort_in_place<K: SortKey, D: Direction>(keys: &mut Tensor<K, 1>) {
    if keys.len(0) > 1 {
        // Passes over keys as they lie are even in number, so that the first one leaves them.
        sort::<K, D>(&keys.flat(), keys);
    }
}

/// sorted_keys = the keys in a direction, and sorted_values = the value of each. Values of equal keys keep their order, in both directions.
#[program]
pub fn sort_pairs<K: SortKey, V: Word, D: Direction>(
    keys: &Tensor<K, 1>,
    values: &Tensor<V, 1>,
    sorted_keys: &mut Tensor<K, 1>,
    sorted_values: &mut Tensor<V, 1>,
) {
    let n = keys.len(0);
    require(n < LONGEST);
    let (sign, flip) = (scalar::<K::Number>(K::SIGN), scalar::<K::Number>(flips::<K, D>()));
    let (bits, mut sorted_bits) = (values.reinterpret::<V::Bits>(), sorted_values.reinterpret::<V::Bits>());
    if n > 0 {
        if K::AS_IT_LIES {
            sort_numbers_and_values::<K, V::Bits>(&keys.reinterpret(), &bits, &mut sorted_keys.reinterpret(), &mut sorted_bits, sign, flip);
        } else {
            let (mut numbers, mut in_order) = (temp([n]), temp([n]));
            to_numbers::<K>(keys, &mut numbers);
            sort_numbers_and_values::<K, V::Bits>(&numbers, &bits, &mut in_order, &mut sorted_bits, sign, flip);
            to_keys::<K>(&in_order, sorted_keys);
        }
    }
}

/// segments = which segment each element is of: the last one that begins at it or before.
#[kernel(tile(T = [1024, 512, 2048]), coarsen(C of T = [4, 2, 1]))]
pub fn segments_of(firsts: &Tensor<i32, 1>, segments: &mut Tensor<i32, 1>) {
    let last = (firsts.len(0) - 1).cast::<i32>();
    for t in segments.tiles([T]) {
        let at = t.coords().cast::<i32>();
        let mut low = at.like(0);
        let mut high = at.like(0) + last;
        while low < high {
            let middle = (low + high + 1) >> 1;
            let begins = firsts.gather_in_bounds(middle) <= at;
            low = select(begins, middle, low);
            high = select(begins, high, middle - 1);
        }
        segments.store(t, low);
    }
}

/// sorted = the keys of each segment in a direction. `firsts` says where segments begin, in ascending order; the first one begins at 0, and one that
/// begins where the next does is empty. Keys have 32 or 64 bits.
///
/// Two stable sorts: of all keys with the numbers of their segments, then of these numbers with the keys.
///
/// ```no_run
/// use girih::algorithms::{Descending, sort_segments};
/// use girih::prelude::*;
///
/// #[program]
/// fn best_of_each_query(scores: &Tensor<f32, 1>, firsts: &Tensor<i32, 1>, ranked: &mut Tensor<f32, 1>) {
///     sort_segments::<f32, Descending>(scores, firsts, ranked);
/// }
/// # fn main() {}
/// ```
#[program]
pub fn sort_segments<K: SortKey + Word, D: Direction>(keys: &Tensor<K, 1>, firsts: &Tensor<i32, 1>, sorted: &mut Tensor<K, 1>) {
    let n = keys.len(0);
    require(n < LONGEST);
    if n > 0 {
        let (mut segments, mut of_keys, mut in_order) = (temp([n]), temp([n]), temp([n]));
        let mut all = temp([n]);
        segments_of(firsts, &mut segments);
        sort_pairs::<K, i32, D>(keys, &segments, &mut all, &mut of_keys);
        sort_pairs::<i32, K, Ascending>(&of_keys, &all, &mut in_order, sorted);
    }
}

//! Stable sorts of whole vectors, of every type of keys, in either direction: programs that other programs call, or a stream runs.

use super::keys::{Direction, SortKey, Word, flips};
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

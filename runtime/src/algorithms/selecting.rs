//! The k largest elements of a vector, in descending order.
//!
//! For k up to 1024 everything is read once. The maxima of 4096 short runs are a sample: at least k elements reach the k-th largest of them.
//! A launch keeps the few that are above this bound, and one block selects the k largest of these, digit by digit, and sorts them; where fewer
//! than k are above it, the rest are equal to it. For larger k the k-th largest element is found by histograms of the whole vector's digits, and
//! what is not less is sorted. Keys are compared as unsigned numbers of the same order.

use super::LONGEST;
use super::keys::{Descending, Order, SortKey, flips};
use super::radix::{sort_numbers, to_keys, to_numbers};
use super::steps::bitonic_stage;
use crate::prelude::*;

/// The most that one block sorts.
const MOST: i32 = 1024;
/// Runs of the sample.
const RUNS: i32 = 4096;
/// Values of a digit: the upper eleven bits, the next eleven, the last ten.
const BINS: i32 = 2048;
/// The lowest bit of each digit.
const SHIFTS: [u32; 3] = [21, 10, 0];
/// The bits above each digit.
const MASKS: [u32; 3] = [0, 0xffe0_0000, 0xffff_fc00];

/// maxima = the largest of each run. Runs lie equally far apart.
#[kernel(tile(G = [1, 2, 4], J = 512), threads(N = [128, 256]), min_blocks(Q = [2, 4]), types(E = [f32]))]
pub fn run_maxima<E: SortKey<Number = u32>>(x: &Tensor<u32, 1>, maxima: &mut Tensor<u32, 1>) {
    let apart = (x.len(0) + (RUNS - 1) as i64) / RUNS as i64;
    for g in maxima.tiles([G]) {
        let j = iota::<i64>(J).expand(0, G);
        let mut best = full::<u32>([G, J], 0);
        if j < apart {
            best = best.max(Order::of::<E>().numbers(x.gather(g.coords().expand(1, J) * apart + j)));
        }
        maxima.store(g, Order::of::<E>().elements(best.max_axis(1)));
    }
}

/// Of how many keys have each digit, the digit of the `left`-th largest key, and how many have a larger one.
#[device]
fn digit_of(counts: Tile<i32>, left: Scalar<i32>) -> (Scalar<u32>, Scalar<i32>) {
    let bin = iota::<i32>(BINS);
    let above = counts.scan_sum(along(0).exclusive().reversed());
    let digit = select(above < left, bin, BINS - 1).min_all();
    (digit.cast::<u32>(), select(bin == digit, above, 0).sum())
}

/// The k-th largest of the first `count` elements, as a number.
#[device]
fn kth_largest<E: SortKey<Number = u32>>(keys: &Tensor<u32, 1>, count: Scalar<i64>, k: Scalar<i32>, size: Size) -> Scalar<u32> {
    let mut own = shared::<i32>([BINS], 0);
    let (mut known, mut left) = (scalar::<u32>(0), k);
    for (shift, mask) in SHIFTS.into_iter().zip(MASKS) {
        if mask != 0 {
            own.fill(0);
        }
        for c in keys.axis(0).tiles(size).within(0..count) {
            let key = Order::of::<E>().numbers(keys.load(c));
            if (key & mask) == known {
                own.atomic_add(((key >> shift) & (BINS as u32 - 1)).cast::<i32>(), 1);
            }
        }
        let (digit, above) = digit_of(own.load(..), left);
        known = known | (digit << shift);
        left -= above;
    }
    known
}

/// bound = the k-th largest of the maxima, as a number whose order is that of the floats.
#[kernel(tile(B = 1, T = 1024), threads(N = [1024, 512]), copies(K = [4, 2, 1]), types(E = [f32]))]
pub fn sample_bound<E: SortKey<Number = u32>>(maxima: &Tensor<u32, 1>, bound: &mut Tensor<u32, 1>, k: Scalar<i32>) {
    for b in bound.tiles([B]) {
        bound.store(b, kth_largest::<E>(maxima, maxima.len(0), k, T).splat([B]));
    }
}

/// Threads of a block that looks for elements above a bound, and how many fours of neighbours each of them has.
const LOOKING: i64 = 256;
const FOURS: usize = 4;

/// kept = the elements above the bound, in any order; found = how many. A thread that has some asks where they go; a warp that has none goes
/// on at once.
#[kernel(tile(T = 4096), threads(N = 256), min_blocks(Q = [4, 6, 2, 8]), cache(H = [Default, Loads]), types(E = [f32]))]
pub fn keep_above<E: SortKey<Number = u32>>(
    x: &Tensor<u32, 1>,
    bound: &Tensor<u32, 1>,
    found: &mut Tensor<i32, 1>,
    kept: &mut Tensor<u32, 1>,
) {
    for t in x.tiles([T]) {
        let near = iota::<i64>(4).expand(1, LOOKING) + (iota::<i64>(LOOKING) * 4).expand(0, 4);
        let first = t.number() * (FOURS as i64 * 4 * LOOKING);
        let v: [Tile<u32>; FOURS] = std::array::from_fn(|e| x.gather(near + (first + e as i64 * 4 * LOOKING)));
        // What is not there is less than any number.
        let key = v.map(|v| Order::of::<E>().numbers(v).or(0));
        let above = key.map(|key| key > bound.at(0));
        let ones = above.map(|above| select(above, 1, 0));
        let own = ones.into_iter().reduce(|a, b| a + b).expect("fours").sum_axis(0);
        if (own > 0).warp_any() {
            let mut slot = if own > 0 { found.fetch_add(full::<i32>([LOOKING], 0), own) } else { full::<i32>([LOOKING], 0) };
            for (e, j) in (0..FOURS).flat_map(|e| (0..4).map(move |j| (e, j))) {
                if above[e].pick(0, j) {
                    kept.scatter(slot, Order::of::<E>().elements(key[e].pick(0, j)));
                }
                slot += ones[e].pick(0, j);
            }
        }
    }
}

/// A number above which at least k of the first `count` keys lie, and how many lie there. All of them are above `bound`, so one digit tells them
/// apart that is as wide as they lie; few have the same one unless many are equal.
#[device]
fn fewer<E: SortKey<Number = u32>>(
    keys: &Tensor<u32, 1>,
    count: Scalar<i64>,
    bound: Scalar<u32>,
    k: Scalar<i32>,
    size: Size,
) -> (Scalar<u32>, Scalar<i32>) {
    let mut far = full::<u32>([size], 0);
    for c in keys.axis(0).tiles(size).within(0..count) {
        far = far.max(Order::of::<E>().numbers(keys.load(c)).or(0));
    }
    let bits = 32 - (far.max_all() - bound).leading_zeros().cast::<i32>();
    let shift = (bits - 11).max(0).cast::<u32>();
    let mut own = shared::<i32>([BINS], 0);
    for c in keys.axis(0).tiles(size).within(0..count) {
        own.atomic_add(((Order::of::<E>().numbers(keys.load(c)) - bound) >> shift).cast::<i32>(), 1);
    }
    let counts = own.load(..);
    let (digit, above) = digit_of(counts, k);
    let same = select(iota::<i32>(BINS) == digit.cast::<i32>(), counts, 0).sum();
    // Nothing lies below the bound itself.
    (bound + (digit << shift).max(1) - 1, above + same)
}

/// out = the largest of the `found` first keys, which are above the bound; where they are too few, the bound follows.
#[kernel(tile(B = 1, T = 1024), threads(N = 1024), copies(K = [4, 2, 1]), opt_level(L = [3, 1]), types(E = [f32]))]
pub fn sort_largest<E: SortKey<Number = u32>>(
    kept: &Tensor<u32, 1>,
    found: &Tensor<i32, 1>,
    bound: &Tensor<u32, 1>,
    out: &mut Tensor<u32, 1>,
) {
    for _b in bound.tiles([B]) {
        let k = out.len(0).cast::<i32>();
        let count: Scalar<i32> = found.at(0);
        let mut floor: Scalar<u32> = bound.at(0);
        // How many are sorted: those above the floor, and as many of it as are wanted.
        let mut many = count.max(k);
        if count > MOST {
            (floor, many) = fewer::<E>(kept, count.cast::<i64>(), bound.at(0), k, T);
            if many > MOST {
                floor = kth_largest::<E>(kept, count.cast::<i64>(), k, T);
                many = k;
            }
        }
        let mut top = shared_uninit::<u32>([MOST]);
        let mut slots = shared::<i32>([1], 0);
        top.fill(floor);
        for c in kept.axis(0).tiles(T).within(0..count) {
            let key = Order::of::<E>().numbers(kept.load(c));
            if key > floor {
                top.scatter(slots.fetch_add(key.like(0).cast::<i32>(), 1), key);
            }
        }
        let i = threads(MOST);
        let mut v = top.gather(i);
        for log in 1..=10i32 {
            // The first elements are sorted by now if there are no more.
            if many > (1i32 << log) / 2 {
                v = bitonic_stage(v, i, &mut top, log);
            }
        }
        out.scatter(i, Order::of::<E>().elements(v));
    }
}

/// counts = how many of the keys that have the digits known so far have each next one.
#[kernel(
    tile(T = [8192, 4096, 16384]),
    coarsen(C of T = [16, 8, 32]),
    vector(V = [4, 2, 1]),
    grid(G = [2, 4, 1]),
    copies(K = [2, 1, 4]),
    cache(H = [Default, Loads]),
    types(E = [f32])
)]
pub fn count_digits<E: SortKey<Number = u32>>(
    x: &Tensor<u32, 1>,
    known: &Tensor<u32, 1>,
    counts: &mut Tensor<i32, 1>,
    shift: Scalar<u32>,
    mask: Scalar<u32>,
) {
    let mut own = shared::<i32>([BINS], 0);
    for t in x.tiles([T]).strided() {
        let key = Order::of::<E>().numbers(x.load(t));
        if (key & mask) == known.at(0) {
            own.atomic_add(((key >> shift) & (BINS as u32 - 1)).cast::<i32>(), 1);
        }
    }
    counts.atomic_add(iota::<i32>(BINS), own.load(..));
}

/// Adds the next digit of the k-th largest key to those that are known, and to `larger` how many keys are larger for it.
#[kernel(tile(B = 1), threads(N = [1024, 512, 256]))]
pub fn know_digit(counts: &Tensor<i32, 1>, known: &mut Tensor<u32, 1>, larger: &mut Tensor<i32, 1>, k: Scalar<i32>, shift: Scalar<u32>) {
    for b in known.tiles([B]) {
        let before = larger.load(b);
        let (digit, above) = digit_of(counts.gather(iota::<i32>(BINS)), k - before.sum());
        known.store(b, known.load(b) | (digit << shift));
        larger.store(b, before + above);
    }
}

/// out = the bound behind the elements that were found.
#[kernel(tile(T = [1024, 512, 2048]), coarsen(C of T = [4, 2, 1]), types(E = [f32]))]
pub fn fill_rest<E: SortKey<Number = u32>>(found: &Tensor<i32, 1>, bound: &Tensor<u32, 1>, out: &mut Tensor<u32, 1>) {
    for t in out.tiles([T]) {
        let bound = Order::of::<E>().elements(bound.at(0).splat([T]));
        // What was not found is not there to be read.
        if t.coords() >= found.at(0).cast::<i64>() {
            out.scatter(t.coords(), bound);
        }
    }
}

/// largest = the keys that come first in descending order, as many as it has elements, in that order; there are at least as many keys.
///
/// The order is that of [`SortKey`]: of floats, NaNs without a sign are the largest, and those with one the smallest.
///
/// For up to 1024 of them everything is read once. Keys have at most 32 bits: others are sorted ([`sort`](super::sort())), and cut.
#[program]
pub fn top_k<E: SortKey<Number = u32>>(keys: &Tensor<E, 1>, largest: &mut Tensor<E, 1>) {
    require(keys.len(0) < LONGEST);
    if keys.len(0) > 0 && largest.len(0) > 0 {
        if E::AS_IT_LIES {
            largest_numbers::<E>(&keys.reinterpret(), &mut largest.reinterpret());
        } else {
            let (mut numbers, mut chosen) = (temp([keys.len(0)]), temp([largest.len(0)]));
            to_numbers::<E>(keys, &mut numbers);
            largest_numbers::<u32>(&numbers, &mut chosen);
            to_keys::<E>(&chosen, largest);
        }
    }
}

/// The same of keys that are as wide as their numbers; there is one at least.
#[program]
fn largest_numbers<E: SortKey<Number = u32>>(input: &Tensor<u32, 1>, output: &mut Tensor<u32, 1>) {
    let (n, k) = (input.len(0), output.len(0));
    let mut found = temp_filled([1], 0i32);
    if k <= MOST as i64 {
        let (mut maxima, mut bound, mut kept) = (temp([RUNS as i64]), temp([1]), temp([n]));
        run_maxima::<E>(input, &mut maxima);
        sample_bound::<E>(&maxima, &mut bound, k.cast::<i32>());
        keep_above::<E>(input, &bound, &mut found, &mut kept);
        sort_largest::<E>(&kept, &found, &bound, output);
    } else {
        let (mut known, mut larger) = (temp_filled([1], 0u32), temp_filled([1], 0i32));
        let mut counts = temp_filled((3, BINS as i64), 0i32);
        for d in 0..3 {
            let (shift, mask) = (scalar(SHIFTS[d]), scalar(MASKS[d]));
            count_digits::<E>(input, &known, &mut counts.slice(0, d as i64, 1).flat(), shift, mask);
            know_digit(&counts.slice(0, d as i64, 1).flat(), &mut known, &mut larger, k.cast::<i32>(), shift);
        }
        keep_above::<E>(input, &known, &mut found, output);
        fill_rest::<E>(&found, &known, output);
        let (sign, flip) = (scalar::<u32>(E::SIGN), scalar::<u32>(flips::<E, Descending>()));
        sort_numbers::<E>(&output.flat(), output, sign, flip);
    }
}

//! Least-significant-digit radix sort, eight bits a pass, each pass one trip through memory.
//!
//! A first launch counts the digits of all passes at once. In a pass a block takes the next tile by a ticket, ranks its keys, and looks back at
//! what the tiles before it have left of each digit (decoupled look-back), so that a key's place is known as soon as those are counted.
//! (Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, 2022.) Within a warp, keys of one digit find each
//! other by ballots; the tile is sorted by its digit in shared memory and leaves in runs of neighbours.

use super::keys::{Number, Order, SortKey};
use crate::prelude::*;

/// Digits of a pass.
const DIGITS: i32 = 256;
/// Threads of a block.
const THREADS: i32 = 512;
const WARPS: i32 = THREADS / 32;
/// Keys of a thread, of 32 bits and alone; and of wider ones, or with values.
const MANY: usize = 16;
const FEW: usize = 8;
/// Tiles that are looked back at in a turn.
const NEAR: usize = 4;

/// Adds to `counts` how many keys have each digit: the 256 of the lowest eight bits, those of the next eight, and so on.
#[kernel(
    tile(T = [8192, 4096, 16384]),
    coarsen(C of T = [16, 8, 32]),
    vector(V = [4, 2, 1]),
    grid(G = [2, 4, 1]),
    copies(K = [4, 1, 2, 8]),
    cache(H = [Default, Loads]),
    types(N = [u32, u64])
)]
pub fn digit_counts<N: Number>(keys: &Tensor<N, 1>, counts: &mut Tensor<i32, 1>, sign: Scalar<N>, flip: Scalar<N>) {
    let mut own = shared::<i32>([N::DIGITS as i32 * DIGITS], 0);
    for t in keys.tiles([T]).strided() {
        let key = Order { sign, flip }.numbers(keys.load(t));
        for pass in 0..N::DIGITS as i32 {
            own.atomic_add(((key >> (8 * pass as usize)) & 255).cast::<i32>() + pass * DIGITS, 1);
        }
    }
    counts.atomic_add(iota::<i32>(N::DIGITS as i32 * DIGITS), own.load(..));
}

/// What the tiles of a pass know and leave.
struct Pass<'a, N: Number> {
    /// How many keys of all have each digit, of all passes.
    counts: &'a Tensor<i32, 1>,
    /// The next tile of each pass.
    tickets: &'a mut Tensor<u32, 1>,
    /// A word for each tile and digit. Its lower half is a number of keys; its upper half says of what: `2 pass + 1` of the tile's own,
    /// `2 pass + 2` of all keys that go before the next tile's. Whatever is less was left by a pass before this one.
    states: &'a mut Tensor<u64, 1>,
    /// Which pass.
    number: Scalar<i32>,
    order: Order<N>,
}

/// The keys of a block's next tile go to their places, and a value with each; `each` of a thread.
#[device]
fn place_tile<N: Number, V: Number>(
    from: &Tensor<N, 1>,
    to: &mut Tensor<N, 1>,
    values: Option<(&Tensor<V, 1>, &mut Tensor<V, 1>)>,
    pass: Pass<N>,
    each: usize,
) {
    let Pass { counts, tickets, states, number, order } = pass;
    let tile = THREADS * each as i32;
    let n = from.len(0).cast::<i32>();
    let digit = |key: Tile<N>| ((key >> (number * 8).cast::<N>()) & 255).cast::<i32>();
    let me = tickets.fetch_add_at(number, 1).cast::<i32>();
    let (thread, lane, warp) = (threads(THREADS), lanes(THREADS), warps(THREADS));
    // What lies behind the last key goes behind all others.
    let mine = warp * (32 * each as i32) + lane + me * tile;
    let keys: Vec<Tile<N>> = (0..each).map(|e| order.numbers(from.gather(mine + e as i32 * 32)).or(N::MOST)).collect();

    // How many keys of the warp with the same digit come before each; `own` counts those of each warp so far.
    let words = tile * N::WORDS.max(if values.is_some() { V::WORDS } else { 1 }) as i32;
    let mut own = shared_uninit::<u32>([words.max(WARPS * DIGITS)]).by_hand();
    let counters = warp * DIGITS;
    for i in 0..DIGITS / 32 {
        own.scatter(counters + lane + i * 32, full::<u32>([THREADS], 0));
    }
    warp_barrier();
    let below = (full::<u32>([THREADS], 1) << lane.cast::<u32>()) - 1;
    let mut ranks = Vec::new();
    for e in 0..each {
        let d = digit(keys[e]);
        let same = d.match_any(8);
        let rank = own.gather(counters + d) + (same & below).count_ones();
        warp_barrier();
        if (same >> lane.cast::<u32>()) == 1 {
            own.scatter(counters + d, rank + 1);
        }
        warp_barrier();
        ranks.push(rank);
    }
    barrier();

    // A thread for each digit: where the tile's keys with it begin, warp by warp.
    let (bin, counts_one) = (thread & (DIGITS - 1), thread < DIGITS);
    let mut count = full::<u32>([THREADS], 0);
    for w in 0..WARPS {
        let of_warp = if counts_one { own.gather(bin + w * DIGITS) } else { full::<u32>([THREADS], 0) };
        if counts_one {
            own.scatter(bin + w * DIGITS, count);
        }
        count += of_warp;
    }
    let tag = (number.cast::<u64>() * 2 + 1) << 32;
    if counts_one && me > 0 {
        states.atomic_set(bin + me * DIGITS, count.cast::<u64>() | tag);
    }
    let start = count.scan_sum(along(0).exclusive());
    if counts_one {
        for w in 0..WARPS {
            let place = bin + w * DIGITS;
            own.scatter(place, own.gather(place) + start);
        }
    }
    barrier();
    for e in 0..each {
        ranks[e] += own.gather(counters + digit(keys[e]));
    }
    barrier();
    let slots: Vec<Tile<i32>> = ranks.iter().map(|rank| rank.cast::<i32>()).collect();
    for e in 0..each {
        bring(&mut own, slots[e], keys[e], tile);
    }

    // How many keys of all go before the tile's first with each digit.
    let mut before = full::<u32>([THREADS], 0);
    if me == 0 {
        let of_all = if counts_one { counts.gather(bin + number * DIGITS).cast::<u32>() } else { full::<u32>([THREADS], 0) };
        before = of_all.scan_sum(along(0).exclusive());
    } else {
        let mut last = full::<i32>([THREADS], me - 1);
        let mut open = counts_one;
        while open {
            let words: [Tile<u64>; NEAR] = std::array::from_fn(|k| states.fetch((last - k as i32).max(0) * DIGITS + bin));
            let mut goes_on = open;
            for word in words {
                let told = (word >> 32).cast::<i32>() - number * 2;
                let says = goes_on && told > 0;
                before += select(says, word.cast::<u32>(), 0);
                last -= select(says, 1, 0);
                open = open && !(goes_on && told == 2);
                goes_on = goes_on && told == 1;
            }
        }
    }
    let mut shift = shared_uninit::<u32>([DIGITS]).by_hand();
    if counts_one {
        states.atomic_set(bin + me * DIGITS, (before + count).cast::<u64>() | (tag + (1u64 << 32)));
        shift.scatter(bin, before - start);
    }
    barrier();
    let place = |k: Tile<i32>, key: Tile<N>| (shift.gather(digit(key)) + k.cast::<u32>()).cast::<i32>();
    let row = |e: usize| thread + e as i32 * THREADS;
    match values {
        None => {
            for e in 0..each {
                if row(e) + me * tile < n {
                    let key = taken::<N>(&own, row(e), tile);
                    to.scatter(place(row(e), key), order.elements(key));
                }
            }
        }
        Some((from_values, to_values)) => {
            let sent: Vec<Tile<N>> = (0..each).map(|e| taken::<N>(&own, row(e), tile)).collect();
            let places: Vec<Tile<i32>> = (0..each).map(|e| place(row(e), sent[e])).collect();
            for e in 0..each {
                if row(e) + me * tile < n {
                    to.scatter(places[e], order.elements(sent[e]));
                }
            }
            barrier();
            for e in 0..each {
                bring(&mut own, slots[e], from_values.gather(mine + e as i32 * 32).or(0), tile);
            }
            barrier();
            for e in 0..each {
                if row(e) + me * tile < n {
                    to_values.scatter(places[e], taken::<V>(&own, row(e), tile));
                }
            }
        }
    }
    barrier();
}

/// Numbers go to slots of a shared array, their words a tile apart.
fn bring<N: Number>(own: &mut Shared<u32>, slots: Tile<i32>, numbers: Tile<N>, tile: i32) {
    for (w, word) in N::words(numbers).into_iter().enumerate() {
        own.scatter(if w == 0 { slots } else { slots + w as i32 * tile }, word);
    }
}

/// The numbers of slots.
fn taken<N: Number>(own: &Shared<u32>, slots: Tile<i32>, tile: i32) -> Tile<N> {
    let words: Vec<Tile<u32>> = (0..N::WORDS).map(|w| own.gather(if w == 0 { slots } else { slots + w as i32 * tile })).collect();
    N::of_words(&words)
}

/// to = from, sorted by the digit of a pass; keys of one digit keep their order.
#[kernel(tile(T = 8192), coarsen(C of T = 16), min_blocks(Q = [2, 1]), cache(H = [Default, Loads, Streaming]), types(N = [u32]))]
pub fn radix_pass<N: Number>(
    from: &Tensor<N, 1>,
    to: &mut Tensor<N, 1>,
    counts: &Tensor<i32, 1>,
    tickets: &mut Tensor<u32, 1>,
    states: &mut Tensor<u64, 1>,
    pass: Scalar<i32>,
    sign: Scalar<N>,
    flip: Scalar<N>,
) {
    let from = from.slice(0, 0, to.len(0));
    for _t in to.tiles([T]) {
        let pass = Pass { counts, tickets: &mut *tickets, states: &mut *states, number: pass, order: Order { sign, flip } };
        place_tile::<N, u32>(&from, to, None, pass, MANY);
    }
}

/// The same of wider keys.
#[kernel(tile(T = 4096), coarsen(C of T = 8), min_blocks(Q = [2, 1]), cache(H = [Default, Loads, Streaming]), types(N = [u64]))]
pub fn radix_pass_wide<N: Number>(
    from: &Tensor<N, 1>,
    to: &mut Tensor<N, 1>,
    counts: &Tensor<i32, 1>,
    tickets: &mut Tensor<u32, 1>,
    states: &mut Tensor<u64, 1>,
    pass: Scalar<i32>,
    sign: Scalar<N>,
    flip: Scalar<N>,
) {
    let from = from.slice(0, 0, to.len(0));
    for _t in to.tiles([T]) {
        let pass = Pass { counts, tickets: &mut *tickets, states: &mut *states, number: pass, order: Order { sign, flip } };
        place_tile::<N, u32>(&from, to, None, pass, FEW);
    }
}

/// The same with a value of each key, which goes where its key goes.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = 8),
    min_blocks(Q = [2, 1]),
    cache(H = [Default, Loads, Streaming]),
    types(N = [u32, u64], P = [u32, u64])
)]
pub fn radix_pass_pairs<N: Number, P: Number>(
    from: &Tensor<N, 1>,
    from_values: &Tensor<P, 1>,
    to: &mut Tensor<N, 1>,
    to_values: &mut Tensor<P, 1>,
    counts: &Tensor<i32, 1>,
    tickets: &mut Tensor<u32, 1>,
    states: &mut Tensor<u64, 1>,
    pass: Scalar<i32>,
    sign: Scalar<N>,
    flip: Scalar<N>,
) {
    let from = from.slice(0, 0, to.len(0));
    let from_values = from_values.slice(0, 0, to.len(0));
    for _t in to.tiles([T]) {
        let pass = Pass { counts, tickets: &mut *tickets, states: &mut *states, number: pass, order: Order { sign, flip } };
        place_tile::<N, P>(&from, to, Some((&from_values, to_values)), pass, FEW);
    }
}

/// The numbers of keys that are narrower than these.
#[kernel(tile(T = [1024, 2048, 512]), coarsen(C of T = [4, 8, 1]), vector(V = [4, 1]), types(K = [i8, u8, f16, bf16]))]
pub fn to_numbers<K: SortKey>(keys: &Tensor<K, 1>, numbers: &mut Tensor<K::Number, 1>) {
    for t in numbers.tiles([T]) {
        numbers.store(t, K::numbers(keys.load(t)));
    }
}

/// The keys of such numbers.
#[kernel(tile(T = [1024, 2048, 512]), coarsen(C of T = [4, 8, 1]), vector(V = [4, 1]), types(K = [i8, u8, f16, bf16]))]
pub fn to_keys<K: SortKey>(numbers: &Tensor<K::Number, 1>, keys: &mut Tensor<K, 1>) {
    for t in keys.tiles([T]) {
        keys.store(t, K::keys(numbers.load(t)));
    }
}

/// Elements of a block's tile, for memory that tiles share.
fn tile_of(each: usize) -> i64 {
    THREADS as i64 * each as i64
}

/// One pass of keys alone.
#[program]
fn pass_of_keys<N: Number>(
    from: &Tensor<N, 1>,
    to: &mut Tensor<N, 1>,
    counts: &Tensor<i32, 1>,
    tickets: &mut Tensor<u32, 1>,
    states: &mut Tensor<u64, 1>,
    pass: Scalar<i32>,
    sign: Scalar<N>,
    flip: Scalar<N>,
) {
    if N::WORDS == 1 {
        radix_pass(from, to, counts, tickets, states, pass, sign, flip);
    } else {
        radix_pass_wide(from, to, counts, tickets, states, pass, sign, flip);
    }
}

/// to = from in the order that `sign` and `flip` tell; there is at least one element. `K` says which bits differ.
#[program]
pub(super) fn sort_numbers<K: SortKey>(
    from: &Tensor<K::Number, 1>,
    to: &mut Tensor<K::Number, 1>,
    sign: Scalar<K::Number>,
    flip: Scalar<K::Number>,
) {
    let n = from.len(0);
    let tile = tile_of(if K::Number::WORDS == 1 { MANY } else { FEW });
    let passes = K::BITS.div_ceil(8);
    let mut other = temp([n]);
    let mut counts = temp_filled([K::Number::DIGITS as i64 * DIGITS as i64], 0i32);
    let mut tickets = temp_filled([passes as i64], 0u32);
    let mut states = temp_filled([(n + (tile - 1)) / tile * 256], 0u64);
    digit_counts(from, &mut counts, sign, flip);
    for pass in 0..passes {
        let number = scalar(pass as i32);
        // The last one goes to `to`.
        match (pass == 0, (passes - pass) % 2 == 1) {
            (true, true) => {
                pass_of_keys(from, to, &counts, &mut tickets, &mut states, number, sign, flip);
            }
            (true, false) => {
                pass_of_keys(from, &mut other, &counts, &mut tickets, &mut states, number, sign, flip);
            }
            (false, true) => {
                pass_of_keys(&other, to, &counts, &mut tickets, &mut states, number, sign, flip);
            }
            (false, false) => {
                pass_of_keys(to, &mut other, &counts, &mut tickets, &mut states, number, sign, flip);
            }
        }
    }
}

/// The same with a value of each key.
#[program]
pub(super) fn sort_numbers_and_values<K: SortKey, P: Number>(
    from: &Tensor<K::Number, 1>,
    from_values: &Tensor<P, 1>,
    to: &mut Tensor<K::Number, 1>,
    to_values: &mut Tensor<P, 1>,
    sign: Scalar<K::Number>,
    flip: Scalar<K::Number>,
) {
    let n = from.len(0);
    let tile = tile_of(FEW);
    let passes = K::BITS.div_ceil(8);
    let (mut other, mut other_values) = (temp([n]), temp([n]));
    let mut counts = temp_filled([K::Number::DIGITS as i64 * DIGITS as i64], 0i32);
    let mut tickets = temp_filled([passes as i64], 0u32);
    let mut states = temp_filled([(n + (tile - 1)) / tile * 256], 0u64);
    digit_counts(from, &mut counts, sign, flip);
    for pass in 0..passes {
        let of = scalar(pass as i32);
        match (pass == 0, (passes - pass) % 2 == 1) {
            (true, true) => {
                radix_pass_pairs(from, from_values, to, to_values, &counts, &mut tickets, &mut states, of, sign, flip);
            }
            (true, false) => {
                radix_pass_pairs(from, from_values, &mut other, &mut other_values, &counts, &mut tickets, &mut states, of, sign, flip);
            }
            (false, true) => {
                radix_pass_pairs(&other, &other_values, to, to_values, &counts, &mut tickets, &mut states, of, sign, flip);
            }
            (false, false) => {
                radix_pass_pairs(to, to_values, &mut other, &mut other_values, &counts, &mut tickets, &mut states, of, sign, flip);
            }
        }
    }
}

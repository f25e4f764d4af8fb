//! Least-significant-digit radix sort of 32-bit keys, eight bits a pass, each pass one trip through memory.
//!
//! A first launch counts the digits of all passes at once. In a pass a block takes the next tile by a ticket, ranks its keys, and looks back at
//! what the tiles before it have left of each digit (decoupled look-back), so that a key's place is known as soon as those are counted.
//! (Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs, 2022.) Within a warp, keys of one digit find each
//! other by eight ballots; the tile is sorted by its digit in shared memory and leaves in runs of neighbours.

use girih::prelude::*;

/// Digits of a pass.
const DIGITS: i32 = 256;
/// Threads of a block.
const THREADS: i32 = 512;
const WARPS: i32 = THREADS / 32;
/// Keys of a thread.
const E: usize = 16;
/// Keys of a block.
pub const TILE: i32 = THREADS * E as i32;
/// Tiles that are looked back at in a turn.
const NEAR: usize = 4;

/// An order of 32-bit elements: that of unsigned numbers, once `bits ^ (negative ? sign : 0) ^ flip` has made them such.
///
/// `sign` is 0 or `0x7fff_ffff`, so that the way back is the same with both in the other order.
#[derive(Clone, Copy)]
pub struct Order {
    /// What is flipped of those whose highest bit is set.
    pub sign: Scalar<u32>,
    /// What is flipped of all.
    pub flip: Scalar<u32>,
}

#[device]
impl Order {
    /// The unsigned numbers of some elements.
    pub fn numbers(self, bits: Tile<u32>) -> Tile<u32> {
        self.flipped(bits) ^ self.flip
    }

    /// The elements of some unsigned numbers.
    pub fn elements(self, numbers: Tile<u32>) -> Tile<u32> {
        self.flipped(numbers ^ self.flip)
    }

    fn flipped(self, bits: Tile<u32>) -> Tile<u32> {
        bits ^ ((bits.cast::<i32>() >> 31).cast::<u32>() & self.sign)
    }
}

/// Adds to `counts` how many keys have each digit: the 256 of the lowest eight bits, those of the next eight, and so on.
#[kernel(
    tile(T = [8192, 4096, 16384]),
    coarsen(C of T = [16, 8, 32]),
    vector(V = [4, 2, 1]),
    grid(G = [2, 4, 1]),
    copies(K = [4, 1, 2, 8]),
    cache(H = [Default, Loads])
)]
pub fn digit_counts(keys: &Tensor<u32, 1>, counts: &mut Tensor<i32, 1>, sign: Scalar<u32>, flip: Scalar<u32>) {
    let mut own = shared::<i32>([4 * DIGITS], 0);
    for t in keys.tiles([T]).strided() {
        let key = Order { sign, flip }.numbers(keys.load(t));
        for pass in 0..4 {
            own.atomic_add(((key >> (8 * pass as u32)) & 255).cast::<i32>() + pass * DIGITS, 1);
        }
    }
    counts.atomic_add(iota::<i32>(4 * DIGITS), own.load(..));
}

/// to = from, sorted by the digit of a pass; keys of one digit keep their order.
///
/// A word of `states` belongs to a tile and a digit. Its lower half is a number of keys; its upper half says of what: `2 pass + 1` of the
/// tile's own, `2 pass + 2` of all keys that go before the next tile's. Whatever is less was left by a pass before this one.
#[kernel(tile(T = 8192), coarsen(C of T = 16), min_blocks(Q = [2, 1]), cache(H = [Default, Loads, Streaming]))]
pub fn radix_pass(
    from: &Tensor<u32, 1>,
    to: &mut Tensor<u32, 1>,
    counts: &Tensor<i32, 1>,
    tickets: &mut Tensor<u32, 1>,
    states: &mut Tensor<u64, 1>,
    pass: Scalar<i32>,
    sign: Scalar<u32>,
    flip: Scalar<u32>,
) {
    let order = Order { sign, flip };
    let from = &from.slice(0, 0, to.len(0));
    let n = from.len(0).cast::<i32>();
    let digit = |key: Tile<u32>| ((key >> (pass * 8).cast::<u32>()) & 255).cast::<i32>();
    for _t in to.tiles([T]) {
        let me = tickets.fetch_add_at(pass, 1).cast::<i32>();
        let (thread, lane, warp) = (threads(THREADS), lanes(THREADS), warps(THREADS));
        // What lies behind the last key goes behind all others.
        let mine = warp * (32 * E as i32) + lane + me * TILE;
        let keys: [Tile<u32>; E] = std::array::from_fn(|e| order.numbers(from.gather(mine + e as i32 * 32)).or(u32::MAX));

        // How many keys of the warp with the same digit come before each; `own` counts those of each warp so far.
        let mut own = shared_uninit::<u32>([TILE]).by_hand();
        let counters = warp * DIGITS;
        for i in 0..DIGITS / 32 {
            own.scatter(counters + lane + i * 32, full::<u32>([THREADS], 0));
        }
        warp_barrier();
        let below = (full::<u32>([THREADS], 1) << lane.cast::<u32>()) - 1;
        let mut ranks = Vec::new();
        for e in 0..E {
            let d = digit(keys[e]);
            let mut same = full::<u32>([THREADS], u32::MAX);
            for bit in 0..8 {
                let set = (d & (1 << bit)) != 0;
                let with = set.ballot();
                same = same & select(set, with, !with);
            }
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
        let tag = (pass.cast::<u64>() * 2 + 1) << 32;
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
        for e in 0..E {
            ranks[e] += own.gather(counters + digit(keys[e]));
        }
        barrier();
        for e in 0..E {
            own.scatter(ranks[e].cast::<i32>(), keys[e]);
        }

        // How many keys of all go before the tile's first with each digit.
        let mut before = full::<u32>([THREADS], 0);
        if me == 0 {
            let of_all = if counts_one { counts.gather(bin + pass * DIGITS).cast::<u32>() } else { full::<u32>([THREADS], 0) };
            before = of_all.scan_sum(along(0).exclusive());
        } else {
            let mut last = full::<i32>([THREADS], me - 1);
            let mut open = counts_one;
            while open {
                let words: [Tile<u64>; NEAR] = std::array::from_fn(|k| states.fetch((last - k as i32).max(0) * DIGITS + bin));
                let mut goes_on = open;
                for word in words {
                    let told = (word >> 32).cast::<i32>() - pass * 2;
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
        for e in 0..E {
            let k = thread + e as i32 * THREADS;
            if k + me * TILE < n {
                let key = own.gather(k);
                to.scatter((shift.gather(digit(key)) + k.cast::<u32>()).cast::<i32>(), order.elements(key));
            }
        }
        barrier();
    }
}

/// data = its own elements in an order; the passes go there and back twice.
#[program]
pub fn sort_in_place(data: &mut Tensor<u32, 1>, sign: Scalar<u32>, flip: Scalar<u32>) {
    let n = data.len(0);
    if n > 1 {
        let mut other = temp([n]);
        let mut counts = temp_filled([4 * 256], 0i32);
        let mut tickets = temp_filled([4], 0u32);
        let mut states = temp_filled([(n + (TILE as i64 - 1)) / TILE as i64 * 256], 0u64);
        digit_counts(data, &mut counts, sign, flip);
        radix_pass(data, &mut other, &counts, &mut tickets, &mut states, scalar(0), sign, flip);
        radix_pass(&other, data, &counts, &mut tickets, &mut states, scalar(1), sign, flip);
        radix_pass(data, &mut other, &counts, &mut tickets, &mut states, scalar(2), sign, flip);
        radix_pass(&other, data, &counts, &mut tickets, &mut states, scalar(3), sign, flip);
    }
}

//! Decoupled look-back: what all tiles before a block's own come to, in one pass over the data (Merrill and Garland, Single-pass Parallel Prefix
//! Scan with Decoupled Look-back, 2016).

use crate::prelude::*;

/// The upper two bits of a tile's word: 0 nothing yet, 1 its own part, 2 what all tiles up to it come to. The value is in the lower 32.
const OWN: u64 = 1 << 62;
const ALL: u64 = 2 << 62;

/// What all tiles before a block's `tile` come to, joined in their order; `identity` for the first one.
///
/// `own` is what the block's tile comes to, of 32 bits; `join` is associative and gets what lies in front as its left operand. `states` has a word
/// for each tile, which is 0 before the launch. Blocks begin in the order of their tiles (`.in_order()`), and each calls this once.
///
/// A block leaves its own part for those behind it, and looks at the words of 32 tiles at once, until one has what all tiles up to it come to.
/// Value and flag are one word, so nothing else has to be in order: other memory that a block writes is not passed on.
///
/// ```no_run
/// use girih::prelude::*;
///
/// #[kernel(tile(T = 2048), coarsen(C of T = [4, 8]), vector(V = [4, 1]))]
/// fn scan(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, states: &mut Tensor<u64, 1>) {
///     for t in y.tiles([T]).in_order() {
///         let sums = x.load(t).scan_sum(0);
///         let before = girih::algorithms::look_back(states, t.number(), sums.total(), 0.0, |a, b| a + b);
///         y.store(t, sums + before);
///     }
/// }
/// # fn main() {}
/// ```
#[device]
pub fn look_back<T>(
    states: &mut Tensor<u64, 1>,
    tile: Scalar<i64>,
    own: Scalar<T>,
    identity: T,
    join: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
) -> Scalar<T>
where
    T: Elem + ScalarOperand<T>,
{
    look_back_to(states, tile, (own, tile < 0), identity, join)
}

/// The same where a tile may be one behind which nothing in front of it matters, as the tile of a flag is for sums that begin anew at flags: `own.1`
/// says so of the block's tile. `before` of it is what [`look_back`] gives, up to the nearest such tile in front.
#[device]
pub fn look_back_to<T>(
    states: &mut Tensor<u64, 1>,
    tile: Scalar<i64>,
    own: (Scalar<T>, Scalar<bool>),
    identity: T,
    join: impl Fn(Scalar<T>, Scalar<T>) -> Scalar<T>,
) -> Scalar<T>
where
    T: Elem + ScalarOperand<T>,
{
    let (own, begins) = own;
    let lane = iota::<i32>(32);
    let known = begins || tile == 0;
    states.atomic_set(tile, word(own) | select(known, scalar(ALL), scalar(OWN)));
    let none = scalar::<T>(identity);
    let mut before = none;
    let mut end = tile.cast::<i32>();
    while end > 0 {
        let near = end - 1 - lane;
        let words = select(near < 0, ALL, states.fetch(near.max(0)).or(0));
        let state = (words >> 62).cast::<i32>();
        // The nearest tile that has more or less to say than its own part; odd where it has nothing yet.
        let first = select(state == 1, 64, lane * 2 + select(state == 0, 1, 0)).min_all();
        if (first & 1) == 0 {
            let told = lane * 2 <= first && near >= 0;
            let mut parts = select(told, words.cast::<u32>().bitcast::<T>(), none);
            // Lanes have the nearest tile first, which is the last one in the tiles' order. Lane 0 gets all of them.
            for distance in [1, 2, 4, 8, 16] {
                parts = parts.shuffle_down(distance).zip(parts, &join);
            }
            let found = select(lane == 0, parts.bitcast::<u32>(), 0).max_all();
            before = join(found.bitcast::<T>(), before);
            end = select(first < 64, 0, end - 32);
        }
    }
    // Whoever looked back stores this, without a word to the block.
    states.atomic_set(tile, word(select(known, own, join(before, own))) | ALL);
    before
}

fn word<T: Elem>(value: Scalar<T>) -> Scalar<u64> {
    value.bitcast::<u32>().cast::<u64>()
}

/// What all tiles come to, by the words that [`look_back`] has left in an earlier launch; there is at least one.
#[device]
pub fn last_total<T: Elem>(states: &Tensor<u64, 1>) -> Scalar<T> {
    states.at(states.len(0) - 1).cast::<u32>().bitcast::<T>()
}

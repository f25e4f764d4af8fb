//! Scans and sums of runs over whole vectors, in one pass: blocks look back at what the tiles before theirs have left.

use super::keys::Word;
use super::look_back::{look_back, look_back_to};
use crate::prelude::*;

/// An associative operator on elements.
pub trait Operator<T: Elem>: 'static {
    /// What changes nothing.
    fn identity() -> T;
    /// Two elements as one; `a` stands in front of `b`.
    fn join(a: Scalar<T>, b: Scalar<T>) -> Scalar<T>;
}

/// a + b.
pub struct Sum;
/// a · b.
pub struct Product;
/// The smaller one; NaN goes through.
pub struct Least;
/// The larger one; NaN goes through.
pub struct Greatest;

macro_rules! operators {
    ($($name:ident, $ty:ty, $identity:expr, |$a:ident, $b:ident| $join:expr;)*) => {$(
        impl Operator<$ty> for $name {
            fn identity() -> $ty {
                $identity
            }
            fn join($a: Scalar<$ty>, $b: Scalar<$ty>) -> Scalar<$ty> {
                $join
            }
        }
    )*};
}

operators! {
    Sum, f32, 0.0, |a, b| a + b;
    Sum, i32, 0, |a, b| a + b;
    Sum, u32, 0, |a, b| a + b;
    Product, f32, 1.0, |a, b| a * b;
    Product, i32, 1, |a, b| a * b;
    Product, u32, 1, |a, b| a * b;
    Least, f32, f32::INFINITY, |a, b| a.min(b);
    Least, i32, i32::MAX, |a, b| a.min(b);
    Least, u32, u32::MAX, |a, b| a.min(b);
    Greatest, f32, f32::NEG_INFINITY, |a, b| a.max(b);
    Greatest, i32, i32::MIN, |a, b| a.max(b);
    Greatest, u32, 0, |a, b| a.max(b);
}

/// Elements whose tiles are short, so that all multiprocessors have some.
const SHORT: i64 = 1 << 21;

/// Whether the element itself belongs to what is joined up to it: [`Inclusive`] or [`Exclusive`].
pub trait Ends: 'static {
    /// It does not.
    const EXCLUSIVE: bool;
}

/// With the element itself.
pub struct Inclusive;
/// Without it: the first result is the identity.
pub struct Exclusive;

impl Ends for Inclusive {
    const EXCLUSIVE: bool = false;
}
impl Ends for Exclusive {
    const EXCLUSIVE: bool = true;
}

/// A tile's part of what [`scan`] gives; what lies in front of it is looked back for.
#[device]
fn scan_tile<E, O, B>(v: Tile<E>, states: &mut Tensor<u64, 1>, tile: Scalar<i64>, size: Size) -> Tile<E>
where
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
    B: Ends,
{
    let axis = if B::EXCLUSIVE { along(0).exclusive() } else { along(0) };
    let joined = v.scan(axis, O::identity(), O::join);
    let before = look_back(states, tile, joined.total(), O::identity(), O::join);
    before.splat([size]).zip(joined, O::join)
}

/// y = what the elements of x up to each come to, by short tiles.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = [16, 8, 4]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [1, 2, 4]),
    cache(H = [Default, Stores, Streaming, Loads]),
    types(E = [f32, i32], O = [Sum], B = [Inclusive])
)]
pub fn scan_in_order<E, O, B>(x: &Tensor<E, 1>, y: &mut Tensor<E, 1>, states: &mut Tensor<u64, 1>)
where
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
    B: Ends,
{
    for t in y.tiles([T]).in_order() {
        y.store(t, scan_tile::<E, O, B>(x.load(t), states, t.number(), T));
    }
}

/// The same by tiles that are twice as long. In the time that a tile's word takes to be seen by others, some 0.3 us, as many tiles are done as a
/// warp looks back at, 32: shorter ones than these would wait for each other, and not for the memory.
#[kernel(
    tile(T = 8192),
    coarsen(C of T = [32, 16, 8]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [2, 1, 3, 4]),
    cache(H = [Default, Stores, Streaming, Loads, Once]),
    types(E = [f32, i32], O = [Sum], B = [Inclusive])
)]
pub fn scan_long_in_order<E, O, B>(x: &Tensor<E, 1>, y: &mut Tensor<E, 1>, states: &mut Tensor<u64, 1>)
where
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
    B: Ends,
{
    for t in y.tiles([T]).in_order() {
        y.store(t, scan_tile::<E, O, B>(x.load(t), states, t.number(), T));
    }
}

/// y = what the elements of x up to each come to, by an operator of elements of 32 bits: `scan::<f32, Sum, Inclusive>(x, y)`. x and y have the same length.
///
/// Everything is read once and written once.
#[program]
pub fn scan<E, O, B>(x: &Tensor<E, 1>, y: &mut Tensor<E, 1>)
where
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
    B: Ends,
{
    if x.len(0) > SHORT {
        let mut states = temp_filled([(x.len(0) + 8191) / 8192], 0u64);
        scan_long_in_order::<E, O, B>(x, y, &mut states);
    } else if x.len(0) > 0 {
        let mut states = temp_filled([(x.len(0) + 4095) / 4096], 0u64);
        scan_in_order::<E, O, B>(x, y, &mut states);
    }
}

/// Keys of runs of equal neighbours, what the values of each run come to, and how many runs there are.
#[kernel(
    tile(T = 4096),
    coarsen(C of T = [16, 8, 4]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [1, 2, 4]),
    cache(H = [Default, Loads]),
    types(K = [i32], E = [f32, i32], O = [Sum])
)]
pub fn reduce_runs<K, E, O>(
    keys: &Tensor<K, 1>,
    values: &Tensor<E, 1>,
    run_keys: &mut Tensor<K, 1>,
    run_values: &mut Tensor<E, 1>,
    counts: &mut Tensor<u64, 1>,
    states: &mut Tensor<u64, 1>,
    count: &mut Tensor<i32, 1>,
) where
    K: Num,
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
{
    let values = values.slice(0, 0, keys.len(0));
    let last = (keys.len(0) - 1).cast::<i32>();
    for t in keys.tiles([T]).in_order() {
        let near = keys.window(t, [(1, 1)], Boundary::Clamp);
        let (key, at) = (near.at(0), t.coords().cast::<i32>());
        let begins = at == 0 || key != near.at(-1);
        let ends = at == last || key != near.at(1);
        // Where a run begins, what lies in front is forgotten.
        let since = |a: (Scalar<i32>, Scalar<E>), b: (Scalar<i32>, Scalar<E>)| (a.0 + b.0, select(b.0 != 0, b.1, O::join(a.1, b.1)));
        let (run, value) = (begins.cast::<i32>(), values.load(t)).scan(0, (0, O::identity()), since);
        let runs = look_back(counts, t.number(), run.total(), 0, |a, b| a + b);
        let before = look_back_to(states, t.number(), (value.total(), run.total() != 0), O::identity(), O::join);
        let whole = select(run == 0, before.splat([T]).zip(value, O::join), value);
        if ends {
            run_keys.scatter(run + (runs - 1), key);
            run_values.scatter(run + (runs - 1), whole);
        }
        if t.end() >= keys.len(0) {
            count.scatter(0, runs + run.total());
        }
    }
}

/// Of every run of equal neighbours among the keys, run_keys = the key and run_values = what its values come to, in their order; count = how many
/// runs there are. What lies behind them stays as it was.
///
/// With keys that are sorted ([`sort_pairs`](super::sort_pairs())), a run is all there is of a key. There are as many values as keys, fewer
/// than 2³¹; `run_keys` and `run_values` have room for all runs, `count` has one element.
#[program]
pub fn reduce_by_key<K, E, O>(
    keys: &Tensor<K, 1>,
    values: &Tensor<E, 1>,
    run_keys: &mut Tensor<K, 1>,
    run_values: &mut Tensor<E, 1>,
    count: &mut Tensor<i32, 1>,
) where
    K: Num,
    E: Word<Bits = u32> + ScalarOperand<E>,
    O: Operator<E>,
{
    if keys.len(0) > 0 {
        let tiles = (keys.len(0) + 4095) / 4096;
        let (mut counts, mut states) = (temp_filled([tiles], 0u64), temp_filled([tiles], 0u64));
        reduce_runs::<K, E, O>(keys, values, run_keys, run_values, &mut counts, &mut states, count);
    } else {
        count.fill(0);
    }
}

//! Scans and sums of runs over whole vectors, in one pass.

use super::LONGEST;
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
    Sum, i64, 0, |a, b| a + b;
    Sum, u64, 0, |a, b| a + b;
    Product, f32, 1.0, |a, b| a * b;
    Product, i32, 1, |a, b| a * b;
    Product, u32, 1, |a, b| a * b;
    Product, i64, 1, |a, b| a * b;
    Product, u64, 1, |a, b| a * b;
    Least, f32, f32::INFINITY, |a, b| a.min(b);
    Least, i32, i32::MAX, |a, b| a.min(b);
    Least, u32, u32::MAX, |a, b| a.min(b);
    Least, i64, i64::MAX, |a, b| a.min(b);
    Least, u64, u64::MAX, |a, b| a.min(b);
    Greatest, f32, f32::NEG_INFINITY, |a, b| a.max(b);
    Greatest, i32, i32::MIN, |a, b| a.max(b);
    Greatest, u32, 0, |a, b| a.max(b);
    Greatest, i64, i64::MIN, |a, b| a.max(b);
    Greatest, u64, 0, |a, b| a.max(b);
}

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

/// y = what the elements of x up to each come to. In the time that a tile's word takes to be seen by others, some 0.3 us, as many tiles are done as
/// a warp looks back at, 32: of what is long, short tiles would wait for each other, and not for the memory.
#[kernel(
    tile(T = [4096, 8192, 2048]),
    coarsen(C of T = [32, 16, 8, 4]),
    vector(V = [4, 2, 1]),
    min_blocks(Q = [2, 1, 3, 4]),
    cache(H = [Default, Stores, Streaming, Loads, Once]),
    types(E = [f32, i32], O = [Sum], B = [Inclusive])
)]
pub fn scan_in_order<E, O, B>(x: &Tensor<E, 1>, y: &mut Tensor<E, 1>)
where
    E: Elem,
    O: Operator<E>,
    B: Ends,
{
    let axis = if B::EXCLUSIVE { along(0).exclusive() } else { along(0) };
    for t in y.tiles([T]).in_order() {
        y.store(t, x.load(t).scan(axis.over_grid(), O::identity(), O::join));
    }
}

/// y = what the elements of x up to each come to: `scan::<f32, Sum, Inclusive>(x, y)`. x and y have the same length.
///
/// Everything is read once and written once.
#[program]
pub fn scan<E, O, B>(x: &Tensor<E, 1>, y: &mut Tensor<E, 1>)
where
    E: Elem,
    O: Operator<E>,
    B: Ends,
{
    scan_in_order::<E, O, B>(x, y);
}

/// Keys of runs of equal neighbours, what the values of each run come to, and how many runs there are.
#[kernel(
    tile(T = [4096, 2048]),
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
    count: &mut Tensor<i32, 1>,
) where
    K: Num,
    E: Elem + ScalarOperand<E>,
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
        let (run, value) = (begins.cast::<i32>(), values.load(t)).scan(along(0).over_grid(), (0, O::identity()), since);
        if ends {
            run_keys.scatter(run - 1, key);
            run_values.scatter(run - 1, value);
        }
        if t.end() >= keys.len(0) {
            count.scatter(0, run.total());
        }
    }
}

/// Of every run of equal neighbours among the keys, run_keys = the key and run_values = what its values come to, in their order; count = how many
/// runs there are. What lies behind them stays as it was.
///
/// With keys that are sorted ([`sort_pairs`](super::sort_pairs())), a run is all there is of a key. There are as many values as keys, fewer
/// than 2³¹; `run_keys` and `run_values` have room for all runs, `count` has one element.
///
/// Keys are compared by `==`. So a NaN is a run by itself, next to other NaNs as well; zeros of both signs are equal, and the key of a run is its
/// last one.
#[program]
pub fn reduce_by_key<K, E, O>(
    keys: &Tensor<K, 1>,
    values: &Tensor<E, 1>,
    run_keys: &mut Tensor<K, 1>,
    run_values: &mut Tensor<E, 1>,
    count: &mut Tensor<i32, 1>,
) where
    K: Num,
    E: Elem + ScalarOperand<E>,
    O: Operator<E>,
{
    require(keys.len(0) < LONGEST);
    if keys.len(0) > 0 {
        reduce_runs::<K, E, O>(keys, values, run_keys, run_values, count);
    } else {
        count.fill(0);
    }
}

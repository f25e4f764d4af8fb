//! Keys: types with an order, as unsigned numbers whose order is the same.

use crate::prelude::*;
use girih_core::types::Literal;

/// Unsigned numbers that stand for keys: `u32` and `u64`.
pub trait Number: Int + ScalarOperand<Self> {
    /// Digits of eight bits.
    const DIGITS: usize;
    /// Words of 32 bits.
    const WORDS: usize;
    /// All bits are ones.
    const MOST: Self;
    /// The number whose lowest bits are ones, so many of them.
    fn ones(bits: usize) -> Self;
    /// -1 in `sign`'s bits where the highest bit is set, else 0.
    fn negative(bits: Tile<Self>) -> Tile<Self>;
    /// The words of 32 bits, the lowest first.
    fn words(self_: Tile<Self>) -> Vec<Tile<u32>>;
    /// The numbers of words.
    fn of_words(words: &[Tile<u32>]) -> Tile<Self>;
}

impl Number for u32 {
    const DIGITS: usize = 4;
    const WORDS: usize = 1;
    const MOST: u32 = u32::MAX;
    fn ones(bits: usize) -> u32 {
        u32::MAX >> (32 - bits)
    }
    fn negative(bits: Tile<u32>) -> Tile<u32> {
        (bits.cast::<i32>() >> 31).cast::<u32>()
    }
    fn words(self_: Tile<u32>) -> Vec<Tile<u32>> {
        vec![self_]
    }
    fn of_words(words: &[Tile<u32>]) -> Tile<u32> {
        words[0]
    }
}

impl Number for u64 {
    const DIGITS: usize = 8;
    const WORDS: usize = 2;
    const MOST: u64 = u64::MAX;
    fn ones(bits: usize) -> u64 {
        u64::MAX >> (64 - bits)
    }
    fn negative(bits: Tile<u64>) -> Tile<u64> {
        (bits.cast::<i64>() >> 63).cast::<u64>()
    }
    fn words(self_: Tile<u64>) -> Vec<Tile<u32>> {
        vec![self_.cast::<u32>(), (self_ >> 32).cast::<u32>()]
    }
    fn of_words(words: &[Tile<u32>]) -> Tile<u64> {
        words[0].cast::<u64>() | (words[1].cast::<u64>() << 32)
    }
}

/// What has 32 or 64 bits: values that go with keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot go with keys",
    note = "values have 32 or 64 bits: sort the numbers 0, 1, .. with the keys, and gather other values by them"
)]
pub trait Word: Elem {
    /// The bits.
    type Bits: Number;
}

macro_rules! values {
    ($($value:ty, $bits:ty;)*) => {$(
        impl Word for $value {
            type Bits = $bits;
        }
    )*};
}

values! {
    u32, u32;
    i32, u32;
    f32, u32;
    u64, u64;
    i64, u64;
}

/// An order of elements as bits: that of unsigned numbers, once `bits ^ (highest bit ? sign : 0) ^ flip` has made them such.
///
/// `sign` leaves the highest bit alone, so that the way back is the same with both in the other order.
#[derive(Clone, Copy)]
pub struct Order<N: Number> {
    /// What is flipped of those whose highest bit is set.
    pub sign: Scalar<N>,
    /// What is flipped of all.
    pub flip: Scalar<N>,
}

impl<N: Number> Order<N> {
    /// The ascending order of keys that are as wide as their numbers.
    pub fn of<K: SortKey<Number = N>>() -> Order<N> {
        Order { sign: scalar::<N>(K::SIGN), flip: scalar::<N>(K::FLIP) }
    }

    /// The unsigned numbers of some elements.
    pub fn numbers(self, bits: Tile<N>) -> Tile<N> {
        self.flipped(bits) ^ self.flip
    }

    /// The elements of some unsigned numbers.
    pub fn elements(self, numbers: Tile<N>) -> Tile<N> {
        self.flipped(numbers ^ self.flip)
    }

    fn flipped(self, bits: Tile<N>) -> Tile<N> {
        bits ^ (N::negative(bits) & self.sign)
    }
}

/// A type of keys: every integer and float.
///
/// Floats have the order of [`f32::total_cmp`]: -0 before 0, NaNs with a sign first and those without last. Of `f16` and `bf16` all NaNs are the
/// last, and come out as one of them.
pub trait SortKey: Num {
    /// The numbers that stand for keys.
    type Number: Number;
    /// The lowest bits of these that differ.
    const BITS: usize;
    /// Whether keys are as wide as their numbers: a tensor of keys is then sorted as it lies, by [`Order`].
    const AS_IT_LIES: bool;
    /// What of a negative key's number is flipped, beside `FLIP`.
    const SIGN: Self::Number;
    /// What of every key's number is flipped.
    const FLIP: Self::Number;
    /// The numbers of keys.
    fn numbers(keys: Tile<Self>) -> Tile<Self::Number>;
    /// The keys of numbers.
    fn keys(numbers: Tile<Self::Number>) -> Tile<Self>;
}

/// Keys that are as wide as their numbers.
macro_rules! as_they_lie {
    ($($key:ty, $number:ty, $sign:expr, $flip:expr;)*) => {$(
        impl SortKey for $key {
            type Number = $number;
            const BITS: usize = <$number>::BITS as usize;
            const AS_IT_LIES: bool = true;
            const SIGN: $number = $sign;
            const FLIP: $number = $flip;
            fn numbers(keys: Tile<$key>) -> Tile<$number> {
                // `sign` and `flip` share no bit. Of floats all bits or the highest one are flipped: one operation on constants.
                let bits = keys.bitcast::<$number>();
                bits ^ ((<$number>::negative(bits) & scalar::<$number>(Self::SIGN)) | scalar::<$number>(Self::FLIP))
            }
            fn keys(numbers: Tile<$number>) -> Tile<$key> {
                Order::of::<$key>().elements(numbers).bitcast::<$key>()
            }
        }
    )*};
}

as_they_lie! {
    u32, u32, 0, 0;
    i32, u32, 0, 1 << 31;
    f32, u32, u32::MAX >> 1, 1 << 31;
    u64, u64, 0, 0;
    i64, u64, 0, 1 << 63;
}

impl SortKey for u8 {
    type Number = u32;
    const BITS: usize = 8;
    const AS_IT_LIES: bool = false;
    const SIGN: u32 = 0;
    const FLIP: u32 = 0;
    fn numbers(keys: Tile<u8>) -> Tile<u32> {
        keys.cast::<u32>()
    }
    fn keys(numbers: Tile<u32>) -> Tile<u8> {
        numbers.cast::<u8>()
    }
}

impl SortKey for i8 {
    type Number = u32;
    const BITS: usize = 8;
    const AS_IT_LIES: bool = false;
    const SIGN: u32 = 0;
    const FLIP: u32 = 0;
    fn numbers(keys: Tile<i8>) -> Tile<u32> {
        (keys.cast::<i32>() + 128).cast::<u32>()
    }
    fn keys(numbers: Tile<u32>) -> Tile<i8> {
        (numbers.cast::<i32>() - 128).cast::<i8>()
    }
}

/// Floats of 16 bits: as floats of 32 bits, whose lowest bits say nothing.
macro_rules! half_floats {
    ($($key:ty, $bits:expr;)*) => {$(
        #[device]
        impl SortKey for $key {
            type Number = u32;
            const BITS: usize = $bits;
            const AS_IT_LIES: bool = false;
            const SIGN: u32 = 0;
            const FLIP: u32 = 0;
            fn numbers(keys: Tile<$key>) -> Tile<u32> {
                let one_nan = select(keys == keys, keys.cast::<f32>(), f32::NAN);
                f32::numbers(one_nan) >> (32 - $bits)
            }
            fn keys(numbers: Tile<u32>) -> Tile<$key> {
                // Of a negative number the bits that say nothing are flipped as well.
                let cut = select((numbers >> ($bits - 1)) == 0, u32::MAX >> $bits, 0);
                f32::keys((numbers << (32 - $bits)) | cut).cast::<$key>()
            }
        }
    )*};
}

half_floats! {
    f16, 19;
    bf16, 16;
}

/// Which key comes first: [`Ascending`] or [`Descending`].
pub trait Direction: 'static {
    /// Whether the largest key comes first.
    const FALLS: bool;
}

/// The smallest key first.
pub struct Ascending;
/// The largest key first; equal keys keep their order all the same.
pub struct Descending;

impl Direction for Ascending {
    const FALLS: bool = false;
}
impl Direction for Descending {
    const FALLS: bool = true;
}

/// What is flipped of every key, so that the first one of a direction is the smallest number.
pub(super) fn flips<K: SortKey, D: Direction>() -> K::Number {
    let all = if D::FALLS { K::Number::ones(K::BITS).literal().bits } else { 0 };
    let flip = K::FLIP.literal();
    K::Number::of_literal(Literal { bits: flip.bits ^ all, ..flip })
}

/// Keys as numbers of which that of the first key in a direction is the smallest.
pub(super) fn numbers_in<K: SortKey, D: Direction>(keys: Tile<K>) -> Tile<K::Number> {
    turned::<K, D>(K::numbers(keys))
}

/// The keys of such numbers.
pub(super) fn keys_in<K: SortKey, D: Direction>(numbers: Tile<K::Number>) -> Tile<K> {
    K::keys(turned::<K, D>(numbers))
}

fn turned<K: SortKey, D: Direction>(numbers: Tile<K::Number>) -> Tile<K::Number> {
    if D::FALLS { numbers ^ scalar::<K::Number>(K::Number::ones(K::BITS)) } else { numbers }
}

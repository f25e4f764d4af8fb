//! 8-bit floats (OCP 8-bit Floating Point Specification, revision 1.0) as Rust types.

use super::{DType, round};
use std::cmp::Ordering;
use std::fmt;

/// All numbers of a format: a sign, an exponent with this bias, and so many bits of fraction. `finite` says of the fields' bits whether
/// they are a number.
const fn numbers(fraction: u32, bias: i32, infinity: Option<u8>, largest: u8) -> [f32; 256] {
    let mut all = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        let fields = bits as u8 & 0x7f;
        let (exponent, low) = ((fields >> fraction) as i32, fields as i32 & ((1 << fraction) - 1));
        // Subnormal numbers have the least exponent and no leading one.
        let (units, exponent) = if exponent == 0 { (low, 1) } else { (low | 1 << fraction, exponent) };
        let scale = f32::from_bits(((exponent - bias - fraction as i32 + 127) as u32) << 23);
        let size = match infinity {
            _ if fields <= largest => units as f32 * scale,
            Some(infinity) if fields == infinity => f32::INFINITY,
            _ => f32::NAN,
        };
        all[bits] = if bits >= 128 { -size } else { size };
        bits += 1;
    }
    all
}

macro_rules! float8 {
    ($(#[$doc:meta])* $name:ident, $dtype:ident, $numbers:ident = $all:expr, $largest:literal, $epsilon:literal) => {
        static $numbers: [f32; 256] = $all;

        $(#[$doc])*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The largest finite number.
            pub const MAX: $name = $name($largest);
            /// The smallest finite number.
            pub const MIN: $name = $name($largest | 0x80);
            /// A NaN.
            pub const NAN: $name = $name(0x7f);
            /// The distance from 1 to the next number.
            pub const EPSILON: f32 = $epsilon;

            /// The number with these bits.
            pub const fn from_bits(bits: u8) -> $name {
                $name(bits)
            }
            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }
            /// The nearest number, ties to even; what is too large saturates to the largest finite one, NaN stays NaN.
            pub fn from_f64(value: f64) -> $name {
                $name(round::double(DType::$dtype, value) as u8)
            }
            /// As [`Self::from_f64`].
            pub fn from_f32(value: f32) -> $name {
                $name::from_f64(value.into())
            }
            /// The number, exactly.
            pub fn to_f32(self) -> f32 {
                $numbers[self.0 as usize]
            }
            /// The number, exactly.
            pub fn to_f64(self) -> f64 {
                self.to_f32().into()
            }
            /// Whether it is none.
            pub fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
            /// Whether it is neither infinite nor NaN.
            pub fn is_finite(self) -> bool {
                self.to_f32().is_finite()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }
        impl From<$name> for f32 {
            fn from(value: $name) -> f32 {
                value.to_f32()
            }
        }
        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.to_f64()
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8! {
    /// An 8-bit float with 4 bits of exponent and 3 of fraction (E4M3): up to 448, without infinities.
    f8e4m3, F8E4M3, E4M3 = numbers(3, 7, None, 0x7e), 0x7e, 0.125
}

float8! {
    /// An 8-bit float with 5 bits of exponent and 2 of fraction (E5M2): the upper half of an f16, up to 57344.
    f8e5m2, F8E5M2, E5M2 = numbers(2, 15, Some(0x7c), 0x7b), 0x7b, 0.25
}

impl f8e5m2 {
    /// What lies beyond all numbers. Only memory and this constant have it: conversions saturate.
    pub const INFINITY: f8e5m2 = f8e5m2(0x7c);
    /// What lies below all numbers.
    pub const NEG_INFINITY: f8e5m2 = f8e5m2(0xfc);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Literal;

    /// The finite numbers of a format from 0 up, by their definition in real numbers.
    fn by_definition(dtype: DType) -> Vec<f64> {
        let (fraction, bias, largest) = if dtype == DType::F8E4M3 { (3, 7, 0x7e) } else { (2, 15, 0x7b) };
        let number = |bits: i32| {
            let (exponent, low) = (bits >> fraction, f64::from(bits & ((1 << fraction) - 1)) / f64::from(1 << fraction));
            if exponent == 0 { low * 2f64.powi(1 - bias) } else { (1.0 + low) * 2f64.powi(exponent - bias) }
        };
        (0..=largest).map(number).collect()
    }

    /// The nearest one by comparing distances with all; of two as near the even one; beyond all the largest.
    fn nearest(numbers: &[f64], value: f64) -> usize {
        // Much larger ones are as far from all in double precision.
        let value = value.min(2.0 * numbers[numbers.len() - 1]);
        let distance = |i: &usize| (numbers[*i] - value).abs();
        (0..numbers.len()).min_by(|i, j| distance(i).total_cmp(&distance(j)).then((i % 2).cmp(&(j % 2)))).unwrap()
    }

    #[test]
    fn all_256_are_what_the_specification_says() {
        for dtype in [DType::F8E4M3, DType::F8E5M2] {
            let numbers = by_definition(dtype);
            for bits in 0..=0xff_u64 {
                let (fields, value) = ((bits & 0x7f) as usize, Literal { dtype, bits }.to_f64());
                match numbers.get(fields) {
                    Some(size) => assert_eq!(value.to_bits(), (if bits >= 0x80 { -size } else { *size }).to_bits(), "{bits:x} of {dtype}"),
                    None if dtype == DType::F8E5M2 && fields == 0x7c => assert_eq!(value.abs(), f64::INFINITY),
                    None => assert!(value.is_nan(), "{bits:x} of {dtype}"),
                }
                let finite = value.is_finite();
                assert!(!finite || Literal::from_f64(dtype, value).bits == bits, "{bits:x} of {dtype}");
            }
        }
        assert_eq!((f8e4m3::MAX.to_f32(), f8e5m2::MIN.to_f32(), f8e4m3::from_bits(1).to_f32()), (448.0, -57344.0, 2f32.powi(-9)));
    }

    #[test]
    fn numbers_become_the_nearest_one() {
        for dtype in [DType::F8E4M3, DType::F8E5M2] {
            let numbers = by_definition(dtype);
            let middles = numbers.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
            let hair = |x: f64, up: bool| f64::from_bits(if up { x.to_bits() + 1 } else { x.to_bits() - 1 });
            let around: Vec<f64> = middles.flat_map(|middle| [hair(middle, false), middle, hair(middle, true)]).collect();
            let largest = *numbers.last().unwrap();
            let beyond = [largest * 1.01, largest * 1.0625, largest * 1.07, largest * 2.0, 1e30, f64::MAX, f64::MIN_POSITIVE];
            for value in around.into_iter().chain(beyond) {
                let expected = nearest(&numbers, value) as u64;
                assert_eq!(Literal::from_f64(dtype, value).bits, expected, "{value:e} to {dtype}");
                assert_eq!(Literal::from_f64(dtype, -value).bits, expected | 0x80, "-{value:e} to {dtype}");
            }
        }
    }

    #[test]
    fn what_is_no_finite_number_saturates_or_stays_nan() {
        let of = |dtype, value| Literal::from_f64(dtype, value).bits;
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|x| of(DType::F8E4M3, x)), [0x7e, 0xfe, 0x7f]);
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|x| of(DType::F8E5M2, x)), [0x7b, 0xfb, 0x7f]);
        assert_eq!(Literal::extreme(DType::F8E4M3, true).to_f64(), 448.0);
        assert_eq!(Literal::extreme(DType::F8E5M2, false).to_f64(), f64::NEG_INFINITY);
    }
}

//! Numbers as floats: rounded once, to the nearest, ties to even (IEEE 754-2019, 4.3.1).
//!
//! A conversion by way of another float rounds twice: 2^30 + 2^22 + 1 lies above the middle of two bf16, the f32 nearest to it is that
//! middle, and goes down. So numbers are taken as they are, `magnitude * 2^exponent`, whatever they were before.

use super::DType;

/// The fields of a float's bit pattern.
struct Format {
    /// Bits of the fraction.
    fraction: i32,
    /// What is added to the exponent.
    bias: i32,
    /// Bits in all.
    bits: u32,
    /// What is too large becomes this, but for its sign: infinity, or the largest number of formats into which numbers saturate.
    beyond: u64,
    /// NaN, but for its sign.
    nan: u64,
}

impl Format {
    fn of(dtype: DType) -> Format {
        match dtype {
            DType::F8E4M3 => Format { fraction: 3, bias: 7, bits: 8, beyond: 0x7e, nan: 0x7f },
            DType::F8E5M2 => Format { fraction: 2, bias: 15, bits: 8, beyond: 0x7b, nan: 0x7f },
            DType::F16 => Format { fraction: 10, bias: 15, bits: 16, beyond: 0x7c00, nan: 0x7e00 },
            DType::BF16 => Format { fraction: 7, bias: 127, bits: 16, beyond: 0x7f80, nan: 0x7fc0 },
            DType::F32 => Format { fraction: 23, bias: 127, bits: 32, beyond: 0x7f80_0000, nan: 0x7fc0_0000 },
            other => panic!("round: {other} is no float"),
        }
    }

    fn sign(&self, negative: bool) -> u64 {
        u64::from(negative) << (self.bits - 1)
    }

    /// The bits of the float nearest to `magnitude * 2^exponent`, with its sign; what is too large is infinite, or saturates.
    fn nearest(&self, negative: bool, magnitude: u64, exponent: i32) -> u64 {
        let sign = self.sign(negative);
        if magnitude == 0 {
            return sign;
        }
        let top = (63 - magnitude.leading_zeros() as i32 + exponent).max(1 - self.bias);
        // How many units in the last place there are: `2^fraction` and more for normal numbers.
        let dropped = top - self.fraction - exponent;
        let units = match dropped {
            ..=0 => magnitude << -dropped,
            1..=63 => {
                let (whole, rest, half) = (magnitude >> dropped, magnitude & ((1 << dropped) - 1), 1 << (dropped - 1));
                whole + u64::from(rest > half || (rest == half && whole & 1 == 1))
            }
            64 => u64::from(magnitude > 1 << 63),
            _ => 0,
        };
        // The leading bit of a normal number counts the exponent on, and so does what rounds up to the next power of two.
        let bits = ((top + self.bias - 1) as u64).saturating_mul(1 << self.fraction) + units;
        sign | bits.min(self.beyond)
    }
}

/// The bits of the float of `dtype` nearest to an integer. Panics where `dtype` is no float, or the integer has more than 64 bits.
pub(crate) fn integer(dtype: DType, value: i128) -> u64 {
    let magnitude = u64::try_from(value.unsigned_abs()).unwrap_or_else(|_| panic!("round: {value} has more than 64 bits"));
    Format::of(dtype).nearest(value < 0, magnitude, 0)
}

/// The bits of the float of `dtype` nearest to a number in double precision; NaN stays NaN. Panics where `dtype` is no float.
pub fn double(dtype: DType, value: f64) -> u64 {
    let format = Format::of(dtype);
    let (bits, negative) = (value.to_bits(), value.is_sign_negative());
    let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    match field {
        0x7ff => format.sign(negative) | if fraction == 0 { format.beyond } else { format.nan },
        0 => format.nearest(negative, fraction, -1074),
        _ => format.nearest(negative, fraction | 1 << 52, field - 1075),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_once() {
        let f16 = |x: f64| double(DType::F16, x);
        // What is above a tie by less than an f32 tells goes up.
        assert_eq!((f16(1.0 + 2f64.powi(-11)), f16(1.0 + 2f64.powi(-11) + 2f64.powi(-50))), (0x3c00, 0x3c01));
        assert_eq!((f16(65519.999), f16(65520.0), f16(-1e300)), (0x7bff, 0x7c00, 0xfc00));
        // Half of the least number is a tie with zero.
        assert_eq!((f16(2f64.powi(-25)), f16(2f64.powi(-25) * 1.0001), f16(-2f64.powi(-24))), (0, 1, 0x8001));
        assert_eq!((f16(f64::from_bits(1)), f16(-0.0), f16(f64::INFINITY)), (0, 0x8000, 0x7c00));
        assert_eq!((double(DType::BF16, f64::NAN), f16(-f64::NAN)), (0x7fc0, 0xfe00));
        for x in [0.1, -3.7e-42, 1e-46, 3.4028235677973366e38, f64::from(f32::MAX), f64::MIN_POSITIVE, 1.5f64.powi(90)] {
            assert_eq!(double(DType::F32, x), u64::from((x as f32).to_bits()), "{x}");
        }
    }

    #[test]
    fn all_sixteen_bit_floats_are_themselves() {
        for bits in 0..=0xffff_u64 {
            for dtype in [DType::F16, DType::BF16] {
                let value = crate::types::Literal { dtype, bits }.to_f64();
                assert!(value.is_nan() || double(dtype, value) == bits, "{bits:x} of {dtype}");
            }
        }
    }
}

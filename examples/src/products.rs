//! Arithmetics of products of f32 matrices, for kernels that are generic over them: how operands are rounded, and in how many parts.

use super::split_products::split_dot;
use girih::prelude::*;

/// What a product takes of its operands.
pub trait Product: 'static {
    /// `sum + left · right`, a result of `rows` and `cols`.
    fn add(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>, shape: [Size; 2]) -> Tile<f32>;
}

/// Multiply-adds in f32.
pub struct Fma;

/// Matrix units, on operands that are rounded to 11 significant bits.
pub struct Tf32;

/// Matrix units, on two parts of 11 bits of each operand: as exact as multiply-adds.
pub struct Split;

/// Matrix units, on two parts of 8 bits of each operand: 16 significant bits, of any size that f32 has.
pub struct Halves;

impl Product for Fma {
    fn add(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>, _: [Size; 2]) -> Tile<f32> {
        dot(left, right, sum)
    }
}

impl Product for Tf32 {
    fn add(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>, _: [Size; 2]) -> Tile<f32> {
        dot(left.round_tf32(), right.round_tf32(), sum)
    }
}

impl Product for Split {
    /// Matrix units truncate where they add: each tile's products are added up apart, and by an ordinary addition to the sum.
    fn add(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>, shape: [Size; 2]) -> Tile<f32> {
        sum + split_dot(left, right, zeros::<f32>(shape))
    }
}

impl Product for Halves {
    fn add(left: Tile<f32>, right: Tile<f32>, sum: Tile<f32>, shape: [Size; 2]) -> Tile<f32> {
        let (left_high, right_high) = (left.cast::<bf16>(), right.cast::<bf16>());
        let left_low = (left - left_high.cast::<f32>()).cast::<bf16>();
        let right_low = (right - right_high.cast::<f32>()).cast::<bf16>();
        let part = dot(left_low, right_high, zeros::<f32>(shape));
        let part = dot(left_high, right_low, part);
        sum + dot(left_high, right_high, part)
    }
}

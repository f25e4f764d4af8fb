//! Elements as numbers, and whether two of them are near enough.

use girih_core::types::{DType, Literal};

/// An element from its bytes.
pub fn literal(dtype: DType, bytes: &[u8]) -> Literal {
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Literal { dtype, bits: u64::from_le_bytes(wide) }
}

/// Equal, or floats that differ by rounding: a product may be contracted, a sum regrouped.
pub fn near(dtype: DType, got: &[u8], want: &[u8], slack: f64) -> bool {
    if got == want || !dtype.is_float() {
        return got == want;
    }
    let tolerance = match dtype {
        DType::F8E4M3 => 0.13,
        DType::F8E5M2 => 0.26,
        DType::F16 => 2e-3,
        DType::BF16 => 2e-2,
        _ => 1e-5,
    };
    girih::challenge::near(literal(dtype, got).to_f64(), literal(dtype, want).to_f64(), tolerance + slack, tolerance)
}

//! Scalar arithmetic on bit patterns: the one definition that the folder, the evaluator and the simulator share.
//!
//! Operands and results are bit patterns zero-extended to 64 bits, as in [`crate::types::Literal`]. F16 and BF16 operands occur in
//! [`cast`] and [`bitcast`] only; arithmetic on them happens in f32 (see the numeric contract).

/// FNV-1a, 64 bit (<http://www.isthe.com/chongo/tech/comp/fnv/>): stable hashes for identities and cache keys.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ *b as u64).wrapping_mul(0x0000_0100_0000_01b3))
}

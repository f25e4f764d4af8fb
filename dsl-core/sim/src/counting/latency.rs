//! Clocks until the result of an operation can be used, about as on Ampere and Hopper. Sources: Luo et al.: Benchmarking and Dissecting
//! the Nvidia Hopper GPU Architecture via Microbenchmarking; Abdelkhalik et al.: Demystifying the Nvidia Ampere Architecture through
//! Microbenchmarking and Instruction-level Analysis.

use crate::Class;

/// A load whose sectors no block that was run has touched before: it comes from memory.
pub(super) const MEMORY: f64 = 800.0;
/// A load whose sectors other blocks have touched before, and an atomic: it comes from the L2.
pub(super) const CACHE: f64 = 250.0;
/// A load whose sectors the block has touched before: it comes from the L1.
pub(super) const NEAR: f64 = 40.0;
/// A load from shared memory.
pub(super) const SHARED: f64 = 30.0;
/// A wait for all threads of a block, beyond the last arrival.
pub(super) const BARRIER: f64 = 25.0;
/// A wait for all blocks of a cluster, about 200 ns on an H200.
pub(super) const CLUSTER: f64 = 350.0;
/// A wait for all blocks of the grid: a fence, a word that all of them add to, and its last value seen by each.
pub(super) const GRID: f64 = FENCE + CACHE + WORD;
/// A load from the shared memory of another block of the cluster.
pub(super) const OTHER_BLOCK: f64 = 200.0;
/// A fence of the device.
pub(super) const FENCE: f64 = 500.0;
/// A word that another block leaves: it is stored, and seen by one who looks again and again.
pub(super) const WORD: f64 = 1000.0;

/// Eight columns of a matrix instruction of a warp group: four tensor cores make 64 × 8 × 16 multiply-adds of f16 in as many clocks.
pub(super) const EIGHT_COLUMNS: f64 = 4.0;

/// Of operations on registers, by class.
pub(super) fn of_class(class: Class) -> f64 {
    match class {
        Class::Move => 0.0,
        Class::Fma | Class::FloatAdd | Class::FloatMul | Class::Integer | Class::Control | Class::Barrier => 4.0,
        Class::Convert => 8.0,
        Class::SpecialFunction => 24.0,
        Class::Shuffle => 24.0,
        Class::Matrix => 33.0,
        Class::Memory | Class::Atomic => SHARED,
    }
}

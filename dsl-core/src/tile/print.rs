//! Text form of tile IR.

use super::Kernel;

/// The kernel as text.
pub fn print(kernel: &Kernel) -> String {
    format!("{kernel:?}")
}

//! The CUDA C emitter: SIMT IR as text. It decides nothing and cannot fail.

use crate::simt;

/// The CUDA C of one kernel: helpers it uses, header comment, function. Includes nothing.
pub fn emit(kernel: &simt::Kernel) -> String {
    emit_kernels(std::slice::from_ref(kernel))
}

/// The CUDA C of several kernels in one file, sharing helpers. The kernels' names must be unique.
pub fn emit_kernels(_kernels: &[simt::Kernel]) -> String {
    todo!()
}

//! The challenge gallery: one file per challenge, with its kernels, program, plain-Rust reference, inputs, tolerance and sizes.
//!
//! Kernels, programs and challenges register themselves; the `autotune` binary beside this library lists, checks, tunes, times and
//! exports them.

pub mod color_inversion;
pub mod convolution_1d;
pub mod convolution_2d;
pub mod gaussian_blur;
pub mod geglu;
pub mod histogramming;
pub mod jacobi_stencil_2d;
pub mod leaky_relu;
pub mod matrix_addition;
pub mod matrix_copy;
pub mod matrix_transpose;
pub mod max_pooling_2d;
pub mod rainbow_table;
pub mod relu;
pub mod reverse_array;
pub mod rgb_to_grayscale;
pub mod sigmoid;
pub mod silu;
pub mod swiglu;
pub mod value_clipping;
pub mod vector_add;

girih::winners!("../winners.txt");

//! Ladders whose lower rungs are kernels of their own: what a learner writes first, and what each technique replaces. Ladders that are all
//! schedules of one kernel stand beside it (`vector_add`, `matrix_multiplication`, `gemm`).

pub mod attention;
pub mod color_inversion;
pub mod convolution_1d;
pub mod convolution_2d;
pub mod count;
pub mod histogram;
pub mod matrix_multiplication;
pub mod reduction;
pub mod reverse_array;
pub mod scan;
pub mod softmax;
pub mod transpose;
pub mod vector_add;

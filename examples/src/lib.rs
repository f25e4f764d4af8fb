//! The challenge gallery: one file per challenge, with its kernels, program, plain-Rust reference, inputs, tolerance and sizes; what two
//! of them share that is a subject of its own has its own file (`positive_definite`).
//!
//! Kernels, programs and challenges register themselves; the `autotune` binary beside this library lists, checks, tunes, times and
//! exports them.

pub mod batch_normalization;
pub mod batched_matrix_multiplication;
pub mod categorical_cross_entropy_loss;
pub mod color_inversion;
pub mod convolution_1d;
pub mod convolution_2d;
pub mod count_2d_array_element;
pub mod count_3d_array_element;
pub mod count_array_element;
pub mod dot_product;
pub mod dpo_sequence_loss;
pub mod fp16_batched_matmul;
pub mod fp16_dot_product;
pub mod fused_residual_add_rms_norm;
pub mod gaussian_blur;
pub mod geglu;
pub mod gemm;
pub mod grpo_surrogate_loss;
pub mod histogramming;
pub mod int4_matmul;
pub mod int8_quantized_matmul;
pub mod jacobi_stencil_2d;
pub mod koalabear_column_sums;
pub mod layer_normalization;
pub mod leaky_relu;
pub mod linear_recurrence;
pub mod logistic_regression;
pub mod lower_precision_gemm;
pub mod matrix_addition;
pub mod matrix_copy;
pub mod matrix_multiplication;
pub mod matrix_power;
pub mod matrix_transpose;
pub mod max_pooling_2d;
pub mod max_subarray_sum;
pub mod mean_squared_error;
pub mod monte_carlo_integration;
pub mod ordinary_least_squares;
pub mod positive_definite;
pub mod prefix_sum;
pub mod rainbow_table;
pub mod reduction;
pub mod relu;
pub mod reverse_array;
pub mod rgb_to_grayscale;
pub mod rms_normalization;
pub mod row_reductions;
pub mod selective_walk;
pub mod sigmoid;
pub mod silu;
pub mod simple_inference;
pub mod softmax;
pub mod sparse_matrix_dense_matrix_multiplication;
pub mod sparse_matrix_vector_multiplication;
pub mod split_products;
pub mod ssm_selective_scan;
pub mod subarray_sum;
pub mod subarray_sum_2d;
pub mod subarray_sum_3d;
pub mod swiglu;
pub mod swiglu_mlp_block;
pub mod value_clipping;
pub mod vector_add;

girih::winners!("../winners.txt");

//! Loops that keep to some positions of an axis.

pub mod kernels;

//! Tests of the simulator with hand-built kernels.

mod build;
mod kernels;
mod matrix;
mod traffic;
mod traps;
mod words;

//! Tests of the simulator with hand-built kernels.

mod build;
mod kernels;
mod traffic;
mod traps;

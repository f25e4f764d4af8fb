//! Tests of the simulator with hand-built kernels.

pub(super) mod build;
mod group;
mod kernels;
mod matrix;
mod traffic;
mod traps;
mod turns;
mod words;

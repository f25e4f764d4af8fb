//! The language: handles on which ordinary Rust builds tile IR.

pub mod elem;
pub mod scalar;
pub mod schedule;
pub mod tensor;
pub mod world;

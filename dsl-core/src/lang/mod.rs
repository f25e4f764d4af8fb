//! The language: handles on which ordinary Rust builds tile IR.

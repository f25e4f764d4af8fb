//! girih: a GPU kernel DSL for Rust.

//! All integration tests, in one binary.

mod cuda_text;
mod launches;
mod mutator;
mod properties;
mod tidy;

//! All integration tests, in one binary.

mod launches;
mod mutator;
mod properties;
mod tidy;

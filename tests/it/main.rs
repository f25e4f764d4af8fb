//! All integration tests, in one binary.

mod cubin_cache;
mod cuda_text;
mod evaluator;
mod language;
mod launches;
mod mutator;
mod on_devices;
mod properties;
mod tidy;
mod typed_launches;
mod ui;

//! All integration tests, in one binary.

mod access;
mod combining;
mod cubin_cache;
mod cuda_text;
mod differential;
mod docs;
mod evaluator;
mod exports;
mod gallery;
mod identity;
mod kernels;
mod language;
mod launches;
mod mutants;
mod mutator;
mod nvrtc;
mod on_devices;
mod properties;
mod rungs;
mod snapshots;
mod tidy;
mod tuner;
mod typed_launches;
mod ui;
mod user_crate;
mod workspaces;

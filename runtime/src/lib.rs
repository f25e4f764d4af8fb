//! girih: a GPU kernel DSL for Rust.
//!
//! This crate is the one that users depend on: devices, NVRTC, the cubin cache, launches and programs, the tuner, and the
//! command line. What a kernel means and how it becomes CUDA C is in `girih_core`, which does no I/O.

pub mod bugs;
pub mod error;

pub mod buffer;
pub mod cuda;
pub mod device;
pub mod sim_device;

pub mod cache;
pub mod child;
pub mod compile;
pub mod nvrtc;
pub mod resources;
pub mod sass;
mod wheel;

pub mod known;
pub mod launch;
mod order;
pub mod program;
mod steps;
pub mod stream;
pub mod tensor;

pub mod floor;
pub mod inputs;
pub mod joint;

pub mod acceptance;
mod bare_kernel;
pub mod bench;
pub mod challenge;
pub mod check;
pub mod cores;
pub mod deviation;
pub mod differences;
mod effort;
pub mod exported;
pub mod placed;
pub mod quiet;
mod random_sizes;
mod requirements;
pub mod rungs;
mod runners;
pub mod store;
pub mod subject;
pub mod sweep;
pub mod timing;
pub mod winners;

pub mod cli;
pub mod tune;

pub use buffer::Buffer;
pub use compile::{Compiled, compile};
pub use device::{Device, Loaded};
pub use error::Error;
pub use resources::Resources;
pub use stream::Stream;
pub use tensor::DeviceTensor;

/// Re-exported for the code that the attributes and macros expand to.
#[doc(hidden)]
pub use girih_core::linkme;

// The attributes' expansions name `::girih`, also in this crate's own tests.
extern crate self as girih;

pub use girih_macros::{TileType, device, kernel, program};

/// What kernels and programs are written with: `use girih::prelude::*;`.
pub mod prelude {
    pub use girih_core::lang::prelude::*;
    pub use girih_macros::{TileType, device, kernel, program};
}

/// What the attributes expand to refers to.
#[doc(hidden)]
pub mod __private {
    pub use girih_core::lang::expansion::*;
}

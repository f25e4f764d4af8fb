//! girih: a GPU kernel DSL for Rust.
//!
//! This crate is the one that users depend on: devices, NVRTC, the cubin cache, launches and programs, the tuner, and the
//! command line. What a kernel means and how it becomes CUDA C is in `girih_core`, which does no I/O.

pub(crate) mod child;
pub mod error;
mod notes;
mod wheel;

pub mod algorithms;
pub mod compile;
pub mod device;
pub mod launch;

// What the workspace's own tests reach into, beside the documented surface.
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod check;
#[doc(hidden)]
pub mod cores;
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod explain;
#[cfg(feature = "tune")]
pub mod ladder;
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod measure;
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod report;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod subject;
#[cfg(feature = "tune")]
pub mod techniques;
#[doc(hidden)]
#[cfg(feature = "tune")]
pub mod tune;

#[cfg(feature = "cli")]
pub mod cli;

pub use compile::resources::Resources;
pub use compile::{Compiled, compile};
pub use device::buffer::Buffer;
pub use device::{Device, Loaded, cuda};
pub use error::Error;
pub use launch::event::Event;
pub use launch::shared_memory::Shared;
pub use launch::stream::Stream;
pub use launch::tensor::DeviceTensor;
#[cfg(feature = "tune")]
pub use subject::{challenge, inputs};

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

//! The pure compiler of girih.
//!
//! ```text
//! tile IR ──eval──▶ reference result
//! tile IR ──lower(facts, schedule, target)──▶ SIMT IR with its launch record
//! SIMT IR ──emit──▶ CUDA C
//! SIMT IR ──simulate──▶ result, traps, counters
//! ```
//!
//! Nothing here does I/O, names a driver or reads a clock. Modules are listed in the order in which data flows.

pub mod aliasing;
pub mod bug;
pub mod cuda;
pub mod error;
pub mod facts;
pub mod facts_distance;
pub mod fragments;
pub mod lang;
pub mod layout;
pub mod lengths;
pub mod loc;
pub mod lower;
pub mod model;
pub mod program;
pub mod registry;
pub mod scalar;
pub mod schedule;
pub mod sim;
pub mod simt;
pub mod target;
pub mod tile;
pub mod types;

/// Re-exported for the code that the attributes expand to.
#[doc(hidden)]
pub use linkme;

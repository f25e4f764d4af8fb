//! The data that girih's compiler works on: what kernels and programs mean, what launches promise, what a schedule chooses, what a thread
//! does. Modules are listed in the order in which data flows.

pub mod loc;
pub mod scalar;
pub mod types;

pub mod bug;
pub mod error;

pub mod fragments;
pub mod layout;
pub mod target;

pub mod program;
pub mod registry;
pub mod tile;

pub mod aliasing;
pub mod facts;
pub mod facts_distance;
pub mod lengths;
pub mod schedule;

pub mod simt;

/// Re-exported for the code that the attributes expand to.
#[doc(hidden)]
pub use linkme;

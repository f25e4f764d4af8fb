//! The language: handles on which ordinary Rust builds tile IR.
//!
//! A body is run once per kernel instance. `Tile`, `Scalar` and `TileIdx` are numbers in the build in progress; their operators and
//! methods record IR. Control flow is chosen by type: the attributes turn `for`, `while`, `if`, comparisons and logic into calls whose
//! traits decide between the host and the GPU. A mistake records a diagnostic and gives a poisoned handle, so that one build reports
//! several mistakes, each once.

pub mod arg;
pub mod atomics;
pub mod branch;
pub mod build;
pub mod carry;
pub mod chain;
pub mod compare;
pub mod components;
pub mod control;
pub mod demand;
mod dot;
pub mod elem;
pub mod elementwise;
#[doc(hidden)]
pub mod expansion;
pub mod grid;
pub mod index;
pub mod math;
pub mod operand;
pub mod plan;
mod plan_views;
pub mod prelude;
pub mod reduce;
pub mod runs;
pub mod scalar;
pub mod scan;
pub mod schedule;
pub mod shared;
pub mod size;
pub mod span;
pub mod tensor;
pub mod tile;
pub mod tile_type;
pub mod views;
pub mod warp;
mod warp_branch;
pub mod window;
pub mod world;

mod builder;
mod combine;
mod ends;
mod join;
mod knob_targets;
mod loops;
mod ops;
mod recorder;
mod session;
mod tile_branch;

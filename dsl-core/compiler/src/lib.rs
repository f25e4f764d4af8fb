//! From tile IR, facts and a schedule to SIMT IR, and from there to CUDA C. Nothing here does I/O.

mod analyses;
mod block;
pub mod cuda;
#[cfg(feature = "export")]
pub mod export;
pub mod lower;
mod plan;
pub mod space;

pub use plan::legality;

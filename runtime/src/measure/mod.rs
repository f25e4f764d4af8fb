//! Measurements: how long programs and their exports take, beside what the hardware could do, and whether what was compiled is what was
//! meant.

pub mod acceptance;
pub mod bench;
pub mod exported;
pub mod floor;
pub mod ncu;
pub(crate) mod quiet;
pub mod rungs;
pub mod sweep;
pub(crate) mod throttle;
pub(crate) mod timing;

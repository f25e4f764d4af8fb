//! Lowering: tile IR, facts, schedule and target become SIMT IR.

use crate::error::CompileError;
use crate::facts::Facts;
use crate::schedule::Schedule;
use crate::simt;
use crate::target::Target;
use crate::tile;

/// Lowers a kernel under one schedule. Pure: the same arguments give the same result.
pub fn lower(_kernel: &tile::Kernel, _facts: &Facts, _schedule: &Schedule, _target: &Target) -> Result<simt::Kernel, CompileError> {
    todo!()
}

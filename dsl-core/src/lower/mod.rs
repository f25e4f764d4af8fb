//! Lowering: tile IR, facts, schedule and target become SIMT IR.

mod plan;

use crate::error::CompileError;
use crate::facts::Facts;
use crate::schedule::{Schedule, ScheduleError};
use crate::simt;
use crate::target::Target;
use crate::tile;

/// Lowers a kernel under one schedule. Pure: the same arguments give the same result.
pub fn lower(_kernel: &tile::Kernel, _facts: &Facts, _schedule: &Schedule, _target: &Target) -> Result<simt::Kernel, CompileError> {
    todo!()
}

/// Whether a schedule can be lowered.
pub fn check(kernel: &tile::Kernel, _facts: &Facts, schedule: &Schedule, target: &Target) -> Result<(), ScheduleError> {
    plan::plan(kernel, schedule, target).map(|_| ())
}

/// The schedule with every knob that has no effect at this point set to its first value.
pub fn canonical(_kernel: &tile::Kernel, _facts: &Facts, schedule: &Schedule, _target: &Target) -> Schedule {
    schedule.clone()
}

//! Sums that groups of a block's threads share (`slices`): how many groups there are, and what must hold for it.

use super::legality::{Broken, Rule};
use super::split::{Split, check, shared_loop};
use super::{Plan, illegal, knob_of_kind};
use girih_ir::schedule::{KnobKind, Schedule, ScheduleError};
use girih_ir::tile::{self, Kernel, KnobId, Op, ValueId};
use std::collections::HashSet;

/// Barriers of a block that have numbers, besides that of all its threads.
const NUMBERED: i64 = 15;

/// The slices of a block, by the schedule: 1 where all threads take all turns. A slice has `threads`.
pub(crate) fn slices(kernel: &Kernel, schedule: &Schedule, fitting: &HashSet<ValueId>, threads: i64) -> Result<i64, ScheduleError> {
    let Some(at) = knob(kernel) else { return Ok(1) };
    let count = schedule.int(at);
    if count == 1 {
        return Ok(1);
    }
    let refused = |broken: Broken| illegal(kernel, &[at], count.to_string(), broken);
    let l = check(kernel).map_err(refused)?;
    check_rest(kernel).map_err(|rule| refused(rule.into()))?;
    if threads % 32 != 0 {
        return Err(refused(Rule::SlicesWarps.with(&[&threads])));
    }
    if threads * count > 1024 {
        return Err(refused(Rule::SlicesThreads.with(&[&threads, &(threads * count)])));
    }
    if count > NUMBERED && threads > 32 {
        return Err(refused(Rule::SlicesBarriers.with(&[&NUMBERED])));
    }
    // There is nothing to share of one turn.
    Ok(if l.vars.iter().all(|v| fitting.contains(v)) { 1 } else { count })
}

/// Blocks that share a sum have no slices that do.
pub(crate) fn check_alone(kernel: &Kernel, slices: i64, split: Option<Split>) -> Result<(), ScheduleError> {
    match (knob(kernel), split) {
        (Some(at), Some(_)) if slices > 1 => Err(illegal(kernel, &[at], slices.to_string(), Rule::SlicesAlone)),
        _ => Ok(()),
    }
}

/// Around the loop there is nothing but what each thread does to its own elements.
fn check_rest(kernel: &Kernel) -> Result<(), Rule> {
    let Some((grid, (at, _))) = kernel.grid_loop().and_then(|l| Some((l, shared_loop(l)?))) else { return Ok(()) };
    let plain = |s: &tile::Stmt| matches!(s, tile::Stmt::Let(_, op) if !matches!(op, Op::Dot { .. } | Op::Window { .. } | Op::Near(..)));
    let outside = kernel.body.iter().all(|s| plain(s) || matches!(s, tile::Stmt::Tiles(_)));
    let behind = grid.body[at + 1..].iter().all(|s| plain(s) || matches!(s, tile::Stmt::Store { .. }));
    if outside && grid.body[..at].iter().all(plain) && behind {
        return Ok(());
    }
    Err(Rule::SlicesRest)
}

/// The knob that says how many slices there are.
pub(crate) fn knob(kernel: &Kernel) -> Option<KnobId> {
    knob_of_kind(kernel, KnobKind::Slices)
}

impl Plan {
    /// What the block's threads are together, where there are slices of them.
    pub fn whole(&self) -> Plan {
        Plan { threads: self.threads * self.slices, slices: 1, joined: self.slices, ..self.clone() }
    }
}

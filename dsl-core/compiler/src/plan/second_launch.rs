//! What a launch behind the first one needs (`finish = SecondLaunch`): which statements it computes again, and when it cannot.

use super::finish::{is_over_grid, split};
use super::illegal;
use super::legality::{Broken, Rule};
use crate::analyses::uses::{defined, loaded_tensor, used_by, written_params};
use girih_ir::schedule::ScheduleError;
use girih_ir::tile::{self, Combine, Form, Kernel, KnobId, ValueId};
use std::collections::{BTreeSet, HashSet};

/// What a launch behind the first one computes again for itself: statements that are the same in every block, in their order; or a value of
/// which it can't, since it follows from what each block has of its own.
pub(crate) fn needed<'k>(kernel: &'k Kernel, after: &[&'k tile::Stmt]) -> Result<Vec<&'k tile::Stmt>, ValueId> {
    let combines = || kernel.body.iter().filter(|s| is_over_grid(s));
    let mut known = defined(combines().chain(after.iter().copied()));
    let used = used_by(kernel, after.iter().copied()).into_iter().chain(combines().flat_map(|s| captured(kernel, s)));
    // Values, and the named ones that need them.
    let mut wanted: Vec<(ValueId, ValueId)> = used.map(|v| (v, v)).collect();
    let written = written_params(kernel);
    let mut again: BTreeSet<usize> = BTreeSet::new();
    while let Some((value, user)) = wanted.pop() {
        if known.contains(&value) {
            continue;
        }
        let user = if kernel.value(user).name.is_some() { user } else { value };
        let at = kernel.body.iter().position(|s| defined(std::iter::once(s)).contains(&value)).ok_or(user)?;
        let stmt = &kernel.body[at];
        let pure = match stmt {
            tile::Stmt::Let(..) => loaded_tensor(kernel, stmt).is_none_or(|p| !written[p]),
            tile::Stmt::Combine(c) => c.form != Form::Grid,
            _ => false,
        };
        if !pure {
            return Err(user);
        }
        again.insert(at);
        known.extend(defined(std::iter::once(stmt)));
        wanted.extend(used_by(kernel, std::iter::once(stmt)).into_iter().map(|v| (v, user)));
    }
    Ok(again.into_iter().map(|at| &kernel.body[at]).collect())
}

/// What the operator of a combination uses besides its arguments.
fn captured(kernel: &Kernel, stmt: &tile::Stmt) -> Vec<ValueId> {
    let tile::Stmt::Combine(Combine { inputs, .. }) = stmt else { return vec![] };
    used_by(kernel, std::iter::once(stmt)).into_iter().filter(|v| !inputs.contains(v)).collect()
}

/// The shared arrays that statements access.
fn shared_arrays<'k>(block: impl Iterator<Item = &'k tile::Stmt>) -> HashSet<tile::SharedId> {
    let mut found = HashSet::new();
    for stmt in block {
        tile::access::visit(std::slice::from_ref(stmt), &mut |s| {
            if let tile::Stmt::Shared(access) = s {
                found.insert(access.array);
            }
        });
    }
    found
}

/// Why what a kernel does behind its combinations over the grid can't be a launch of its own.
pub(crate) fn check(kernel: &Kernel, knob: KnobId) -> Result<(), ScheduleError> {
    if kernel.grid_loop().is_none() {
        return Ok(());
    }
    let refused = |broken: Broken| Err(illegal(kernel, &[knob], "SecondLaunch".into(), broken));
    let first = kernel.body.iter().position(is_over_grid).unwrap_or(kernel.body.len());
    // What can't be split is refused in its place.
    let Ok(split) = split(&kernel.body[first..]) else { return Ok(()) };
    let after = split.after;
    let is_after = |s: &tile::Stmt| after.iter().any(|a| std::ptr::eq(*a, s));
    let (here, there) = (shared_arrays(kernel.body.iter().filter(|s| !is_after(s))), shared_arrays(after.iter().copied()));
    if let Some(array) = here.intersection(&there).min() {
        let name =
            kernel.shared[array.0 as usize].name.as_ref().map_or("a shared array".to_string(), |n| format!("the shared array `{n}`"));
        return refused(Rule::SecondLaunchArrays.with(&[&name]));
    }
    match needed(kernel, &after) {
        Ok(_) => Ok(()),
        Err(value) => {
            let name = kernel.value(value).name.as_ref().map_or("a value".to_string(), |n| format!("`{n}`"));
            refused(Rule::SecondLaunchValues.with(&[&name]))
        }
    }
}

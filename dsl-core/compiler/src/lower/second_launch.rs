//! Combinations over the grid that end in a launch of their own (`finish = SecondLaunch`): every block leaves its part, and one block of a
//! launch behind this one combines them, in the blocks' order, and runs the rest of the body. The end of a launch is what all blocks meet at, so there
//! is no counter, no fence and no waiting; it costs a launch more.

use super::combine::int;
use super::context::{Lowered, Lowering};
use super::finish::split;
use super::index::Index;
use super::uses::{defined, loaded_tensor, used_by, written_params};
use crate::plan::finish::is_over_grid;
use crate::plan::legality::{Broken, Rule};
use girih_ir::schedule::ScheduleError;
use girih_ir::simt::visit::{blocks, children, each_expr, each_place};
use girih_ir::simt::{self, Expr, Param, Space, Stmt};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, Combine, Form, Kernel, KnobId, ValueId};
use girih_ir::types::DType;
use std::collections::{BTreeSet, HashSet};

/// What a launch behind the first one computes again for itself: statements that are the same in every block, in their order; or a value of
/// which it can't, since it follows from what each block has of its own.
fn needed<'k>(kernel: &'k Kernel, after: &[&'k tile::Stmt]) -> Result<Vec<&'k tile::Stmt>, ValueId> {
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
    let refused = |broken: Broken| Err(crate::plan::illegal(kernel, &[knob], "SecondLaunch".into(), broken));
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

impl<'a> Lowering<'a> {
    /// Leaves this block's parts; what follows is lowered as the launch behind this one.
    pub(super) fn finish_in_second_launch(&mut self, combines: &[&Combine], after: &[&tile::Stmt]) -> Lowered<()> {
        self.comment("leave this block's part for the launch behind this one");
        let left = self.leave_parts_of(combines, false)?;
        let blocks = super::grid_size(self.kernel, self.plan, self);
        let mut next = Lowering::new(self.kernel, self.found.clone(), self.facts, self.plan, self.whole);
        (next.fitting, next.params) = (self.fitting.clone(), self.params.clone());
        let again = needed(self.kernel, after).unwrap_or_else(|v| panic!("second launch: the plan has looked for {v:?}"));
        for stmt in again {
            next.lower_block(std::slice::from_ref(stmt))?;
        }
        let total = next.number_of_parts(&blocks);
        left.iter().try_for_each(|l| next.combine_parts(l, &total))?;
        after.iter().try_for_each(|stmt| next.lower_block(std::slice::from_ref(*stmt)))?;
        self.next = Some(Box::new(next));
        Ok(())
    }

    /// How many blocks have left parts.
    fn number_of_parts(&mut self, blocks: &HostExpr) -> Expr {
        match blocks {
            HostExpr::Const(blocks) => int(*blocks),
            _ => {
                let parts = self.host_param(blocks, "parts");
                Index { dtype: DType::I32 }.cast(self.ix.dtype, parts)
            }
        }
    }

    /// The kernel of a launch behind another, whose launch record and origin are given.
    pub(super) fn finish_behind(self, first: &simt::Kernel) -> simt::Kernel {
        let one_block = simt::LaunchRecord { grid: HostExpr::Const(1), min_blocks: 1, ..first.launch.clone() };
        let signature = format!("{}: what its blocks have left", self.kernel.full_name());
        let provenance = simt::Provenance { signature, ..first.provenance.clone() };
        let mut kernel = self.finish(one_block, provenance);
        kernel.name = format!("{}_finish", first.name);
        kernel
    }
}

/// Takes out parameters that nothing uses.
pub(super) fn drop_unused_params(kernel: &mut simt::Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    let mut used: BTreeSet<usize> = BTreeSet::new();
    each_param(&mut body, &mut |p| {
        used.insert(*p);
    });
    let places: Vec<usize> = used.into_iter().collect();
    each_param(&mut body, &mut |p| {
        *p = places.binary_search(p).unwrap_or_else(|_| panic!("second launch: parameter {p} came from nowhere"))
    });
    let all: Vec<Param> = std::mem::take(&mut kernel.params);
    kernel.params = places.into_iter().map(|p| all[p].clone()).collect();
    kernel.body = body;
}

/// Calls `f` on each mention of a parameter.
fn each_param(block: &mut [Stmt], f: &mut dyn FnMut(&mut usize)) {
    fn values(block: &mut [Stmt], f: &mut dyn FnMut(&mut usize)) {
        fn expr(e: &mut Expr, f: &mut dyn FnMut(&mut usize)) {
            if let Expr::Param(p) = e {
                f(p);
            }
            children(e, &mut |c| expr(c, f));
        }
        for stmt in block {
            each_expr(stmt, &mut |e| expr(e, f));
            blocks(stmt).into_iter().for_each(|inner| values(inner, f));
        }
    }
    values(block, f);
    each_place(block, &mut |place| {
        if let Space::Global(p) = &mut place.space {
            f(p);
        }
    });
}

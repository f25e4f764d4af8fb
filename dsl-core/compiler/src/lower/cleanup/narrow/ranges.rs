//! Between which numbers the variables of a kernel lie, over all that is ever assigned to them.

use crate::block::range::{Range, of_type};
use crate::lower::expand::range::{Known, Launch};
use girih_ir::simt::visit::{inner_blocks, received};
use girih_ir::simt::{Expr, Kernel, Stmt, VarId};
use std::collections::HashMap;

/// Walks in which ranges may grow step by step; a variable whose range still grows then may be anything.
const WALKS: u32 = 3;

/// The range of each integer variable, and of all elements of an array. What is not there may be anything.
pub(in crate::lower::cleanup) fn of(kernel: &Kernel, launch: &Launch) -> HashMap<VarId, Range> {
    let mut walk = Walk { kernel, launch, found: HashMap::new(), left: WALKS, grown: true };
    while walk.grown {
        walk.grown = false;
        walk.block(&kernel.body);
        walk.left = walk.left.saturating_sub(1);
    }
    walk.found
}

struct Walk<'k> {
    kernel: &'k Kernel,
    launch: &'k Launch,
    found: HashMap<VarId, Range>,
    left: u32,
    /// A range has grown in this walk.
    grown: bool,
}

impl Walk<'_> {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            if let Some(var) = received(stmt) {
                self.add(var, of_type(self.kernel.var(var).dtype));
            }
            if let Stmt::Let { var, value } | Stmt::Declare { var, init: Some(value) } | Stmt::Assign { var, value, .. } = stmt {
                self.add(*var, self.range(value));
            }
            if let Stmt::For { var, start, end, .. } = stmt {
                let ends = self.range(start).zip(self.range(end));
                self.add(*var, ends.map(|(start, end)| (start.0, end.1.saturating_sub(1).max(start.0))));
            }
            inner_blocks(stmt).into_iter().for_each(|b| self.block(b));
        }
    }

    fn range(&self, e: &Expr) -> Option<Range> {
        let (vars, params) = (&self.kernel.vars, &self.kernel.params);
        Known { vars, params, ranges: &self.found, launch: self.launch }.range(e)
    }

    /// Notes values of a variable; `None` where they are no integers that i64 holds.
    fn add(&mut self, var: VarId, range: Option<Range>) {
        let (Some(range), Some(whole)) = (range, of_type(self.kernel.var(var).dtype)) else { return };
        let old = self.found.get(&var).copied();
        let new = old.map_or(range, |old| (old.0.min(range.0), old.1.max(range.1)));
        if old != Some(new) {
            self.grown = true;
            self.found.insert(var, if self.left > 0 { new } else { whole });
        }
    }
}

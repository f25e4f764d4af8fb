//! Combinations over the grid that end in a launch of their own (`finish = SecondLaunch`): every block leaves its part, and one block of a
//! launch behind this one combines them, in the blocks' order, and runs the rest of the body. The end of a launch is what all blocks meet at, so there
//! is no counter, no fence and no waiting; it costs a launch more.

use super::combine::int;
use super::context::{Expanded, Expander};
use super::index::Index;
use crate::block::{self, Combine, HostExpr};
use girih_ir::simt::visit::{blocks, children, each_expr, each_place};
use girih_ir::simt::{self, Expr, Param, Space, Stmt};
use girih_ir::types::DType;
use std::collections::BTreeSet;

impl<'a> Expander<'a> {
    /// Leaves this block's parts; what follows becomes the launch behind this one.
    pub(super) fn finish_in_second_launch(&mut self, combines: &[Combine], after: &[block::Stmt], again: &[block::Stmt]) -> Expanded<()> {
        self.comment("leave this block's part for the launch behind this one");
        let left = self.leave_parts_of(combines, false, false)?;
        let mut next = Expander::new(self.kernel);
        next.params = self.params.clone();
        next.lower_block(again)?;
        let total = next.number_of_parts(&self.kernel.launch.grid);
        left.iter().try_for_each(|l| next.combine_parts(l, &total))?;
        next.lower_block(after)?;
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
        let signature = format!("{}: what its blocks have left", self.kernel.title);
        let provenance = simt::Provenance { signature, ..first.provenance.clone() };
        let mut kernel = self.finish(one_block, provenance);
        kernel.name = format!("{}_finish", first.name);
        kernel
    }
}

/// Takes out parameters that nothing uses.
pub(crate) fn drop_unused_params(kernel: &mut simt::Kernel) {
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
        if let Space::Global(p) | Space::Constant(p) = &mut place.space {
            f(p);
        }
    });
}

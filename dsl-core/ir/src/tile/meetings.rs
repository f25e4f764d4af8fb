//! Meetings of the grid ([`Stmt::Barrier`] of the device): where one may stand, and which accesses lie between the same two.
//!
//! What lies between two meetings is a *phase*. Accesses of different phases are in order, whichever blocks make them.

use super::{Block, Kernel, Stmt, TileLoop};
use crate::error::Diagnostic;
use crate::types::Scope;
use std::collections::{BTreeSet, HashMap};

/// Whether all blocks of the grid meet in a statement, or in one inside of it.
pub fn has_meeting(stmt: &Stmt) -> bool {
    is_meeting(stmt) || super::visit::blocks(stmt).into_iter().flatten().any(has_meeting)
}

/// Whether all blocks of a kernel's grid meet somewhere: they must run at the same time.
pub fn meets_over_grid(kernel: &Kernel) -> bool {
    kernel.body.iter().any(has_meeting)
}

fn is_meeting(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Barrier { scope: Scope::Device, .. })
}

/// Finds meetings that some block might not reach, or reach another number of times: such stand in the grid's loop, whose tiles have a block
/// each, below loops and choices on scalars.
pub fn misplaced(kernel: &Kernel) -> Vec<Diagnostic> {
    let (grid, mut errors) = (kernel.grid_loop(), Vec::new());
    let mut misplaced = |block: &Block, what: &str, help: &str| {
        super::visit::visit(block, &mut |stmt| {
            if let Stmt::Barrier { scope: Scope::Device, loc } = stmt {
                errors.push(Diagnostic::new(*loc, format!("blocks of the grid meet {what}")).help(help));
            }
        });
    };
    let own = |stmt: &&Stmt| matches!(stmt, Stmt::Tiles(l) if grid.is_some_and(|g| g.vars == l.vars));
    for stmt in kernel.body.iter().filter(|s| !own(s)) {
        misplaced(
            &vec![stmt.clone()],
            "outside of the grid's loop",
            "write `grid_barrier()` in the body of the loop over the grid's tiles",
        );
    }
    let Some(grid) = grid else { return errors };
    if grid.strided {
        let help = "leave `.strided()` out: blocks that wait for each other have one tile each, and may walk what is left by loops inside";
        misplaced(&grid.body, "in a loop whose tiles are dealt to blocks", help);
    }
    super::visit::visit(&grid.body, &mut |stmt| {
        let help = "a `for` over numbers or a `while` on a scalar, which all blocks decide alike, may stand around `grid_barrier()`";
        match stmt {
            Stmt::Tiles(l) => misplaced(&l.body, "in a loop over tiles, which blocks may leave in different turns", help),
            Stmt::Where { body, .. } => misplaced(body, "under a condition per element", help),
            _ => {}
        }
    });
    errors
}

/// Which meeting each statement may have come behind last. Two statements of which both may have come behind the same one may run at the
/// same time.
#[derive(Default)]
pub(super) struct Phases {
    /// By the statement's address; empty where blocks never meet.
    behind: HashMap<*const Stmt, BTreeSet<usize>>,
    numbers: HashMap<*const Stmt, usize>,
}

impl Phases {
    pub fn of(kernel: &Kernel) -> Phases {
        let mut phases = Phases::default();
        if meets_over_grid(kernel) {
            phases.block(&kernel.body, BTreeSet::from([0]));
        }
        phases
    }

    /// Whether some block may run one statement while another block runs the other.
    pub fn at_once(&self, a: *const Stmt, b: *const Stmt) -> bool {
        self.behind.is_empty() || !self.behind[&a].is_disjoint(&self.behind[&b])
    }

    /// The meetings that may be the latest one behind a block, from those before it.
    fn block(&mut self, block: &[Stmt], before: BTreeSet<usize>) -> BTreeSet<usize> {
        block.iter().fold(before, |before, stmt| self.stmt(stmt, before))
    }

    fn stmt(&mut self, stmt: &Stmt, before: BTreeSet<usize>) -> BTreeSet<usize> {
        self.behind.entry(stmt).or_default().extend(&before);
        match stmt {
            Stmt::Barrier { scope: Scope::Device, .. } => BTreeSet::from([self.number(stmt)]),
            Stmt::Range { body, .. } => self.turns(&[], body, before),
            // Blocks meet in the grid's loop alone, of which each block has one turn.
            Stmt::Tiles(TileLoop { body, .. }) => self.block(body, before),
            Stmt::While { header, body, .. } => self.turns(header, body, before),
            Stmt::Where { body, .. } => self.block(body, before),
            Stmt::If { then, otherwise, .. } => {
                let mut end = self.block(then, before.clone());
                end.extend(self.block(otherwise, before));
                end
            }
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Shared(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => before,
            Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => before,
        }
    }

    /// Any number of turns.
    fn turns(&mut self, header: &[Stmt], body: &[Stmt], mut before: BTreeSet<usize>) -> BTreeSet<usize> {
        loop {
            let left = self.block(header, before.clone());
            let end = self.block(body, left.clone());
            if end.is_subset(&before) {
                return left;
            }
            before.extend(end);
        }
    }

    /// A number of this meeting's own.
    fn number(&mut self, meeting: &Stmt) -> usize {
        let key: *const Stmt = meeting;
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        self.numbers.insert(key, self.numbers.len() + 1);
        self.numbers.len()
    }
}

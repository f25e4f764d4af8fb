//! Where the accesses of shared arrays need a barrier: before one that conflicts with what other threads may have done since the last.
//!
//! Works on tile IR, before any code exists: each access has a number, and what is found holds for every copy of the statement.
//! Where a loop meets what was done before it, the block meets once, before the loop, and not at every turn.

use crate::tile::{Block, Kernel, SharedId, SharedKind, Stmt, TileLoop, ValueId};
use crate::types::{AtomicOp, Scope};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What was done to an array since the last barrier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Done {
    Read,
    Write,
    /// The same threads write the same elements at every fill.
    Fill,
    /// Commutes with atomics of its own operation.
    Update(u8),
    /// An atomic whose order matters: an exchange, or one that gives the old value.
    Ordered,
}

impl Done {
    fn of(kind: &SharedKind) -> Done {
        match kind {
            SharedKind::Gather { .. } => Done::Read,
            SharedKind::Fill(_) => Done::Fill,
            SharedKind::Scatter { .. } => Done::Write,
            SharedKind::Atomic(u) if u.result.is_some() || matches!(u.op, AtomicOp::Exchange | AtomicOp::CompareSwap) => Done::Ordered,
            SharedKind::Atomic(u) => Done::Update(u.op as u8),
        }
    }

    fn conflicts(self, other: Done) -> bool {
        match (self, other) {
            (Done::Read, Done::Read) | (Done::Fill, Done::Fill) => false,
            (Done::Update(a), Done::Update(b)) => a != b,
            _ => true,
        }
    }
}

type State = BTreeMap<SharedId, BTreeSet<Done>>;

fn join(into: &mut State, other: &State) {
    for (array, done) in other {
        into.entry(*array).or_default().extend(done);
    }
}

/// Where the block meets.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Barriers {
    /// Before the accesses of these numbers.
    pub accesses: HashSet<u32>,
    /// Before the loops with these keys: see [`loop_key`].
    pub loops: HashSet<ValueId>,
}

/// What identifies a loop: its counter, or its condition.
pub(crate) fn loop_key(stmt: &Stmt) -> Option<ValueId> {
    match stmt {
        Stmt::Tiles(l) => l.vars.first().copied(),
        Stmt::Range { var, .. } => Some(*var),
        Stmt::While { condition, .. } => Some(*condition),
        _ => None,
    }
}

/// Whether statements access shared arrays that the author orders by hand.
pub(crate) fn kept_by_hand(kernel: &Kernel, block: &[Stmt]) -> bool {
    let mut found = false;
    crate::tile::access::visit(block, &mut |stmt| {
        found |= matches!(stmt, Stmt::Shared(access) if kernel.shared_array(access.array).by_hand);
    });
    found
}

/// Whether the author has placed barriers: what they order is the author's to know.
pub(crate) fn has_own(kernel: &Kernel) -> bool {
    let mut found = false;
    crate::tile::access::visit(&kernel.body, &mut |stmt| found |= matches!(stmt, Stmt::Barrier { .. }));
    found
}

struct Walk<'a> {
    kernel: &'a Kernel,
    /// Turns of the grid loop follow each other in one block.
    repeats: bool,
    found: Barriers,
}

/// Where the block must meet. `repeats`: a block may take several tiles of the grid.
pub(crate) fn place(kernel: &Kernel, repeats: bool) -> Barriers {
    let mut walk = Walk { kernel, repeats, found: Barriers::default() };
    walk.block(&kernel.body, &mut State::new());
    walk.found
}

impl Walk<'_> {
    fn block(&mut self, block: &Block, state: &mut State) {
        for stmt in block {
            self.stmt(stmt, state);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, state: &mut State) {
        match stmt {
            Stmt::Shared(access) if self.kernel.shared_array(access.array).by_hand => {}
            Stmt::Shared(access) => {
                let done = Done::of(&access.kind);
                let conflict = state.get(&access.array).is_some_and(|earlier| earlier.iter().any(|e| e.conflicts(done)));
                if conflict {
                    self.found.accesses.insert(access.number);
                }
                // A barrier found by an earlier walk of this loop stays: it is there at every turn.
                if self.found.accesses.contains(&access.number) {
                    state.clear();
                }
                state.entry(access.array).or_default().insert(done);
            }
            Stmt::Tiles(l) => {
                let grid = self.kernel.grid_loop().is_some_and(|g| g.vars == l.vars);
                self.loop_(stmt, &[&l.body], !grid || self.repeats, state);
            }
            Stmt::Range { body, .. } => self.loop_(stmt, &[body], true, state),
            Stmt::While { header, body, .. } => self.loop_(stmt, &[header, body], true, state),
            Stmt::If { then, otherwise, .. } => {
                let mut other = state.clone();
                self.block(then, state);
                self.block(otherwise, &mut other);
                join(state, &other);
            }
            Stmt::Where { body, .. } => self.block(body, state),
            Stmt::Barrier { scope, .. } => {
                if *scope == Scope::Block {
                    state.clear();
                }
            }
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
        }
    }

    /// A loop. Where what was done before it conflicts with what it does, the block meets before the loop.
    fn loop_(&mut self, stmt: &Stmt, parts: &[&Block], repeats: bool, state: &mut State) {
        // The barriers that the turns need among themselves.
        self.turns(parts, repeats, &mut State::new());
        let mut earlier = state.clone();
        let key = loop_key(stmt);
        if parts.iter().any(|b| self.meets(b, &mut earlier)) {
            self.found.loops.extend(key);
        }
        if key.is_some_and(|key| self.found.loops.contains(&key)) {
            state.clear();
        }
        self.turns(parts, repeats, state);
    }

    /// Whether a block conflicts with what was done `earlier` before it reaches one of the barriers found so far.
    fn meets(&self, block: &Block, earlier: &mut State) -> bool {
        block.iter().any(|stmt| match stmt {
            Stmt::Shared(access) if self.kernel.shared_array(access.array).by_hand => false,
            Stmt::Shared(access) => {
                if self.found.accesses.contains(&access.number) {
                    earlier.clear();
                }
                let done = Done::of(&access.kind);
                earlier.get(&access.array).is_some_and(|e| e.iter().any(|e| e.conflicts(done)))
            }
            Stmt::Tiles(TileLoop { body, .. }) | Stmt::Range { body, .. } => self.meets_inside(stmt, &[body], earlier),
            Stmt::While { header, body, .. } => self.meets_inside(stmt, &[header, body], earlier),
            Stmt::If { then, otherwise, .. } => {
                let mut other = earlier.clone();
                let meets = self.meets(then, earlier) || self.meets(otherwise, &mut other);
                join(earlier, &other);
                meets
            }
            Stmt::Where { body, .. } => self.meets(body, earlier),
            Stmt::Barrier { scope, .. } => {
                if *scope == Scope::Block {
                    earlier.clear();
                }
                false
            }
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => false,
        })
    }

    fn meets_inside(&self, stmt: &Stmt, parts: &[&Block], earlier: &mut State) -> bool {
        if loop_key(stmt).is_some_and(|key| self.found.loops.contains(&key)) {
            earlier.clear();
        }
        let mut inside = earlier.clone();
        parts.iter().any(|b| self.meets(b, &mut inside))
    }

    /// At most one turn, or any number of turns: walked until nothing new is found.
    fn turns(&mut self, parts: &[&Block], repeats: bool, state: &mut State) {
        if !repeats {
            let skipped = state.clone();
            parts.iter().for_each(|b| self.block(b, state));
            return join(state, &skipped);
        }
        loop {
            let (entry, known) = (state.clone(), self.found.clone());
            let mut end = state.clone();
            parts.iter().for_each(|b| self.block(b, &mut end));
            join(state, &end);
            if *state == entry && self.found == known {
                return;
            }
        }
    }
}

//! Where the accesses of shared arrays need a barrier: before one that conflicts with what other threads may have done since the last.
//!
//! Works on tile IR, before any code exists: each access has a number, and what is found holds for every copy of the statement.
//! Where a loop meets what was done before it, the block meets once, before the loop, and not at every turn.

use crate::tile::{Block, Kernel, SharedId, SharedKind, Stmt, ValueId};
use crate::types::AtomicOp;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What was done to an array since the last barrier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Done {
    Read,
    Write,
    /// Commutes with atomics of its own operation.
    Update(u8),
    /// An atomic whose order matters: an exchange, or one that gives the old value.
    Ordered,
}

impl Done {
    fn of(kind: &SharedKind) -> Done {
        match kind {
            SharedKind::Gather { .. } => Done::Read,
            SharedKind::Fill(_) | SharedKind::Scatter { .. } => Done::Write,
            SharedKind::Atomic(u) if u.result.is_some() || matches!(u.op, AtomicOp::Exchange | AtomicOp::CompareSwap) => Done::Ordered,
            SharedKind::Atomic(u) => Done::Update(u.op as u8),
        }
    }

    fn conflicts(self, other: Done) -> bool {
        match (self, other) {
            (Done::Read, Done::Read) => false,
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

/// Everything that a block may do to shared arrays, whatever happens in between.
fn all_done(block: &Block) -> State {
    let mut state = State::new();
    crate::tile::access::visit(block, &mut |stmt| {
        if let Stmt::Shared(access) = stmt {
            state.entry(access.array).or_default().insert(Done::of(&access.kind));
        }
    });
    state
}

fn conflict(earlier: &State, later: &State) -> bool {
    later.iter().any(|(array, done)| {
        let before = earlier.get(array);
        before.is_some_and(|before| before.iter().any(|e| done.iter().any(|d| e.conflicts(*d))))
    })
}

impl Walk<'_> {
    fn block(&mut self, block: &Block, state: &mut State) {
        for stmt in block {
            self.stmt(stmt, state);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, state: &mut State) {
        match stmt {
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
                self.before_loop(stmt, &[&l.body], state);
                let grid = self.kernel.grid_loop().is_some_and(|g| g.vars == l.vars);
                if grid && !self.repeats { self.once(&[&l.body], state) } else { self.turns(&[&l.body], state) }
            }
            Stmt::Range { body, .. } => {
                self.before_loop(stmt, &[body], state);
                self.turns(&[body], state);
            }
            Stmt::While { header, body, .. } => {
                self.before_loop(stmt, &[header, body], state);
                self.turns(&[header, body], state);
            }
            Stmt::If { then, otherwise, .. } => {
                let mut other = state.clone();
                self.block(then, state);
                self.block(otherwise, &mut other);
                join(state, &other);
            }
            Stmt::Where { body, .. } => self.block(body, state),
            Stmt::Let(..) | Stmt::Combine(_) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
        }
    }

    /// What was done before a loop and conflicts with what it does: the block meets before the loop.
    fn before_loop(&mut self, stmt: &Stmt, parts: &[&Block], state: &mut State) {
        let Some(key) = loop_key(stmt) else { return };
        let inside = parts.iter().any(|b| conflict(state, &all_done(b)));
        if inside {
            self.found.loops.insert(key);
        }
        if self.found.loops.contains(&key) {
            state.clear();
        }
    }

    /// At most one turn.
    fn once(&mut self, parts: &[&Block], state: &mut State) {
        let skipped = state.clone();
        parts.iter().for_each(|b| self.block(b, state));
        join(state, &skipped);
    }

    /// Any number of turns: walked until nothing new is found.
    fn turns(&mut self, parts: &[&Block], state: &mut State) {
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

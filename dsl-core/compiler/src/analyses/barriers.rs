//! Where the accesses of shared arrays, and of tensors that a block stores to and loads again, need a barrier: before one that conflicts with
//! what other threads may have done since the last.
//!
//! Works on tile IR, before any code exists: each access has a number, and what is found holds for every copy of the statement.
//! Where a loop meets what was done before it, the block meets once, before the loop, and not at every turn.

use super::placed_stores::{Placed, placed};
use super::same_block_hazards::{Key, Meeting, Reread, Touch};
use girih_ir::tile::{Block, Kernel, SharedAccess, SharedId, SharedKind, Stmt, TileLoop, ValueId};
use girih_ir::types::{AtomicOp, Scope};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What was done to an array since the last barrier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Done {
    Read,
    Write,
    /// Stored by the access of a number, of which more is known.
    Store(u32),
    /// The same threads write the same elements at every fill.
    Fill,
    /// Commutes with atomics of its own operation.
    Update(u8),
    /// An atomic whose order matters: an exchange, or one that gives the old value.
    Ordered,
}

impl Done {
    fn of(access: &SharedAccess) -> Done {
        match &access.kind {
            SharedKind::Gather { .. } | SharedKind::GatherRun { .. } => Done::Read,
            SharedKind::Fill(_) => Done::Fill,
            SharedKind::Scatter { .. } => Done::Store(access.number),
            SharedKind::ScatterRun { .. } | SharedKind::Copy { .. } => Done::Write,
            // Chains order themselves.
            SharedKind::Start(_) | SharedKind::Take { .. } | SharedKind::Leave(_) => Done::Read,
            SharedKind::Empty => Done::Fill,
            SharedKind::Atomic(u) if u.result.is_some() || matches!(u.op, AtomicOp::Exchange | AtomicOp::CompareSwap) => Done::Ordered,
            SharedKind::Atomic(u) => Done::Update(u.op as u8),
        }
    }

    fn conflicts(self, other: Done, stores: &HashMap<u32, Placed>) -> bool {
        match (self, other) {
            (Done::Read, Done::Read) | (Done::Fill, Done::Fill) => false,
            (Done::Store(a), Done::Store(b)) if a == b => stores[&a].meets_itself(),
            (Done::Store(a), Done::Store(b)) => stores[&a].meets(&stores[&b]),
            (Done::Update(a), Done::Update(b)) => a != b,
            _ => true,
        }
    }
}

/// What was done since the last barrier.
#[derive(Clone, PartialEq, Default)]
struct State {
    arrays: BTreeMap<SharedId, BTreeSet<Done>>,
    tensors: BTreeSet<Touch>,
}

impl State {
    fn clear(&mut self) {
        *self = State::default();
    }

    fn join(&mut self, other: &State) {
        for (array, done) in &other.arrays {
            self.arrays.entry(*array).or_default().extend(done);
        }
        self.tensors.extend(other.tensors.iter().cloned());
    }

    fn meets(&self, array: SharedId, done: Done, stores: &HashMap<u32, Placed>) -> bool {
        self.arrays.get(&array).is_some_and(|earlier| earlier.iter().any(|e| e.conflicts(done, stores)))
    }
}

/// Where the block meets.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Barriers {
    /// Before the accesses of these numbers.
    pub accesses: HashSet<u32>,
    /// Before the loops with these keys: see [`loop_key`].
    pub loops: HashSet<ValueId>,
    /// Before these loads and stores of tensors.
    tensors: HashSet<Key>,
    /// Before these, unless it is the same thread that has done what was done at the same place since the last barrier.
    same_place: BTreeMap<Key, BTreeSet<Key>>,
}

impl Barriers {
    /// Whether the block meets before a load or store of a tensor.
    fn stand_before(&self, stmt: &Stmt) -> bool {
        Key::of(stmt).is_some_and(|key| self.stand_before_access(key))
    }

    /// The same of the load or store with a key.
    pub fn stand_before_access(&self, key: Key) -> bool {
        self.tensors.contains(&key)
    }

    /// What was done since the last barrier where a load or store of a tensor goes.
    pub fn at_the_same_place(&self, key: Key) -> Option<&BTreeSet<Key>> {
        self.same_place.get(&key)
    }
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

/// What tells the turns of a loop apart.
fn counters(stmt: &Stmt) -> Vec<ValueId> {
    match stmt {
        Stmt::Tiles(l) => l.vars.clone(),
        Stmt::Range { var, .. } => vec![*var],
        _ => vec![],
    }
}

/// Whether statements access shared arrays that the author orders by hand.
pub(crate) fn kept_by_hand(kernel: &Kernel, block: &[Stmt]) -> bool {
    let mut found = false;
    girih_ir::tile::access::visit(block, &mut |stmt| {
        found |= matches!(stmt, Stmt::Shared(access) if kernel.shared_array(access.array).by_hand);
    });
    found
}

/// Whether the author has placed barriers: what they order is the author's to know.
pub(crate) fn has_own(kernel: &Kernel) -> bool {
    let mut found = false;
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| {
        found |= matches!(stmt, Stmt::Barrier { scope: Scope::Block | Scope::Warp, .. } | Stmt::Copies { .. })
    });
    found
}

struct Walk<'a> {
    kernel: &'a Kernel,
    tensors: Reread<'a>,
    /// Where stores to shared arrays go.
    stores: HashMap<u32, Placed>,
    /// Turns of the grid loop follow each other in one block.
    repeats: bool,
    found: Barriers,
}

/// Where the block must meet. `repeats`: a block may take several tiles of the grid.
pub(crate) fn place(kernel: &Kernel, repeats: bool) -> Barriers {
    let mut walk = Walk { kernel, tensors: Reread::new(kernel), stores: placed(kernel), repeats, found: Barriers::default() };
    walk.block(&kernel.body, &mut State::default());
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
                let done = Done::of(access);
                if state.meets(access.array, done, &self.stores) {
                    self.found.accesses.insert(access.number);
                }
                // A barrier found by an earlier walk of this loop stays: it is there at every turn.
                if self.found.accesses.contains(&access.number) {
                    state.clear();
                }
                state.arrays.entry(access.array).or_default().insert(done);
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
                state.join(&other);
            }
            Stmt::Where { body, .. } => self.block(body, state),
            Stmt::Barrier { scope, .. } => {
                if *scope != Scope::Warp {
                    state.clear();
                }
            }
            Stmt::Let(..) | Stmt::Store { .. } => self.touch(stmt, state),
            Stmt::Combine(_) | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Copies { .. } => {}
        }
    }

    fn touch(&mut self, stmt: &Stmt, state: &mut State) {
        let (Some(touch), Some(key)) = (self.tensors.touch(stmt), Key::of(stmt)) else { return };
        for earlier in &state.tensors {
            match self.tensors.meeting(earlier, &touch) {
                Meeting::Never => {}
                Meeting::SamePlace => drop(self.found.same_place.entry(key).or_default().insert(self.tensors.key(earlier))),
                Meeting::Maybe => drop(self.found.tensors.insert(key)),
            }
        }
        if self.found.stand_before(stmt) {
            state.clear();
        }
        state.tensors.insert(touch);
    }

    /// A loop. Where what was done before it conflicts with what it does, the block meets before the loop.
    fn loop_(&mut self, stmt: &Stmt, parts: &[&Block], repeats: bool, state: &mut State) {
        // The barriers that the turns need among themselves.
        let counters = counters(stmt);
        self.turns(parts, &counters, repeats, &mut State::default());
        let mut earlier = state.clone();
        let key = loop_key(stmt);
        if parts.iter().any(|b| self.meets(b, &mut earlier)) {
            self.found.loops.extend(key);
        }
        if key.is_some_and(|key| self.found.loops.contains(&key)) {
            state.clear();
        }
        self.turns(parts, &counters, repeats, state);
    }

    /// Whether a block conflicts with what was done `earlier` before it reaches one of the barriers found so far.
    fn meets(&self, block: &Block, earlier: &mut State) -> bool {
        block.iter().any(|stmt| match stmt {
            Stmt::Shared(access) if self.kernel.shared_array(access.array).by_hand => false,
            Stmt::Shared(access) => {
                if self.found.accesses.contains(&access.number) {
                    earlier.clear();
                }
                earlier.meets(access.array, Done::of(access), &self.stores)
            }
            Stmt::Tiles(TileLoop { body, .. }) | Stmt::Range { body, .. } => self.meets_inside(stmt, &[body], earlier),
            Stmt::While { header, body, .. } => self.meets_inside(stmt, &[header, body], earlier),
            Stmt::If { then, otherwise, .. } => {
                let mut other = earlier.clone();
                let meets = self.meets(then, earlier) || self.meets(otherwise, &mut other);
                earlier.join(&other);
                meets
            }
            Stmt::Where { body, .. } => self.meets(body, earlier),
            Stmt::Barrier { scope, .. } => {
                if *scope != Scope::Warp {
                    earlier.clear();
                }
                false
            }
            Stmt::Let(..) | Stmt::Store { .. } => self.tensors.touch(stmt).is_some_and(|touch| {
                if self.found.stand_before(stmt) {
                    earlier.clear();
                }
                earlier.tensors.iter().any(|e| self.tensors.meeting(e, &touch) == Meeting::Maybe)
            }),
            Stmt::Combine(_) | Stmt::Scatter { .. } | Stmt::Atomic { .. } | Stmt::Copies { .. } => false,
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
    fn turns(&mut self, parts: &[&Block], counters: &[ValueId], repeats: bool, state: &mut State) {
        if !repeats {
            let skipped = state.clone();
            parts.iter().for_each(|b| self.block(b, state));
            return state.join(&skipped);
        }
        loop {
            let (entry, known) = (state.clone(), self.found.clone());
            let mut end = state.clone();
            parts.iter().for_each(|b| self.block(b, &mut end));
            end.tensors = Reread::after_turn(&end.tensors, counters);
            state.join(&end);
            if *state == entry && self.found == known {
                return;
            }
        }
    }
}

//! Spares barriers. One that orders nothing goes; one that only keeps the next turn's writes behind this turn's reads of a small array
//! goes, too, where the turns can take two copies of the array in turn.
//!
//! Before: `loop { barrier; parts[i] = x; barrier; .. = parts[k] }`
//! After:  `loop { side = side ^ 1; parts[side * n + i] = x; barrier; .. = parts[side * n + k] }`
//!
//! A barrier orders what was accessed since the last ones before what is accessed up to the next ones, on all ways through the kernel.
//! Runs after `simplify`, when all accesses and ways are there. Kernels with barriers of the author's keep theirs.

mod outline;

use super::array_copies::{in_copies, move_to_copy};
use crate::lower::expand::index::literal;
use girih_ir::simt::visit::{blocks, each_place};
use girih_ir::simt::{Barrier, Expr, Kernel, Place, SharedId, Space, Stmt, Var, VarId};
use girih_ir::types::{BinaryOp, DType};
use outline::{Access, Memory, Outline, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Arrays beyond these bytes have no second copy.
const SMALL: u32 = 1024;

/// What becomes of a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Meets,
    Gone,
    /// The arrays of this group change sides here.
    Turns(usize),
}

/// Arrays that have two copies and change sides at the same places.
struct Group {
    arrays: BTreeSet<SharedId>,
    side: VarId,
}

/// Takes the barriers out that a kernel does not need. `kept` are arrays that keep what a turn does not write, the author's own: they have no
/// second copy. `alone`: barriers of a warp order what one warp does for the block, and nothing between warps.
pub(crate) fn remove_barriers(kernel: &mut Kernel, kept: &BTreeSet<SharedId>, alone: bool) {
    let Some(outline) = Outline::of(kernel, kept, alone) else { return };
    let mut roles = vec![Role::Meets; outline.barriers];
    for n in 0..roles.len() {
        if orders(&outline.steps, &roles, n).is_empty() {
            roles[n] = Role::Gone;
        }
    }
    let groups = turn_sides(kernel, &outline, &mut roles);
    if roles.iter().all(|r| *r == Role::Meets) {
        return;
    }
    let mut body = std::mem::take(&mut kernel.body);
    rewrite(&mut body, &mut roles.iter(), &groups);
    kernel.body = body;
    double(kernel, &groups);
}

/// Groups of small arrays that change sides in place of the barriers before their writes.
fn turn_sides(kernel: &mut Kernel, outline: &Outline, roles: &mut Vec<Role>) -> Vec<Group> {
    let steps = &outline.steps;
    let mut wanted: BTreeMap<BTreeSet<SharedId>, Vec<usize>> = BTreeMap::new();
    for n in (0..roles.len()).filter(|n| roles[*n] == Role::Meets) {
        if let Some(arrays) = only_kept_apart(kernel, outline, &orders(steps, roles, n)) {
            wanted.entry(arrays).or_default().push(n);
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for (arrays, places) in wanted {
        if groups.iter().any(|g| !g.arrays.is_disjoint(&arrays)) {
            continue;
        }
        let before = roles.clone();
        places.iter().for_each(|n| roles[*n] = Role::Turns(groups.len()));
        groups.push(Group { arrays, side: VarId(kernel.vars.len() as u32) });
        let group = &groups[groups.len() - 1];
        let own =
            |n: &usize| only_kept_apart(kernel, outline, &orders(steps, roles, *n)).is_some_and(|arrays| arrays.is_subset(&group.arrays));
        if places.iter().all(own) && groups.iter().enumerate().all(|(g, group)| sides_hold(steps, roles, g, &group.arrays)) {
            kernel.vars.push(Var { name: "side".to_string(), dtype: DType::I32, len: None });
        } else {
            groups.pop();
            *roles = before;
        }
    }
    groups
}

/// The small arrays whose later writes stay behind earlier reads, if a barrier orders nothing else.
fn only_kept_apart(kernel: &Kernel, outline: &Outline, ordered: &BTreeSet<(Access, Access)>) -> Option<BTreeSet<SharedId>> {
    let arrays: Option<BTreeSet<SharedId>> = ordered
        .iter()
        .map(|(before, after)| match (before.memory, after.memory) {
            (Memory::Shared(a), Memory::Shared(b)) if a == b && !before.writes && after.writes => Some(a),
            _ => None,
        })
        .collect();
    let small = |id: &SharedId| {
        let array = &kernel.shared[id.0 as usize];
        array.len * array.dtype.size() as u32 <= SMALL && !outline.unknown.contains(id)
    };
    arrays.filter(|arrays| arrays.iter().all(small))
}

/// Conflicting accesses that are ordered by barrier `n` and by no other on some way from one to the other.
fn orders(steps: &[Step], roles: &[Role], n: usize) -> BTreeSet<(Access, Access)> {
    let mut found = BTreeSet::new();
    // What was accessed since the last barrier, and whether this one came after it.
    let mut state: BTreeSet<(Access, bool)> = BTreeSet::new();
    let mut visit = |step: &Step, state: &mut BTreeSet<(Access, bool)>| match step {
        Step::Access(b) => {
            found.extend(state.iter().filter(|(a, passed)| *passed && a.conflicts(*b)).map(|(a, _)| (*a, *b)));
            state.insert((*b, false));
        }
        Step::Barrier(k) if *k == n => *state = state.iter().map(|(a, _)| (*a, true)).collect(),
        Step::Barrier(k) if roles[*k] == Role::Meets => state.clear(),
        Step::Grid => state.clear(),
        Step::Barrier(_) | Step::Loop(_) | Step::Choice(..) => {}
    };
    steps.iter().for_each(|s| s.walk(&mut state, &|a, b| a.extend(b.iter().copied()), &mut visit));
    found
}

/// Whether two copies are enough: between an access and the second change of sides after it stands a barrier, and what is read has been
/// written since the last change.
fn sides_hold(steps: &[Step], roles: &[Role], group: usize, arrays: &BTreeSet<SharedId>) -> bool {
    #[derive(Clone, PartialEq, Default)]
    struct State {
        /// What was accessed since the last barrier, and how many changes ago.
        done: BTreeSet<(Access, u8)>,
        /// Arrays whose present side may hold nothing yet.
        stale: BTreeSet<SharedId>,
    }
    let mut holds = true;
    let mut visit = |step: &Step, state: &mut State| match step {
        Step::Access(b) => {
            let Memory::Shared(id) = b.memory else { return };
            if !arrays.contains(&id) {
                return;
            }
            holds &= !state.done.iter().any(|(a, turns)| *turns > 1 && a.conflicts(*b));
            holds &= b.writes || !state.stale.contains(&id);
            if b.writes {
                state.stale.remove(&id);
            }
            state.done.insert((*b, 0));
        }
        Step::Barrier(k) if roles[*k] == Role::Turns(group) => {
            state.done = state.done.iter().map(|(a, turns)| (*a, (turns + 1).min(2))).collect();
            state.stale = arrays.clone();
        }
        Step::Barrier(k) if roles[*k] == Role::Meets => state.done.clear(),
        Step::Grid => state.done.clear(),
        Step::Barrier(_) | Step::Loop(_) | Step::Choice(..) => {}
    };
    let join = |a: &mut State, b: &State| {
        a.done.extend(b.done.iter().copied());
        a.stale.extend(b.stale.iter().copied());
    };
    let mut state = State::default();
    steps.iter().for_each(|s| s.walk(&mut state, &join, &mut visit));
    holds
}

/// Takes out the barriers that are gone, and changes sides where arrays do.
fn rewrite(block: &mut Vec<Stmt>, roles: &mut std::slice::Iter<Role>, groups: &[Group]) {
    for stmt in std::mem::take(block) {
        let role = if matches!(stmt, Stmt::Barrier(Barrier::Block)) { *roles.next().unwrap_or(&Role::Meets) } else { Role::Meets };
        match role {
            Role::Meets => {
                block.push(stmt);
                let last = block.len() - 1;
                blocks(&mut block[last]).into_iter().for_each(|b| rewrite(b, roles, groups));
            }
            Role::Gone => {}
            Role::Turns(group) => {
                let side = groups[group].side;
                let value = Expr::Binary(BinaryOp::Xor, Box::new(Expr::Var(side)), Box::new(literal(DType::I32, 1)));
                block.push(Stmt::Assign { var: side, index: None, value });
            }
        }
    }
}

/// Gives the groups' arrays their second copies, and all accesses the side at hand.
fn double(kernel: &mut Kernel, groups: &[Group]) {
    for group in groups {
        let mut sizes = BTreeMap::new();
        for id in &group.arrays {
            sizes.insert(*id, in_copies(&mut kernel.shared[id.0 as usize], 2));
        }
        let (vars, params) = (&kernel.vars, &kernel.params);
        let mut move_place = |place: &mut Place| {
            let Space::Shared(id) = place.space else { return };
            if let Some(bytes) = sizes.get(&id) {
                move_to_copy(place, *bytes, &Expr::Var(group.side), vars, params);
            }
        };
        each_place(&mut kernel.body, &mut move_place);
        let side = Stmt::Declare { var: group.side, init: Some(literal(DType::I32, 0)) };
        let first = kernel.body.iter_mut().position(|s| !matches!(s, Stmt::Let { .. })).unwrap_or(0);
        kernel.body.insert(first, side);
    }
}

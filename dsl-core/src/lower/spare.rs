//! Spares barriers. One that orders nothing goes; one that only keeps the next turn's writes behind this turn's reads of a small array
//! goes, too, where the turns can take two copies of the array in turn.
//!
//! Before: `loop { barrier; parts[i] = x; barrier; .. = parts[k] }`
//! After:  `loop { side = side ^ 1; parts[side * n + i] = x; barrier; .. = parts[side * n + k] }`
//!
//! A barrier orders what was accessed since the last ones before what is accessed up to the next ones, on all ways through the kernel.
//! Runs after `simplify`, when all accesses and ways are there. Kernels with barriers of the author's keep theirs.

use super::index::{Index, literal};
use crate::simt::visit::{blocks, each_expr, each_load};
use crate::simt::{Barrier, Expr, Kernel, Param, ParamKind, Place, SharedArray, SharedId, Space, Stmt, Var, VarId, expr_dtype};
use crate::types::{BinaryOp, DType, MemoryOrder};
use std::collections::{BTreeMap, BTreeSet};

/// Arrays beyond these bytes have no second copy.
const SMALL: u32 = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Memory {
    Shared(SharedId),
    /// What only this parameter reaches, or what any of the others may reach.
    Global(Option<usize>),
    /// What a fence, or an atomic that is one, orders.
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Access {
    memory: Memory,
    writes: bool,
}

impl Access {
    fn conflicts(self, other: Access) -> bool {
        let meets = self.memory == other.memory || self.memory == Memory::All || other.memory == Memory::All;
        meets && (self.writes || other.writes)
    }
}

/// A kernel, as far as order is concerned.
#[derive(Clone, PartialEq, Debug)]
enum Step {
    Access(Access),
    /// The barrier of this number, in the order of the text.
    Barrier(usize),
    /// Any number of turns.
    Loop(Vec<Step>),
    Choice(Vec<Step>, Vec<Step>),
}

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
/// second copy.
pub(crate) fn spare_barriers(kernel: &mut Kernel, kept: &BTreeSet<SharedId>) {
    let Some(outline) = Outline::of(kernel, kept) else { return };
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

impl Step {
    fn walk<S: Clone + PartialEq>(&self, state: &mut S, join: &dyn Fn(&mut S, &S), visit: &mut dyn FnMut(&Step, &mut S)) {
        match self {
            Step::Access(_) | Step::Barrier(_) => visit(self, state),
            Step::Loop(body) => loop {
                let mut end = state.clone();
                body.iter().for_each(|s| s.walk(&mut end, join, visit));
                let entry = state.clone();
                join(state, &end);
                if *state == entry {
                    return;
                }
            },
            Step::Choice(then, otherwise) => {
                let mut other = state.clone();
                then.iter().for_each(|s| s.walk(state, join, visit));
                otherwise.iter().for_each(|s| s.walk(&mut other, join, visit));
                join(state, &other);
            }
        }
    }
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

/// A kernel's accesses and block barriers.
struct Outline {
    steps: Vec<Step>,
    /// Shared arrays of which it is not known that each turn writes what it reads: asynchronous copies fill them, or the author does.
    unknown: BTreeSet<SharedId>,
    barriers: usize,
}

impl Outline {
    /// `None` where something else than block barriers orders accesses, or there is nothing to spare.
    fn of(kernel: &mut Kernel, kept: &BTreeSet<SharedId>) -> Option<Outline> {
        let mut body = std::mem::take(&mut kernel.body);
        let mut builder = Builder { kernel, copied: BTreeSet::new(), barriers: 0, foreign: false };
        builder.find_copied(&mut body);
        let steps = builder.block(&mut body);
        let (barriers, foreign) = (builder.barriers, builder.foreign);
        let unknown = builder.copied.union(kept).copied().collect();
        kernel.body = body;
        (barriers > 0 && !foreign).then_some(Outline { steps, unknown, barriers })
    }
}

struct Builder<'k> {
    kernel: &'k Kernel,
    /// Shared arrays that asynchronous copies fill: a wait for them is a write.
    copied: BTreeSet<SharedId>,
    barriers: usize,
    /// Mbarriers, or barriers of others than the block.
    foreign: bool,
}

impl Builder<'_> {
    fn find_copied(&mut self, block: &mut [Stmt]) {
        for stmt in block {
            if let Stmt::AsyncCopy { shared: Place { space: Space::Shared(id), .. }, .. } = stmt {
                self.copied.insert(*id);
            }
            blocks(stmt).into_iter().for_each(|b| self.find_copied(b));
        }
    }

    fn block(&mut self, block: &mut [Stmt]) -> Vec<Step> {
        let mut steps = Vec::new();
        for stmt in block {
            self.stmt(stmt, &mut steps);
        }
        // Accesses of the same kind between the same barriers count once.
        steps.dedup();
        steps
    }

    fn stmt(&mut self, stmt: &mut Stmt, steps: &mut Vec<Step>) {
        if !matches!(stmt, Stmt::While { .. }) {
            self.reads(stmt, steps);
        }
        match stmt {
            Stmt::Barrier(Barrier::Block) => {
                steps.push(Step::Barrier(self.barriers));
                self.barriers += 1;
            }
            Stmt::LoadVector { place, .. } | Stmt::LoadMatrix { place, .. } => steps.push(self.access(place, false)),
            Stmt::Store { place, .. } | Stmt::StoreVector { place, .. } => steps.push(self.access(place, true)),
            Stmt::Atomic { place, order: MemoryOrder::Relaxed, .. }
            | Stmt::StoreRelaxed { place, .. }
            | Stmt::LoadRelaxed { place, .. } => steps.push(self.access(place, true)),
            Stmt::Atomic { .. } | Stmt::Fence { .. } => steps.push(Step::Access(Access { memory: Memory::All, writes: true })),
            Stmt::AsyncCopy { shared, global, .. } => {
                steps.push(self.access(global, false));
                steps.push(self.access(shared, true));
            }
            Stmt::AsyncWait { .. } => {
                steps.extend(self.copied.iter().map(|id| Step::Access(Access { memory: Memory::Shared(*id), writes: true })));
            }
            Stmt::If { then, otherwise, .. } => {
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                if !then.is_empty() || !otherwise.is_empty() {
                    steps.push(Step::Choice(then, otherwise));
                }
            }
            Stmt::For { body, .. } => {
                let body = self.block(body);
                if !body.is_empty() {
                    steps.push(Step::Loop(body));
                }
            }
            Stmt::While { header, body, condition } => {
                let mut header = self.block(header);
                let mut read = Stmt::Declare { var: VarId(0), init: Some(condition.clone()) };
                self.reads(&mut read, &mut header);
                let mut turn = self.block(body);
                turn.extend(header.iter().cloned());
                steps.extend(header);
                steps.push(Step::Loop(turn));
            }
            Stmt::Barrier(Barrier::Named { .. } | Barrier::Slice { .. } | Barrier::Cluster | Barrier::Grid | Barrier::Warp) => {
                self.foreign = true
            }
            Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::AsyncArrive { .. }
            | Stmt::MbarrierWait { .. }
            | Stmt::BulkCopy { .. } => self.foreign = true,
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::AsyncCommit => {}
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::Mma { .. } | Stmt::Comment(_) => {}
        }
    }

    /// The reads of a statement's own expressions.
    fn reads(&self, stmt: &mut Stmt, steps: &mut Vec<Step>) {
        each_expr(stmt, &mut |e| each_load(e, &mut |place| steps.push(self.access(place, false))));
    }

    fn access(&self, place: &Place, writes: bool) -> Step {
        let memory = match place.space {
            Space::Shared(id) => Memory::Shared(id),
            Space::Global(p) => match &self.kernel.params[p].kind {
                ParamKind::Pointer { restrict: false, .. } => Memory::Global(None),
                ParamKind::Pointer { .. } | ParamKind::Workspace { .. } | ParamKind::Scalar { .. } => Memory::Global(Some(p)),
                ParamKind::Host { .. } | ParamKind::TensorMap { .. } => Memory::Global(Some(p)),
            },
        };
        Step::Access(Access { memory, writes })
    }
}

/// Takes out the barriers that are gone, and changes sides where arrays do.
fn rewrite(block: &mut Vec<Stmt>, roles: &mut std::slice::Iter<Role>, groups: &[Group]) {
    for stmt in std::mem::take(block) {
        let role = match stmt {
            Stmt::Barrier(Barrier::Block) => *roles.next().unwrap_or(&Role::Meets),
            _ => Role::Meets,
        };
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

/// Makes so many copies of an array, each aligned as the array is: the bytes from one to the next.
pub(super) fn in_copies(array: &mut SharedArray, copies: u32) -> i64 {
    let len = array.len.next_multiple_of((array.align / array.dtype.size() as u32).max(1));
    array.len = len * copies;
    i64::from(len) * array.dtype.size() as i64
}

/// Moves an access to the copy of this number (i32) of its array.
pub(super) fn move_to_copy(place: &mut Place, bytes: i64, copy: &Expr, vars: &[Var], params: &[Param]) {
    let ix = Index { dtype: expr_dtype(&place.index, vars, params) };
    let at = std::mem::replace(&mut place.index, ix.lit(0));
    place.index = ix.add(ix.mul(ix.cast(DType::I32, copy.clone()), ix.lit(bytes / place.dtype.size() as i64)), at);
}

/// Calls `f` on each place that is accessed.
pub(super) fn each_place(block: &mut [Stmt], f: &mut dyn FnMut(&mut Place)) {
    for stmt in block {
        each_expr(stmt, &mut |e| each_load(e, f));
        match stmt {
            Stmt::LoadVector { place, .. } | Stmt::LoadMatrix { place, .. } => f(place),
            Stmt::StoreVector { place, .. } | Stmt::Store { place, .. } | Stmt::Atomic { place, .. } => f(place),
            Stmt::StoreRelaxed { place, .. } | Stmt::LoadRelaxed { place, .. } => f(place),
            Stmt::AsyncCopy { shared, global, .. } => {
                f(shared);
                f(global);
            }
            _ => {}
        }
        blocks(stmt).into_iter().for_each(|b| each_place(b, f));
    }
}

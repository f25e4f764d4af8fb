//! A kernel as far as order is concerned: its accesses and its barriers, on all ways through it.

use girih_ir::simt::visit::{blocks, each_expr, each_load};
use girih_ir::simt::{Barrier, Kernel, ParamKind, Place, SharedId, Space, Stmt, VarId};
use girih_ir::types::MemoryOrder;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Memory {
    Shared(SharedId),
    /// What only this parameter reaches, or what any of the others may reach.
    Global(Option<usize>),
    /// What a fence, or an atomic that is one, orders.
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Access {
    pub(super) memory: Memory,
    pub(super) writes: bool,
}

impl Access {
    pub(super) fn conflicts(self, other: Access) -> bool {
        let meets = self.memory == other.memory || self.memory == Memory::All || other.memory == Memory::All;
        meets && (self.writes || other.writes)
    }
}

/// A kernel, as far as order is concerned.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    Access(Access),
    /// The barrier of this number, in the order of the text.
    Barrier(usize),
    /// The whole grid meets, which stays.
    Grid,
    /// Any number of turns.
    Loop(Vec<Step>),
    Choice(Vec<Step>, Vec<Step>),
}

impl Step {
    pub(super) fn walk<S: Clone + PartialEq>(&self, state: &mut S, join: &dyn Fn(&mut S, &S), visit: &mut dyn FnMut(&Step, &mut S)) {
        match self {
            Step::Access(_) | Step::Barrier(_) | Step::Grid => visit(self, state),
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

/// A kernel's accesses and block barriers.
pub(super) struct Outline {
    pub(super) steps: Vec<Step>,
    /// Shared arrays of which it is not known that each turn writes what it reads: asynchronous copies fill them, or the author does.
    pub(super) unknown: BTreeSet<SharedId>,
    pub(super) barriers: usize,
}

impl Outline {
    /// `None` where something else than block barriers orders accesses, or there is nothing to spare.
    pub(super) fn of(kernel: &mut Kernel, kept: &BTreeSet<SharedId>, alone: bool) -> Option<Outline> {
        let mut body = std::mem::take(&mut kernel.body);
        let mut builder = Builder { kernel, copied: BTreeSet::new(), barriers: 0, alone, foreign: false };
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
    /// Barriers of a warp order nothing between warps.
    alone: bool,
    /// Mbarriers, barriers of others than the block, or what warp groups have in flight.
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
            Stmt::Barrier(Barrier::Warp) if self.alone => {}
            Stmt::Barrier(Barrier::AwaitTurn { .. } | Barrier::PassTurn { .. }) => {}
            Stmt::Barrier(Barrier::Grid { .. }) => steps.push(Step::Grid),
            Stmt::Barrier(Barrier::Named { .. } | Barrier::Slice { .. } | Barrier::Cluster | Barrier::Warp) => self.foreign = true,
            Stmt::LoadFromBlock { .. }
            | Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::AsyncArrive { .. }
            | Stmt::MbarrierWait { .. }
            | Stmt::BulkCopy { .. }
            | Stmt::TensorCopy { .. }
            | Stmt::Wgmma { .. }
            | Stmt::WgmmaFence
            | Stmt::WgmmaCommit
            | Stmt::WgmmaWait { .. }
            | Stmt::ProxyFence
            | Stmt::SetRegisters { .. } => self.foreign = true,
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::AsyncCommit => {}
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } | Stmt::Mma { .. } | Stmt::Comment(_) => {}
        }
    }

    /// The reads of a statement's own expressions.
    fn reads(&self, stmt: &mut Stmt, steps: &mut Vec<Step>) {
        each_expr(stmt, &mut |e| each_load(e, &mut |place| steps.push(self.access(place, false))));
    }

    fn access(&self, place: &Place, writes: bool) -> Step {
        let memory = match place.space {
            Space::Shared(id) => Memory::Shared(id),
            Space::Constant(p) => Memory::Global(Some(p)),
            Space::Global(p) => match &self.kernel.params[p].kind {
                ParamKind::Pointer { restrict: false, .. } => Memory::Global(None),
                ParamKind::Pointer { .. } | ParamKind::Workspace { .. } | ParamKind::Scalar { .. } => Memory::Global(Some(p)),
                ParamKind::Host { .. } | ParamKind::Constant { .. } | ParamKind::TensorMap { .. } => Memory::Global(Some(p)),
            },
        };
        Step::Access(Access { memory, writes })
    }
}

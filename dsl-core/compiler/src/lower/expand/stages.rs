//! The stages of a ring that copies fill and turns read, and how they are handed over: by a barrier of the block at each turn, behind a wait for
//! asynchronous copies or, of two stages, behind stores from registers; or by mbarriers (`copy(P = Mbarriers)`), of which each stage has two. It is full once the copies of all threads have landed, and free once
//! all have read it. No warp then waits for the slowest one at each turn, only for what it needs. (CUTLASS's pipelines have the same
//! two.)

use super::context::{Expanded, Expander};
use super::index::{Index, binary, compare, literal};
use crate::block::{Handover, KnobId, RingPlan};
use crate::lower::refusal::Refusal;
use girih_ir::simt::{Barrier, Expr, Place, SharedId, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Scope};

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };

/// The mbarriers of a ring, one of each kind per stage.
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    full: SharedId,
    free: SharedId,
    /// The knob that asks for them.
    asked_by: Option<KnobId>,
}

/// Where the turns are in a ring.
pub(crate) struct Stages {
    pub ring: RingPlan,
    /// The stage that the turn reads.
    stage: VarId,
    /// Its mbarriers, and the parity of the phase in which it was filled.
    signals: Option<(Signals, VarId)>,
}

impl Stages {
    /// The stage that the turn reads.
    pub fn stage(&self) -> Expr {
        Expr::Var(self.stage)
    }

    /// The ring's mbarriers.
    pub fn signals(&self) -> Option<Signals> {
        self.signals.map(|(signals, _)| signals)
    }
}

/// The stage that is filled while this one is read: as many turns ahead as there are others.
pub(crate) fn filled(stage: Expr, stages: i64) -> Expr {
    LOCAL.rem(LOCAL.add(stage, LOCAL.lit(stages - 1)), stages)
}

/// The stage behind this one.
pub(crate) fn next(stage: Expr, stages: i64) -> Expr {
    let next = LOCAL.add(stage, LOCAL.lit(1));
    let wraps = compare(CompareOp::Eq, next.clone(), LOCAL.lit(stages));
    Expr::Select(Box::new(wraps), Box::new(LOCAL.lit(0)), Box::new(next))
}

/// The other one of two stages.
fn other(stages: &Stages) -> Expr {
    LOCAL.sub(LOCAL.lit(1), stages.stage())
}

fn word(array: SharedId, stage: &Expr) -> Place {
    Place { space: Space::Shared(array), dtype: DType::U64, index: stage.clone() }
}

impl Expander<'_> {
    /// Makes the mbarriers of a ring, before the first copy, if the schedule asks for them.
    ///
    /// # Errors
    /// A ring that begins again and again: its phases would have to go on from one to the next.
    pub fn begin_ring(&mut self, ring: RingPlan, again: bool) -> Expanded<Option<Signals>> {
        let (filled_by, freed_by) = match ring.handover {
            Handover::Barrier | Handover::Registers => return Ok(None),
            Handover::Mbarriers => (self.team.threads, self.team.threads),
            // The producer arrives, and so does each warp that has read, of all blocks that it fills stages of.
            Handover::Transactions => (1, self.team.threads / 32 * self.kernel.launch.cluster),
        };
        if again {
            return Err(Refusal::MbarriersPipeline(ring.asked_by));
        }
        let stages = ring.stages;
        let [full, free] = ["stage_full", "stage_free"].map(|name| self.new_shared(name, DType::U64, stages));
        self.comment(match ring.handover {
            Handover::Transactions => "a stage is full when its bytes have arrived, and free when all warps have read it",
            _ => "a stage is full when the copies of all threads have landed, and free when they have read it",
        });
        let (counter, stage) = self.loop_var("stage");
        let init = |array, count: i64| Stmt::MbarrierInit { barrier: word(array, &stage), count: count as u32 };
        let body = vec![init(full, filled_by), init(free, freed_by)];
        let (start, end, step) = (LOCAL.lit(0), LOCAL.lit(stages), LOCAL.lit(1));
        let then = vec![Stmt::For { var: counter, start, end, step, unroll: true, body }];
        let condition = compare(CompareOp::Eq, self.thread32(), LOCAL.lit(0));
        self.emit(Stmt::If { condition, then, otherwise: vec![] });
        self.emit(Stmt::Barrier(if self.kernel.launch.cluster > 1 { Barrier::Cluster } else { Barrier::Block }));
        Ok(Some(Signals { full, free, asked_by: ring.asked_by }))
    }

    /// Closes the copies to a stage: those that wait for it hear when they have landed.
    ///
    /// # Errors
    /// Copies that are stores: their arrival would say nothing of them.
    pub fn end_copies(&mut self, signals: Option<Signals>, stage: &Expr) -> Expanded<()> {
        let Some(signals) = signals else {
            self.emit(Stmt::AsyncCommit);
            return Ok(());
        };
        if self.stored_copies {
            return Err(Refusal::MbarriersBytes(signals.asked_by));
        }
        self.emit(Stmt::AsyncArrive { barrier: word(signals.full, stage) });
        Ok(())
    }

    /// Declares where the turns are: at the first stage.
    pub fn first_stage(&mut self, ring: RingPlan, signals: Option<Signals>) -> Stages {
        let mut declare = |name: &str| {
            let var = self.new_var(name, DType::I32, None);
            self.emit(Stmt::Declare { var, init: Some(literal(DType::I32, 0)) });
            var
        };
        let stage = declare("stage");
        Stages { ring, stage, signals: signals.map(|signals| (signals, declare("phase"))) }
    }

    /// The stage that this turn fills, as many turns ahead as the ring has others. Waits until it is free: it was read a turn ago. The wait
    /// for a phase before the first one, of a stage that was never filled, ends at once.
    pub fn free_stage(&mut self, stages: &Stages) -> Expr {
        if stages.ring.handover == Handover::Registers {
            return other(stages);
        }
        let free = filled(stages.stage(), stages.ring.stages);
        let Some((signals, phase)) = stages.signals else { return free };
        let free = self.declare_let("ahead", DType::I32, free);
        let other = binary(BinaryOp::Xor, Expr::Var(phase), LOCAL.lit(1));
        let first = compare(CompareOp::Eq, stages.stage(), LOCAL.lit(0));
        let parity = Expr::Select(Box::new(first), Box::new(other), Box::new(Expr::Var(phase)));
        self.emit(Stmt::MbarrierWait { barrier: word(signals.free, &free), parity, scope: Scope::Block });
        free
    }

    /// The end of a stage: all of it has been read; and on to the next one. Every thread says so for itself: one lane for its warp, behind a
    /// barrier of the warp, is as right and half a percent faster on an H200, but NVIDIA's racecheck follows no order through it and would
    /// report each copy.
    pub fn leave_stage(&self, stages: &Stages) -> Vec<Stmt> {
        self.arrive_free(stages).into_iter().chain(self.next_stage(stages)).collect()
    }

    /// The stage that comes next, and the parity with which it is filled.
    pub fn next_stage(&self, stages: &Stages) -> Vec<Stmt> {
        if stages.ring.handover == Handover::Registers {
            return vec![Stmt::Assign { var: stages.stage, index: None, value: other(stages) }];
        }
        let value = next(stages.stage(), stages.ring.stages);
        let mut all = vec![Stmt::Assign { var: stages.stage, index: None, value }];
        all.extend(stages.signals.map(|(_, phase)| {
            let first = compare(CompareOp::Eq, stages.stage(), LOCAL.lit(0));
            let value = binary(BinaryOp::Xor, Expr::Var(phase), Expr::Cast(DType::I32, Box::new(first)));
            Stmt::Assign { var: phase, index: None, value }
        }));
        all
    }

    /// Waits until the stage at hand is free, and says how many bytes will come: where they complete. The first wait for each stage ends at once.
    pub fn begin_stage(&mut self, stages: &Stages, bytes: i64) -> Place {
        let Some((signals, phase)) = stages.signals else { panic!("stages: no mbarriers in\n{}", self.kernel) };
        let parity = Expander::other_parity(Expr::Var(phase));
        let scope = if self.kernel.launch.cluster > 1 { Scope::Cluster } else { Scope::Block };
        self.emit(Stmt::MbarrierWait { barrier: word(signals.free, &stages.stage()), parity, scope });
        let full = word(signals.full, &stages.stage());
        self.emit(Stmt::MbarrierArrive { barrier: full.clone(), expect: Some(LOCAL.lit(bytes)) });
        full
    }

    /// Says that the stage at hand has been read.
    pub fn arrive_free(&self, stages: &Stages) -> Vec<Stmt> {
        self.arrive_free_at(stages, &stages.stage())
    }

    /// Says that a stage has been read.
    pub fn arrive_free_at(&self, stages: &Stages, stage: &Expr) -> Vec<Stmt> {
        let arrive = |signals: Signals| Stmt::MbarrierArrive { barrier: word(signals.free, stage), expect: None };
        stages.signals().map(arrive).into_iter().collect()
    }

    /// Says so to the block of the cluster with this number.
    pub fn arrive_free_of(&self, stages: &Stages, stage: &Expr, block: &Expr) -> Vec<Stmt> {
        let arrive = |signals: Signals| Stmt::MbarrierArriveAt { barrier: word(signals.free, stage), block: block.clone() };
        stages.signals().map(arrive).into_iter().collect()
    }

    /// Waits for the copies of the stage at hand. Without mbarriers also for all threads: they have read the stage before it, which is free then.
    pub fn await_stage(&self, stages: &Stages) -> Vec<Stmt> {
        match stages.signals {
            Some((signals, phase)) => {
                let (barrier, parity) = (word(signals.full, &stages.stage()), Expr::Var(phase));
                vec![Stmt::MbarrierWait { barrier, parity, scope: Scope::Block }]
            }
            None if stages.ring.handover == Handover::Registers => self.meet_behind_copies(),
            None => {
                let wait = Stmt::AsyncWait { pending: stages.ring.stages as u32 - 2 };
                std::iter::once(wait).chain(self.meet_behind_copies()).collect()
            }
        }
    }

    /// Waits for the copies of the stage behind the one at hand.
    pub fn await_next_stage(&self, stages: &Stages) -> Vec<Stmt> {
        let Some((signals, phase)) = stages.signals else { panic!("stages: no mbarriers in\n{}", self.kernel) };
        let following = next(stages.stage(), stages.ring.stages);
        let first = compare(CompareOp::Eq, following.clone(), LOCAL.lit(0));
        let parity = binary(BinaryOp::Xor, Expr::Var(phase), Expr::Cast(DType::I32, Box::new(first)));
        vec![Stmt::MbarrierWait { barrier: word(signals.full, &following), parity, scope: Scope::Block }]
    }

    /// Behind the last turn copies are on their way that write nothing but zeros, to all stages but so many.
    pub fn end_ring(&mut self, stages: &Stages, awaited: i64) {
        if stages.signals.is_none() {
            return self.emit(Stmt::AsyncWait { pending: 0 });
        }
        let (next, wait) = (self.next_stage(stages), self.await_stage(stages));
        let body = if awaited > 0 { [next, wait] } else { [wait, next] };
        let (counter, _) = self.loop_var("left");
        self.emit(super::elements::unrolled(counter, stages.ring.stages - 1 - awaited, body.concat()));
    }
}

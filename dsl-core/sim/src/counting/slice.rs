//! What has to be carried out so that addresses and control are known: a backward slice over the flat code.

use super::super::op::{ElementsOp, Op, PlaceOp, Slot};
use crate::Program;
use crate::group::LeftOp;
use girih_ir::simt::{ParamKind, Space};
use girih_ir::types::AtomicOp;

/// Which operations are carried out; the others are only counted.
pub struct Slice {
    /// By operation.
    pub(super) carried_out: Vec<bool>,
    pub(super) uses: Vec<Uses>,
    contents: Vec<usize>,
    /// Parameters with words that blocks leave each other.
    pub(super) words: Vec<usize>,
    /// What is in shared memory matters.
    pub(super) shared: bool,
}

/// Slots that an operation sets, and reads to compute what it sets; and those that matter whatever it sets.
#[derive(Default)]
pub(super) struct Uses {
    pub sets: Option<(Slot, u32)>,
    pub reads: Vec<(Slot, u32)>,
    pub always: Vec<Slot>,
    /// Memory that is read into what is set, and memory that is written.
    pub from: Option<Space>,
    pub to: Option<Space>,
}

fn uses(op: &Op) -> Uses {
    let mut u = Uses::default();
    let one = |s: &Slot| (*s, 1);
    let place = |u: &mut Uses, p: &PlaceOp, predicate: Option<Slot>| {
        u.always.push(p.index);
        u.always.extend(predicate);
    };
    let elements = |u: &mut Uses, of: &ElementsOp| {
        u.always.push(of.at);
        (of.base, of.len)
    };
    match op {
        Op::Unary { dst, a, .. }
        | Op::Cast { dst, a, .. }
        | Op::Bitcast { dst, a, .. }
        | Op::Move { dst, a }
        | Op::Vote { dst, value: a, .. }
        | Op::WarpReduce { dst, value: a, .. } => (u.sets, u.reads) = (Some(one(dst)), vec![one(a)]),
        Op::Binary { dst, a, b, .. } | Op::Compare { dst, a, b, .. } => (u.sets, u.reads) = (Some(one(dst)), vec![one(a), one(b)]),
        Op::Ternary { dst, a, b, c, .. } | Op::Select { dst, c, a, b } => {
            (u.sets, u.reads) = (Some(one(dst)), vec![one(a), one(b), one(c)]);
        }
        Op::Special { dst, .. } => u.sets = Some(one(dst)),
        Op::Fill { base, len, a } => (u.sets, u.reads) = (Some((*base, *len)), vec![one(a)]),
        Op::Element { dst, of } => {
            let from = elements(&mut u, of);
            (u.sets, u.reads) = (Some(one(dst)), vec![from]);
        }
        Op::SetElement { of, a } => (u.sets, u.reads) = (Some(elements(&mut u, of)), vec![one(a)]),
        Op::Load { dst, access } => {
            place(&mut u, &access.place, access.predicate);
            (u.sets, u.from) = (Some(one(dst)), Some(access.place.space));
        }
        Op::Store { access, value } => {
            place(&mut u, &access.place, access.predicate);
            (u.reads, u.to) = (vec![one(value)], Some(access.place.space));
        }
        Op::LoadVector { of, access } => {
            place(&mut u, &access.place, access.predicate);
            (u.sets, u.from) = (Some(elements(&mut u, of)), Some(access.place.space));
        }
        Op::StoreVector { of, access } => {
            place(&mut u, &access.place, access.predicate);
            (u.reads, u.to) = (vec![elements(&mut u, of)], Some(access.place.space));
        }
        Op::Atomic(step) => {
            place(&mut u, &step.access.place, step.access.predicate);
            u.reads = std::iter::once(&step.value).chain(&step.expected).map(one).collect();
            u.sets = step.result.map(|r| (r, 1));
            (u.from, u.to) = (Some(step.access.place.space), Some(step.access.place.space));
        }
        Op::StoreRelaxed { access, value } => {
            place(&mut u, &access.place, access.predicate);
            (u.reads, u.to) = (vec![one(value)], Some(access.place.space));
        }
        Op::LoadRelaxed { dst, access, .. } => {
            place(&mut u, &access.place, access.predicate);
            (u.sets, u.from) = (Some(one(dst)), Some(access.place.space));
        }
        Op::LoadFromBlock { dst, place: at, block } => {
            place(&mut u, at, Some(*block));
            u.sets = Some(one(dst));
        }
        Op::If { condition, .. } | Op::LoopTest { condition, .. } => u.always.push(*condition),
        Op::AsyncCopy(step) => {
            place(&mut u, &step.shared, step.predicate);
            place(&mut u, &step.global, None);
            (u.from, u.to) = (Some(step.global.space), Some(step.shared.space));
        }
        Op::BulkCopy(step) => {
            place(&mut u, &step.shared, Some(step.bytes));
            place(&mut u, &step.global, None);
            place(&mut u, &step.barrier, None);
            (u.from, u.to) = (Some(step.global.space), Some(step.shared.space));
        }
        Op::TensorCopy(step) => {
            place(&mut u, &step.shared, None);
            place(&mut u, &step.barrier, None);
            u.always.extend(&step.at);
            (u.from, u.to) = (Some(Space::Global(step.map)), Some(step.shared.space));
        }
        Op::Shuffle(step) => (u.sets, u.reads) = (Some((step.dst, 1)), vec![(step.value, 1), (step.operand, 1)]),
        Op::Mma(step) => {
            let reads = [&step.a, &step.b, &step.c].map(|of| elements(&mut u, of));
            (u.sets, u.reads) = (Some(elements(&mut u, &step.d)), reads.to_vec());
        }
        Op::LoadMatrix(step) => {
            place(&mut u, &step.place, None);
            (u.sets, u.from) = (Some(elements(&mut u, &step.of)), Some(step.place.space));
        }
        Op::Wgmma(step) => {
            let sum = elements(&mut u, &step.d);
            let left = match &step.a {
                LeftOp::Shared(a) => {
                    place(&mut u, &a.place, None);
                    None
                }
                LeftOp::Registers(a) => Some(elements(&mut u, a)),
            };
            place(&mut u, &step.b.place, None);
            u.always.push(step.accumulate);
            (u.sets, u.from) = (Some(sum), Some(step.b.place.space));
            u.reads = [sum].into_iter().chain(left).collect();
        }
        Op::AsyncArrive { barrier } | Op::MbarrierArrive { barrier, .. } | Op::MbarrierWait { barrier, .. } => place(&mut u, barrier, None),
        Op::MbarrierArriveAt { barrier, block } => place(&mut u, barrier, Some(*block)),
        Op::Check { .. }
        | Op::Forget { .. }
        | Op::Else { .. }
        | Op::EndIf
        | Op::Loop
        | Op::StepCheck { .. }
        | Op::Jump { .. }
        | Op::Barrier(_)
        | Op::Fence { .. }
        | Op::AsyncCommit
        | Op::AsyncWait { .. }
        | Op::MbarrierInit { .. }
        | Op::WgmmaFence
        | Op::WgmmaCommit
        | Op::WgmmaWait { .. }
        | Op::ProxyFence
        | Op::End => {}
    }
    u
}

struct Marks<'p> {
    program: &'p Program,
    /// By slot. Variables stay needed everywhere, other slots from where they are set to where they are read.
    needed: Vec<bool>,
    contents: Vec<bool>,
    shared: bool,
    changed: bool,
}

impl Marks<'_> {
    fn slot(&mut self, slot: Slot, len: u32) {
        for s in slot..slot + len {
            if !std::mem::replace(&mut self.needed[s as usize], true) && (s as usize) < self.program.tracked {
                self.changed = true;
            }
        }
    }

    fn memory(&mut self, space: Space, op: &Op) {
        match space {
            Space::Shared(_) => self.changed |= !std::mem::replace(&mut self.shared, true),
            Space::Global(p) | Space::Constant(p) => {
                let own = matches!(self.program.kernel.params[p].kind, ParamKind::Workspace { .. });
                let assumed = own && matches!(op, Op::Atomic(_) | Op::LoadRelaxed { .. });
                self.changed |= !assumed && !std::mem::replace(&mut self.contents[p], true);
            }
        }
    }

    /// Whether what an operation does is needed.
    fn look(&mut self, op: &Op, u: &Uses) -> bool {
        let set = u.sets.is_some_and(|(slot, len)| (slot..slot + len).any(|s| self.needed[s as usize]));
        let written = match u.to {
            Some(Space::Shared(_)) => self.shared,
            Some(Space::Global(p) | Space::Constant(p)) => self.contents[p],
            None => false,
        };
        if let Some((slot, 1)) = u.sets
            && slot as usize >= self.program.tracked
        {
            self.needed[slot as usize] = false;
        }
        let wanted = set || written;
        if wanted {
            u.reads.iter().for_each(|(slot, len)| self.slot(*slot, *len));
            if let Some(from) = u.from {
                self.memory(from, op);
            }
        }
        u.always.iter().for_each(|slot| self.slot(*slot, 1));
        wanted
    }
}

impl Slice {
    /// The parameters on whose contents addresses or control depend, ascending. Tickets and words of workspaces are assumed, and none of these.
    pub fn contents(&self) -> &[usize] {
        &self.contents
    }

    /// Those of [`Slice::contents`] whose words blocks leave each other: threads set them by atomics, and ask for them by atomics.
    pub fn words(&self) -> &[usize] {
        &self.words
    }

    /// Of a kernel.
    pub fn of(program: &Program) -> Slice {
        let uses: Vec<Uses> = program.code.iter().map(uses).collect();
        let params = program.kernel.params.len();
        let mut marks = Marks { program, needed: vec![false; program.slots], contents: vec![false; params], shared: false, changed: true };
        let mut carried_out = vec![false; program.code.len()];
        while std::mem::take(&mut marks.changed) {
            for ((op, uses), carried_out) in program.code.iter().zip(&uses).zip(&mut carried_out).rev() {
                *carried_out = marks.look(op, uses);
            }
        }
        let contents: Vec<usize> = (0..params).filter(|p| marks.contents[*p]).collect();
        let shared = marks.shared;
        let words = words(program, &contents);
        Slice { carried_out, uses, contents, words, shared }
    }
}

/// Parameters whose elements are exchanged by atomics that want no result, and looked at by atomics.
fn words(program: &Program, contents: &[usize]) -> Vec<usize> {
    let by_atomic = |param: usize, wanted: AtomicOp| {
        program.code.iter().any(|op| {
            let Op::Atomic(step) = op else { return false };
            step.access.place.space == Space::Global(param) && step.op == wanted && (wanted == AtomicOp::Load || step.result.is_none())
        })
    };
    contents.iter().copied().filter(|p| by_atomic(*p, AtomicOp::Exchange) && by_atomic(*p, AtomicOp::Load)).collect()
}

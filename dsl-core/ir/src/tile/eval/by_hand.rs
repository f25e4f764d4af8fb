//! Shared arrays that are kept by hand: whether the author's barriers order every two accesses that need it.
//!
//! An element's thread is its position in its tile: lowering deals such accesses thread after thread. Who filled an element is left open,
//! but that the same thread fills it again.

use super::EvalError;
use super::run::Machine;
use crate::loc::SourceLoc;
use crate::tile::{SharedArray, SharedId};
use crate::types::Scope;

/// How often the block and its warps have met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Epoch {
    block: u64,
    warp: u64,
}

impl Epoch {
    /// After one more barrier.
    pub(super) fn next(self, scope: Scope) -> Epoch {
        match scope {
            Scope::Warp => Epoch { warp: self.warp + 1, ..self },
            _ => Epoch { block: self.block + 1, warp: self.warp + 1 },
        }
    }
}

/// Which threads accessed an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Thread(usize),
    Warp(usize),
    Any,
    /// Whoever fills it: one thread of the block, the same for every fill.
    Filler,
}

impl Who {
    fn warp(self) -> Option<usize> {
        match self {
            Who::Thread(t) => Some(t / 32),
            Who::Warp(w) => Some(w),
            Who::Any | Who::Filler => None,
        }
    }

    fn and(self, other: Who) -> Who {
        match (self.warp(), other.warp()) {
            _ if self == other => self,
            (Some(a), Some(b)) if a == b => Who::Warp(a),
            _ => Who::Any,
        }
    }
}

/// What is done to an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    Atomic,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Atomic];

/// The latest accesses of one element, by kind.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Marks([Option<(Who, Epoch)>; 3]);

impl Marks {
    /// Whether the element was filled since all threads met, and nothing else was written to it.
    fn filled(&self, now: Epoch) -> bool {
        self.0[Kind::Write as usize].is_some_and(|(who, at)| who == Who::Filler && at.block == now.block)
    }

    /// Whether an access is ordered behind those before it; they are then remembered with it.
    fn access(&mut self, kind: Kind, who: Who, now: Epoch) -> bool {
        let conflicts = |other: Kind| kind == Kind::Write || other != kind;
        let ordered = KINDS.iter().zip(&self.0).filter(|(other, _)| conflicts(**other)).all(|(_, mark)| {
            mark.is_none_or(|(before, at)| {
                let same_warp = before.warp().is_some() && before.warp() == who.warp();
                at.block < now.block || (same_warp && at.warp < now.warp) || (before == who && matches!(who, Who::Thread(_) | Who::Filler))
            })
        });
        let mark = &mut self.0[kind as usize];
        *mark = Some(match *mark {
            Some((before, at)) if at.block == now.block => (before.and(who), now),
            _ => (who, now),
        });
        ordered
    }
}

/// The mistake: `filled` says that the array's fill, with which it is made, is the access before it.
fn missing(array: &SharedArray, element: usize, filled: bool, loc: SourceLoc) -> EvalError {
    let name = array.name.clone().unwrap_or_else(|| "a shared array".into());
    let done = if filled { "filled" } else { "accessed" };
    EvalError::MissingBarrier { array: name, element: element as i64, done, loc }
}

impl Machine<'_, '_> {
    /// Notes accesses of an array that is kept by hand; a mistake where a barrier is missing. A scalar is read by all threads.
    pub(super) fn by_hand(
        &mut self,
        id: SharedId,
        kind: Kind,
        scalar: bool,
        at: &[Option<usize>],
        loc: SourceLoc,
    ) -> Result<(), EvalError> {
        let array = self.kernel.shared_array(id);
        if !array.by_hand {
            return Ok(());
        }
        let (now, len) = (self.epoch, self.shared[id.0 as usize].len());
        let marks = &mut self.marks[id.0 as usize];
        marks.resize(len, Marks::default());
        for (thread, element) in at.iter().enumerate().filter_map(|(i, a)| a.map(|a| (i, a))) {
            if self.copies.reach(id, element) {
                let array = array.name.clone().unwrap_or_else(|| "a shared array".into());
                return Err(EvalError::OnItsWay { array, element: element as i64, loc });
            }
            let who = if scalar && kind == Kind::Read { Who::Any } else { Who::Thread(thread) };
            let filled = marks[element].filled(now);
            if !marks[element].access(kind, who, now) {
                return Err(missing(array, element, filled, loc));
            }
        }
        Ok(())
    }

    /// Notes that a thread's copy has arrived at an element, or is about to be on its way there.
    pub(super) fn copied_by_hand(&mut self, id: SharedId, element: usize, thread: usize, loc: SourceLoc) -> Result<(), EvalError> {
        let (now, len) = (self.epoch, self.shared[id.0 as usize].len());
        let marks = &mut self.marks[id.0 as usize];
        marks.resize(len, Marks::default());
        let filled = marks[element].filled(now);
        if marks[element].access(Kind::Write, Who::Thread(thread), now) {
            return Ok(());
        }
        Err(missing(self.kernel.shared_array(id), element, filled, loc))
    }

    /// Notes that an array that is kept by hand was filled, by all threads together.
    pub(super) fn filled_by_hand(&mut self, id: SharedId, loc: SourceLoc) -> Result<(), EvalError> {
        let array = self.kernel.shared_array(id);
        if !array.by_hand {
            return Ok(());
        }
        let (now, len) = (self.epoch, self.shared[id.0 as usize].len());
        let marks = &mut self.marks[id.0 as usize];
        marks.resize(len, Marks::default());
        for (element, marks) in marks.iter_mut().enumerate() {
            if !marks.access(Kind::Write, Who::Filler, now) {
                return Err(missing(array, element, false, loc));
            }
        }
        Ok(())
    }
}

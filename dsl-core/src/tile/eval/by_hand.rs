//! Shared arrays that are kept by hand: whether the author's barriers order every two accesses that need it.
//!
//! An element's thread is its position in its tile: lowering deals such accesses thread after thread. Who filled an element is left open.

use super::EvalError;
use super::run::Machine;
use crate::loc::SourceLoc;
use crate::tile::SharedId;
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
}

impl Who {
    fn warp(self) -> Option<usize> {
        match self {
            Who::Thread(t) => Some(t / 32),
            Who::Warp(w) => Some(w),
            Who::Any => None,
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
    /// Whether an access is ordered behind those before it; they are then remembered with it.
    fn access(&mut self, kind: Kind, who: Who, now: Epoch) -> bool {
        let conflicts = |other: Kind| kind == Kind::Write || other != kind;
        let ordered = KINDS.iter().zip(&self.0).filter(|(other, _)| conflicts(**other)).all(|(_, mark)| {
            mark.is_none_or(|(before, at)| {
                let same_warp = before.warp().is_some() && before.warp() == who.warp();
                at.block < now.block || (same_warp && at.warp < now.warp) || (before == who && matches!(who, Who::Thread(_)))
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
            let who = if scalar && kind == Kind::Read { Who::Any } else { Who::Thread(thread) };
            if !marks[element].access(kind, who, now) {
                let array = array.name.clone().unwrap_or_else(|| "a shared array".into());
                return Err(EvalError::MissingBarrier { array, element: element as i64, loc });
            }
        }
        Ok(())
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
            if !marks.access(Kind::Write, Who::Any, now) {
                let array = array.name.clone().unwrap_or_else(|| "a shared array".into());
                return Err(EvalError::MissingBarrier { array, element: element as i64, loc });
            }
        }
        Ok(())
    }
}

//! Tensors that a block both stores and loads, at its own coordinates: which accesses of other threads may have been to the same elements.
//!
//! What is stored and then loaded may be another thread's, since a store is made by one thread of all that have the value. Two accesses at one
//! place are one thread's where both lie in one layout, which only lowering knows.

use super::uses::{loaded_tensor, stored_tensor};
use girih_ir::tile::access::{differ_at, disjoint, visit};
use girih_ir::tile::{Index, Kernel, Op, Stmt, ValueId, ViewId};
use std::collections::{BTreeSet, HashSet};

/// A load or store of such a tensor, by its number in [`Reread::accesses`], since the last barrier.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Touch {
    access: usize,
    /// Loops whose earlier turns did it: their counters and tile indices, if the access names them, were others.
    earlier: BTreeSet<ValueId>,
}

/// What tells the statement of a load or store from others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    /// Of the value that is loaded.
    Load(ValueId),
    Store(ViewId, ValueId),
}

impl Key {
    pub fn of(stmt: &Stmt) -> Option<Key> {
        match stmt {
            Stmt::Let(value, Op::Load(..)) => Some(Key::Load(*value)),
            Stmt::Store { view, value, .. } => Some(Key::Store(*view, *value)),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Access {
    view: ViewId,
    index: Vec<Index>,
    writes: bool,
    key: Key,
}

/// Whether a later access may meet what another thread has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meeting {
    Never,
    /// At the same place: not where it is the same thread that does both.
    SamePlace,
    Maybe,
}

/// The accesses of tensors that a kernel both stores to and loads from at coordinates that it names.
pub(crate) struct Reread<'a> {
    kernel: &'a Kernel,
    params: HashSet<usize>,
    accesses: Vec<Access>,
}

impl<'a> Reread<'a> {
    pub fn new(kernel: &'a Kernel) -> Reread<'a> {
        let (mut stored, mut loaded) = (HashSet::new(), HashSet::new());
        visit(&kernel.body, &mut |stmt| {
            stored.extend(stored_tensor(kernel, stmt));
            loaded.extend(loaded_tensor(kernel, stmt));
        });
        let mut found = Reread { kernel, params: stored.intersection(&loaded).copied().collect(), accesses: vec![] };
        visit(&kernel.body, &mut |stmt| {
            let access = found.access(stmt);
            found.accesses.extend(access);
        });
        found
    }

    fn access(&self, stmt: &Stmt) -> Option<Access> {
        let key = Key::of(stmt)?;
        let access = match stmt {
            Stmt::Let(_, Op::Load(view, index)) => Access { view: *view, index: index.clone(), writes: false, key },
            Stmt::Store { view, index, .. } => Access { view: *view, index: index.clone(), writes: true, key },
            _ => return None,
        };
        self.params.contains(&self.kernel.view(access.view).param).then_some(access)
    }

    /// What a statement does to such a tensor.
    pub fn touch(&self, stmt: &Stmt) -> Option<Touch> {
        let key = Key::of(stmt)?;
        let access = self.accesses.iter().position(|a| a.key == key)?;
        Some(Touch { access, earlier: BTreeSet::new() })
    }

    /// The statement that did it.
    pub fn key(&self, touch: &Touch) -> Key {
        self.accesses[touch.access].key
    }

    pub fn meeting(&self, earlier: &Touch, later: &Touch) -> Meeting {
        let (a, b) = (&self.accesses[earlier.access], &self.accesses[later.access]);
        let (v, w) = (self.kernel.view(a.view), self.kernel.view(b.view));
        let alike = a.view == b.view || v.dtype == w.dtype && v.axes == w.axes && v.offset == w.offset;
        if v.param != w.param || !(a.writes || b.writes) || disjoint(self.kernel, a.view, b.view) {
            return Meeting::Never;
        }
        let in_another_turn = |(i, j): (&Index, &Index)| match (i, j) {
            (Index::Tile(x), Index::Tile(y)) | (Index::At(x), Index::At(y)) => x == y && earlier.earlier.contains(x),
            _ => false,
        };
        let apart = a.index.iter().zip(&b.index).any(|pair| in_another_turn(pair) || differ_at(self.kernel, pair));
        match alike {
            true if apart => Meeting::Never,
            true if a.index == b.index => Meeting::SamePlace,
            _ => Meeting::Maybe,
        }
    }

    /// The same behind the end of a turn of a loop with these counters.
    pub fn after_turn(touches: &BTreeSet<Touch>, counters: &[ValueId]) -> BTreeSet<Touch> {
        let later = |touch: &Touch| Touch { earlier: touch.earlier.iter().chain(counters).copied().collect(), ..touch.clone() };
        touches.iter().map(later).collect()
    }
}

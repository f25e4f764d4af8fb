//! Stores to shared arrays that do not meet what other threads have stored: because an element of the array always comes from one place of the
//! tile, and so from one thread, or because two statements store to different parts of the array.

use crate::block::range::{Range, binary, of_type};
use girih_ir::schedule::Choice;
use girih_ir::tile::{Kernel, KnobId, Op, SharedKind, Size, Stmt, Ty, ValueId, access};
use std::collections::HashMap;

/// What is known of where a statement stores.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Placed {
    /// Whenever the statement stores to an element of the array, it does so from the same place of the tile.
    fixed: bool,
    /// Between which positions of each axis it stores.
    ranges: Vec<Option<Range>>,
}

impl Placed {
    /// Whether the statement, run again, stores to what another thread has stored.
    pub fn meets_itself(&self) -> bool {
        !self.fixed
    }

    /// Whether two statements may store to one element.
    pub fn meets(&self, other: &Placed) -> bool {
        let apart = |(a, b): (&Option<Range>, &Option<Range>)| a.zip(*b).is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0);
        !self.ranges.iter().zip(&other.ranges).any(apart)
    }
}

/// What is known of the stores of a kernel, by the numbers of the accesses.
pub(super) fn placed(kernel: &Kernel) -> HashMap<u32, Placed> {
    let places = Places { kernel, ops: access::operations(kernel) };
    let mut found = HashMap::new();
    access::visit(&kernel.body, &mut |stmt| {
        if let Stmt::Shared(access) = stmt
            && let SharedKind::Scatter { indices, .. } = &access.kind
        {
            let fixed = indices.iter().all(|v| places.fixed(*v));
            found.insert(access.number, Placed { fixed, ranges: indices.iter().map(|v| places.range(*v)).collect() });
        }
    });
    found
}

struct Places<'k> {
    kernel: &'k Kernel,
    ops: HashMap<ValueId, &'k Op>,
}

impl Places<'_> {
    /// Whether positions tell the place of the tile: they are the coordinates of a loop's tile, which lie at multiples of its size, or
    /// the same in each turn.
    fn fixed(&self, index: ValueId) -> bool {
        match self.ops.get(&index) {
            Some(Op::Coordinates(_)) => true,
            Some(Op::Broadcast(of, _)) => self.fixed(*of),
            Some(Op::Cast(of)) if self.keeps_numbers(*of, index) => self.fixed(*of),
            _ => self.unchanging(index),
        }
    }

    /// Whether a tile is the same wherever it is computed.
    fn unchanging(&self, tile: ValueId) -> bool {
        match self.ops.get(&tile) {
            Some(Op::Iota | Op::Literal(_)) => true,
            Some(Op::Splat(a) | Op::Broadcast(a, _) | Op::Cast(a) | Op::Unary(_, a)) => self.unchanging(*a),
            Some(Op::Binary(_, a, b)) => self.unchanging(*a) && self.unchanging(*b),
            _ => false,
        }
    }

    /// Integers that are as wide, or wider.
    fn keeps_numbers(&self, from: ValueId, to: ValueId) -> bool {
        let size = |v: ValueId| self.kernel.ty(v).dtype().map(|d| (d.is_int(), d.size()));
        size(from).zip(size(to)).is_some_and(|(a, b)| a.0 && b.0 && a.1 <= b.1)
    }

    /// A size that no schedule can change.
    fn extent(&self, size: &Size) -> Option<i64> {
        let only = |k: KnobId| match self.kernel.knobs[k.0 as usize].choices[0] {
            Choice::Int(n) => n,
            _ => 0,
        };
        size.is_pinned(&self.kernel.knobs).then(|| size.value(only)).filter(|n| *n > 0)
    }

    fn range(&self, value: ValueId) -> Option<Range> {
        let whole = of_type(self.kernel.ty(value).dtype()?)?;
        let known = match self.ops.get(&value)? {
            Op::Literal(l) if l.dtype.is_int() => Some((l.to_i64(), l.to_i64())),
            Op::Iota => match self.kernel.ty(value) {
                Ty::Tile(_, shape) => self.extent(&shape[0]).map(|n| (0, n - 1)),
                Ty::Scalar(_) | Ty::TileIdx(_) | Ty::Window(..) => None,
            },
            Op::Splat(a) | Op::Broadcast(a, _) | Op::Cast(a) => self.range(*a),
            Op::Binary(op, a, b) => self.range(*a).zip(self.range(*b)).and_then(|(a, b)| binary(*op, a, b)),
            _ => None,
        };
        known.filter(|k| whole.0 <= k.0 && k.1 <= whole.1)
    }
}

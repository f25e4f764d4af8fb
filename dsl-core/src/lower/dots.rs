//! What the dots of a kernel read: tiles that are loaded for nothing else are copied to shared memory as they lie, like windows without a
//! halo, and the dot reads its fragments there.

use super::context::Uses;
use crate::schedule::{Choice, KnobKind, Schedule};
use crate::tile::access::visit;
use crate::tile::{Block, Index, Kernel, KnobId, Op, Size, Stmt, Ty, ValueId};
use crate::types::UnaryOp;
use std::collections::{HashMap, HashSet};

/// Tile knobs that cut nothing but the axis of dots' sums.
pub(crate) fn inner_tiles(kernel: &Kernel) -> Vec<KnobId> {
    let (mut inner, mut outer) = (HashSet::new(), HashSet::new());
    let shape = |v: ValueId| kernel.ty(v).shape().unwrap_or_default();
    visit(&kernel.body, &mut |s| {
        if let Stmt::Let(v, op) = s {
            match op {
                Op::Dot { a, acc, .. } => {
                    inner.extend(shape(*a)[1].as_knob());
                    outer.extend(shape(*acc).iter().filter_map(Size::as_knob));
                }
                Op::Load(..) | Op::Transpose(..) => {}
                _ => outer.extend(shape(*v).iter().filter_map(Size::as_knob)),
            }
        }
    });
    let mut list: Vec<KnobId> = inner.difference(&outer).copied().collect();
    list.sort_unstable();
    list
}

/// Whether the schedule reads operands where they are.
pub(crate) fn are_direct(kernel: &Kernel, schedule: &Schedule) -> bool {
    matches!(schedule.of_kind(kernel, KnobKind::Operands), Some(Choice::Word(w)) if w == "Direct")
}

/// Operands that are read where they are have no tiles along the axis of the sum: it is walked element by element. The knobs of those tiles.
pub(crate) fn one_by_one(kernel: &Kernel, schedule: &Schedule) -> Vec<KnobId> {
    if are_direct(kernel, schedule) { inner_tiles(kernel) } else { vec![] }
}

/// An operand that is read where it was loaded from, or from a copy as it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loaded {
    /// The load.
    pub load: ValueId,
    /// The operand is the loaded tile with its axes exchanged.
    pub transposed: bool,
    /// What is done to each element on its way from the load to the dot, in this order: operations that keep zeros.
    pub chain: Vec<ValueId>,
}

/// The dot that reads a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    /// Its accumulator.
    pub acc: ValueId,
    /// The load is its left operand.
    pub left: bool,
    /// Exchanged before it is read.
    pub transposed: bool,
}

impl Reader {
    /// Which of the load's two axes is also one of the result.
    pub fn outer(&self) -> usize {
        usize::from(self.left == self.transposed)
    }
}

/// The dots of a kernel.
#[derive(Default)]
pub(crate) struct Dots {
    readers: HashMap<ValueId, Reader>,
    /// Values between loads and dots: they are nowhere but in fragments.
    absorbed: HashSet<ValueId>,
    operands: HashMap<ValueId, Loaded>,
    /// Dots that may add to their accumulator where it is: nobody else looks at it.
    in_place: HashSet<ValueId>,
}

impl Dots {
    /// Finds the dots and what they alone read.
    pub fn new(kernel: &Kernel, uses: &[Uses], written: &[bool]) -> Dots {
        let mut dots = Dots::default();
        if !kernel.has_dots() {
            return dots;
        }
        let mut ops: HashMap<ValueId, &Op> = HashMap::new();
        let mut by_dots: HashMap<ValueId, u32> = HashMap::new();
        let mut sides: HashMap<ValueId, (ValueId, bool)> = HashMap::new();
        let mut sided = HashSet::new();
        visit(&kernel.body, &mut |s| match s {
            Stmt::Let(v, op) => {
                ops.insert(*v, op);
                if let Op::Dot { a, b, acc } = op {
                    for (x, left) in [(a, true), (b, false)] {
                        *by_dots.entry(*x).or_default() += 1;
                        sides.entry(*x).or_insert((*acc, left));
                    }
                }
            }
            Stmt::Where { body, .. } => visit(body, &mut |s| {
                if let Stmt::Let(v, _) = s {
                    sided.insert(*v);
                }
            }),
            _ => {}
        });
        let only_dots = |v: &ValueId| by_dots.get(v).copied().unwrap_or(0) == uses[v.0 as usize].count;
        let plain = |v: &ValueId| match ops.get(v) {
            Some(Op::Load(view, index)) => {
                let two = index.iter().filter(|i| matches!(i, Index::Tile(_))).count() == 2;
                let known = index.iter().all(|i| !matches!(i, Index::All(_)));
                two && known && !written[kernel.view(*view).param] && !sided.contains(v)
            }
            _ => false,
        };
        let single = |v: &ValueId| uses[v.0 as usize].count == 1;
        for v in by_dots.keys().filter(|v| only_dots(v)) {
            let (mut at, mut loaded) = (*v, Loaded { load: *v, transposed: false, chain: vec![] });
            let mut absorbed = Vec::new();
            let found = loop {
                if at != *v && !single(&at) || sided.contains(&at) {
                    break false;
                }
                match ops.get(&at) {
                    Some(Op::Load(..)) => break plain(&at),
                    Some(Op::Transpose(from, perm)) if perm == &[1, 0] => {
                        absorbed.push(at);
                        loaded.transposed = !loaded.transposed;
                        at = *from;
                    }
                    Some(op) => match keeps_zeros(op) {
                        Some(from) => {
                            absorbed.push(at);
                            loaded.chain.push(at);
                            at = from;
                        }
                        None => break false,
                    },
                    None => break false,
                }
            };
            if found {
                loaded.load = at;
                loaded.chain.reverse();
                dots.absorbed.extend(absorbed);
                dots.operands.insert(*v, loaded);
            }
        }
        for (v, loaded) in &dots.operands {
            let (acc, left) = sides[v];
            dots.readers.insert(loaded.load, Reader { acc, left, transposed: loaded.transposed });
        }
        dots.accumulators(&kernel.body, &[], uses);
        dots
    }

    /// Whether a load is for dots only.
    pub fn is_load(&self, value: ValueId) -> bool {
        self.readers.contains_key(&value)
    }

    /// The first dot that reads a load.
    pub fn reader(&self, load: ValueId) -> Option<Reader> {
        self.readers.get(&load).copied()
    }

    /// The load behind an operand, if it is read as it lies.
    pub fn operand(&self, value: ValueId) -> Option<Loaded> {
        self.operands.get(&value).cloned()
    }

    /// Whether a value is nowhere but in fragments.
    pub fn is_absorbed(&self, value: ValueId) -> bool {
        self.absorbed.contains(&value)
    }

    /// Whether a dot may add to its accumulator where it is.
    pub fn in_place(&self, dot: ValueId) -> bool {
        self.in_place.contains(&dot)
    }

    /// Accumulators of a block's dots that were made in the same turn: carried by its loop (`own`) or by a statement before.
    fn accumulators(&mut self, block: &Block, own: &[ValueId], uses: &[Uses]) {
        let mut own = own.to_vec();
        for stmt in block {
            match stmt {
                Stmt::Let(v, op) => {
                    if let Op::Dot { acc, .. } = op
                        && own.contains(acc)
                        && uses[acc.0 as usize].count == 1
                    {
                        self.in_place.insert(*v);
                    }
                    own.push(*v);
                }
                Stmt::Combine(c) => own.extend(&c.results),
                Stmt::Tiles(l) => {
                    let inner: Vec<ValueId> = l.carries.iter().map(|c| c.inner).collect();
                    self.accumulators(&l.body, &inner, uses);
                    own.extend(l.carries.iter().map(|c| c.result));
                }
                Stmt::Range { carries, body, .. } => {
                    let inner: Vec<ValueId> = carries.iter().map(|c| c.inner).collect();
                    self.accumulators(body, &inner, uses);
                    own.extend(carries.iter().map(|c| c.result));
                }
                Stmt::While { carries, header, body, .. } => {
                    let inner: Vec<ValueId> = carries.iter().map(|c| c.inner).collect();
                    self.accumulators(header, &[], uses);
                    self.accumulators(body, &inner, uses);
                    own.extend(carries.iter().map(|c| c.result));
                }
                Stmt::If { then, otherwise, .. } => {
                    self.accumulators(then, &[], uses);
                    self.accumulators(otherwise, &[], uses);
                }
                Stmt::Where { body, .. } => self.accumulators(body, &own.clone(), uses),
                _ => {}
            }
        }
    }
}

/// The operand of an operation on single elements that makes zero of zero, so that it may be done to what was copied with zeros around.
fn keeps_zeros(op: &Op) -> Option<ValueId> {
    match op {
        Op::Cast(a) | Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::RoundTf32, a) => Some(*a),
        _ => None,
    }
}

/// Whether a value says where along an axis a tile lies, rather than one coordinate.
pub(crate) fn is_tile_index(kernel: &Kernel, value: ValueId) -> bool {
    matches!(kernel.ty(value), Ty::TileIdx(_))
}

//! What the dots of a kernel read: tiles that are loaded for nothing else are copied to shared memory as they lie, like windows without a
//! halo, and the dot reads its fragments there.

use super::absorbed::Paths;
use super::chained::links;
use super::converted::Converted;
use super::uses::Uses;
use girih_ir::tile::access::{blocks, loop_lengths, visit};
use girih_ir::tile::{Block, Index, Kernel, Op, Stmt, ValueId, ViewId};
use girih_ir::types::UnaryOp;
use std::collections::{BTreeMap, HashMap, HashSet};

/// An operand that is read where it was loaded from, or from a copy as it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loaded {
    /// The load.
    pub load: ValueId,
    /// The operand is the loaded tile with its axes exchanged.
    pub transposed: bool,
    /// What is done to each element on its way from the load to the dot, each operation behind its operands: they keep zeros.
    pub chain: Vec<ValueId>,
}

impl Loaded {
    /// Whether nothing is done to an operand on its way from the load but to round it to tf32.
    pub fn only_rounds(&self, ops: &HashMap<ValueId, &Op>) -> bool {
        matches!(self.chain[..], [v] if matches!(ops.get(&v), Some(Op::Unary(UnaryOp::RoundTf32, _))))
    }
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
#[derive(Clone, Default, Debug)]
pub(crate) struct Dots {
    readers: HashMap<ValueId, Reader>,
    /// See [`Dots::only_stored`].
    only_stored: bool,
    /// Of loads that several dots read along different axes.
    mixed: HashSet<ValueId>,
    /// Loads that may be copied as they lie.
    plain: HashSet<ValueId>,
    /// Loads from whose copies left operands are computed in registers.
    converted: HashSet<ValueId>,
    /// Values between loads and dots: they are nowhere but in fragments.
    absorbed: HashSet<ValueId>,
    operands: BTreeMap<ValueId, Loaded>,
    /// Dots that may add to their accumulator where it is: nobody else looks at it.
    in_place: HashSet<ValueId>,
    /// Dots whose accumulator is zeros, and nothing else.
    from_zeros: HashSet<ValueId>,
    /// Dots that matrix units can do together: of the same extents, one behind the other, on operands that are loaded, or that were made of
    /// other dots' results before.
    groups: Vec<Vec<ValueId>>,
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
        let mut both = HashSet::new();
        let mut sided = HashSet::new();
        visit(&kernel.body, &mut |s| match s {
            Stmt::Let(v, op) => {
                ops.insert(*v, op);
                if let Op::Dot { a, b, acc, .. } = op {
                    for (x, left) in [(a, true), (b, false)] {
                        *by_dots.entry(*x).or_default() += 1;
                        if sides.entry(*x).or_insert((*acc, left)).1 != left {
                            both.insert(*x);
                        }
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
        let plain = |v: &ValueId| match ops.get(v) {
            Some(Op::Load(view, index)) => {
                let two = index.iter().filter(|i| matches!(i, Index::Tile(_))).count() == 2;
                let known = index.iter().all(|i| !matches!(i, Index::All(_)));
                two && known && !written[kernel.view(*view).param] && !sided.contains(v)
            }
            _ => false,
        };
        dots.plain = ops.keys().copied().filter(|v| plain(v)).collect();
        let paths = Paths { kernel, ops: &ops, uses, by_dots: &by_dots, sided: &sided, plain: &plain };
        (dots.operands, dots.absorbed) = paths.find();
        for (v, loaded) in &dots.operands {
            let (acc, left) = sides[v];
            let reader = Reader { acc, left, transposed: loaded.transposed };
            let first = dots.readers.entry(loaded.load).or_insert(reader);
            if first.outer() != reader.outer() || both.contains(v) {
                dots.mixed.insert(loaded.load);
            }
        }
        dots.only_stored = only_stored(kernel);
        let is_zero = |v: &ValueId| matches!(ops.get(v), Some(Op::Literal(l)) if l.bits == 0);
        let zeros = |v: &ValueId| matches!(ops.get(v), Some(Op::Splat(value)) if is_zero(value));
        dots.from_zeros = ops.iter().filter(|(_, op)| matches!(op, Op::Dot { acc, .. } if zeros(acc))).map(|(v, _)| *v).collect();
        dots.accumulators(&kernel.body, &[], uses);
        let linked = links(kernel).into_iter().map(|link| link.dot).collect();
        dots.group_dots(kernel, &linked, &kernel.body);
        dots
    }

    /// Takes these left operands from registers: what they are computed from is copied as operands are, and what is computed on the way is
    /// computed as everything else.
    pub fn convert(&mut self, kernel: &Kernel, all: &[Converted]) {
        if all.is_empty() {
            return;
        }
        for converted in all {
            if let Some(loaded) = self.operands.remove(&converted.link.operand) {
                self.readers.remove(&loaded.load);
            }
            self.absorbed.retain(|v| !converted.steps.contains(v));
            self.converted.extend(&converted.loads);
        }
        for Converted { link, loads, .. } in all {
            let reader = Reader { acc: link.acc, left: true, transposed: false };
            self.readers.extend(loads.iter().map(|load| (*load, reader)));
        }
        let linked = links(kernel).into_iter().map(|link| link.dot).chain(all.iter().map(|c| c.link.dot)).collect();
        self.groups.clear();
        self.group_dots(kernel, &linked, &kernel.body);
    }

    /// Finds the dots of a block, and of those inside of it, that nothing stands between but what fragments hold.
    fn group_dots(&mut self, kernel: &Kernel, linked: &HashSet<ValueId>, block: &Block) {
        let mut open = None;
        for stmt in block {
            match stmt {
                Stmt::Let(v, Op::Dot { a, b, acc, .. }) => {
                    // Dots that go on with others may read their right operand in another order.
                    let extents = (linked.contains(v), [kernel.ty(*a).shape(), kernel.ty(*acc).shape()]);
                    let loaded = (self.operands.contains_key(a) || linked.contains(v)) && self.operands.contains_key(b);
                    match self.groups.last_mut().filter(|group| loaded && open == Some(extents) && !group.contains(a)) {
                        Some(group) => group.push(*v),
                        None => self.groups.push(vec![*v]),
                    }
                    open = loaded.then_some(extents);
                }
                Stmt::Let(v, _) if self.is_absorbed(*v) || self.is_load(*v) => {}
                other => {
                    open = None;
                    blocks(other).into_iter().for_each(|b| self.group_dots(kernel, linked, b));
                }
            }
        }
    }

    /// The dots that matrix units do together with this one.
    pub fn group(&self, dot: ValueId) -> &[ValueId] {
        self.groups.iter().find(|g| g.contains(&dot)).unwrap_or_else(|| panic!("dots: {dot:?} is in no group"))
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Whether a load is for dots only.
    pub fn is_load(&self, value: ValueId) -> bool {
        self.readers.contains_key(&value)
    }

    /// Whether a load may be copied as it lies.
    pub fn is_plain(&self, value: ValueId) -> bool {
        self.plain.contains(&value)
    }

    /// Whether left operands are computed in registers from a load's copy.
    pub fn is_converted(&self, load: ValueId) -> bool {
        self.converted.contains(&load)
    }

    /// Whether any are.
    pub fn converts(&self) -> bool {
        !self.converted.is_empty()
    }

    /// The first dot that reads a load.
    pub fn reader(&self, load: ValueId) -> Option<Reader> {
        self.readers.get(&load).copied()
    }

    /// Which of a load's two axes is one of all results that it is a part of, and never the axis of a sum.
    pub fn outer_axis(&self, load: ValueId) -> Option<usize> {
        self.readers.get(&load).filter(|_| !self.mixed.contains(&load)).map(Reader::outer)
    }

    /// Whether of what the kernel computes only that is looked at which it stores within the grid's own tensor, element by element: what
    /// lies behind that tensor's ends may be anything.
    pub fn only_stored(&self) -> bool {
        self.only_stored
    }

    /// The load behind an operand, if it is read as it lies.
    pub fn operand(&self, value: ValueId) -> Option<Loaded> {
        self.operands.get(&value).cloned()
    }

    /// The operands that are read as they lie, with the loads behind them.
    pub fn operands(&self) -> impl Iterator<Item = (ValueId, &Loaded)> {
        self.operands.iter().map(|(operand, loaded)| (*operand, loaded))
    }

    /// Whether a value is nowhere but in fragments.
    pub fn is_absorbed(&self, value: ValueId) -> bool {
        self.absorbed.contains(&value)
    }

    /// Whether a dot's accumulator is zeros, and nothing else.
    pub fn is_from_zeros(&self, dot: ValueId) -> bool {
        self.from_zeros.contains(&dot)
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

fn only_stored(kernel: &Kernel) -> bool {
    let Some(grid) = kernel.grid_loop() else { return false };
    let lengths = loop_lengths(kernel);
    let within = |view: &ViewId, index: &[Index]| {
        let axes = &kernel.view(*view).axes;
        index.iter().zip(axes).all(|(i, axis)| match i {
            Index::Tile(v) => grid.vars.contains(v) && lengths[v] == axis.len,
            Index::At(_) => true,
            Index::All(_) => false,
        })
    };
    let mut only = grid.carries.is_empty();
    visit(&kernel.body, &mut |s| {
        only &= match s {
            Stmt::Let(_, op) => !matches!(
                op,
                Op::Gather(..)
                    | Op::GatherInside(..)
                    | Op::Or { .. }
                    | Op::Window { .. }
                    | Op::Near(..)
                    | Op::Shuffle { .. }
                    | Op::Vote(..)
                    | Op::Pick { .. }
                    | Op::Stack(..)
            ),
            Stmt::Store { view, index, .. } => within(view, index),
            Stmt::Tiles(_) => true,
            _ => false,
        }
    });
    only
}

//! Which elements of tiles exist: by where they are accessed, and by what is done with them.

use super::{Access, Index, Kernel, Op, ValueId};

/// Which elements of a tile exist: coordinates along an axis below a length, and sides of per-element choices.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Mask {
    pub bounds: Vec<Bound>,
    /// What must hold per element: all of them.
    pub sides: Vec<Side>,
}

/// A test of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    /// A bool tile holds, or does not.
    Is {
        condition: ValueId,
        holds: bool,
        /// Which axis of the masked tile each axis of the condition is.
        axes: Vec<usize>,
    },
    /// It lies below a bound.
    Below(Bound),
    /// The branch with this result, the first of several, went this way.
    Went { result: ValueId, then: bool },
}

impl Test {
    /// A bool tile of the masked tile's shape holds, or does not.
    pub fn of(condition: ValueId, holds: bool, rank: usize) -> Test {
        Test::Is { condition, holds, axes: (0..rank).collect() }
    }

    /// The axes of the masked tile that it depends on.
    pub fn axes(&self) -> &[usize] {
        match self {
            Test::Is { axes, .. } => axes,
            Test::Below(bound) => std::slice::from_ref(&bound.axis),
            Test::Went { .. } => &[],
        }
    }

    /// The same, to be numbered anew.
    pub fn axes_mut(&mut self) -> &mut [usize] {
        match self {
            Test::Is { axes, .. } => axes,
            Test::Below(bound) => std::slice::from_mut(&mut bound.axis),
            Test::Went { .. } => &mut [],
        }
    }
}

/// An element exists where one of the tests succeeds: it lies on its side of a choice, a gather found it, or nobody chose it.
pub(crate) type Side = Vec<Test>;

/// Elements of `axis` exist where the coordinate of tile index `index` is below the length value `len`. Where that is the length that the
/// loop of the index walks, they exist at the positions to which the loop keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    pub axis: usize,
    pub index: ValueId,
    pub len: ValueId,
}

impl Mask {
    /// What it asks for and another does not.
    pub fn without(&self, other: &Mask) -> Mask {
        let bounds = self.bounds.iter().filter(|b| !other.bounds.contains(b)).copied().collect();
        Mask { bounds, sides: self.sides.iter().filter(|s| !other.sides.contains(s)).cloned().collect() }
    }

    /// Present where both are.
    pub fn and(&mut self, other: &Mask) {
        for b in &other.bounds {
            if !self.bounds.contains(b) {
                self.bounds.push(*b);
            }
        }
        other.sides.iter().for_each(|side| self.and_side(side.clone()));
        // What must lie below a bound in any case says nothing by lying below it.
        let bounds = &self.bounds;
        self.sides.retain(|side| !side.iter().any(|t| matches!(t, Test::Below(b) if bounds.contains(b))));
    }
}

impl Mask {
    /// Present where one of these tests succeeds, too; of two sides of which one has all tests of the other, the other says it all.
    fn and_side(&mut self, side: Side) {
        let within = |a: &Side, b: &Side| a.iter().all(|t| b.contains(t));
        if self.sides.iter().any(|s| within(s, &side)) {
            return;
        }
        self.sides.retain(|s| !within(&side, s));
        self.sides.push(side);
    }

    /// The same of a tile whose axes have other numbers; bounds of axes that are not there say nothing of it.
    pub fn renumber(&mut self, to: impl Fn(usize) -> Option<usize>) {
        for axis in self.sides.iter_mut().flatten().flat_map(Test::axes_mut) {
            *axis = to(*axis).unwrap_or_else(|| panic!("mask: an axis vanished"));
        }
        let moved = |b: &Bound| to(b.axis).map(|axis| Bound { axis, ..*b });
        self.bounds = self.bounds.iter().filter_map(moved).collect();
    }

    /// How many tests of its sides an element takes.
    pub fn tests(&self) -> usize {
        self.sides.iter().map(Vec::len).sum()
    }
}

impl Kernel {
    /// Which elements of a tile exist at a place, choices around it aside.
    pub fn mask_at(&self, at: &Access) -> Mask {
        let Access { view, index, .. } = at;
        let mut mask = Mask::default();
        let mut axis = 0;
        for (at, own) in index.iter().zip(&self.view(*view).axes) {
            if let Index::Tile(v) = at {
                let walked = self.lengths.walked[v];
                let host = |l: ValueId| self.value(l).host.is_some();
                // Where the host can compute both, launches prove them equal.
                let len = if host(own.len) && host(walked) { walked } else { own.len };
                mask.bounds.push(Bound { axis, index: *v, len });
                if len != walked {
                    mask.bounds.push(Bound { axis, index: *v, len: walked });
                }
            }
            axis += usize::from(!matches!(at, Index::At(_)));
        }
        mask
    }

    /// Which elements of an operation's result exist, given those of its operands, which are tiles: those that all operands have; of a select
    /// those of the chosen one.
    pub fn mask_of<'m>(&self, op: &Op, operands: &[ValueId], of: &dyn Fn(ValueId) -> &'m Mask) -> Mask {
        let mut mask = Mask::default();
        match op {
            Op::Select(condition, a, b) => {
                let known = of(*condition);
                let side = |v: ValueId, negated: bool| {
                    let mut m = of(v).clone();
                    let rank = self.ty(*condition).shape().map_or(0, <[_]>::len);
                    let test = |holds| Test::of(*condition, holds, rank);
                    // Where the other operand is chosen, this one need not exist.
                    let other = of(if negated { *a } else { *b });
                    let everywhere = |bound: &Bound| other.bounds.contains(bound) || known.bounds.contains(bound);
                    let own: Vec<Bound> = m.bounds.extract_if(.., |b| !everywhere(b)).collect();
                    m.sides.extend(own.into_iter().map(|bound| vec![Test::Below(bound)]));
                    m.sides.retain(|s| !s.contains(&test(!negated)));
                    m.sides.iter_mut().filter(|s| !s.contains(&test(negated))).for_each(|s| s.push(test(negated)));
                    m
                };
                mask.and(&side(*a, false));
                mask.and(&side(*b, true));
                mask.and(known);
            }
            Op::Broadcast(v, from) => {
                mask = of(*v).clone();
                mask.renumber(|axis| from.iter().position(|f| *f == Some(axis)));
            }
            Op::Within(v, ends) => {
                let end =
                    |(axis, index): (usize, &Option<ValueId>)| index.map(|index| Bound { axis, index, len: self.lengths.walked[&index] });
                mask.bounds = ends.iter().enumerate().filter_map(end).collect();
                mask.and(of(*v));
            }
            _ => operands.iter().for_each(|v| mask.and(of(*v))),
        }
        mask
    }
}

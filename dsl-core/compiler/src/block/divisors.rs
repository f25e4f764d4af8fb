//! By what positions and addresses are surely divisible, by what is known of scalars, of where tiles lie, and of the ends of axes.

use super::mask::Bound;
use super::numbers::{MOST, tracked};
use super::{Access, HostExpr, Index, Kernel, Op, Range, Stmt, Ty, ValueId, gcd, visit};
use girih_ir::layout::{Layout, Source};
use girih_ir::types::BinaryOp;
use std::collections::{HashMap, HashSet};

/// A number as a constant and the rest, of which a divisor is known: 0 where there is no rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    fixed: i64,
    rest: i64,
}

impl Known {
    pub fn constant(fixed: i64) -> Known {
        Known { fixed, rest: 0 }
    }

    /// A number of which no more is known than what divides it.
    pub fn divisible(by: i64) -> Known {
        Known { fixed: 0, rest: by }
    }

    /// By what it is surely divisible.
    pub fn multiple(self) -> i64 {
        match gcd(self.fixed.saturating_abs(), self.rest) {
            0 => MOST,
            all if self.rest == 0 => tracked(all),
            all => all,
        }
    }

    pub fn plus(self, other: Known) -> Known {
        Known { fixed: self.fixed.wrapping_add(other.fixed), rest: gcd(self.rest, other.rest) }
    }

    pub fn minus(self, other: Known) -> Known {
        Known { fixed: self.fixed.wrapping_sub(other.fixed), rest: gcd(self.rest, other.rest) }
    }

    pub fn times(self, other: Known) -> Known {
        match (self.rest, other.rest) {
            (0, 0) => Known::constant(self.fixed.wrapping_mul(other.fixed)),
            (0, _) if self.fixed == 0 => Known::constant(0),
            (_, 0) if other.fixed == 0 => Known::constant(0),
            (0, _) if self.fixed == 1 => other,
            (_, 0) if other.fixed == 1 => self,
            _ => Known::divisible(tracked(self.multiple().saturating_mul(other.multiple()))),
        }
    }
}

/// By what the ends are divisible of the positions to which a loop keeps, and those of the vectors that hold some of them.
#[derive(Clone, Copy)]
struct Ends {
    positions: i64,
    vectors: i64,
}

/// What divides the numbers of a page.
pub(crate) struct Divisors<'k> {
    page: &'k Kernel,
    ops: HashMap<ValueId, &'k Op>,
    /// Tile indices of loops of one iteration.
    once: HashSet<ValueId>,
    /// Of loops that keep to some positions, by tile index.
    ends: HashMap<ValueId, Ends>,
}

impl<'k> Divisors<'k> {
    pub fn new(page: &'k Kernel) -> Divisors<'k> {
        let mut all = Divisors { page, ops: HashMap::new(), once: page.fitting.clone(), ends: HashMap::new() };
        let mut spans = Vec::new();
        visit(&page.body, &mut |stmt| {
            if let Stmt::Let(v, op) = stmt {
                all.ops.insert(*v, op);
            } else if let Stmt::Loop(l) = stmt {
                if l.plan.range == Range::Once {
                    all.once.extend(&l.vars);
                }
                spans.extend(l.span.map(|span| (l, span)));
            }
        });
        for (l, span) in spans {
            let len = page.view(l.view).axes[l.axes[0]].len;
            let ends = all.ends_of(span.first, span.end, len, l.sizes[0]);
            all.ends.insert(l.vars[0], ends);
        }
        all
    }

    fn ends_of(&self, first: ValueId, end: ValueId, len: ValueId, size: i64) -> Ends {
        let of = |v: ValueId| self.scalar(v).multiple();
        let same = self.page.same_number(end, len);
        let end = if same { of(len) } else { gcd(of(end), of(len)) };
        let begins = self.page.constant(first).is_some_and(|c| c <= 0);
        let first = Some(of(first)).filter(|m| !begins && m % size != 0);
        let width = gcd(self.page.launch.vector, of(len));
        let whole = |m: i64| if m % width != 0 { width } else { m };
        let both = |first: Option<i64>, end: i64| first.map_or(end, |first| gcd(first, end));
        Ends { positions: both(first, end), vectors: both(first.map(whole), whole(end)) }
    }

    /// What the host computes, as index arithmetic has it.
    fn host(&self, e: &HostExpr) -> Known {
        match e {
            HostExpr::Const(c) => Known::constant(*c),
            HostExpr::Dim(p, k) if self.page.lengths.constant.contains_key(&(*p, *k)) => {
                Known::constant(self.page.lengths.constant[&(*p, *k)])
            }
            HostExpr::Stride(p, k) => match self.page.params[*p].known() {
                Some(t) if t.packed => {
                    (k + 1..t.lens.len()).fold(Known::constant(1), |product, j| product.times(self.host(&HostExpr::Dim(*p, j))))
                }
                Some(t) if t.is_unit_stride(*k) => Known::constant(1),
                Some(_) | None => Known::divisible(self.page.host_multiple(e)),
            },
            HostExpr::Binary(BinaryOp::Add, a, b) => self.host(a).plus(self.host(b)),
            HostExpr::Binary(BinaryOp::Sub, a, b) => self.host(a).minus(self.host(b)),
            HostExpr::Binary(BinaryOp::Mul, a, b)
                if matches!(**a, HostExpr::Const(_)) || matches!(**b, HostExpr::Const(_) | HostExpr::Stride(..)) =>
            {
                self.host(a).times(self.host(b))
            }
            HostExpr::Wrap(_, inner) if self.page.host_range(e) == self.page.host_range(inner) => self.host(inner),
            HostExpr::Dim(..) | HostExpr::Scalar(_) | HostExpr::Multiprocessors | HostExpr::Binary(..) | HostExpr::Wrap(..) => {
                Known::divisible(self.page.host_multiple(e))
            }
        }
    }

    /// By what the number behind a mask is surely divisible: behind `n - 1`, `n`. A tile's elements are all the same number, or nothing is known.
    pub fn below(&self, mask: ValueId) -> i64 {
        match self.op(mask) {
            _ if self.is_scalar(mask) => self.scalar(mask).plus(Known::constant(1)).multiple(),
            Some(Op::Splat(v) | Op::Like { value: v, .. } | Op::Cast(v)) if self.is_integer(*v) => self.below(*v),
            _ => 1,
        }
    }

    /// A scalar.
    pub fn scalar(&self, value: ValueId) -> Known {
        if let Some(host) = &self.page.value(value).host {
            return self.host(host);
        }
        let Some(op) = self.ops.get(&value) else { return Known::divisible(1) };
        let of = |v: ValueId| Known::divisible(self.scalar(v).multiple());
        match op {
            Op::Literal(l) if l.dtype.is_int() => Known::constant(l.to_i64()),
            Op::Start(index) => self.start(*index),
            Op::End(index) => self.start(*index).plus(Known::constant(self.page.tile_size(*index))),
            Op::Number(index) => self.tile(*index),
            Op::Cast(v) if self.page.ty(value).dtype().is_some_and(|d| d.is_int()) => self.scalar(*v),
            Op::Binary(BinaryOp::Mul, a, b) => of(*a).times(of(*b)),
            Op::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => of(*a).plus(of(*b)),
            Op::Binary(BinaryOp::Div, a, b) => match self.page.constant(*b) {
                Some(c) if c > 0 && of(*a).multiple() % c == 0 => Known::divisible(of(*a).multiple() / c),
                Some(_) | None => Known::divisible(1),
            },
            _ => Known::divisible(1),
        }
    }

    /// The number of a tile.
    pub fn tile(&self, index: ValueId) -> Known {
        if self.once.contains(&index) { Known::constant(0) } else { Known::divisible(1) }
    }

    /// The first coordinate of a tile; a coordinate itself.
    pub fn start(&self, index: ValueId) -> Known {
        if !self.page.is_tile_index(index) {
            return self.scalar(index);
        }
        self.tile(index).times(Known::constant(self.page.tile_size(index)))
    }

    /// A thread's first coordinate along an axis of a tile.
    pub fn base(&self, index: Option<ValueId>, layout: &Layout, axis: usize) -> Known {
        let threads = layout.axes[axis].iter().filter(|d| d.source == Source::Thread);
        threads.fold(index.map_or(Known::constant(0), |v| self.start(v)), |sum, d| sum.plus(Known::divisible(d.place)))
    }

    /// A thread's first address in an access, counted in elements.
    pub fn address(&self, access: &Access, layout: &Layout) -> Known {
        let view = self.page.view(access.view);
        let (mut sum, mut axis) = (self.scalar(view.offset), 0);
        for (at, own) in access.index.iter().zip(&view.axes) {
            let coordinate = match at {
                Index::At(v) => self.scalar(*v),
                Index::Tile(v) => self.base(Some(*v), layout, axis),
                Index::All(_) => Known::constant(0),
            };
            axis += usize::from(!matches!(at, Index::At(_)));
            let stride = self.scalar(own.stride);
            sum = if stride == Known::constant(-1) { sum.minus(coordinate) } else { sum.plus(coordinate.times(stride)) };
        }
        sum
    }

    /// By what all ends are divisible of what a bound leaves; with `vectors`, of the vectors that hold some of it.
    pub fn bound(&self, bound: &Bound, vectors: bool) -> i64 {
        let walks = bound.len == self.page.lengths.walked[&bound.index];
        match self.ends.get(&bound.index).filter(|_| walks) {
            Some(ends) if vectors => ends.vectors,
            Some(ends) => ends.positions,
            None => self.scalar(bound.len).multiple(),
        }
    }

    /// Whether a loop keeps to some positions.
    pub fn keeps_to_positions(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Whether the loop of a tile index does.
    pub fn keeps_to_positions_of(&self, index: ValueId) -> bool {
        self.ends.contains_key(&index)
    }

    /// By what the ends are divisible of the positions to which the loop of a tile index keeps; 0 where it walks the whole axis.
    pub fn positions_of(&self, index: ValueId) -> i64 {
        self.ends.get(&index).map_or(0, |ends| ends.positions)
    }

    /// How a scalar is made.
    pub fn op(&self, value: ValueId) -> Option<&'k Op> {
        self.ops.get(&value).copied()
    }

    /// Whether a value is one number.
    pub fn is_scalar(&self, value: ValueId) -> bool {
        matches!(self.page.ty(value), Ty::Scalar(_))
    }

    /// Whether its elements are integers.
    pub fn is_integer(&self, value: ValueId) -> bool {
        self.page.ty(value).dtype().is_some_and(|d| d.is_int())
    }

    /// Whether elements may lie behind a bound: with `full`, though the grid's tile is a full one.
    pub fn is_open(&self, bound: &Bound, full: bool, vectors: bool) -> bool {
        let page = self.page;
        let of_grid = page.grid_loop().is_some_and(|l| l.vars.contains(&bound.index));
        let walks = bound.len == page.lengths.walked[&bound.index];
        if full && of_grid && walks {
            return false;
        }
        let dealt = of_grid && page.launch.dealt > 0;
        let anyway = of_grid && page.grid().is_some_and(|g| g.runs_anyway);
        dealt || anyway || !walks || self.bound(bound, vectors) % page.tile_size(bound.index) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_follow_sums_and_products() {
        let (c, by) = (Known::constant, Known::divisible);
        assert_eq!(c(0).multiple(), MOST, "everything divides nothing");
        assert_eq!(c(3).plus(c(1)).multiple(), 4, "constants are added up");
        assert_eq!(by(8).plus(c(4)).multiple(), 4);
        assert_eq!(by(8).plus(c(3)).plus(c(5)).multiple(), 8);
        assert_eq!(by(8).minus(c(1)).multiple(), 1);
        assert_eq!(by(6).times(c(4)).multiple(), 24);
        assert_eq!(by(6).times(c(0)), c(0));
        assert_eq!(by(6).plus(c(3)).times(c(2)).multiple(), 6);
        assert_eq!(c(1).times(by(16)), by(16));
    }
}

//! Loops over the tiles that hold the positions `first..end` of an axis, known when the loop begins: which turns there are, and where the
//! positions end. Tiles lie at multiples of their size, so the positions may begin and end within one: whether an element is one of them
//! takes two comparisons then, and none where both ends are surely multiples of the tile's size.

use super::context::Lowering;
use super::index::{Index, binary, compare};
use super::mask::Bound;
use super::plan::gcd;
use crate::simt::Expr;
use crate::tile::{self, TileLoop, ValueId};
use crate::types::{BinaryOp, CompareOp, DType};

/// Positions, and lengths beside them, as the author has them.
const WIDE: Index = Index { dtype: DType::I64 };

/// The positions to which a loop keeps, as its code has them.
#[derive(Clone)]
pub(crate) struct Walked {
    /// The first one, not before the axis; `None` for the start of the axis.
    pub first: Option<Expr>,
    /// One past the last, not behind the axis. Where there is no position it may lie before the first.
    pub end: Expr,
}

impl Walked {
    /// The condition under which a coordinate is one of the positions.
    pub fn has(&self, coordinate: &Expr) -> Expr {
        let below = compare(CompareOp::Lt, coordinate.clone(), self.end.clone());
        match &self.first {
            Some(first) => binary(BinaryOp::And, compare(CompareOp::Ge, coordinate.clone(), first.clone()), below),
            None => below,
        }
    }
}

impl Lowering<'_> {
    /// The tiles of one of a loop's axes that are walked: the first one, and one past the last. Positions to which the loop keeps get
    /// names, so this stands before it.
    pub fn tiles_walked(&mut self, l: &TileLoop, along: usize) -> (Expr, Expr) {
        let (ix, var) = (self.ix, l.vars[along]);
        let size = self.plan.size(tile::access::tile_size(self.kernel, var));
        let up_to = |end: &Expr| ix.div(ix.add(end.clone(), ix.lit(size - 1)), size);
        let len = self.index_of(self.kernel.view(l.view).axes[l.axes[along]].len);
        let Some(span) = l.span else { return (ix.lit(0), up_to(&len)) };
        let name = self.name_of(var, "tile");
        let first = self.first_position(span.first, &len, &name);
        let end = self.end_position(span.end, &len, &name);
        self.walked.insert(var, Walked { first: first.clone(), end: end.clone() });
        let Some(first) = first else { return (ix.lit(0), up_to(&end)) };
        let some = compare(CompareOp::Lt, first.clone(), end.clone());
        let stop = Expr::Select(Box::new(some), Box::new(up_to(&end)), Box::new(ix.lit(0)));
        (ix.div(first, size), stop)
    }

    /// The first position to which a loop keeps, cut to the axis; `None` if it is where the axis begins.
    fn first_position(&mut self, value: ValueId, len: &Expr, name: &str) -> Option<Expr> {
        let own = self.scalar(value);
        let (low, high) = self.range_of(&own).unwrap_or((i64::MIN, i64::MAX));
        if high <= 0 {
            return None;
        }
        let multiple = self.multiple(&own);
        let mut at = if low < 0 { binary(BinaryOp::Max, own, WIDE.lit(0)) } else { own };
        if self.ix.dtype != DType::I64 && high > i32::MAX as i64 {
            at = binary(BinaryOp::Min, at, WIDE.cast(self.ix.dtype, len.clone()));
        }
        // Where it is cut to the length, there is no turn.
        Some(self.named_position(&format!("{name}_first"), at, multiple))
    }

    /// One past the last position to which a loop keeps, cut to the axis.
    fn end_position(&mut self, value: ValueId, len: &Expr, name: &str) -> Expr {
        let (own, wide) = (self.scalar(value), WIDE.cast(self.ix.dtype, len.clone()));
        if own == wide || self.index_of(value) == *len {
            return len.clone();
        }
        let (low, _) = self.range_of(&own).unwrap_or((i64::MIN, i64::MAX));
        let multiple = gcd(self.multiple(&own), self.multiple(len));
        let own = if low < 0 { binary(BinaryOp::Max, own, WIDE.lit(0)) } else { own };
        self.named_position(&format!("{name}_end"), binary(BinaryOp::Min, own, wide), multiple)
    }

    /// A position in a variable of index arithmetic, of which is known by what it is divisible.
    fn named_position(&mut self, name: &str, wide: Expr, multiple: i64) -> Expr {
        let at = self.ix.cast(DType::I64, wide);
        let position = self.declare_let(name, self.ix.dtype, at);
        if let Expr::Var(var) = &position {
            self.multiples.insert(*var, multiple);
        }
        position
    }

    /// The positions to which a loop keeps that are all that a bound leaves; `None` for a length.
    fn walked_of(&self, bound: &Bound) -> Option<&Walked> {
        self.walked.get(&bound.index).filter(|_| bound.len == self.lengths[&bound.index])
    }

    /// The condition under which a coordinate lies where a bound leaves elements.
    pub fn bound_holds(&mut self, bound: &Bound, coordinate: Expr) -> Expr {
        match self.walked_of(bound) {
            Some(walked) => walked.has(&coordinate),
            None => {
                let len = self.index_of(bound.len);
                compare(CompareOp::Lt, coordinate, len)
            }
        }
    }

    /// By what all ends of what a bound leaves are surely divisible.
    pub fn bound_multiple(&mut self, bound: &Bound) -> i64 {
        match self.walked_of(bound).cloned() {
            Some(walked) => self.walked_multiple(&walked),
            None => {
                let len = self.index_of(bound.len);
                self.multiple(&len)
            }
        }
    }

    /// By what both ends of positions are surely divisible.
    pub fn walked_multiple(&self, walked: &Walked) -> i64 {
        let end = self.multiple(&walked.end);
        walked.first.as_ref().map_or(end, |first| gcd(self.multiple(first), end))
    }
}

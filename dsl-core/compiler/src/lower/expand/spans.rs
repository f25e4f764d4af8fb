//! Loops over the tiles that hold the positions `first..end` of an axis, known when the loop begins: which turns there are, and where the
//! positions end. Tiles lie at multiples of their size, so the positions may begin and end within one: whether an element is one of them
//! takes two comparisons then, and none where both ends are surely multiples of the tile's size.

use super::context::Expander;
use super::index::{Index, as_literal, binary, compare};
use super::mask::Bound;
use crate::block::gcd;
use crate::block::range::of_type;
use crate::block::{Loop, ValueId};
use girih_ir::simt::Expr;
use girih_ir::types::{BinaryOp, CompareOp, DType};

/// Positions as the author has them.
const WIDE: Index = Index { dtype: DType::I64 };

/// The positions to which a loop keeps, as its code has them.
#[derive(Clone)]
pub(crate) struct Walked {
    /// The first one, not before the axis; `None` where a tile begins.
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

impl Expander<'_> {
    /// The tiles of one of a loop's axes that are walked: the first one, and one past the last. What of them depends on positions to which
    /// the loop keeps gets names, so this stands before it.
    pub fn tiles_walked(&mut self, l: &Loop, along: usize) -> (Expr, Expr) {
        let (ix, var) = (self.ix, l.vars[along]);
        let size = self.kernel.tile_size(var);
        let up_to = |end: &Expr| ix.div(ix.add(end.clone(), ix.lit(size - 1)), size);
        let len = self.index_of(self.kernel.view(l.view).axes[l.axes[along]].len);
        let Some(span) = l.span else { return (ix.lit(0), up_to(&len)) };
        let name = self.name_of(var, "tile");
        self.comment(format!("{name}: only the tiles of {size} that hold positions first..end"));
        let first = self.first_position(span.first, &len, &name);
        let end = self.end_position(span.end, &len, &name);
        let within_tile = first.clone().filter(|first| self.multiple(first) % size != 0);
        let walked = Walked { first: within_tile, end: end.clone() };
        let whole = self.in_vectors(&walked, &len, &name);
        self.walked_in_vectors.insert(var, whole);
        self.walked.insert(var, walked);
        let (from, to) = match first {
            None => (ix.lit(0), up_to(&end)),
            Some(first) => {
                let some = compare(CompareOp::Lt, first.clone(), end.clone());
                (ix.div(first, size), Expr::Select(Box::new(some), Box::new(up_to(&end)), Box::new(ix.lit(0))))
            }
        };
        let named = |cx: &mut Self, what: &str, e: Expr| match e {
            Expr::Literal(_) => e,
            e => cx.declare_let(&format!("{name}_{what}"), ix.dtype, e),
        };
        (named(self, "from", from), named(self, "to", to))
    }

    /// The positions of the vectors that hold some of these, where vectors divide the axis: all of them lie there.
    fn in_vectors(&mut self, walked: &Walked, len: &Expr, name: &str) -> Walked {
        let (ix, width) = (self.ix, gcd(self.kernel.launch.vector, self.multiple(len)));
        let Walked { mut first, mut end } = walked.clone();
        if let Some(at) = first.take_if(|at| self.multiple(at) % width != 0) {
            let down = ix.mul(ix.div(at, width), ix.lit(width));
            first = Some(self.declare_let(&format!("{name}_first_vector"), ix.dtype, down));
        }
        if self.multiple(&end) % width != 0 {
            let up = ix.mul(ix.div(ix.add(end, ix.lit(width - 1)), width), ix.lit(width));
            end = self.declare_let(&format!("{name}_end_vector"), ix.dtype, up);
        }
        Walked { first, end }
    }

    /// What `f` does of whole vectors that hold positions to which loops keep: what else lies in them is there, too.
    pub fn in_whole_vectors<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        std::mem::swap(&mut self.walked, &mut self.walked_in_vectors);
        let done = f(self);
        std::mem::swap(&mut self.walked, &mut self.walked_in_vectors);
        done
    }

    /// The first position to which a loop keeps, cut to the axis; `None` if it is where the axis begins.
    fn first_position(&mut self, value: ValueId, len: &Expr, name: &str) -> Option<Expr> {
        let (own, its) = self.narrow(value);
        let (low, high) = self.range_of(&own).unwrap_or((i64::MIN, i64::MAX));
        if high <= 0 {
            return None;
        }
        if its.dtype == self.ix.dtype && as_literal(&own).is_some() {
            return Some(own);
        }
        let multiple = self.multiple(&own);
        let mut at = if low < 0 { binary(BinaryOp::Max, own, its.lit(0)) } else { own };
        if low < 0 || its.dtype != self.ix.dtype {
            at = binary(BinaryOp::Min, at, its.cast(self.ix.dtype, len.clone()));
        }
        // Where it is cut to the length, there is no turn.
        Some(self.named_position(&format!("{name}_first"), its.dtype, at, multiple))
    }

    /// One past the last position to which a loop keeps, cut to the axis.
    fn end_position(&mut self, value: ValueId, len: &Expr, name: &str) -> Expr {
        if self.index_of(value) == *len {
            return len.clone();
        }
        let (own, its) = self.narrow(value);
        let (low, _) = self.range_of(&own).unwrap_or((i64::MIN, i64::MAX));
        let multiple = gcd(self.multiple(&own), self.multiple(len));
        let own = if low < 0 { binary(BinaryOp::Max, own, its.lit(0)) } else { own };
        let at = binary(BinaryOp::Min, own, its.cast(self.ix.dtype, len.clone()));
        self.named_position(&format!("{name}_end"), its.dtype, at, multiple)
    }

    /// A position in index arithmetic, or as the author has it where that may be too narrow; and which of the two.
    fn narrow(&mut self, value: ValueId) -> (Expr, Index) {
        let own = self.scalar(value);
        let within = |(low, high): (i64, i64), (least, most): (i64, i64)| least <= low && high <= most;
        match self.range_of(&own).zip(of_type(self.ix.dtype)) {
            Some((range, all)) if within(range, all) => match own {
                Expr::Cast(_, inner) if self.dtype_of(&inner) == self.ix.dtype => (*inner, self.ix),
                own => (self.ix.cast(DType::I64, own), self.ix),
            },
            _ => (own, WIDE),
        }
    }

    /// A position in a variable of index arithmetic, of which is known by what it is divisible.
    fn named_position(&mut self, name: &str, dtype: DType, at: Expr, multiple: i64) -> Expr {
        let at = self.ix.cast(dtype, at);
        let position = self.declare_let(name, self.ix.dtype, at);
        if let Expr::Var(var) = &position {
            self.multiples.insert(*var, multiple);
        }
        position
    }

    /// The positions to which a loop keeps that are all that a bound leaves; `None` for a length.
    fn walked_of(&self, bound: &Bound) -> Option<&Walked> {
        self.walked.get(&bound.index).filter(|_| bound.len == self.length(bound.index))
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

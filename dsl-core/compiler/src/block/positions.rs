//! How computed positions step along a thread's run of registers, and what divides the one that a run begins with.

use super::divisors::{Divisors, Known};
use super::{Op, ValueId, gcd};
use girih_ir::layout::{Layout, Source};
use girih_ir::types::BinaryOp;

/// A thread's neighbouring registers: the first few along an axis of a layout.
#[derive(Clone, Copy)]
pub(crate) struct RunOf<'l> {
    pub layout: &'l Layout,
    pub axis: usize,
    /// Elements; a power of two that divides the first register digit of the axis.
    pub width: i64,
}

/// A position at each element of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Steps {
    /// From one element to the next: 0 or 1.
    pub by: i64,
    /// By what the first one is surely divisible.
    pub first: i64,
}

impl Divisors<'_> {
    /// How a tile whose axis `k` is axis `axes[k]` of the run's layout, or a scalar, steps along a run; `None` where it steps by something else.
    pub fn steps(&self, value: ValueId, axes: &[usize], run: RunOf) -> Option<Steps> {
        if self.is_scalar(value) {
            return Some(Steps { by: 0, first: self.scalar(value).multiple() });
        }
        // The same along the run, whatever it is.
        let unknown = (!axes.contains(&run.axis)).then_some(Steps { by: 0, first: 1 });
        let of = |v: ValueId| self.steps(v, axes, run);
        match self.op(value) {
            Some(Op::Iota) => Some(coordinate(Known::constant(0), axes[0], run)),
            Some(Op::Coordinates(index)) => Some(coordinate(self.start(*index), axes[0], run)),
            Some(Op::Splat(v) | Op::Like { value: v, .. } | Op::Within(v, _)) => of(*v),
            Some(Op::Cast(v)) if self.is_integer(*v) && self.is_integer(value) => of(*v),
            Some(Op::Broadcast(v, from)) => {
                let mut inner = vec![0; from.iter().flatten().count()];
                from.iter().enumerate().for_each(|(k, f)| f.iter().for_each(|f| inner[*f] = axes[k]));
                self.steps(*v, &inner, run)
            }
            Some(Op::Transpose(v, perm)) => {
                let mut inner = vec![0; perm.len()];
                perm.iter().enumerate().for_each(|(k, from)| inner[*from] = axes[k]);
                self.steps(*v, &inner, run)
            }
            Some(Op::Binary(BinaryOp::And, a, b)) => {
                let masked = |a: Steps, mask: ValueId| kept_by_mask(a, self.below(mask), run.width);
                let (x, y) = (of(*a)?, of(*b)?);
                masked(x, *b).or_else(|| masked(y, *a)).or_else(|| combined(BinaryOp::And, x, y)).or(unknown)
            }
            Some(Op::Binary(op, a, b)) => combined(*op, of(*a)?, of(*b)?).or(unknown),
            Some(Op::Select(c, a, b)) => {
                let (c, a, b) = (of(*c)?, of(*a)?, of(*b)?);
                ([c, a, b].iter().all(|s| s.by == 0)).then_some(Steps { by: 0, first: gcd(a.first, b.first) })
            }
            Some(Op::Compare(_, a, b)) => (of(*a)?.by == 0 && of(*b)?.by == 0).then_some(Steps { by: 0, first: 1 }),
            _ => unknown,
        }
    }
}

/// What `&` with a number that is one less than a multiple of `below` leaves of the steps of a run: its lower bits are ones, which keep those of
/// a run that begins at a multiple of its length.
fn kept_by_mask(of: Steps, below: i64, width: i64) -> Option<Steps> {
    let ones = 1 << below.trailing_zeros().min(30);
    (of.by == 1 && ones % width == 0 && of.first % width == 0).then_some(Steps { by: 1, first: gcd(of.first, ones) })
}

/// The coordinate along an axis of the layout, from `start` on.
fn coordinate(start: Known, axis: usize, run: RunOf) -> Steps {
    let along = axis == run.axis;
    let places = run.layout.axes[axis].iter().filter(|d| d.extent > 1).map(|d| match d.source {
        Source::Register if along && d.stride == 1 => run.width,
        Source::Register | Source::Thread => d.place,
    });
    Steps { by: i64::from(along), first: places.fold(start.multiple(), gcd) }
}

/// What an operation makes of two.
fn combined(op: BinaryOp, a: Steps, b: Steps) -> Option<Steps> {
    let by = match op {
        BinaryOp::Add => a.by + b.by,
        BinaryOp::Sub if b.by == 0 => a.by,
        _ if a.by == 0 && b.by == 0 => 0,
        _ => return None,
    };
    let first = match op {
        BinaryOp::Add | BinaryOp::Sub => gcd(a.first, b.first),
        BinaryOp::Mul => Known::divisible(a.first).times(Known::divisible(b.first)).multiple(),
        _ => 1,
    };
    (by <= 1).then_some(Steps { by, first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_step_by_one_or_stay() {
        let (along, row) = (Steps { by: 1, first: 4 }, Steps { by: 0, first: 6 });
        assert_eq!(combined(BinaryOp::Add, along, row), Some(Steps { by: 1, first: 2 }));
        assert_eq!(combined(BinaryOp::Sub, along, row), Some(Steps { by: 1, first: 2 }));
        assert_eq!(combined(BinaryOp::Sub, row, along), None, "backwards");
        assert_eq!(combined(BinaryOp::Add, along, along), None, "by two");
        assert_eq!(combined(BinaryOp::Mul, along, row), None);
        assert_eq!(combined(BinaryOp::Mul, row, row), Some(Steps { by: 0, first: 36 }));
        assert_eq!(combined(BinaryOp::Xor, row, row), Some(Steps { by: 0, first: 1 }));
        assert_eq!(combined(BinaryOp::Xor, along, row), None);
        // `& 15` of runs from multiples of four on; of such as begin in between; `& 5`, whose lowest bits are no ones.
        assert_eq!(kept_by_mask(along, 16, 4), Some(along));
        assert_eq!(kept_by_mask(Steps { by: 1, first: 32 }, 16, 4), Some(Steps { by: 1, first: 16 }));
        assert_eq!([kept_by_mask(Steps { by: 1, first: 2 }, 16, 4), kept_by_mask(along, 6, 4), kept_by_mask(row, 16, 4)], [None; 3]);
    }
}

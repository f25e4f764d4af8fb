//! Dots by the author's operations: functions of numbered cells, made once for a dot and called for every pair of elements.

use super::EvalError;
use super::laws::TOLERANCE;
use super::run::Machine;
use super::value::{TileVal, Val};
use crate::loc::SourceLoc;
use crate::tile::{Fold, Op, ValueId};
use crate::types::DType;

/// A step: the next cell, of those so far.
type Step = Box<dyn Fn(&[u64]) -> u64>;

impl Machine<'_, '_> {
    /// `acc` with all pairs of elements folded into it, the inner axis in ascending order.
    pub(super) fn fold(&self, [a, b, acc]: [ValueId; 3], fold: &Fold, loc: SourceLoc) -> Result<Val, EvalError> {
        let (left, right, sums) = (self.elements(a, fold), self.elements(b, fold), self.tile(acc));
        let (inner, columns) = (self.tile(a).shape[1], sums.shape[1]);
        let captured = fold.captured();
        let mut cells = vec![0; 3];
        for v in &captured {
            cells.push(self.cell(*v, "what a dot's operations read", loc)?);
        }
        let made = fold.steps.iter().map(|(v, _)| *v);
        let places: Vec<ValueId> = fold.arguments.into_iter().chain(captured).chain(made).collect();
        let place = |v: ValueId| places.iter().position(|p| *p == v).unwrap_or_else(|| panic!("eval: %{} is made by no step", v.0));
        let steps: Vec<Step> = fold.steps.iter().map(|(v, op)| self.step(*v, op, &place)).collect();
        let (first, result) = (cells.len(), place(fold.result));
        cells.resize(places.len(), 0);
        let mut next = |elements: [u64; 3]| {
            cells[..3].copy_from_slice(&elements);
            steps.iter().enumerate().for_each(|(at, step)| cells[first + at] = step(&cells));
            cells[result]
        };
        let mut data = sums.data.clone();
        for (i, sum) in data.iter_mut().enumerate() {
            let (m, n) = (i / columns, i % columns);
            *sum = (0..inner).fold(*sum, |sum, k| next([sum, left[m * inner + k], right[k * columns + n]]));
        }
        let absent = self.numbers.literal(fold.absent);
        for sum in sums.data.first().into_iter().chain(data.first()) {
            self.check_kept(self.dtype(acc), *sum, next([*sum, absent, absent]), loc)?;
        }
        Ok(TileVal { shape: sums.shape.clone(), data, mask: sums.mask.clone() }.into())
    }

    /// A sum to which nothing is added stays what it is, but for rounding.
    fn check_kept(&self, dtype: DType, sum: u64, next: u64, loc: SourceLoc) -> Result<(), EvalError> {
        let (before, behind) = (self.number_of(dtype, sum), self.number_of(dtype, next));
        let rounded = dtype.is_float() && (before - behind).abs() <= TOLERANCE * before.abs();
        if before == behind || rounded || before.is_nan() && behind.is_nan() {
            return Ok(());
        }
        Err(EvalError::Fold { law: format!("{before} becomes {behind}"), loc })
    }

    /// An operand's elements, of its type's precision, and the fold's number where they are absent.
    fn elements(&self, operand: ValueId, fold: &Fold) -> Vec<u64> {
        let (tile, dtype, absent) = (self.tile(operand), self.dtype(operand), self.numbers.literal(fold.absent));
        let rounded = |cell: u64| self.numbers.load(dtype, self.numbers.store(dtype, cell));
        (0..tile.data.len()).map(|i| tile.at(i).map_or(absent, rounded)).collect()
    }

    fn step(&self, value: ValueId, op: &Op, place: &dyn Fn(ValueId) -> usize) -> Step {
        let numbers = self.numbers;
        match op {
            Op::Literal(l) => {
                let cell = numbers.literal(*l);
                Box::new(move |_| cell)
            }
            Op::Unary(op, a) => of_one(numbers.unary(*op, self.dtype(*a)), place(*a)),
            Op::Cast(a) => of_one(numbers.cast(self.dtype(*a), self.dtype(value)), place(*a)),
            Op::Bitcast(a) => of_one(numbers.bitcast(self.dtype(*a), self.dtype(value)), place(*a)),
            Op::Binary(op, a, b) => of_two(numbers.binary(*op, self.dtype(*a)), [*a, *b].map(place)),
            Op::Compare(op, a, b) => of_two(numbers.compare(*op, self.dtype(*a)), [*a, *b].map(place)),
            Op::Ternary(op, a, b, c) => {
                let (f, [a, b, c]) = (numbers.ternary(*op, self.dtype(*a)), [*a, *b, *c].map(place));
                Box::new(move |cells| f(cells[a], cells[b], cells[c]))
            }
            Op::Select(c, a, b) => {
                let [c, a, b] = [*c, *a, *b].map(place);
                Box::new(move |cells| if cells[c] != 0 { cells[a] } else { cells[b] })
            }
            other => panic!("eval: {other:?} is no step of a fold"),
        }
    }
}

fn of_one(f: impl Fn(u64) -> u64 + 'static, a: usize) -> Step {
    Box::new(move |cells| f(cells[a]))
}

fn of_two(f: impl Fn(u64, u64) -> u64 + 'static, [a, b]: [usize; 2]) -> Step {
    Box::new(move |cells| f(cells[a], cells[b]))
}

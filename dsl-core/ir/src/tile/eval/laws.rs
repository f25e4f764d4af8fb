//! Whether an author's operator is one that may be regrouped: tried on the elements that it meets, since many an operator is associative
//! on those alone (residues below a modulus, pairs in order).

use super::EvalError;
use super::run::Machine;
use crate::tile::{Combine, Operator};
use crate::types::{DType, Literal};

/// Triples that are tried of each combination.
const TRIPLES: usize = 32;
/// Triples after which a verdict is given.
const ENOUGH: usize = 4;
/// What sums and products of single precision may lose, in parts of the largest number that takes part.
pub(super) const TOLERANCE: f64 = 1e-3;

/// What was tried of one combination's operator.
#[derive(Clone, Default)]
pub(super) struct Trial {
    tried: usize,
    /// Triples that come to something else when they are grouped otherwise, and what the first of them showed.
    regrouped: usize,
    regrouping: String,
    /// Elements that the identity changes, and what the first of them showed.
    moved: usize,
    moving: String,
}

impl Trial {
    /// The law that is broken in at least a quarter of the trials: a comparison of what was rounded may go either way.
    fn verdict(&self) -> Option<&str> {
        let broken = |count: usize| count >= ENOUGH && count * 4 >= self.tried;
        let laws = [(self.regrouped, &self.regrouping), (self.moved, &self.moving)];
        laws.into_iter().find(|(count, _)| broken(*count)).map(|(_, law)| law.as_str())
    }
}

impl Machine<'_, '_> {
    /// Tries the operator of an author on neighbours, and on what is before them: `f(f(a, b), c)` is `f(a, f(b, c))`, and the identity
    /// changes nothing.
    pub(super) fn try_operator(&mut self, c: &Combine, elements: &[Vec<u64>]) -> Result<(), EvalError> {
        let Operator::User { .. } = &c.operator else { return Ok(()) };
        let mut trial = self.trials.get(&c.loc).cloned().unwrap_or_default();
        if trial.tried >= TRIPLES {
            return Ok(());
        }
        let fuel = self.fuel;
        let tried = self.try_triples(c, elements, &mut trial);
        self.fuel = fuel;
        let verdict = trial.verdict().map(|law| EvalError::Operator { law: law.to_string(), loc: c.loc });
        self.trials.insert(c.loc, trial);
        tried.and(verdict.map_or(Ok(()), Err))
    }

    fn try_triples(&mut self, c: &Combine, elements: &[Vec<u64>], trial: &mut Trial) -> Result<(), EvalError> {
        let mut before = self.identity(c);
        for three in elements.windows(3).take(TRIPLES - trial.tried) {
            let [x, b, third] = three else { return Ok(()) };
            // The first operand is now and then what the elements before come to.
            let a = if trial.tried % 2 == 1 { before.clone() } else { x.clone() };
            trial.tried += 1;
            self.try_grouping(c, [&a, b, third], trial)?;
            self.try_identity(c, b, trial)?;
            before = self.apply(c, before, x.clone())?;
        }
        Ok(())
    }

    fn try_grouping(&mut self, c: &Combine, [a, b, third]: [&Vec<u64>; 3], trial: &mut Trial) -> Result<(), EvalError> {
        let (left, right) = (self.apply(c, a.clone(), b.clone())?, self.apply(c, b.clone(), third.clone())?);
        let (one, other) = (self.apply(c, left.clone(), third.clone())?, self.apply(c, a.clone(), right.clone())?);
        if self.alike(c, &one, &other, &[a, b, third, &left, &right]) {
            return Ok(());
        }
        trial.regrouped += 1;
        if trial.regrouped == 1 {
            let [a, b, third, one, other] = [a, b, third, &one, &other].map(|cells| self.shown(c, cells));
            trial.regrouping =
                format!("is not associative: f(f(a, b), c) = {one}, but f(a, f(b, c)) = {other} with a = {a}, b = {b}, c = {third}");
        }
        Ok(())
    }

    fn try_identity(&mut self, c: &Combine, a: &Vec<u64>, trial: &mut Trial) -> Result<(), EvalError> {
        let identity = self.identity(c);
        let (before, behind) = (self.apply(c, identity.clone(), a.clone())?, self.apply(c, a.clone(), identity.clone())?);
        let results = [("f(e, a)", before), ("f(a, e)", behind)];
        let Some((what, got)) = results.into_iter().find(|(_, got)| !self.alike(c, got, a, &[a])) else { return Ok(()) };
        trial.moved += 1;
        if trial.moved == 1 {
            let [e, a, got] = [&identity, a, &got].map(|cells| self.shown(c, cells));
            trial.moving = format!("has another identity than {e}: {what} = {got} with a = {a} and e = {e}");
        }
        Ok(())
    }

    fn dtypes(&self, c: &Combine) -> Vec<DType> {
        c.inputs.iter().map(|v| self.dtype(*v)).collect()
    }

    /// Whether two results are the same, up to rounding of floats beside the operands.
    fn alike(&self, c: &Combine, one: &[u64], other: &[u64], operands: &[&Vec<u64>]) -> bool {
        self.dtypes(c).into_iter().enumerate().all(|(k, dtype)| {
            if !dtype.is_float() {
                return one[k] == other[k];
            }
            let value = |cells: &[u64]| self.number_of(dtype, cells[k]);
            let (x, y) = (value(one), value(other));
            let largest =
                operands.iter().map(|cells| value(cells).abs()).chain([x.abs(), y.abs()]).filter(|v| v.is_finite()).fold(0.0, f64::max);
            let tolerance = match dtype {
                DType::F16 | DType::BF16 => 32.0 * TOLERANCE,
                d if d.is_float8() => 512.0 * TOLERANCE,
                _ => TOLERANCE,
            };
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * largest || !(x.is_finite() && y.is_finite())
        })
    }

    pub(super) fn number_of(&self, dtype: DType, cell: u64) -> f64 {
        if self.numbers.float64 { f64::from_bits(cell) } else { (Literal { dtype: dtype.compute(), bits: cell }).to_f64() }
    }

    /// An element for a message: one number, or several in parentheses.
    fn shown(&self, c: &Combine, cells: &[u64]) -> String {
        let one = |(dtype, cell): (DType, &u64)| match dtype {
            d if d.is_float() => (self.number_of(d, *cell) as f32).to_string(),
            d => (Literal { dtype: d, bits: *cell }).to_string(),
        };
        let all: Vec<String> = self.dtypes(c).into_iter().zip(cells).map(one).collect();
        if all.len() == 1 { all.concat() } else { format!("({})", all.join(", ")) }
    }
}

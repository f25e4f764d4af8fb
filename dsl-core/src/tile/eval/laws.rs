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
const TOLERANCE: f64 = 1e-3;

/// What was tried of one combination's operator.
#[derive(Clone, Default)]
pub(super) struct Trial {
    tried: usize,
    regrouped: usize,
    moved: usize,
}

impl Machine<'_, '_> {
    /// Tries the operator of an author on neighbours, and on what is before them: `f(f(a, b), c)` is `f(a, f(b, c))`, and the identity
    /// changes nothing. One operator must break a law in at least a quarter of the trials: a comparison of what was rounded may go either way.
    pub(super) fn try_operator(&mut self, c: &Combine, elements: &[Vec<u64>]) -> Result<(), EvalError> {
        let Operator::User { .. } = &c.operator else { return Ok(()) };
        let mut trial = self.trials.get(&c.loc).cloned().unwrap_or_default();
        if trial.tried >= TRIPLES {
            return Ok(());
        }
        let fuel = self.fuel;
        let verdict = self.try_triples(c, elements, &mut trial);
        self.fuel = fuel;
        self.trials.insert(c.loc, trial);
        verdict
    }

    fn try_triples(&mut self, c: &Combine, elements: &[Vec<u64>], trial: &mut Trial) -> Result<(), EvalError> {
        let identity = self.identity(c);
        let mut before: Option<Vec<u64>> = None;
        for three in elements.windows(3).take(TRIPLES - trial.tried) {
            let [x, b, c3] = three else { return Ok(()) };
            // The first operand is now and then what many elements come to.
            let a = before.clone().filter(|_| trial.tried % 2 == 1).unwrap_or_else(|| x.clone());
            let (left, right) = (self.apply(c, a.clone(), b.clone())?, self.apply(c, b.clone(), c3.clone())?);
            let (one, other) = (self.apply(c, left.clone(), c3.clone())?, self.apply(c, a.clone(), right.clone())?);
            let all = [&a, b, c3, &left, &right];
            trial.tried += 1;
            if !self.alike(c, &one, &other, &all) {
                trial.regrouped += 1;
                if trial.regrouped >= ENOUGH && trial.regrouped * 4 >= trial.tried {
                    let (a, b, third) = (self.shown(c, &a), self.shown(c, b), self.shown(c, c3));
                    let (one, other) = (self.shown(c, &one), self.shown(c, &other));
                    let law = format!(
                        "is not associative: f(f(a, b), c) = {one}, but f(a, f(b, c)) = {other} with a = {a}, b = {b}, c = {third}"
                    );
                    return Err(self.broken(c, law));
                }
            }
            for (got, what) in
                [(self.apply(c, identity.clone(), b.clone())?, "f(e, a)"), (self.apply(c, b.clone(), identity.clone())?, "f(a, e)")]
            {
                if self.alike(c, &got, b, &[b]) {
                    continue;
                }
                trial.moved += 1;
                if trial.moved >= ENOUGH && trial.moved * 4 >= trial.tried {
                    let (e, a, got) = (self.shown(c, &identity), self.shown(c, b), self.shown(c, &got));
                    return Err(self.broken(c, format!("has another identity than {e}: {what} = {got} with a = {a} and e = {e}")));
                }
            }
            before = Some(self.apply(c, before.unwrap_or_else(|| identity.clone()), x.clone())?);
        }
        Ok(())
    }

    fn broken(&self, c: &Combine, law: String) -> EvalError {
        EvalError::Operator { law, loc: c.loc }
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
            let tolerance = if matches!(dtype, DType::F16 | DType::BF16) { 32.0 * TOLERANCE } else { TOLERANCE };
            x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * largest || !(x.is_finite() && y.is_finite())
        })
    }

    fn number_of(&self, dtype: DType, cell: u64) -> f64 {
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

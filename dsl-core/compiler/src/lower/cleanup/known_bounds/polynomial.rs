//! Sums of products of unknown integers, with constant factors.

use std::collections::BTreeMap;

/// An unknown integer.
pub(super) type Atom = u32;

/// Factors of a product, at most; and products of a sum.
const MOST: (usize, usize) = (4, 16);

/// A sum of products of atoms; the constant is the product of none.
#[derive(Clone, PartialEq, Hash, Debug, Default)]
pub(super) struct Polynomial {
    terms: BTreeMap<Vec<Atom>, i128>,
}

impl Polynomial {
    pub fn constant(value: i128) -> Polynomial {
        Polynomial { terms: (value != 0).then(|| (Vec::new(), value)).into_iter().collect() }
    }

    pub fn atom(atom: Atom) -> Polynomial {
        Polynomial { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    /// `self + factor * other`; `None` where that gets too long.
    pub fn plus(&self, other: &Polynomial, factor: i128) -> Option<Polynomial> {
        let mut sum = self.clone();
        for (product, times) in &other.terms {
            sum.add(product.clone(), times.checked_mul(factor)?)?;
        }
        (sum.terms.len() <= MOST.1).then_some(sum)
    }

    pub fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        let mut all = Polynomial::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut product = [a.as_slice(), b].concat();
                product.sort_unstable();
                if product.len() > MOST.0 {
                    return None;
                }
                all.add(product, x.checked_mul(*y)?)?;
            }
        }
        (all.terms.len() <= MOST.1).then_some(all)
    }

    fn add(&mut self, product: Vec<Atom>, times: i128) -> Option<()> {
        let sum = self.terms.get(&product).copied().unwrap_or(0).checked_add(times)?;
        match sum {
            0 => drop(self.terms.remove(&product)),
            _ => drop(self.terms.insert(product, sum)),
        }
        Some(())
    }

    /// Products with their factors.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i128)> {
        self.terms.iter().map(|(product, times)| (product.as_slice(), *times))
    }

    /// How often a product is in the sum.
    pub fn times_of(&self, product: &[Atom]) -> i128 {
        self.terms.get(product).copied().unwrap_or(0)
    }

    /// The value, if it is a constant.
    pub fn value(&self) -> Option<i128> {
        self.terms.keys().all(Vec::is_empty).then(|| self.times_of(&[]))
    }

    /// Between which numbers the sum lies; `None` where that is beyond 128 bits.
    pub fn interval(&self, range: &dyn Fn(Atom) -> (i64, i64)) -> Option<(i128, i128)> {
        self.terms().try_fold((0, 0), |(least, most): (i128, i128), (product, times)| {
            let (from, to) = term_interval(product, times, range)?;
            Some((least.checked_add(from)?, most.checked_add(to)?))
        })
    }
}

/// Between which numbers a product lies.
pub(super) fn term_interval(product: &[Atom], times: i128, range: &dyn Fn(Atom) -> (i64, i64)) -> Option<(i128, i128)> {
    product.iter().try_fold((times, times), |(least, most): (i128, i128), atom| {
        let (from, to) = range(*atom);
        let corners = [(least, from), (least, to), (most, from), (most, to)].map(|(a, b)| a.checked_mul(i128::from(b)));
        let all: Vec<i128> = corners.into_iter().collect::<Option<_>>()?;
        Some((*all.iter().min()?, *all.iter().max()?))
    })
}

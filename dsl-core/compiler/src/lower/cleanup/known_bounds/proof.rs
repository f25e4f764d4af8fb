//! Whether a sum is at least 0, by others that are: these are taken from it until what is left lies between numbers at least 0.

use super::polynomial::{Polynomial, term_interval};
use super::terms::{Kind, Terms};

/// Sums that are taken off one after another, at most.
const DEEP: usize = 4;

/// Sums that are looked at for one answer, at most.
const STEPS: usize = 256;

/// Whether `goal` is at least 0 where all of `facts` are.
pub(super) fn is_at_least_0(goal: &Polynomial, facts: &[Polynomial], terms: &Terms) -> bool {
    search(goal, facts, terms, (DEEP, &mut { STEPS }))
}

fn search(goal: &Polynomial, facts: &[Polynomial], terms: &Terms, (deep, steps): (usize, &mut usize)) -> bool {
    if terms.interval(goal).is_some_and(|(least, _)| least >= 0) {
        return true;
    }
    if deep == 0 || *steps == 0 {
        return false;
    }
    *steps -= 1;
    let range = |atom| terms.range(atom);
    let least = |product: &[u32], times| term_interval(product, times, &range).map_or(i128::MIN, |(least, _)| least);
    let lowest = goal.terms().filter(|(product, _)| !product.is_empty()).min_by_key(|(product, times)| least(product, *times));
    let Some((product, times)) = lowest.filter(|(product, times)| least(product, *times) < 0) else { return false };
    let known = facts.iter().rev().cloned().chain(of_atoms(product, terms));
    for fact in known.flat_map(|fact| multiples(&fact, product, terms)) {
        let own = fact.times_of(product);
        if own.signum() == times.signum()
            && let Some(left) = without(goal, (times, own), &fact)
            && search(&left, facts, terms, (deep - 1, steps))
        {
            return true;
        }
    }
    let scaled: Vec<Polynomial> = product.iter().filter_map(|atom| times_divisor(goal, *atom, terms)).collect();
    scaled.iter().any(|goal| search(goal, facts, terms, (deep - 1, steps)))
}

/// The goal times what a factor was divided by, so that the product of both may meet what holds of it: integers above −1 are at least 0.
fn times_divisor(goal: &Polynomial, atom: u32, terms: &Terms) -> Option<Polynomial> {
    match terms.kind(atom) {
        Kind::Quotient(_, by) if by.value().is_none() => goal.times(by)?.plus(by, 1)?.plus(&Polynomial::constant(1), -1),
        _ => None,
    }
}

/// What is left of `goal` without `fact`, so that a product is in it no more. Integers above −1 are at least 0, so a multiple of one may lie as
/// far below 0 as it has no other multiple between.
fn without(goal: &Polynomial, (times, own): (i128, i128), fact: &Polynomial) -> Option<Polynomial> {
    let common = greatest_divisor(times.abs(), own.abs());
    let (scale, factor) = (own.abs() / common, times.abs() / common);
    let rounded = Polynomial::constant(scale - 1).plus(goal, scale)?;
    rounded.plus(fact, -factor)
}

fn greatest_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// A fact, and what it says of a product one of whose factors is at least 0.
fn multiples(fact: &Polynomial, product: &[u32], terms: &Terms) -> Vec<Polynomial> {
    let by = |at: usize| {
        let rest: Vec<u32> = product.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, atom)| *atom).collect();
        let helps = product.len() > 1 && terms.range(product[at]).0 >= 0 && fact.times_of(&rest) != 0;
        helps.then(|| fact.times(&Polynomial::atom(product[at]))).flatten()
    };
    let own = (fact.times_of(product) != 0).then(|| fact.clone());
    own.into_iter().chain((0..product.len()).filter_map(by)).collect()
}

/// What holds of the factors of a product by what they are.
fn of_atoms(product: &[u32], terms: &Terms) -> Vec<Polynomial> {
    product.iter().flat_map(|atom| of_atom(*atom, terms)).flatten().collect()
}

fn of_atom(atom: u32, terms: &Terms) -> Vec<Option<Polynomial>> {
    let own = Polynomial::atom(atom);
    match terms.kind(atom) {
        Kind::Value(_) | Kind::Host(_) => vec![],
        Kind::Quotient(x, y) => {
            let below = own.times(y).and_then(|product| x.plus(&product, -1));
            let above = below.as_ref().and_then(|rest| y.plus(rest, -1)?.plus(&Polynomial::constant(1), -1));
            vec![below, above]
        }
        Kind::Remainder(x, y) => {
            let less = y.plus(&own, -1).and_then(|left| left.plus(&Polynomial::constant(1), -1));
            vec![less, x.plus(&own, -1)]
        }
        Kind::Min(x, y) => vec![x.plus(&own, -1), y.plus(&own, -1)],
        Kind::Max(x, y) => vec![own.plus(x, -1), own.plus(y, -1)],
    }
}

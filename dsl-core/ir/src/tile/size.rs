//! Sizes as polynomials over knobs.

use super::KnobId;
use crate::schedule::Knob;
use std::collections::BTreeMap;

/// A size in elements, known once the schedule is: a polynomial over knobs with integer coefficients, divided by a constant
/// nowhere (tile sizes add and multiply). Normalised, so equal sizes compare equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Size {
    /// Monomial (sorted knobs, repeated for powers) → coefficient, never 0. The empty monomial is the constant.
    terms: BTreeMap<Vec<KnobId>, i64>,
}

impl Size {
    /// A constant.
    pub fn constant(value: i64) -> Size {
        let terms = if value == 0 { BTreeMap::new() } else { BTreeMap::from([(vec![], value)]) };
        Size { terms }
    }
    /// The value of a knob.
    pub fn knob(knob: KnobId) -> Size {
        Size { terms: BTreeMap::from([(vec![knob], 1)]) }
    }
    /// The sum.
    pub fn plus(&self, other: &Size) -> Size {
        let mut terms = self.terms.clone();
        for (m, c) in &other.terms {
            *terms.entry(m.clone()).or_insert(0) += c;
        }
        terms.retain(|_, c| *c != 0);
        Size { terms }
    }
    /// The product.
    pub fn times(&self, other: &Size) -> Size {
        let mut terms: BTreeMap<Vec<KnobId>, i64> = BTreeMap::new();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut m: Vec<KnobId> = a.iter().chain(b).copied().collect();
                m.sort();
                *terms.entry(m).or_insert(0) += x * y;
            }
        }
        terms.retain(|_, c| *c != 0);
        Size { terms }
    }
    /// The constant, if no knob occurs.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&vec![]).copied(),
            _ => None,
        }
    }
    /// The knob, if the size is just that knob.
    pub fn as_knob(&self) -> Option<KnobId> {
        match self.terms.iter().next() {
            Some((m, 1)) if self.terms.len() == 1 && m.len() == 1 => Some(m[0]),
            _ => None,
        }
    }
    /// The same under every schedule: each knob that occurs has one choice.
    pub fn is_pinned(&self, knobs: &[Knob]) -> bool {
        self.knobs().iter().all(|k| knobs[k.0 as usize].choices.len() == 1)
    }
    /// The knobs that occur.
    pub fn knobs(&self) -> Vec<KnobId> {
        let mut all: Vec<KnobId> = self.terms.keys().flatten().copied().collect();
        all.sort();
        all.dedup();
        all
    }
    /// Its value where knob `k` has the value `of(k)`.
    pub fn value(&self, of: impl Fn(KnobId) -> i64) -> i64 {
        self.terms.iter().map(|(m, c)| c * m.iter().map(|k| of(*k)).product::<i64>()).sum()
    }
    /// Text with the knobs' names: `BM`, `2*T + 1`.
    pub fn display(&self, knobs: &[Knob]) -> String {
        let mut parts = Vec::new();
        for (m, c) in self.terms.iter().rev() {
            let names: Vec<&str> = m.iter().map(|k| knobs[k.0 as usize].name.as_str()).collect();
            parts.push(match (names.is_empty(), *c) {
                (true, c) => c.to_string(),
                (false, 1) => names.join("*"),
                (false, c) => format!("{c}*{}", names.join("*")),
            });
        }
        if parts.is_empty() { "0".into() } else { parts.join(" + ") }
    }
}

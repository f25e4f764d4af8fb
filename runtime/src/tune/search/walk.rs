//! Strategies: which candidate comes next, by what the trials so far say. A search falls back on its order where a strategy has no wish.

use super::{Candidates, fastest};
use crate::subject::inputs::Rng;
use std::collections::HashSet;

/// What a search knows while it runs.
pub struct Seen<'a> {
    /// Candidates with their times, in the order of their trials; those without one are not among them.
    pub times: &'a [(usize, f64)],
    /// Those of them whose cubins are not what was meant.
    pub flawed: &'a HashSet<usize>,
    /// All that were tried.
    pub done: &'a HashSet<usize>,
}

impl Seen<'_> {
    /// The candidates that may win: those that are accepted, if there are any.
    pub fn eligible(&self) -> Vec<(usize, f64)> {
        let accepted: Vec<(usize, f64)> = self.times.iter().copied().filter(|(c, _)| !self.flawed.contains(c)).collect();
        if accepted.is_empty() { self.times.to_vec() } else { accepted }
    }

    /// The fastest of them.
    pub fn preferred(&self) -> Option<(usize, f64)> {
        fastest(&self.eligible())
    }

    /// The fastest few, the fastest first.
    fn leading(&self, most: usize) -> Vec<usize> {
        let mut all = self.eligible();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.into_iter().take(most).map(|(c, _)| c).collect()
    }
}

/// A strategy.
pub trait Walk {
    /// What to try next, the most wanted first. What was tried already is left out by whoever asks.
    fn wishes(&mut self, seen: &Seen, candidates: &dyn Candidates) -> Vec<usize>;
}

/// The order and nothing else: exhaustive in the space's order, random in a random one.
pub struct InOrder;

impl Walk for InOrder {
    fn wishes(&mut self, _: &Seen, _: &dyn Candidates) -> Vec<usize> {
        Vec::new()
    }
}

/// Hill climb: when a few trials in the order are done, what lies one step from the fastest two comes first, in turn. Both numbers are those
/// that did best of twenty pairs on recorded times (`docs/performance/strategies.md`): one hill alone may be the wrong one.
pub struct Climb {
    /// Trials before that.
    pub first: usize,
    /// Candidates whose neighbours are tried.
    pub leaders: usize,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb { first: 8, leaders: 2 }
    }
}

impl Walk for Climb {
    fn wishes(&mut self, seen: &Seen, candidates: &dyn Candidates) -> Vec<usize> {
        // Trials of slow candidates leave no times, and count all the same.
        if seen.done.len() < self.first {
            return Vec::new();
        }
        let leading = seen.leading(self.leaders);
        let in_turn = (0..leading.len()).map(|k| leading[(seen.done.len() + k) % leading.len()]);
        in_turn.flat_map(|leader| candidates.near(leader)).collect()
    }
}

/// Evolution: a child of two of the fastest, which lies one step from both, or a mutation of one of them, one step from it.
pub struct Evolve {
    rng: Rng,
    /// Trials before the first child.
    first: usize,
    /// Candidates that have children.
    parents: usize,
}

impl Evolve {
    /// The same seed walks the same way.
    pub fn new(seed: u64) -> Evolve {
        Evolve { rng: Rng::new(seed), first: 12, parents: 6 }
    }

    fn pick(&mut self, among: &[usize]) -> Option<usize> {
        (!among.is_empty()).then(|| among[self.rng.below(among.len())])
    }
}

impl Walk for Evolve {
    fn wishes(&mut self, seen: &Seen, candidates: &dyn Candidates) -> Vec<usize> {
        if seen.done.len() < self.first {
            return Vec::new();
        }
        let parents = seen.leading(self.parents);
        let (Some(one), Some(other)) = (self.pick(&parents), self.pick(&parents)) else { return Vec::new() };
        let new = |all: Vec<usize>| all.into_iter().filter(|c| !seen.done.contains(c)).collect::<Vec<_>>();
        let (of_one, of_other) = (new(candidates.near(one)), new(candidates.near(other)));
        let children: Vec<usize> = of_one.iter().copied().filter(|c| one != other && of_other.contains(c)).collect();
        let mutation = self.pick(&of_one);
        self.pick(&children).into_iter().chain(mutation).chain(self.pick(&of_other)).collect()
    }
}

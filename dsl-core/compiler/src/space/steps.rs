//! Steps from a schedule to those beside it: which knobs move, alone or together.

use super::{Space, number};
use girih_ir::schedule::{Choice, KnobKind, Schedule};

impl Space<'_> {
    /// Candidates one step away, in a fixed order: one knob moves to the next choice up or down, or two that hang together move at once. A
    /// tile moves with its coarsening (which keeps the threads) and with the warps (which keeps their parts), and against another tile or the
    /// stages (which keeps the shared memory); slices move against each of these. Steps that land on a point with idle knobs are brought to its canonical form.
    pub fn neighbours(&self, schedule: &Schedule) -> Vec<Schedule> {
        let mut found: Vec<Schedule> = Vec::new();
        for next in self.steps(schedule) {
            let Some(next) = self.simplest(next) else { continue };
            if next != *schedule && !found.contains(&next) && self.is_candidate(&next) {
                found.push(next);
            }
        }
        found
    }

    /// Points one step away, legal or not.
    pub fn steps(&self, schedule: &Schedule) -> Vec<Schedule> {
        let both = |moves: Vec<(usize, bool)>| [false, true].map(|up| self.step(schedule, &moves, up));
        self.moves().into_iter().flat_map(both).flatten().chain(self.shared_otherwise(schedule)).collect()
    }

    /// The same with the sum of a tile shared by slices of a block in place of blocks, or the other way round.
    fn shared_otherwise(&self, schedule: &Schedule) -> Vec<Schedule> {
        let at = |kind: KnobKind| self.kernel.knobs.iter().position(|k| k.kind == kind);
        let (Some(split), Some(slices)) = (at(KnobKind::Split), at(KnobKind::Slices)) else { return vec![] };
        let with = |(off, on): (usize, usize)| {
            self.choices[on].iter().filter(|c| **c != Choice::Int(1)).map(move |choice| {
                let mut next = schedule.clone();
                (next.choices[off], next.choices[on]) = (Choice::Int(1), choice.clone());
                next
            })
        };
        [(split, slices), (slices, split)].into_iter().flat_map(with).collect()
    }

    /// Knobs that move together, and whether each goes the way of the first.
    fn moves(&self) -> Vec<Vec<(usize, bool)>> {
        let knobs = &self.kernel.knobs;
        let mut moves: Vec<Vec<(usize, bool)>> = (0..knobs.len()).map(|i| vec![(i, true)]).collect();
        for (i, a) in knobs.iter().enumerate() {
            for (j, b) in knobs.iter().enumerate() {
                let with = match (a.kind, b.kind) {
                    (KnobKind::Tile, KnobKind::Coarsen { of }) if of.0 as usize == i => true,
                    (KnobKind::Tile, KnobKind::Warps) => true,
                    (KnobKind::Tile | KnobKind::Stages | KnobKind::Warps, KnobKind::Slices) => false,
                    (KnobKind::Tile, KnobKind::Stages) => false,
                    (KnobKind::Tile, KnobKind::Tile) if i < j => false,
                    _ => continue,
                };
                moves.push(vec![(i, true), (j, with)]);
            }
        }
        moves
    }

    fn step(&self, schedule: &Schedule, moves: &[(usize, bool)], up: bool) -> Option<Schedule> {
        let mut next = schedule.clone();
        for (i, with) in moves {
            next.choices[*i] = beside(&self.choices[*i], &schedule.choices[*i], up == *with)?.clone();
        }
        Some(next)
    }
}

/// The next larger or smaller number of a list, or the word after or before.
fn beside<'c>(choices: &'c [Choice], from: &Choice, up: bool) -> Option<&'c Choice> {
    match from {
        Choice::Int(n) if up => choices.iter().filter(|c| number(c) > *n).min_by_key(|c| number(c)),
        Choice::Int(n) => choices.iter().filter(|c| number(c) < *n).max_by_key(|c| number(c)),
        Choice::Word(_) => {
            let at = choices.iter().position(|c| c == from)?;
            choices.get(if up { at + 1 } else { at.checked_sub(1)? })
        }
    }
}

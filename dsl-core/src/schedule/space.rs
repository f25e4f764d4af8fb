//! The legal schedules of a kernel for given facts and target, in a fixed order.
//!
//! A candidate is legal ([`lower::check`]) and canonical: a knob that has no effect at a point is fixed to its first value there
//! ([`Space::canonical`]), so no two candidates are the same kernel.

use super::parse::Choices;
use super::{Choice, KnobKind, Schedule, ScheduleError};
use crate::error::CompileError;
use crate::facts::Facts;
use crate::lower;
use crate::target::Target;
use crate::tile::Kernel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};

/// The space of one kernel for given facts and target.
#[derive(Clone, Debug)]
pub struct Space<'a> {
    kernel: &'a Kernel,
    facts: Facts,
    target: &'a Target,
    choices: Vec<Vec<Choice>>,
    /// What points lower to, by hash; `None` where they are illegal. Neighbouring points are compared often.
    codes: RefCell<HashMap<Schedule, Option<u64>>>,
}

impl<'a> Space<'a> {
    /// All choices that the author listed.
    pub fn new(kernel: &'a Kernel, facts: &Facts, target: &'a Target) -> Space<'a> {
        let choices = kernel.knobs.iter().map(|k| k.choices.clone()).collect();
        Space { kernel, facts: facts.clone(), target, choices, codes: RefCell::default() }
    }

    /// The space with other choices for some knobs, as a space expression gives them.
    pub fn restricted(mut self, choices: &Choices) -> Space<'a> {
        for (knob, values) in choices {
            self.choices[knob.0 as usize] = values.clone();
        }
        self
    }

    /// Whether every choice of a schedule is among the space's.
    pub fn holds(&self, schedule: &Schedule) -> bool {
        self.choices.iter().zip(&schedule.choices).all(|(listed, choice)| listed.contains(choice))
    }

    /// The kernel.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// Points before legality: the product of the knobs' choices.
    pub fn points(&self) -> u64 {
        self.choices.iter().map(|c| c.len() as u64).product()
    }

    /// Number of candidates, and whether it is exact: looks at no more than `most` points, chosen evenly, and takes the rest to be like them.
    pub fn estimate(&self, most: u64) -> (u64, bool) {
        let (points, order) = (self.points(), Permutation::new(self.points(), 1));
        let looked = points.min(most.max(1));
        let found = (0..looked).filter(|i| self.is_candidate(&self.point(order.at(*i)))).count() as u64;
        ((found as f64 * points as f64 / looked.max(1) as f64).round() as u64, looked == points)
    }

    /// Number of candidates. Checks every point.
    pub fn size(&self) -> usize {
        self.candidates().count()
    }

    /// The candidates in order: the last knob varies fastest.
    pub fn candidates(&self) -> impl Iterator<Item = Schedule> + '_ {
        (0..self.points()).map(|i| self.point(i)).filter(|s| self.is_candidate(s))
    }

    /// All candidates in order.
    pub fn enumerate(&self) -> Vec<Schedule> {
        self.candidates().collect()
    }

    /// Up to `n` different candidates, chosen evenly by the seed; all of them, in another order, if there are no more than `n`.
    pub fn sample(&self, n: usize, seed: u64) -> Vec<Schedule> {
        self.shuffled(seed).take(n).collect()
    }

    /// All candidates in the order in which [`Space::sample`] takes them, each looked for when it is asked for.
    pub fn shuffled(&self, seed: u64) -> impl Iterator<Item = Schedule> + '_ {
        let order = Permutation::new(self.points(), seed);
        (0..self.points()).map(move |i| self.point(order.at(i))).filter(|s| self.is_candidate(s))
    }

    /// Legal and canonical: no knob can be set to its first value without changing the code (tiles always have an effect).
    pub fn is_candidate(&self, schedule: &Schedule) -> bool {
        let Some(code) = self.code(schedule) else { return false };
        self.kernel.knobs.iter().enumerate().all(|(i, knob)| {
            if knob.kind == KnobKind::Tile || schedule.choices[i] == knob.choices[0] {
                return true;
            }
            let mut simpler = schedule.clone();
            simpler.choices[i] = knob.choices[0].clone();
            self.code(&simpler) != Some(code)
        })
    }

    /// As [`Space::canonical`]; `None` where the schedule is illegal.
    fn simplest(&self, schedule: Schedule) -> Option<Schedule> {
        let code = self.code(&schedule)?;
        let mut best = schedule;
        for (i, knob) in self.kernel.knobs.iter().enumerate().filter(|(_, k)| k.kind != KnobKind::Tile) {
            let mut simpler = best.clone();
            simpler.choices[i] = knob.choices[0].clone();
            if simpler != best && self.code(&simpler) == Some(code) {
                best = simpler;
            }
        }
        Some(best)
    }

    /// A hash of what a schedule lowers to, without where it comes from.
    fn code(&self, schedule: &Schedule) -> Option<u64> {
        if let Some(known) = self.codes.borrow().get(schedule) {
            return *known;
        }
        let lowered = lower::lower(self.kernel, &self.facts, schedule, self.target).ok();
        let code = lowered.map(|k| {
            let mut text = Hashed(0);
            for k in k.launches() {
                write!(text, "{:?}", (&k.params, &k.vars, &k.shared, &k.body, &k.launch)).expect("hashing doesn't fail");
            }
            text.0
        });
        self.codes.borrow_mut().insert(schedule.clone(), code);
        code
    }

    /// Whether two schedules are the same kernel, or both illegal.
    pub(super) fn same_code(&self, a: &Schedule, b: &Schedule) -> bool {
        self.code(a) == self.code(b)
    }

    /// Whether a schedule gives a kernel: as [`Space::check`], and what lowering can't do yet is a refusal too.
    pub(super) fn lowers(&self, schedule: &Schedule) -> Result<(), CompileError> {
        lower::lower(self.kernel, &self.facts, schedule, self.target).map(|_| ())
    }

    /// Whether a schedule can be lowered for the space's facts and target. It need not lie in the space.
    pub fn check(&self, schedule: &Schedule) -> Result<(), ScheduleError> {
        lower::check(self.kernel, &self.facts, schedule, self.target)
    }

    /// The schedule with knobs that have no effect set to their first value.
    pub fn canonical(&self, schedule: &Schedule) -> Schedule {
        self.simplest(schedule.clone()).unwrap_or_else(|| schedule.clone())
    }

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

    /// The naive schedule: coarsen, vector and stages 1, one tile per block, plain copies, the scalar unit, and the largest listed
    /// tiles of at most 1024 threads. The textbook kernel, and the first rung of the ladder.
    ///
    /// # Errors
    /// The kernel has no legal schedule at all here: why its first one is illegal.
    pub fn naive(&self) -> Result<Schedule, ScheduleError> {
        self.plain().map(|s| self.canonical(&s))
    }

    /// The naive schedule before knobs that have no effect are set to their first value.
    pub(super) fn plain(&self) -> Result<Schedule, ScheduleError> {
        let plain: Vec<Vec<Choice>> = self.kernel.knobs.iter().map(|k| naive_choices(k.kind, &k.choices)).collect();
        let plain = Space { choices: plain, ..self.clone() };
        let best = plain.points_by_tile().into_iter().find(|s| self.check(s).is_ok());
        // Listed coarsenings only where one element per thread makes too many threads for every listed tile.
        let legal = best.or_else(|| self.points_by_tile().into_iter().find(|s| self.check(s).is_ok()));
        match legal {
            Some(schedule) => Ok(schedule),
            None => Err(self.check(&Schedule::default_of(self.kernel)).err().unwrap_or_else(|| ScheduleError {
                knob: "schedule".into(),
                found: "no legal point".into(),
                rule: "every combination of the listed choices is illegal here".into(),
                loc: Some(self.kernel.loc),
            })),
        }
    }

    /// Points with the fewest elements per thread first, then with the largest tiles.
    fn points_by_tile(&self) -> Vec<Schedule> {
        // Spaces of tiles alone are small; a whole space is cut where it would be slow to sort.
        let mut points: Vec<Schedule> = (0..self.points().min(1 << 16)).map(|i| self.point(i)).collect();
        let product = |s: &Schedule, tile: bool| -> i64 {
            let of = |k: KnobKind| if tile { k == KnobKind::Tile } else { k != KnobKind::Tile };
            self.kernel.knobs.iter().zip(&s.choices).filter(|(k, _)| of(k.kind)).map(|(_, c)| number(c).max(1)).product()
        };
        points.sort_by_key(|s| (product(s, false), -product(s, true)));
        points
    }

    /// A point by its number, below [`Space::points`]: the last knob varies fastest. It need not be legal.
    pub fn point(&self, mut index: u64) -> Schedule {
        let mut choices = vec![Choice::Int(0); self.choices.len()];
        for (slot, options) in choices.iter_mut().zip(&self.choices).rev() {
            *slot = options[(index % options.len() as u64) as usize].clone();
            index /= options.len() as u64;
        }
        Schedule { choices }
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

/// Hashes what is written to it, eight bytes at a time.
struct Hashed(u64);

impl fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            self.0 = mix(self.0 ^ u64::from_le_bytes(bytes)).wrapping_add(chunk.len() as u64);
        }
        Ok(())
    }
}

fn number(choice: &Choice) -> i64 {
    match choice {
        Choice::Int(i) => *i,
        Choice::Word(_) => 1,
    }
}

/// What the naive schedule allows a knob.
fn naive_choices(kind: KnobKind, listed: &[Choice]) -> Vec<Choice> {
    match kind {
        KnobKind::Tile => listed.to_vec(),
        KnobKind::Coarsen { .. } | KnobKind::Vector | KnobKind::Stages | KnobKind::Raster => vec![Choice::Int(1)],
        KnobKind::Split | KnobKind::Slices | KnobKind::MinBlocks | KnobKind::Copies => vec![Choice::Int(1)],
        KnobKind::OptLevel => vec![Choice::Int(3)],
        KnobKind::Grid => vec![Choice::Int(0)],
        KnobKind::Threads | KnobKind::Warps => listed.to_vec(),
        KnobKind::Copy | KnobKind::Unit | KnobKind::Cache | KnobKind::Rows | KnobKind::Halo | KnobKind::Operands | KnobKind::Finish => {
            let first = Choice::Word(kind.words()[0].to_string());
            vec![if listed.contains(&first) { first } else { listed[0].clone() }]
        }
    }
}

/// A pseudo-random permutation of `0..n`: a Feistel network over the next power of four, walked until it lands inside.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    /// One of `0..n`, chosen by the seed.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Permutation { n, half: bits.div_ceil(2).max(1), seed }
    }

    /// Where `index`, which is below `n`, goes.
    pub fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.round_trip(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn round_trip(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for round in 0..4u64 {
            (left, right) = (right, left ^ (mix(right ^ self.seed ^ (round << 56)) & mask));
        }
        (left << self.half) | right
    }
}

/// The finaliser of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::loc::SourceLoc;
    use crate::schedule::Knob;
    use crate::tile::KnobId;
    use crate::tile::eval::tests::{Builder, add_one};

    /// `y[t] = x[t] + 1` with knobs T, C, V and P.
    pub(crate) fn kernel() -> Kernel {
        let ints = |v: &[i64]| v.iter().map(|i| Choice::Int(*i)).collect::<Vec<_>>();
        let words = |v: &[&str]| v.iter().map(|w| Choice::Word(w.to_string())).collect::<Vec<_>>();
        let knob = |name: &str, kind, choices| Knob { name: name.into(), kind, choices, loc: SourceLoc::NONE };
        let knobs = vec![
            knob("T", KnobKind::Tile, ints(&[256, 512, 1024])),
            knob("C", KnobKind::Coarsen { of: KnobId(0) }, ints(&[1, 2, 4])),
            knob("V", KnobKind::Vector, ints(&[1, 2, 4])),
            knob("P", KnobKind::Copy, words(&["Registers", "Async"])),
        ];
        add_one(Builder::new("k", knobs))
    }

    #[test]
    fn candidates_are_legal_canonical_and_in_order() {
        let kernel = kernel();
        let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
        let all = space.enumerate();
        assert_eq!(space.points(), 54);
        assert!(!all.is_empty() && all.len() <= 54);
        assert!(all.iter().all(|s| space.is_candidate(s)));
        // The vector divides the elements of a thread.
        assert!(all.iter().all(|s| s.int(KnobId(1)) % s.int(KnobId(2)) == 0));
        assert_eq!(all, space.enumerate());
    }

    #[test]
    fn samples_are_different_and_depend_on_the_seed() {
        let kernel = kernel();
        let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
        let (a, b) = (space.sample(5, 1), space.sample(5, 2));
        assert_eq!(a, space.sample(5, 1));
        assert_ne!(a, b);
        let mut everything = space.sample(1000, 3);
        everything.sort();
        let mut all = space.enumerate();
        all.sort();
        assert_eq!(everything, all);
    }

    #[test]
    fn the_naive_schedule_is_the_textbook_kernel() {
        let kernel = kernel();
        let naive = Space::new(&kernel, &Facts::best(&kernel), Target::h200()).naive().unwrap();
        assert_eq!(naive.short(&kernel), "T=1024 C=1 V=1 P=Registers");
    }

    #[test]
    fn neighbours_are_one_step_away() {
        let kernel = kernel();
        let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
        let at = super::super::parse::parse_schedule(&kernel, "T=512,C=2,V=2").unwrap();
        let near: Vec<String> = space.neighbours(&at).iter().map(|s| s.short(&kernel)).collect();
        assert!(near.contains(&"T=1024 C=2 V=2 P=Registers".to_string()), "{near:?}");
        assert!(near.contains(&"T=1024 C=4 V=2 P=Registers".to_string()), "{near:?}");
        assert!(!near.contains(&"T=512 C=2 V=4 P=Registers".to_string()), "four elements don't fit two: {near:?}");
        assert!(near.iter().all(|s| *s != at.short(&kernel)));
    }

    #[test]
    fn restriction_replaces_choices() {
        let kernel = kernel();
        let choices = super::super::parse::parse_space(&kernel, "T=512,V=2|4").unwrap();
        let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200()).restricted(&choices);
        assert!(space.candidates().all(|s| s.int(KnobId(0)) == 512 && s.int(KnobId(2)) >= 2));
    }

    #[test]
    fn candidates_are_exactly_the_legal_canonical_points() {
        let kernel = kernel();
        let space = Space::new(&kernel, &Facts::best(&kernel), Target::h200());
        for schedule in (0..space.points()).map(|i| space.point(i)) {
            let expected = space.check(&schedule).is_ok() && space.canonical(&schedule) == schedule;
            assert_eq!(space.is_candidate(&schedule), expected, "{}", schedule.short(&kernel));
        }
    }
}

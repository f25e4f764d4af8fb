//! The legal schedules of a kernel for given facts and target, in a fixed order.
//!
//! A candidate is legal ([`lower::check`]) and canonical: a knob that has no effect at a point is fixed to its first value there
//! ([`Space::canonical`]), so no two candidates are the same kernel.

mod first_choices;
pub mod ladder;
mod steps;

use crate::lower;
pub use first_choices::illegal_first_choices;
use girih_ir::error::CompileError;
use girih_ir::facts::Facts;
use girih_ir::schedule::parse::Choices;
use girih_ir::schedule::{Choice, Knob, KnobKind, Permutation, Schedule, ScheduleError, mix};
use girih_ir::simt;
use girih_ir::target::Target;
use girih_ir::tile::Kernel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write};

/// What the launches of a space promise.
#[derive(Clone, Debug)]
enum Promise {
    /// These facts.
    Known(Facts),
    /// The most that a launch can promise. A schedule is legal if it is so for tensors of any length, or else for those whose rows fit one of
    /// its tiles ([`Facts::fitting`]).
    OfSome(Facts),
}

/// The space of one kernel for given facts and target.
#[derive(Clone, Debug)]
pub struct Space<'a> {
    kernel: &'a Kernel,
    promise: Promise,
    target: &'a Target,
    choices: Vec<Vec<Choice>>,
    /// What points lower to, by hash; `None` where they are illegal. Neighbouring points are compared often.
    codes: RefCell<HashMap<Schedule, Option<u64>>>,
}

impl<'a> Space<'a> {
    /// All choices that the author listed.
    pub fn new(kernel: &'a Kernel, facts: &Facts, target: &'a Target) -> Space<'a> {
        Space::promised(kernel, Promise::Known(facts.clone()), target)
    }

    /// All choices that the author listed, legal where some launch can run under them: no launch is at hand.
    pub fn of_some_launch(kernel: &'a Kernel, target: &'a Target) -> Space<'a> {
        Space::promised(kernel, Promise::OfSome(Facts::best(kernel)), target)
    }

    fn promised(kernel: &'a Kernel, promise: Promise, target: &'a Target) -> Space<'a> {
        let choices = kernel.knobs.iter().map(|k| k.choices.clone()).collect();
        Space { kernel, promise, target, choices, codes: RefCell::default() }
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

    /// The target.
    pub fn target(&self) -> &'a Target {
        self.target
    }

    /// What its launches promise.
    pub fn facts(&self) -> &Facts {
        let (Promise::Known(facts) | Promise::OfSome(facts)) = &self.promise;
        facts
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
        let lowered = self.lowered(schedule).ok();
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
    fn same_code(&self, a: &Schedule, b: &Schedule) -> bool {
        self.code(a) == self.code(b)
    }

    /// Whether a schedule gives a kernel: as [`Space::check`], and what lowering can't do yet is a refusal too.
    fn lowers(&self, schedule: &Schedule) -> Result<(), CompileError> {
        self.lowered(schedule).map(|_| ())
    }

    fn lowered(&self, schedule: &Schedule) -> Result<simt::Kernel, CompileError> {
        let lowered = |facts: &Facts| lower::lower(self.kernel, facts, schedule, self.target);
        match &self.promise {
            Promise::Known(facts) => lowered(facts),
            Promise::OfSome(best) => lowered(best).or_else(|refused| self.fitting(schedule).map_or(Err(refused), |facts| lowered(&facts))),
        }
    }

    /// The facts of launches whose rows fit a schedule's tiles, where those are more than the space's.
    fn fitting(&self, schedule: &Schedule) -> Option<Facts> {
        let Promise::OfSome(best) = &self.promise else { return None };
        Some(best.clone().fitting(self.kernel, schedule)).filter(|facts| facts != best)
    }

    /// The facts under which a schedule is legal: the space's, or those of launches whose rows fit its tiles.
    ///
    /// # Errors
    /// The schedule is legal under neither: why it is not under the space's.
    pub fn facts_for(&self, schedule: &Schedule) -> Result<Facts, ScheduleError> {
        let legal = |facts: &Facts| lower::check(self.kernel, facts, schedule, self.target);
        let Err(refused) = legal(self.facts()) else { return Ok(self.facts().clone()) };
        self.fitting(schedule).filter(|fitting| legal(fitting).is_ok()).ok_or(refused)
    }

    /// Whether a schedule can be lowered for the space's facts and target. It need not lie in the space.
    pub fn check(&self, schedule: &Schedule) -> Result<(), ScheduleError> {
        self.facts_for(schedule).map(|_| ())
    }

    /// The schedule with knobs that have no effect set to their first value.
    pub fn canonical(&self, schedule: &Schedule) -> Schedule {
        self.simplest(schedule.clone()).unwrap_or_else(|| schedule.clone())
    }

    /// The naive schedule: coarsen, vector and stages 1, one tile per block, plain copies, the scalar unit, and the largest listed
    /// tiles of at most 1024 threads. The textbook kernel, and the first rung of the ladder. Where one element per thread makes too many
    /// threads, the smallest listed coarsening and tiles.
    ///
    /// # Errors
    /// The kernel has no legal schedule at all here: why its first one is illegal.
    pub fn naive(&self) -> Result<Schedule, ScheduleError> {
        self.plain().map(|s| self.canonical(&s))
    }

    /// The naive schedule before knobs that have no effect are set to their first value.
    fn plain(&self) -> Result<Schedule, ScheduleError> {
        let legal_of = |space: &Space| space.points_by_tile().into_iter().find(|s| self.check(s).is_ok());
        let plain = |coarse: bool| {
            let of = |k: &Knob| {
                if coarse && matches!(k.kind, KnobKind::Coarsen { .. }) { k.choices.clone() } else { naive_choices(k.kind, &k.choices) }
            };
            Space { choices: self.kernel.knobs.iter().map(of).collect(), ..self.clone() }
        };
        // Listed coarsenings only where one element per thread makes too many threads for every listed tile, and all that is listed last.
        let legal = legal_of(&plain(false)).or_else(|| legal_of(&plain(true))).or_else(|| legal_of(self));
        match legal {
            Some(schedule) => Ok(schedule),
            None => Err(self.check(&Schedule::default_of(self.kernel)).err().unwrap_or_else(|| ScheduleError {
                knob: "schedule".into(),
                found: "no legal point".into(),
                rule: "every combination of the listed choices is illegal here".into(),
                id: "",
                loc: Some(self.kernel.loc),
            })),
        }
    }

    /// Points with the fewest elements per thread first, then with the largest tiles; with the smallest where a thread has several elements:
    /// as many threads as a block may have leave each too few registers for them.
    fn points_by_tile(&self) -> Vec<Schedule> {
        // Spaces of tiles alone are small; a whole space is cut where it would be slow to sort.
        let mut points: Vec<Schedule> = (0..self.points().min(1 << 16)).map(|i| self.point(i)).collect();
        let product = |s: &Schedule, tile: bool| -> i64 {
            let of = |k: KnobKind| if tile { k == KnobKind::Tile } else { k != KnobKind::Tile };
            self.kernel.knobs.iter().zip(&s.choices).filter(|(k, _)| of(k.kind)).map(|(_, c)| number(c).max(1)).product()
        };
        points.sort_by_key(|s| {
            let (elements, tiles) = (product(s, false), product(s, true));
            (elements, if self.is_coarse(s) { tiles } else { -tiles })
        });
        points
    }

    /// Whether a thread has several elements.
    fn is_coarse(&self, schedule: &Schedule) -> bool {
        let knobs = self.kernel.knobs.iter().zip(&schedule.choices);
        knobs.filter(|(k, _)| matches!(k.kind, KnobKind::Coarsen { .. })).any(|(_, c)| number(c) > 1)
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
        KnobKind::Split | KnobKind::Slices | KnobKind::Cluster { .. } | KnobKind::MinBlocks | KnobKind::Copies => vec![Choice::Int(1)],
        KnobKind::OptLevel => vec![Choice::Int(3)],
        KnobKind::Grid => vec![Choice::Int(0)],
        KnobKind::Threads | KnobKind::Warps => listed.to_vec(),
        KnobKind::Copy
        | KnobKind::Unit
        | KnobKind::Cache
        | KnobKind::Rows
        | KnobKind::Halo
        | KnobKind::Operands
        | KnobKind::Constant
        | KnobKind::Finish
        | KnobKind::Order
        | KnobKind::Turns => {
            let first = Choice::Word(kind.words()[0].to_string());
            vec![if listed.contains(&first) { first } else { listed[0].clone() }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_ir::tile::KnobId;
    use girih_ir::tile::by_hand::four_knobs as kernel;

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
        let at = girih_ir::schedule::parse::parse_schedule(&kernel, "T=512,C=2,V=2").unwrap();
        let near: Vec<String> = space.neighbours(&at).iter().map(|s| s.short(&kernel)).collect();
        assert!(near.contains(&"T=1024 C=2 V=2 P=Registers".to_string()), "{near:?}");
        assert!(near.contains(&"T=1024 C=4 V=2 P=Registers".to_string()), "{near:?}");
        assert!(!near.contains(&"T=512 C=2 V=4 P=Registers".to_string()), "four elements don't fit two: {near:?}");
        assert!(near.iter().all(|s| *s != at.short(&kernel)));
    }

    #[test]
    fn restriction_replaces_choices() {
        let kernel = kernel();
        let choices = girih_ir::schedule::parse::parse_space(&kernel, "T=512,V=2|4").unwrap();
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

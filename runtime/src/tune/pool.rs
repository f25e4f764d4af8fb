//! The candidates of a search. All of a small space are known from the beginning; of a large one a sample, the rungs of its ladder and
//! what was tried before, and others as they turn out to lie near the best.

use super::search::Candidates;
use super::shard::Shard;
use crate::store::Trial;
use girih_core::schedule::Permutation;
use girih_core::schedule::ladder::Ladder;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::tile::Kernel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Points of the largest space whose candidates are all looked for: each costs about ten lowerings, of which none takes a millisecond.
pub const WHOLE: u64 = 2048;
/// Candidates that are drawn from a larger space.
const SAMPLE: usize = 1024;

/// One schedule of the tuned launch site.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The schedule.
    pub schedule: Schedule,
    /// Its short name, `T=1024 C=4`.
    pub name: String,
}

/// The candidates that are known so far.
pub struct Pool<'a> {
    space: &'a Space<'a>,
    former: HashMap<String, Trial>,
    /// Whether there are no others than those of the beginning.
    closed: bool,
    /// Whether schedules with choices that the space has not may come to be known.
    free: bool,
    /// Whose candidates are tried, where others try the rest.
    shard: Option<Shard>,
    found: RefCell<Found>,
    /// Hears of candidates that come to be known later.
    ahead: Option<Sender<Schedule>>,
}

#[derive(Default)]
struct Found {
    candidates: Vec<Candidate>,
    /// See [`Pool::steps`].
    steps: usize,
    places: HashMap<Schedule, usize>,
    near: HashMap<usize, Vec<usize>>,
}

impl Found {
    fn add(&mut self, kernel: &Kernel, schedule: Schedule) -> usize {
        let next = self.candidates.len();
        let place = *self.places.entry(schedule.clone()).or_insert(next);
        if place == next {
            let name = schedule.short(kernel);
            self.candidates.push(Candidate { schedule, name });
        }
        place
    }
}

impl<'a> Pool<'a> {
    /// The candidates of a space. `former` has the trials of earlier runs. In a large space `first`, the
    /// schedule known so far, takes part even where it is no point of it; sampling one takes no longer than `limit`, unless `whole` asks for everything.
    /// `free` says that the naive schedule and the rungs of the ladder take part even where their choices are not listed.
    pub fn of_space(space: &'a Space<'a>, former: &[Trial], first: &str, whole: bool, limit: Duration, free: bool) -> Pool<'a> {
        let kernel = space.kernel();
        let listed = (whole || space.points() <= WHOLE).then(|| all(space, if whole { None } else { Some(limit) })).flatten();
        let closed = listed.is_some();
        let mut found = Found::default();
        let takes_part = |s: &Schedule| free || space.holds(s);
        let naive = space.naive().ok().filter(takes_part);
        if let Some(listed) = listed {
            for schedule in listed.into_iter().chain(naive) {
                found.add(kernel, schedule);
            }
        } else {
            let read = |text: &str| parse_schedule(kernel, text).ok();
            let tried = former.iter().filter_map(|t| read(&t.schedule)).filter(|s| space.holds(s));
            let known = read(first).into_iter().chain(tried).filter(|s| space.check(s).is_ok());
            let ladder = Ladder::new(space).ok().flatten().map_or(Vec::new(), |l| l.rungs);
            let rungs = ladder.into_iter().map(|rung| space.canonical(&rung.schedule));
            for schedule in known.chain(naive).chain(rungs.filter(takes_part)) {
                found.add(kernel, schedule);
            }
            found.steps = found.candidates.len();
            for schedule in sample(space, SAMPLE, limit) {
                found.add(kernel, schedule);
            }
        }
        Pool { free, ..Pool::over(space, former, closed, found) }
    }

    /// Nothing but the listed schedules.
    pub fn of_names(space: &'a Space<'a>, former: &[Trial], names: &[String]) -> Pool<'a> {
        let mut found = Found::default();
        for schedule in names.iter().filter_map(|n| parse_schedule(space.kernel(), n).ok()).filter(|s| space.check(s).is_ok()) {
            found.add(space.kernel(), schedule);
        }
        Pool::over(space, former, true, found)
    }

    fn over(space: &'a Space<'a>, former: &[Trial], closed: bool, found: Found) -> Pool<'a> {
        let former = former.iter().map(|t| (t.schedule.clone(), t.clone())).collect();
        Pool { space, former, closed, free: false, shard: None, found: RefCell::new(found), ahead: None }
    }

    /// Tells of every candidate that comes to be known from now on.
    pub fn announce(&mut self, ahead: Sender<Schedule>) {
        self.ahead = Some(ahead);
    }

    /// Tries one share of the candidates alone.
    pub fn deal(&mut self, shard: Shard) {
        self.shard = Some(shard);
    }

    /// Whether a candidate is to be tried here; what was tried before is known to all.
    pub fn is_dealt(&self, candidate: usize) -> bool {
        self.shard.is_none_or(|shard| shard.holds(&self.get(candidate).name)) || self.known(candidate).is_some()
    }

    /// All known now.
    pub fn schedules(&self) -> Vec<Schedule> {
        self.found.borrow().candidates.iter().map(|c| c.schedule.clone()).collect()
    }

    /// Number of candidates known now.
    pub fn len(&self) -> usize {
        self.found.borrow().candidates.len()
    }

    /// Whether a schedule may come to be a candidate.
    pub fn takes(&self, schedule: &Schedule) -> bool {
        self.free || self.space.holds(schedule)
    }

    /// How many of the first candidates are no sample: what is known, the naive schedule and the rungs of the ladder.
    pub fn steps(&self) -> usize {
        self.found.borrow().steps
    }

    /// One of them.
    pub fn get(&self, candidate: usize) -> Candidate {
        self.found.borrow().candidates[candidate].clone()
    }

    /// The space.
    pub fn space(&self) -> &Space<'a> {
        self.space
    }

    /// Whether others than those of the beginning may come to be known.
    pub fn is_open(&self) -> bool {
        !self.closed
    }

    /// Makes a schedule, which must be canonical, a candidate; its place.
    pub fn add(&self, schedule: Schedule) -> usize {
        self.found.borrow_mut().add(self.space.kernel(), schedule)
    }

    /// The place of a schedule.
    pub fn place(&self, schedule: &Schedule) -> Option<usize> {
        self.found.borrow().places.get(schedule).copied()
    }

    /// The place of a schedule by its short name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.found.borrow().candidates.iter().position(|c| c.name == name)
    }
}

impl Candidates for Pool<'_> {
    fn near(&self, candidate: usize) -> Vec<usize> {
        if let Some(known) = self.found.borrow().near.get(&candidate) {
            return known.clone();
        }
        let mut around = self.space.neighbours(&self.get(candidate).schedule);
        // Beside a schedule that takes part though the space has it not lie others of that kind.
        around.retain(|schedule| self.takes(schedule));
        let mut found = self.found.borrow_mut();
        let mut near = Vec::new();
        for schedule in around {
            if self.closed {
                near.extend(found.places.get(&schedule).copied());
                continue;
            }
            let before = found.candidates.len();
            let place = found.add(self.space.kernel(), schedule.clone());
            near.push(place);
            if let Some(ahead) = self.ahead.as_ref().filter(|_| place == before) {
                // Whoever would compile it ahead of its trial may have ended.
                let _ = ahead.send(schedule);
            }
        }
        drop(found);
        near.retain(|c| self.is_dealt(*c));
        self.found.borrow_mut().near.insert(candidate, near.clone());
        near
    }

    fn known(&self, candidate: usize) -> Option<Trial> {
        self.former.get(&self.found.borrow().candidates[candidate].name).cloned()
    }

    fn complexity(&self, candidate: usize) -> u64 {
        complexity(self.space.kernel(), &self.found.borrow().candidates[candidate].schedule)
    }
}

/// All candidates of a space in its order, looked for on all cores; `None` where the time limit does not suffice.
fn all(space: &Space, limit: Option<Duration>) -> Option<Vec<Schedule>> {
    let (next, end) = (AtomicU64::new(0), limit.map(|l| Instant::now() + l));
    let (next, points) = (&next, space.points());
    let threads = crate::cores::cores();
    let work = |space: Space| {
        let (mut found, mut whole) = (Vec::new(), true);
        while let i = next.fetch_add(1, Ordering::Relaxed)
            && i < points
        {
            if end.is_some_and(|end| Instant::now() >= end) {
                whole = false;
                break;
            }
            let schedule = space.point(i);
            if space.is_candidate(&schedule) {
                found.push((i, schedule));
            }
        }
        whole.then_some(found)
    };
    let parts: Option<Vec<_>> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|_| (space.clone(), &work)).map(|(space, work)| scope.spawn(move || work(space))).collect();
        parts.into_iter().map(|part| part.join().expect("no panic while listing")).collect()
    });
    let mut found = parts?.concat();
    found.sort_by_key(|(i, _)| *i);
    Some(found.into_iter().map(|(_, schedule)| schedule).collect())
}

/// Up to `n` candidates of a space within the time limit, on all cores.
fn sample(space: &Space, n: usize, limit: Duration) -> Vec<Schedule> {
    let order = Permutation::new(space.points(), 1);
    let (next, end) = (AtomicU64::new(0), Instant::now() + limit);
    let (send, receive) = channel();
    let threads = crate::cores::cores();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, space, next) = (send.clone(), space.clone(), &next);
            scope.spawn(move || {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && i < space.points()
                    && Instant::now() < end
                {
                    let schedule = space.point(order.at(i));
                    // Nobody listens any more once there are enough.
                    if space.is_candidate(&schedule) && send.send((i, schedule)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut found: Vec<(u64, Schedule)> = receive.into_iter().take(n).collect();
        found.sort_by_key(|(i, _)| *i);
        found.into_iter().map(|(_, schedule)| schedule).collect()
    })
}

/// How much a schedule asks of a reader: fewer elements per thread, stages and special copies are simpler.
fn complexity(kernel: &Kernel, schedule: &Schedule) -> u64 {
    kernel
        .knobs
        .iter()
        .zip(&schedule.choices)
        .map(|(knob, choice)| match choice {
            _ if knob.kind == KnobKind::Tile => 0,
            Choice::Int(i) => i.unsigned_abs(),
            Choice::Word(w) => knob.kind.words().iter().position(|x| x == w).unwrap_or(0) as u64 * 4,
        })
        .sum()
}

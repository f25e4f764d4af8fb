//! Compiles candidates into the disk cache on the cores that trials leave idle, a few ahead of them: for the tuned launch all of them, for the
//! small calls of a check those that are worth one.

use super::demands::Compile;
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::Scope;
use std::time::Duration;

/// What waits to be compiled. Failures are the trials' to report.
pub struct Ahead<'a> {
    kernel: &'a Kernel,
    target: &'a Target,
    /// Of the tuned launch, and of those of small calls.
    facts: (&'a Facts, Vec<Facts>),
    compile: Compile,
    /// What the search comes upon, which is tried before what it began with.
    found: Mutex<Receiver<Schedule>>,
    waiting: Mutex<VecDeque<Schedule>>,
    done: Mutex<HashSet<Schedule>>,
    checks: Mutex<Checks>,
    started: AtomicUsize,
    tried: AtomicUsize,
    ended: AtomicBool,
}

/// Candidates that are worth a check.
#[derive(Default)]
struct Checks {
    /// What is to be compiled for one, and how long it takes in microseconds: the fastest comes first.
    waiting: Vec<(f64, Schedule, Facts)>,
    /// How many of its compilations have not ended.
    left: HashMap<Schedule, usize>,
}

impl Checks {
    fn next(&mut self) -> Option<(Schedule, Facts)> {
        let fastest = (0..self.waiting.len()).min_by(|a, b| self.waiting[*a].0.total_cmp(&self.waiting[*b].0))?;
        let (_, schedule, facts) = self.waiting.remove(fastest);
        Some((schedule, facts))
    }
}

impl<'a> Ahead<'a> {
    /// To compile for the facts of the tuned launch: `waiting` in its order, and whatever is `found` later. `small` is what small calls promise.
    pub fn new(
        (kernel, target, compile): (&'a Kernel, &'a Target, Compile),
        (tuned, small): (&'a Facts, Vec<Facts>),
        waiting: VecDeque<Schedule>,
        found: Receiver<Schedule>,
    ) -> Ahead<'a> {
        let (started, tried, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Ahead {
            kernel,
            target,
            facts: (tuned, small),
            compile,
            found: Mutex::new(found),
            waiting: Mutex::new(waiting),
            done: Mutex::default(),
            checks: Mutex::default(),
            started,
            tried,
            ended,
        }
    }

    /// Starts the threads. They end when the last candidate was compiled or [`Ahead::stop`] is called.
    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let threads = crate::cores::cores().saturating_sub(1).clamp(1, 16);
        for _ in 0..threads {
            scope.spawn(move || self.work(4 * threads));
        }
    }

    /// Another trial has been made.
    pub fn tried(&self) {
        self.tried.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a candidate was compiled for the tuned launch, for better or worse.
    pub fn is_done(&self, schedule: &Schedule) -> bool {
        self.done.lock().expect("no panic while looking").contains(schedule)
    }

    /// Asks for what a check of a candidate launches, which takes so many microseconds; those of faster ones are compiled before it.
    pub fn ask_for_check(&self, schedule: &Schedule, us: f64) {
        let mut checks = self.checks.lock().expect("no panic while asking");
        let small = &self.facts.1;
        checks.left.insert(schedule.clone(), small.len());
        checks.waiting.extend(small.iter().map(|facts| (us, schedule.clone(), facts.clone())));
    }

    /// Whether a check of a candidate was asked for.
    pub fn is_asked_for(&self, schedule: &Schedule) -> bool {
        self.checks.lock().expect("no panic while looking").left.contains_key(schedule)
    }

    /// Whether a check of a candidate waits for no compiler.
    pub fn is_checkable(&self, schedule: &Schedule) -> bool {
        self.facts.1.is_empty() || self.checks.lock().expect("no panic while looking").left.get(schedule) == Some(&0)
    }

    /// Nothing more is wanted.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn work(&self, ahead: usize) {
        while !self.ended.load(Ordering::Relaxed) {
            let check = self.checks.lock().expect("no panic while taking").next();
            if let Some((schedule, facts)) = check {
                (self.compile)(self.kernel, &facts, &schedule, self.target);
                let mut checks = self.checks.lock().expect("no panic while counting");
                checks.left.entry(schedule).and_modify(|left| *left -= 1);
                continue;
            }
            let early = self.started.load(Ordering::Relaxed) > self.tried.load(Ordering::Relaxed) + ahead;
            let Some(schedule) = self.next(early) else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            (self.compile)(self.kernel, self.facts.0, &schedule, self.target);
            self.done.lock().expect("no panic while adding").insert(schedule);
        }
    }

    /// What was found since; else, unless it is too early for it, the next one in order.
    fn next(&self, early: bool) -> Option<Schedule> {
        let found = self.found.lock().expect("no panic while receiving").try_recv().ok();
        found.or_else(|| {
            let next = if early { None } else { self.waiting.lock().expect("no panic while taking").pop_front() };
            self.started.fetch_add(usize::from(next.is_some()), Ordering::Relaxed);
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::schedule::Choice;
    use girih_core::tile::by_hand::four_knobs;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    fn schedule(i: i64) -> Schedule {
        Schedule { choices: vec![Choice::Int(i)] }
    }

    #[test]
    fn what_is_fastest_is_compiled_first_for_its_check() {
        let kernel = four_knobs();
        let (best, none) = (Facts::best(&kernel), Facts::none(&kernel));
        let (_found, receive) = channel();
        let compile: Compile = |_, _, _, _| ();
        let ahead = Ahead::new((&kernel, Target::h200(), compile), (&best, vec![none.clone(), best.clone()]), VecDeque::new(), receive);
        assert!(!ahead.is_asked_for(&schedule(1)) && !ahead.is_checkable(&schedule(1)));
        ahead.ask_for_check(&schedule(1), 5.0);
        ahead.ask_for_check(&schedule(2), 3.0);
        let order: Vec<Schedule> = std::iter::from_fn(|| ahead.checks.lock().unwrap().next()).map(|(s, _)| s).collect();
        assert_eq!(order, [schedule(2), schedule(2), schedule(1), schedule(1)]);
        ahead.ask_for_check(&schedule(3), 1.0);
        assert!(ahead.is_asked_for(&schedule(3)) && !ahead.is_checkable(&schedule(3)));
        let end = Instant::now() + Duration::from_secs(20);
        std::thread::scope(|scope| {
            ahead.start(scope);
            while !ahead.is_checkable(&schedule(3)) && Instant::now() < end {
                std::thread::yield_now();
            }
            ahead.stop();
        });
        assert!(ahead.is_checkable(&schedule(3)), "its compilations have ended");
        assert!(!ahead.is_checkable(&schedule(1)), "nobody has compiled these");
    }
}

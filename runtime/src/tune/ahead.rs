//! Compiles candidates into the disk cache on the cores that trials leave idle, a few ahead of them.

use crate::compile::{Output, compile};
use girih_core::facts::Facts;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::Scope;
use std::time::Duration;

/// What waits to be compiled. Failures are the trials' to report.
pub struct Ahead<'a> {
    kernel: &'a Kernel,
    target: &'a Target,
    facts: &'a Facts,
    /// What the search comes upon, which is tried before what it began with.
    found: Mutex<Receiver<Schedule>>,
    waiting: Mutex<VecDeque<Schedule>>,
    done: Mutex<HashSet<Schedule>>,
    started: AtomicUsize,
    tried: AtomicUsize,
    ended: AtomicBool,
}

impl<'a> Ahead<'a> {
    /// To compile for the facts of the tuned launch: `waiting` in its order, and whatever is `found` later.
    pub fn new(
        (kernel, target): (&'a Kernel, &'a Target),
        facts: &'a Facts,
        waiting: VecDeque<Schedule>,
        found: Receiver<Schedule>,
    ) -> Ahead<'a> {
        let (started, tried, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Ahead {
            kernel,
            target,
            facts,
            found: Mutex::new(found),
            waiting: Mutex::new(waiting),
            done: Mutex::default(),
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

    /// Whether a candidate was compiled, for better or worse.
    pub fn is_done(&self, schedule: &Schedule) -> bool {
        self.done.lock().expect("no panic while looking").contains(schedule)
    }

    /// Nothing more is wanted.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    fn work(&self, ahead: usize) {
        while !self.ended.load(Ordering::Relaxed) {
            let early = self.started.load(Ordering::Relaxed) > self.tried.load(Ordering::Relaxed) + ahead;
            let Some(schedule) = self.next(early) else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let _ = compile(self.kernel, self.facts, &schedule, self.target, Output::Cubin);
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

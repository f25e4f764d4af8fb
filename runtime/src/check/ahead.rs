//! Kernels that a device is going to launch, compiled by all cores into the disk cache: a device runs one kernel at a time, and would wait
//! for NVRTC before each. Runs begin with what is compiled first.

use super::caught;
use super::plan::Plan;
use super::progress::Progress;
use crate::compile::{Output, compile};
use crate::tune::launches::launches;
use girih_core::facts::Facts;
use girih_core::registry::KernelDef;
use girih_core::schedule::Schedule;
use girih_core::target::Target;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How often somebody who waits is told so.
const PATIENCE: Duration = Duration::from_secs(10);

/// What plans launch, on its way into the disk cache.
pub(super) struct Ahead {
    jobs: Vec<Job>,
    next: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

struct Job {
    plan: usize,
    kernel: KernelDef,
    facts: Facts,
    schedule: Schedule,
}

struct State {
    /// Jobs of each plan that are not done.
    left: Vec<usize>,
    /// Jobs that somebody works at, and since when.
    running: Vec<(usize, Instant)>,
}

impl Ahead {
    /// Each kernel under each schedule and facts once, for the first plan that launches it.
    pub fn new(plans: &[Plan], seed: u64) -> Ahead {
        let mut jobs: Vec<Job> = Vec::new();
        let mut known = HashSet::new();
        for (number, plan) in plans.iter().enumerate() {
            for call in 0..plan.calls() {
                let found = caught(|| launches(&plan.subject.program, &plan.call(call, seed)?, plan.misaligned(call) as usize));
                for launch in found.unwrap_or_default() {
                    for way in &plan.schedules {
                        let schedule = way[launch.site].clone();
                        if known.insert((launch.kernel.path(), launch.facts.clone(), schedule.clone())) {
                            jobs.push(Job { plan: number, kernel: launch.kernel, facts: launch.facts.clone(), schedule });
                        }
                    }
                }
            }
        }
        let mut left = vec![0; plans.len()];
        jobs.iter().for_each(|job| left[job.plan] += 1);
        let state = Mutex::new(State { left, running: Vec::new() });
        Ahead { jobs, next: AtomicUsize::new(0), state, changed: Condvar::new() }
    }

    /// Compiles one kernel after the other until all are taken, on as many threads as call it. Failures are for the runs to report.
    pub fn work(&self, target: &Target) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(number) else { return };
            self.state.lock().expect("nobody panics with it").running.push((number, Instant::now()));
            let _ = caught(|| {
                let kernel = (job.kernel.build)().map_err(|e| e.to_string())?;
                compile(&kernel, &job.facts, &job.schedule, target, Output::Cubin).map_err(|e| e.to_string())
            });
            let mut state = self.state.lock().expect("nobody panics with it");
            state.running.retain(|(running, _)| *running != number);
            state.left[job.plan] -= 1;
            self.changed.notify_all();
        }
    }

    /// Returns once all that a plan launches is compiled; tells of what takes long until then.
    pub fn wait(&self, plan: usize, progress: &dyn Progress) {
        let mut state = self.state.lock().expect("nobody panics with it");
        while state.left[plan] > 0 {
            let (again, timeout) = self.changed.wait_timeout(state, PATIENCE).expect("nobody panics with it");
            state = again;
            if timeout.timed_out()
                && let Some((number, since)) = state.running.iter().min_by_key(|(_, since)| *since)
            {
                let job = &self.jobs[*number];
                let schedule = (job.kernel.build)().map_or(String::new(), |kernel| job.schedule.short(&kernel));
                progress.compiling(&job.kernel.path(), &schedule, since.elapsed());
            }
        }
    }
}

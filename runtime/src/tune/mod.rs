//! The tuner: space × strategy × measure × store.
//!
//! - [`search`] picks candidates and elects a winner; it sees schedules and durations only.
//! - [`client`] measures a candidate in a worker process ([`worker`]) under a time limit; [`predict`] asks the model instead.
//! - [`crate::store`] gets every trial at once, so a killed run resumes where it stopped.
//!
//! A program is tuned as a whole ([`program`]): site by site, the time of a candidate being the whole program's with the other sites at
//! their best so far, until no site changes any more; and so for each choice of its variants.

pub mod client;
pub mod launches;
pub mod predict;
mod products;
pub mod program;
pub mod protocol;
pub mod search;
mod settle;
pub mod worker;

use crate::acceptance::Acceptance;
use crate::challenge::Sizes;
use crate::compile::{Output, compile};
use crate::device::Device;
use crate::joint::Joint;
use crate::store::{Elected, Status, Store, Trial, TrialKey};
use crate::subject::Subject;
use crate::winners;
use client::WorkerMeasure;
use girih_core::facts::Facts;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use launches::Launch;
use predict::Prediction;
pub use program::{Tuned, tune};
use search::{Budget, Measure, Observer, Outcome, Strategy};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How to tune.
#[derive(Clone, Debug)]
pub struct Options {
    /// What gives times.
    pub by: By,
    /// When to stop, for each launch site.
    pub budget: Budget,
    /// In which order.
    pub strategy: Strategy,
    /// For one trial.
    pub limit: Duration,
    /// Trials of earlier runs are repeated.
    pub fresh: bool,
    /// Only this launch site of a program, by its name.
    pub only: Option<String>,
}

impl Options {
    /// How long the model may take to put candidates in order: a small part of the budget, which is better spent on trials.
    fn ordering(&self) -> Duration {
        self.budget.time.map_or(Duration::from_secs(30), |t| t / 6)
    }
}

/// What gives times.
#[derive(Clone, Debug)]
pub enum By {
    /// A GPU, by measurement in worker processes.
    Measurement(Device),
    /// The model, for a target that need not be here.
    Prediction(&'static Target),
}

impl By {
    /// The limits that candidates are made for.
    pub fn target(&self) -> &Target {
        match self {
            By::Measurement(device) => device.target(),
            By::Prediction(target) => target,
        }
    }

    /// The device's name in the store.
    pub fn device_name(&self) -> String {
        match self {
            By::Measurement(device) => device.name(),
            By::Prediction(target) => format!("simulated {}", target.name),
        }
    }
}

/// What the tuner tells while it works.
pub trait Progress {
    /// A site's search begins with so many candidates, of which so many are known from earlier runs.
    fn begin(&mut self, site: &str, candidates: usize, known: usize);
    /// A trial ended.
    fn tried(&mut self, trial: &Trial);
    /// Something that the user should read.
    fn note(&mut self, text: &str);
}

/// How a site's search ended.
#[derive(Clone, Debug)]
pub struct SiteOutcome {
    /// The site's name in its program.
    pub site: String,
    /// The kernel's path.
    pub kernel: String,
    /// The winner, `T=1024 C=4`, and its attribute.
    pub winner: Option<(String, String)>,
    /// The winner's median in microseconds, of the whole program.
    pub median_us: Option<f64>,
    /// The verdict on its cubin, where there is one.
    pub acceptance: Option<Acceptance>,
    /// The naive schedule's, if it was tried.
    pub naive_us: Option<f64>,
    /// The best few, the fastest first.
    pub ranking: Vec<Trial>,
    /// Candidates tried now, known from before, and left untried.
    pub counts: (usize, usize, usize),
    /// Reasons why candidates were dropped, with their number.
    pub dropped: BTreeMap<String, usize>,
}

/// Of the data that candidates are checked and timed on.
const SEED: u64 = 1;

/// One launch site that is being tuned.
struct Site<'a> {
    subject: &'a Subject,
    sizes: &'a Sizes,
    options: &'a Options,
    store: &'a Store,
    stop: &'a AtomicBool,
    kernel: &'a Kernel,
    launch: &'a Launch,
    target: &'a Target,
    /// All launch sites of the program: kernels and names by site, and what a call launches.
    program: &'a program::Sites,
    /// The only candidates; the whole space without.
    shortlist: Option<Vec<String>>,
}

/// Candidates one step away from one of them.
fn neighbours(space: &Space, candidates: &[Schedule], of: usize) -> Vec<usize> {
    space.neighbours(&candidates[of]).iter().filter_map(|n| candidates.iter().position(|c| c == n)).collect()
}

impl Site<'_> {
    fn tune(&self, schedules: &[String], worker: Option<&mut WorkerMeasure>, progress: &mut dyn Progress) -> Result<SiteOutcome, String> {
        let key = self.key(schedules);
        let space = Space::new(self.kernel, &self.launch.facts, self.target);
        let listed = |s: &Schedule| self.shortlist.as_ref().is_none_or(|list| list.contains(&s.short(self.kernel)));
        let candidates: Vec<Schedule> = space.enumerate().into_iter().filter(listed).collect();
        let names: Vec<String> = candidates.iter().map(|s| s.short(self.kernel)).collect();
        let former = if self.options.fresh { Vec::new() } else { self.store.trials(&key).map_err(|e| e.to_string())? };
        let known: Vec<Option<Trial>> = names.iter().map(|n| former.iter().find(|t| t.schedule == *n).cloned()).collect();
        let known_count = known.iter().flatten().count();
        progress.begin(&self.program.names[self.launch.site], candidates.len(), known_count);
        let complexity: Vec<u64> = candidates.iter().map(|s| complexity(self.kernel, s)).collect();

        let mut ways = Vec::new();
        for (kernel, text) in self.program.kernels.iter().zip(schedules) {
            ways.push(parse_schedule(kernel, text).map_err(|e| e.to_string())?);
        }
        let others_us = self.others_us(&ways)?;
        let prediction = Prediction::new(self.subject, self.sizes, (self.kernel, self.launch), self.target, &candidates, ways);
        let mut prediction = match prediction {
            Ok(prediction) => Some(prediction.beside(others_us)),
            // Measurements can do without an order of trials, where scalars do not fit a smaller size.
            Err(_) if worker.is_some() => None,
            Err(e) => return Err(e),
        };
        // The order matters only where the budget may leave candidates untried.
        let limited = self.options.budget.time.is_some() || self.options.budget.trials.is_some_and(|n| n < candidates.len());
        let rough = match &prediction {
            Some(p) if limited && self.options.strategy == Strategy::Model => p.rough(self.options.ordering()),
            _ => Vec::new(),
        };
        let order = self.options.strategy.order(candidates.len(), &rough);
        // The schedule known so far comes first: whatever the budget, the result is no worse than before.
        let first = names.iter().position(|n| *n == schedules[self.launch.site]);
        let naive = space.naive().ok().and_then(|n| candidates.iter().position(|c| *c == n));
        let mut head: Vec<usize> = first.into_iter().chain(naive).collect();
        head.dedup();
        let order: Vec<usize> = head.iter().copied().chain(order.into_iter().filter(|c| !head.contains(c))).collect();

        let near = |c: usize| neighbours(&space, &candidates, c);
        let mut log = Log { site: self, key: &key, progress, trials: former, error: None };
        let unknown: Vec<usize> = order.iter().copied().filter(|c| known[*c].is_none()).collect();
        let all_facts = match &worker {
            Some(_) => worker::facts_of_trial(self.subject, self.launch, SEED),
            None => vec![self.launch.facts.clone()],
        };
        let (tried, next, ahead) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let outcome = std::thread::scope(|scope| {
            compile_ahead(scope, (self.kernel, self.target), &all_facts, &candidates, &unknown, &tried, &ahead, &next);
            let inner: &mut dyn Measure = match worker {
                Some(worker) => {
                    worker.take(self.launch.site, names.clone(), schedules.to_vec());
                    worker
                }
                None => prediction.as_mut().expect("without measurements a failed prediction has ended this"),
            };
            let mut counted = Counted { inner, tried: &tried, flaw: &|c| self.flaw(&candidates[c]) };
            let outcome = search::search(&order, &near, &known, &complexity, self.options.budget, &mut counted, &mut log);
            ahead.store(true, Ordering::Relaxed);
            outcome
        });
        let (trials, error) = (std::mem::take(&mut log.trials), log.error.take());
        match error {
            Some(e) => Err(e),
            None => {
                let outcome = self.settle(outcome, &names, schedules, &trials);
                self.conclude(&key, &names, &candidates, naive, outcome, known_count, trials)
            }
        }
    }

    /// The registers of a candidate's cubin under the tuned launch's facts, and what is amiss with it as far as ptxas says: that is known
    /// without a look at the machine code. `None` where there is no cubin: predictions can do without NVRTC.
    fn flaw(&self, candidate: &Schedule) -> Option<(u32, Option<String>)> {
        let compiled = compile(self.kernel, &self.launch.facts, candidate, self.target, Output::Cubin).ok()?;
        let resources = compiled.resources?;
        let flaws = Acceptance::of_resources(resources).flaws();
        Some((resources.registers, (!flaws.is_empty()).then(|| flaws.join(", "))))
    }

    /// The whole verdict on a candidate's cubin.
    fn acceptance(&self, candidate: &Schedule) -> Option<Acceptance> {
        compile(self.kernel, &self.launch.facts, candidate, self.target, Output::Cubin).ok()?.acceptance().ok()
    }

    /// Lets large tensors decide between candidates that are equals at a small size.
    fn settle(&self, outcome: Outcome, names: &[String], schedules: &[String], trials: &[Trial]) -> Outcome {
        let (By::Measurement(_), Some((best, us))) = (&self.options.by, outcome.best) else { return outcome };
        if self.stop.load(Ordering::Relaxed) {
            return outcome;
        }
        let place = (self.launch.site, schedules);
        let l2 = self.target.l2 as f64;
        let settled = settle::settle(self.subject, self.sizes, l2, self.options, place, (&names[best], us), trials);
        let best = settled.and_then(|(name, us)| Some((names.iter().position(|n| *n == name)?, us))).or(outcome.best);
        Outcome { best, ..outcome }
    }

    /// What the model gives the other launch sites under these schedules; 0 where times are measured.
    fn others_us(&self, ways: &[Schedule]) -> Result<f64, String> {
        let mut sum = 0.0;
        if matches!(self.options.by, By::Measurement(_)) {
            return Ok(sum);
        }
        for launch in self.program.launches.iter().filter(|l| l.site != self.launch.site) {
            let (kernel, schedule) = (&self.program.kernels[launch.site], &ways[launch.site]);
            let only = std::slice::from_ref(schedule);
            let other = Prediction::new(self.subject, self.sizes, (kernel, launch), self.target, only, ways.to_vec())?;
            sum += other.site_us(schedule).unwrap_or(0.0);
        }
        Ok(sum)
    }

    /// Trials of a program's site are of the whole program: they say how it ran beside them.
    fn key(&self, schedules: &[String]) -> TrialKey {
        let sizes = if self.program.names.len() > 1 {
            let joint = Joint::of(self.subject, schedules);
            let others = joint.sites.iter().enumerate().filter(|(i, _)| *i != self.launch.site).map(|(_, s)| s.clone()).collect();
            let beside = Joint { sites: others, ..joint };
            format!("{} in {}.{} beside {beside}", self.sizes, self.subject.name, self.program.names[self.launch.site])
        } else {
            self.sizes.to_string()
        };
        TrialKey {
            kernel: winners::kernel_path(self.kernel),
            identity: self.kernel.identity(),
            facts: self.launch.facts.to_string(),
            sizes,
            device: self.options.by.device_name(),
            arch: self.target.arch.to_string(),
        }
    }

    fn conclude(
        &self,
        key: &TrialKey,
        names: &[String],
        candidates: &[Schedule],
        naive: Option<usize>,
        outcome: Outcome,
        known: usize,
        trials: Vec<Trial>,
    ) -> Result<SiteOutcome, String> {
        if let Some((best, median_us)) = outcome.best {
            let key = TrialKey { sizes: self.sizes.to_string(), ..key.clone() };
            let elected = Elected { key, schedule: names[best].clone(), median_us };
            self.store.elect(&elected).map_err(|e| e.to_string())?;
        }
        let mut dropped = BTreeMap::new();
        for t in trials.iter().filter(|t| t.median_us.is_none()) {
            *dropped.entry(format!("{}: {}", t.status.name(), t.reason.lines().next().unwrap_or(""))).or_default() += 1;
        }
        let time = |name: &str| trials.iter().rev().find(|t| t.schedule == name).and_then(|t| t.median_us);
        let naive_us = naive.and_then(|n| time(&names[n]));
        let mut ranking: Vec<Trial> = trials.into_iter().filter(|t| t.median_us.is_some()).collect();
        ranking.sort_by(|a, b| a.median_us.unwrap_or(f64::MAX).total_cmp(&b.median_us.unwrap_or(f64::MAX)));
        ranking.truncate(10);
        Ok(SiteOutcome {
            site: self.program.names[self.launch.site].clone(),
            kernel: key.kernel.clone(),
            winner: outcome.best.map(|(b, _)| (names[b].clone(), candidates[b].attribute(self.kernel))),
            median_us: outcome.best.map(|(_, t)| t),
            acceptance: outcome.best.and_then(|(b, _)| self.acceptance(&candidates[b])),
            naive_us,
            ranking,
            counts: (outcome.tried, known, outcome.left),
            dropped,
        })
    }
}

/// Compiles candidates into the disk cache on the cores that trials leave idle, a few ahead of it. Failures are the
/// worker's to report.
fn compile_ahead<'scope, 'env: 'scope>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    (kernel, target): (&'env Kernel, &'env Target),
    all_facts: &'env [Facts],
    candidates: &'env [Schedule],
    order: &'env [usize],
    tried: &'env AtomicUsize,
    done: &'env AtomicBool,
    next: &'env AtomicUsize,
) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).clamp(1, 8);
    for _ in 0..threads {
        scope.spawn(move || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(candidate) = order.get(at) else { return };
                while at > tried.load(Ordering::Relaxed) + 4 * threads && !done.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                for facts in all_facts {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let _ = compile(kernel, facts, &candidates[*candidate], target, Output::Cubin);
                }
            }
        });
    }
}

/// Counts trials for the threads that compile ahead, and says what is amiss with the cubins of those that went well.
struct Counted<'a> {
    inner: &'a mut dyn Measure,
    tried: &'a AtomicUsize,
    flaw: &'a dyn Fn(usize) -> Option<(u32, Option<String>)>,
}

impl Measure for Counted<'_> {
    fn trial(&mut self, candidate: usize) -> Trial {
        let mut trial = self.inner.trial(candidate);
        self.tried.fetch_add(1, Ordering::Relaxed);
        if trial.median_us.is_some()
            && let Some((registers, flaw)) = (self.flaw)(candidate)
        {
            (trial.registers, trial.flaw) = (Some(registers), flaw);
        }
        trial
    }
    fn interleaved(&mut self, candidates: &[usize], rounds: usize) -> Vec<Vec<f64>> {
        self.inner.interleaved(candidates, rounds)
    }
}

/// Stores trials as they come and passes them on.
struct Log<'a> {
    site: &'a Site<'a>,
    key: &'a TrialKey,
    progress: &'a mut dyn Progress,
    trials: Vec<Trial>,
    error: Option<String>,
}

impl Observer for Log<'_> {
    fn tried(&mut self, _candidate: usize, trial: &Trial) {
        if let Err(e) = self.site.store.record(self.key, trial) {
            self.error.get_or_insert(e.to_string());
        }
        self.progress.tried(trial);
        self.trials.retain(|t| t.schedule != trial.schedule);
        self.trials.push(trial.clone());
        if trial.status == Status::Wrong {
            let name = &self.site.subject.name;
            self.progress.note(&format!("{name} at {} is wrong: {}", trial.schedule, trial.reason));
        }
    }

    fn stopped(&self) -> bool {
        self.site.stop.load(Ordering::Relaxed) || self.error.is_some()
    }
}

/// How much a schedule asks of a reader: fewer elements per thread, stages and special copies are simpler.
fn complexity(kernel: &Kernel, schedule: &Schedule) -> u64 {
    kernel
        .knobs
        .iter()
        .zip(&schedule.choices)
        .map(|(knob, choice)| match choice {
            _ if knob.kind == girih_core::schedule::KnobKind::Tile => 0,
            Choice::Int(i) => i.unsigned_abs(),
            Choice::Word(w) => knob.kind.words().iter().position(|x| x == w).unwrap_or(0) as u64 * 4,
        })
        .sum()
}

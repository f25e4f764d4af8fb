//! The tuner: space × strategy × measure × store.
//!
//! - `pool` holds the candidates: all of a small space; of a large one a sample, and what lies near the best.
//! - [`search`] picks candidates and elects a winner; it sees schedules and durations only.
//! - [`client`] measures a candidate in a worker process ([`worker`]) under a time limit; [`predict`] asks the model instead.
//! - [`crate::store`] gets every trial at once, so a killed run resumes where it stopped.
//!
//! A program is tuned as a whole ([`program`]): site by site, the time of a candidate being the whole program's with the other sites at
//! their best so far, until no site changes any more; and so for each choice of its variants.

mod ahead;
pub mod client;
mod clock;
mod forecast;
pub mod launches;
mod pool;
pub mod predict;
mod products;
pub mod program;
pub mod protocol;
pub mod reduced;
pub mod rehearsal;
pub mod search;
mod settle;
mod trials;
pub mod worker;

use crate::acceptance::Acceptance;
use crate::challenge::Sizes;
use crate::compile::{Compiled, Output, compile};
use crate::device::Device;
use crate::joint::Joint;
use crate::store::{Elected, Status, Store, Trial, TrialKey};
use crate::subject::Subject;
use crate::winners;
use ahead::Ahead;
use client::WorkerMeasure;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::loc::SourceLoc;
use girih_core::lower::lower;
use girih_core::scalar::fnv1a64;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::{parse_schedule, parse_schedules, parse_space};
use girih_core::schedule::space::Space;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use launches::Launch;
use pool::Pool;
use predict::Prediction;
pub use program::{Tuned, tune};
use search::{Budget, Candidates, Outcome, Strategy};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use trials::{Inner, Log, Trials};

/// How to tune.
#[derive(Clone, Debug)]
pub struct Options {
    /// What gives times.
    pub by: By,
    /// When to stop: the time is the whole program's, the number of trials each launch site's.
    pub budget: Budget,
    /// In which order.
    pub strategy: Strategy,
    /// For one trial.
    pub limit: Duration,
    /// Trials of earlier runs are repeated.
    pub fresh: bool,
    /// Only this launch site of a program, by its name.
    pub only: Option<String>,
    /// Candidates of the only launch site: all that the author listed without.
    pub among: Option<Among>,
}

/// A part of a launch site's space. The schedule known so far takes part in the search all the same: its result is no worse than before.
#[derive(Clone, Debug)]
pub enum Among {
    /// A space expression: `S=3|4,G=0..1`; knobs that it does not name have all their choices.
    Space(String),
    /// Schedules, one per line, `#` before comments; knobs that a line does not name have their defaults.
    Schedules(String),
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

impl SiteOutcome {
    /// What the model says that bounds the winner, in words; nothing where it was measured.
    pub fn bound(&self) -> Option<&str> {
        let (winner, _) = self.winner.as_ref()?;
        let trial = self.ranking.iter().find(|t| t.schedule == *winner)?;
        (trial.status == Status::Predicted).then_some(trial.reason.as_str())
    }
}

/// Of the data that candidates are checked and timed on.
const SEED: u64 = 1;

/// A digest of the CUDA C that a schedule gives, wherever in a file the kernel stands; `None` for an illegal schedule. Trials are known by
/// it: what an earlier version generated may have been slower, or wrong.
pub fn code(kernel: &Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Option<u64> {
    lower(kernel, facts, schedule, target).ok().map(|simt| digest(&simt))
}

fn digest(simt: &simt::Kernel) -> u64 {
    let mut nowhere = simt.clone();
    nowhere.each_launch(&mut |launch| launch.provenance.loc = SourceLoc::NONE);
    fnv1a64(emit(&nowhere).as_bytes())
}

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
    /// This search's share of the program's.
    budget: Budget,
}

impl Site<'_> {
    /// How long the model may take to put candidates in order: a small part of the budget, which is better spent on trials.
    fn ordering(&self) -> Duration {
        self.budget.time.map_or(Duration::from_secs(30), |t| t / 6)
    }

    fn tune(&self, schedules: &[String], worker: Option<&mut WorkerMeasure>, progress: &mut dyn Progress) -> Result<SiteOutcome, String> {
        let begun = Instant::now();
        let key = self.key(schedules);
        let (space, listed) = self.space()?;
        let former = if self.options.fresh { Vec::new() } else { self.former(&key)? };
        let first = &schedules[self.launch.site];
        let whole = self.options.strategy == Strategy::Exhaustive;
        let mut pool = match self.shortlist.as_ref().or(listed.as_ref()) {
            Some(names) => Pool::of_names(&space, &former, names),
            None => Pool::of_space(&space, &former, first, whole, self.ordering() / 2),
        };
        if self.options.among.is_some()
            && let Ok(first) = parse_schedule(self.kernel, first)
            && space.check(&first).is_ok()
        {
            pool.add(first);
        }
        let known_count = (0..pool.len()).filter(|c| pool.known(*c).is_some()).count();
        progress.begin(&self.program.names[self.launch.site], pool.len(), known_count);

        let mut ways = Vec::new();
        for (kernel, text) in self.program.kernels.iter().zip(schedules) {
            ways.push(parse_schedule(kernel, text).map_err(|e| e.to_string())?);
        }
        let others_us = self.others_us(&ways)?;
        let prediction = match Prediction::new(self.subject, self.sizes, (self.kernel, self.launch), self.target, ways) {
            Ok(prediction) => {
                Some(prediction.beside(others_us).sharing(&self.program.rehearsals).until(self.budget.time.map(|t| begun + t)))
            }
            // Measurements can do without an order of trials, where scalars do not fit a smaller size.
            Err(_) if worker.is_some() => None,
            Err(e) => return Err(e),
        };
        let naive = space.naive().ok();
        let order = self.order(&pool, prediction.as_ref(), [parse_schedule(self.kernel, first).ok(), naive.clone()]);
        let best_us = former.iter().filter_map(Trial::right_us).reduce(f64::min);
        let mut log = Log { site: self, key: &key, progress, trials: former, error: None };
        let unknown = order.iter().filter(|c| pool.known(**c).is_none()).map(|c| pool.get(*c).schedule).collect();
        let (later, announced) = channel();
        pool.announce(later);
        let ahead = Ahead::new((self.kernel, self.target), &self.launch.facts, unknown, announced);
        let outcome = std::thread::scope(|scope| {
            ahead.start(scope);
            let inner = match (worker, &prediction) {
                (Some(worker), _) => {
                    worker.take(self.launch.site, schedules.to_vec());
                    Inner::Worker(worker)
                }
                (None, Some(prediction)) => Inner::Model(prediction),
                (None, None) => unreachable!("without measurements a failed prediction has ended this"),
            };
            let mut measure = Trials { inner, pool: &pool, ahead: &ahead, site: self, best_us };
            let time = self.budget.time.map(|t| t.saturating_sub(begun.elapsed()));
            let outcome = search::search(&order, &pool, Budget { time, ..self.budget }, &mut measure, &mut log);
            ahead.stop();
            outcome
        });
        let (trials, error) = (std::mem::take(&mut log.trials), log.error.take());
        match error {
            Some(e) => Err(e),
            None => {
                let outcome = self.settle(outcome, &pool, schedules, &trials);
                self.conclude(&key, &pool, naive.as_ref(), outcome, known_count, trials)
            }
        }
    }

    /// The space that is searched, and the only schedules of it that are if some were listed.
    fn space(&self) -> Result<(Space<'_>, Option<Vec<String>>), String> {
        let whole = Space::new(self.kernel, &self.launch.facts, self.target);
        match &self.options.among {
            None => Ok((whole, None)),
            Some(Among::Space(text)) => {
                let choices = parse_space(self.kernel, text).map_err(|e| format!("{}: {e}", self.kernel.full_name()))?;
                Ok((whole.restricted(&choices), None))
            }
            Some(Among::Schedules(text)) => {
                let all = parse_schedules(self.kernel, text).map_err(|e| format!("{}: {e}", self.kernel.full_name()))?;
                let illegal = all.iter().find_map(|s| Some((s, whole.check(s).err()?)));
                match illegal {
                    Some((schedule, e)) => Err(format!("{} with {}: {e}", self.kernel.full_name(), schedule.short(self.kernel))),
                    None => Ok((whole, Some(all.iter().map(|s| s.short(self.kernel)).collect()))),
                }
            }
        }
    }

    /// The trials of earlier runs, of code that is still what these schedules give.
    fn former(&self, key: &TrialKey) -> Result<Vec<Trial>, String> {
        let mut former = self.store.trials(key).map_err(|e| e.to_string())?;
        former.retain(|t| parse_schedule(self.kernel, &t.schedule).is_ok_and(|s| t.code == self.code(&s)));
        Ok(former)
    }

    fn code(&self, candidate: &Schedule) -> Option<u64> {
        code(self.kernel, &self.launch.facts, candidate, self.target)
    }

    /// The order of trials. What is known so far comes first: whatever the budget, the result is no worse than before.
    fn order(&self, pool: &Pool, prediction: Option<&Prediction>, first: [Option<Schedule>; 2]) -> Vec<usize> {
        // The order matters only where the budget may leave candidates untried.
        let limited = self.budget.time.is_some() || self.budget.trials.is_some_and(|n| n < pool.len());
        let forecasts = match prediction {
            Some(p) if limited && self.options.strategy == Strategy::Model => forecast::forecast(p, pool, self.ordering()),
            _ => Vec::new(),
        };
        let mut order: Vec<usize> = first.into_iter().flatten().filter_map(|s| pool.place(&s)).collect();
        let rest = self.options.strategy.order(pool.len(), &forecasts);
        order.dedup();
        let head = order.clone();
        order.extend(rest.into_iter().filter(|c| !head.contains(c)));
        order
    }

    /// Adds to a candidate's trial what its code is under the tuned launch's facts; where it was timed also its registers, and what is amiss
    /// as far as ptxas says: that is known without a look at the machine code. Predictions can do without NVRTC and its cubin.
    fn describe(&self, candidate: &Schedule, trial: &mut Trial) {
        let Ok(simt) = lower(self.kernel, &self.launch.facts, candidate, self.target) else { return };
        trial.code = Some(digest(&simt));
        if trial.median_us.is_none() {
            return;
        }
        let Ok(compiled) = Compiled::of(simt, self.target).with_cubin() else { return };
        let Some(resources) = compiled.resources else { return };
        let flaws = Acceptance::of_resources(&compiled.simt, resources).flaws();
        (trial.registers, trial.flaw) = (Some(resources.registers), (!flaws.is_empty()).then(|| flaws.join(", ")));
    }

    /// The whole verdict on a candidate's cubin.
    fn acceptance(&self, candidate: &Schedule) -> Option<Acceptance> {
        compile(self.kernel, &self.launch.facts, candidate, self.target, Output::Cubin).ok()?.acceptance().ok()
    }

    /// Lets large tensors decide between candidates that are equals at a small size.
    fn settle(&self, outcome: Outcome, pool: &Pool, schedules: &[String], trials: &[Trial]) -> Outcome {
        let (By::Measurement(_), Some((best, us))) = (&self.options.by, outcome.best) else { return outcome };
        if self.stop.load(Ordering::Relaxed) {
            return outcome;
        }
        let place = (self.launch.site, schedules);
        let l2 = self.target.l2 as f64;
        let settled = settle::settle(self.subject, self.sizes, l2, self.options, place, (&pool.get(best).name, us), trials);
        let best = settled.and_then(|(name, us)| Some((pool.named(&name)?, us))).or(outcome.best);
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
            let key = (launch.site, schedule.short(kernel));
            if let Some(known) = self.program.predicted.borrow().get(&key) {
                sum += known;
                continue;
            }
            let other =
                Prediction::new(self.subject, self.sizes, (kernel, launch), self.target, ways.to_vec())?.sharing(&self.program.rehearsals);
            let us = other.site_us(schedule).unwrap_or(0.0);
            self.program.predicted.borrow_mut().insert(key, us);
            sum += us;
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
            lengths: Some(self.launch.lengths.clone()),
            sizes,
            device: self.options.by.device_name(),
            arch: self.target.arch.to_string(),
        }
    }

    fn conclude(
        &self,
        key: &TrialKey,
        pool: &Pool,
        naive: Option<&Schedule>,
        outcome: Outcome,
        known: usize,
        trials: Vec<Trial>,
    ) -> Result<SiteOutcome, String> {
        if let Some((best, median_us)) = outcome.best {
            let key = TrialKey { sizes: self.sizes.to_string(), ..key.clone() };
            let elected = Elected { key, schedule: pool.get(best).name, median_us };
            self.store.elect(&elected).map_err(|e| e.to_string())?;
        }
        let mut dropped = BTreeMap::new();
        for t in trials.iter().filter(|t| t.median_us.is_none()) {
            *dropped.entry(format!("{}: {}", t.status.name(), t.reason.lines().next().unwrap_or(""))).or_default() += 1;
        }
        let time = |name: &str| trials.iter().rev().find(|t| t.schedule == name).and_then(|t| t.median_us);
        let naive_us = naive.and_then(|n| time(&n.short(self.kernel)));
        let mut ranking: Vec<Trial> = trials.into_iter().filter(|t| t.right_us().is_some()).collect();
        ranking.sort_by(|a, b| a.median_us.unwrap_or(f64::MAX).total_cmp(&b.median_us.unwrap_or(f64::MAX)));
        ranking.truncate(10);
        Ok(SiteOutcome {
            site: self.program.names[self.launch.site].clone(),
            kernel: key.kernel.clone(),
            winner: outcome.best.map(|(b, _)| pool.get(b)).map(|c| (c.name, c.schedule.attribute(self.kernel))),
            median_us: outcome.best.map(|(_, t)| t),
            acceptance: outcome.best.and_then(|(b, _)| self.acceptance(&pool.get(b).schedule)),
            naive_us,
            ranking,
            counts: (outcome.tried, known, outcome.left),
            dropped,
        })
    }
}

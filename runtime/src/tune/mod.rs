//! The tuner: space × strategy × measure × store.
//!
//! - `pool` holds the candidates: all of a small space; of a large one a sample, and what lies near the best.
//! - [`search`] picks candidates and elects a winner; it sees schedules and durations only.
//! - `client` measures a candidate in a worker process ([`worker`]) under a time limit; [`predict`] asks the model instead.
//! - [`crate::store`] gets every trial at once, so a killed run resumes where it stopped.
//!
//! A program is tuned as a whole ([`program`]): site by site, the time of a candidate being the whole program's with the other sites at
//! their best so far, until no site changes any more; and so for each choice of its variants.

mod ahead;
#[cfg(test)]
mod by_shell;
#[cfg(test)]
mod cache_states;
pub(crate) mod client;
mod clock;
pub mod contents;
pub mod counted;
mod demands;
mod descent;
pub(crate) mod dry_run;
mod early;
mod election;
#[cfg(test)]
mod faults;
pub mod floor;
mod glances;
pub mod launches;
mod machine_code;
mod model_ranking;
mod naive_ahead;
mod order;
mod outcomes;
mod outlook;
mod pool;
pub mod predict;
pub mod program;
mod promise;
pub(crate) mod protocol;
pub mod record;
pub mod recording;
pub mod reduced;
mod references;
mod rounds;
pub mod search;
pub mod shard;
mod site;
mod streaming_choice;
mod trials;
pub mod worker;

use crate::compile::{Output, compile};
use crate::launch::schedule_lookup::warm_device;
use crate::measure::acceptance::Acceptance;
use crate::measure::timing::L2;
use crate::store::{Elected, Status, Trial};
pub use client::Workers;
use girih_core::bug::contained;
use girih_core::cuda::emit;
use girih_core::facts::Facts;
use girih_core::loc::SourceLoc;
use girih_core::lower::lower;
use girih_core::scalar::fnv1a64;
use girih_core::schedule::Schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
pub use program::{Tuned, tune};
use search::{Budget, Strategy};
use shard::Shard;
pub(crate) use site::beside_text;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
pub use streaming_choice::Streaming;

/// How to tune.
#[derive(Clone, Debug)]
pub struct Options {
    /// What gives times.
    pub by: By,
    /// When to stop: the time is the whole program's, with inputs, checks and the final comparison; the number of trials each launch site's.
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
    /// One share of the candidates, whose others other machines try.
    Shard(Shard),
}

/// What gives times.
#[derive(Clone, Debug)]
pub enum By {
    /// A GPU, by measurement in processes that open it.
    Measurement(Box<Workers>),
    /// The model, for a target that need not be here.
    Prediction(&'static Target),
}

impl By {
    /// The limits that candidates are made for.
    pub fn target(&self) -> &Target {
        match self {
            By::Measurement(workers) => &workers.gpu.target,
            By::Prediction(target) => target,
        }
    }

    /// The device's name in the store.
    pub fn device_name(&self) -> String {
        match self {
            By::Measurement(workers) if workers.l2 == L2::Warm => warm_device(&workers.gpu.name),
            By::Measurement(workers) => workers.gpu.name.clone(),
            By::Prediction(target) => crate::launch::schedule_lookup::predicted_device(target),
        }
    }
}

/// What the tuner tells while it works.
pub trait Progress {
    /// A site's search begins with so many candidates, of which so many are known from earlier runs.
    fn begin(&mut self, site: &str, candidates: usize, known: usize);
    /// A trial ended.
    fn tried(&mut self, trial: &Trial);
    /// What the user waits for now.
    fn doing(&mut self, _text: &str) {}
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
    /// Between which times its median lies in 95 of 100 cases, by the samples of the final comparison.
    pub interval_us: Option<(f64, f64)>,
    /// Schedules that were as fast as the winner in the final comparison, as far as could be told, and are not simpler.
    pub equals: Vec<String>,
    /// That the winner's time was taken while the GPU was throttled, and why it was.
    pub throttled: Option<String>,
    /// There was no time for what is known best, so nothing is elected.
    pub missed: bool,
    /// The verdict on its cubin, where there is one.
    pub acceptance: Option<Acceptance>,
    /// The naive schedule's, if it was tried.
    pub naive_us: Option<f64>,
    /// The best few, the fastest first.
    pub ranking: Vec<Trial>,
    /// What was elected for large tensors besides, where the tuned size is small.
    pub large: Option<Streaming>,
    /// Candidates tried now, known from before, and left untried.
    pub counts: (usize, usize, usize),
    /// Reasons why candidates were dropped, with their number.
    pub dropped: BTreeMap<String, usize>,
    /// The winner's kernel, its facts and schedule, of which the verdict is to come.
    won: Option<Box<(Kernel, Facts, Schedule)>>,
    /// What was elected for the site's kernel.
    elected: Option<Elected>,
}

impl SiteOutcome {
    /// What the model says that bounds the winner, in words; nothing where it was measured.
    pub fn bound(&self) -> Option<&str> {
        let (winner, _) = self.winner.as_ref()?;
        let trial = self.ranking.iter().find(|t| t.schedule == *winner)?;
        (trial.status == Status::Predicted).then_some(trial.reason.as_str())
    }

    /// Of a site of which nothing is known yet.
    pub(crate) fn of(site: String, kernel: String) -> SiteOutcome {
        SiteOutcome {
            site,
            kernel,
            winner: None,
            median_us: None,
            interval_us: None,
            equals: Vec::new(),
            throttled: None,
            missed: false,
            acceptance: None,
            naive_us: None,
            ranking: Vec::new(),
            large: None,
            counts: (0, 0, 0),
            dropped: BTreeMap::new(),
            elected: None,
            won: None,
        }
    }

    /// Looks at the winner's machine code, if it is there before `end`.
    fn accept(&mut self, target: &Target, end: Option<Instant>) {
        let Some(won) = self.won.take() else { return };
        let (kernel, facts, schedule) = *won;
        let compiled = compile(&kernel, &facts, &schedule, target, Output::Cubin).ok();
        self.acceptance = compiled.and_then(|c| c.acceptance_until(end).ok());
    }
}

/// Of the data that candidates are checked and timed on.
const SEED: u64 = 1;

/// A digest of the CUDA C that a schedule gives, wherever in a file the kernel stands; `None` for an illegal schedule. Trials are known by
/// it: what an earlier version generated may have been slower, or wrong.
pub fn code(kernel: &Kernel, facts: &Facts, schedule: &Schedule, target: &Target) -> Option<u64> {
    lower(kernel, facts, schedule, target).ok().and_then(|simt| contained(|| digest(&simt)).ok())
}

fn digest(simt: &simt::Kernel) -> u64 {
    let mut nowhere = simt.clone();
    nowhere.each_launch(&mut |launch| launch.provenance.loc = SourceLoc::NONE);
    fnv1a64(emit(&nowhere).as_bytes())
}

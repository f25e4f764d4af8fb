//! Coordinate descent over the launch sites of a program whose variants are chosen, on the time of the whole program.

use super::client::WorkerMeasure;
use super::clock::{Clock, patience_ms};
use super::demands::{Compiling, Demands, small_calls};
use super::dry_run::{self, DryRuns};
use super::launches::Launch;
use super::outcomes::{Found, again, shortlist};
use super::outlook::Outlook;
use super::protocol::Setup;
use super::rounds::{ROUNDS, Round, Sites, Stand};
use super::search::Budget;
use super::site::Site;
use super::{By, Options, Progress, SEED, SiteOutcome};
use crate::compile::nvrtc::compile_until;
use crate::cores;
use crate::launch::program_schedule::{self, Joint};
use crate::launch::schedule_lookup::Origin;
use crate::store::{Status, Store, Trial};
use crate::subject::challenge::Sizes;
use crate::subject::schedules;
use crate::subject::{Call, Subject};
use girih_core::schedule::Schedule;
use girih_core::tile::Kernel;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Part of a program's time that its outlook may take.
const OUTLOOK: u32 = 20;
/// The search under one choice of variants.
pub(super) struct Descent<'a> {
    pub subject: &'a Subject,
    pub sizes: &'a Sizes,
    pub call: &'a Call,
    pub options: &'a Options,
    pub store: &'a Store,
    pub stop: &'a AtomicBool,
    /// Of the whole program.
    pub clock: Clock,
    /// By launch site: what it begins with where nothing is known but what the author lists first.
    pub promised: &'a [Option<Schedule>],
    /// Its part of the time that is left: 1 for the last choice of variants.
    pub part: f64,
    /// Whether it is the one of what is known best: its set-up is waited for.
    pub is_known: bool,
    /// Whether there was no time for its set-up.
    pub late: Cell<bool>,
    /// Whether it goes on where it ended before: its trials are known.
    pub resumes: bool,
}

impl Descent<'_> {
    /// Tunes it. `former` is what was known for the program.
    ///
    /// # Errors
    /// Anything that keeps the first trial from being made; a store that can't be written.
    pub fn run(&self, former: Option<&Joint>, progress: &mut dyn Progress) -> Result<Found, String> {
        let (target, device) = (self.options.by.target(), self.options.by.device_name());
        compile_until(self.clock.end(&self.options.budget));
        // The worker opens the GPU and makes inputs while the tuner finds out what to try there.
        let mut worker = self.worker()?;
        let sites = self.subject.program.sites().len().max(1);
        let dry_runs = Arc::new(DryRuns::within(self.clock.share(&self.options.budget, self.part / sites as f64).time));
        let (launches, unsure) = dry_run::found(&dry_runs, self.subject, self.call, target)?;
        unsure.into_iter().for_each(|text| progress.note(&text));
        self.tell_unreached(&launches, progress);
        let mut start = schedules::schedules(self.subject, former, target, Some((self.store, &device)), &launches)?;
        for ((schedule, _, origin), promised) in start.iter_mut().zip(self.promised) {
            if let (true, Some(promised)) = (Origin::is_untuned(origin), promised) {
                schedule.clone_from(promised);
            }
        }
        let schedules: Vec<String> = start.iter().map(|(s, kernel, _)| s.short(kernel)).collect();
        let of_author = start.iter().map(|(_, _, origin)| Origin::is_untuned(origin)).collect();
        let (kernels, first): (Vec<Kernel>, Vec<Option<Schedule>>) = start.into_iter().map(|(s, kernel, _)| (kernel, Some(s))).unzip();
        let demands = match worker {
            Some(_) => Demands::of(self.subject, self.call, &small_calls(self.subject, SEED)?),
            None => Demands::default(),
        };
        let names = self.subject.program.site_names();
        let sites = Sites { kernels, names, launches, predicted: RefCell::default(), dry_runs, demands, of_author };
        let (Some(worker), By::Measurement(workers)) = (&mut worker, &self.options.by) else {
            let stand = self.stand(&sites, schedules, Outlook::default());
            return self.descend(stand, (self.clock.part(self.part), None), progress);
        };
        std::thread::scope(|scope| {
            let threads = cores::cores().saturating_sub(1).max(1);
            let compiling = Compiling::begin(scope, threads, (&sites.kernels, &first), &sites.demands, (target, workers.compile));
            progress.doing("making inputs, and the naive schedule's result to compare with");
            let stand = self.stand(&sites, schedules, self.outlook(&sites, &first));
            let ready_by = self.clock.ready_by(&self.options.budget, self.part < 1.0 && !self.is_known);
            let ready = worker.ready(ready_by);
            self.late.set(ready.is_err() && ready_by.is_some_and(|by| Instant::now() >= by));
            let found = ready.and_then(|()| {
                if let Some(note) = worker.note() {
                    progress.note(&note);
                }
                let own = self.clock.part(self.part);
                let end = own.end(&self.options.budget);
                worker.end_at(end);
                compile_until(end);
                self.descend(stand, (own, Some((worker, &compiling))), progress)
            });
            // What is still being compiled is of no use to anybody.
            compile_until(Some(Instant::now()));
            found
        })
    }

    /// What the model expects of the launch sites, where a limit of time is shared among several.
    fn outlook(&self, sites: &Sites, first: &[Option<Schedule>]) -> Outlook {
        let time = self.options.budget.time.filter(|time| sites.launches.len() > 1 && !time.is_zero());
        let first: Option<Vec<Schedule>> = first.iter().cloned().collect();
        let (Some(time), Some(first)) = (time, first) else { return Outlook::default() };
        Outlook::of(self.subject, self.sizes, (sites, &first), self.options.by.target(), time / OUTLOOK)
    }

    /// Where a search begins.
    fn stand<'s>(&self, sites: &'s Sites, schedules: Vec<String>, outlook: Outlook) -> Stand<'s> {
        let mut tuned: Vec<&Launch> = sites.launches.iter().filter(|l| self.wanted(&sites.names[l.site])).collect();
        tuned.sort_by(|a, b| outlook.worth(b.site).total_cmp(&outlook.worth(a.site)));
        let (outcomes, beside) = (vec![None; tuned.len()], vec![None; tuned.len()]);
        Stand { sites, tuned, schedules, outcomes, beside, us: f64::INFINITY, outlook }
    }

    /// From site to site, until none changes any more, and then on with what was not tried while there is time.
    fn descend(
        &self,
        mut stand: Stand,
        (clock, mut worker): (Clock, Option<(&mut WorkerMeasure, &Compiling)>),
        progress: &mut dyn Progress,
    ) -> Result<Found, String> {
        let (mut round, mut rounds) = (Round::First, 0);
        loop {
            let before = stand.trials();
            let searched = self.round(round, &mut stand, (&clock, &mut worker), progress)?;
            rounds += 1;
            let over = clock.is_over() || (round == Round::Rest && stand.trials() == before);
            if self.stop.load(Ordering::Relaxed) || over {
                break;
            }
            // Without a limit of time all candidates were tried that shall be.
            let limited = clock.left().is_some() && self.options.budget.trials.is_none();
            round = match searched {
                true if rounds % ROUNDS != 0 => Round::Best,
                _ if limited && (0..stand.tuned.len()).any(|i| stand.is_open(i)) => Round::Rest,
                _ => break,
            };
        }
        let mut found: Vec<(usize, SiteOutcome)> =
            stand.tuned.iter().zip(stand.outcomes).filter_map(|(launch, outcome)| Some((launch.site, outcome?))).collect();
        found.sort_by_key(|(site, _)| *site);
        Ok((found.into_iter().map(|(_, outcome)| outcome).collect(), Joint::of(self.subject, &stand.schedules), stand.us))
    }

    /// One round over the sites; whether any was searched.
    fn round(
        &self,
        round: Round,
        stand: &mut Stand,
        (clock, worker): (&Clock, &mut Option<(&mut WorkerMeasure, &Compiling)>),
        progress: &mut dyn Progress,
    ) -> Result<bool, String> {
        let mut searched = false;
        for i in 0..stand.tuned.len() {
            let (launch, others) = (stand.tuned[i], stand.beside(stand.tuned[i].site));
            let ended = self.stop.load(Ordering::Relaxed) || clock.is_over();
            let is_due = match round {
                Round::First => true,
                Round::Best => !ended && stand.beside[i].as_ref() != Some(&others),
                Round::Rest => !ended && stand.is_open(i),
            };
            if !is_due {
                continue;
            }
            if clock.is_over() && stand.us.is_finite() {
                let name = &stand.sites.names[launch.site];
                progress.note(&format!("{name}: the budget is spent, so it keeps {}", stand.schedules[launch.site]));
                continue;
            }
            searched = true;
            let budget = clock.share(&self.options.budget, stand.part(round, i));
            let best = stand.outcomes[i].as_ref().filter(|_| round == Round::Best);
            let shortlist = best.map(|outcome| shortlist(outcome, &stand.schedules[launch.site]));
            let worker = worker.as_mut().map(|(worker, compiling)| (&mut **worker, *compiling));
            let resumes = self.resumes || round == Round::Rest;
            let site = self.site(stand.sites, launch, (shortlist, resumes), (budget, clock));
            let outcome = site.tune(&stand.schedules, worker, progress)?;
            if let Some((winner, _)) = &outcome.winner {
                stand.schedules[launch.site] = winner.clone();
            }
            if let Some(new) = outcome.median_us {
                stand.us = new;
                self.record(&stand.schedules, new)?;
            }
            stand.beside[i] = Some(others);
            stand.outcomes[i] = Some(match stand.outcomes[i].take() {
                Some(before) => again(before, outcome, round == Round::Rest),
                None => outcome,
            });
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(searched)
    }

    /// Whether a time is that of all launch sites: a prediction leaves out those that depend on a value which the program reads back, where
    /// no reduced call reads it.
    pub fn times_are_whole(&self, (outcomes, joint, _): &Found) -> bool {
        let measured = matches!(self.options.by, By::Measurement(_));
        measured || self.options.only.is_some() || !self.subject.program.reads_back() || outcomes.len() >= joint.sites.len()
    }

    /// Names the sites that no launch is known of.
    fn tell_unreached(&self, launches: &[Launch], progress: &mut dyn Progress) {
        let unreached = |(site, name): (usize, String)| (!launches.iter().any(|l| l.site == site)).then_some(name);
        for name in self.subject.program.site_names().into_iter().enumerate().filter_map(unreached) {
            progress
                .note(&format!("{name}: a call at {} does not launch it, so it is not tuned, nor part of the program's time", self.sizes));
        }
    }

    fn wanted(&self, site: &str) -> bool {
        self.options.only.as_ref().is_none_or(|only| only == site)
    }

    /// A worker that is being set up, where times are measured.
    fn worker(&self) -> Result<Option<WorkerMeasure>, String> {
        match &self.options.by {
            By::Prediction(_) => Ok(None),
            By::Measurement(workers) => {
                let (name, variants) = (self.subject.name.clone(), self.subject.variants.clone());
                let patience_ms = patience_ms(&self.options.budget);
                let (sizes, ordinal, l2) = (self.sizes.to_string(), workers.gpu.ordinal, workers.l2);
                let setup = Setup { name, variants, sizes, seed: SEED, ordinal, patience_ms, l2 };
                let end = self.clock.end(&self.options.budget);
                WorkerMeasure::begin(workers.launcher.clone(), setup, self.options.limit, end).map(Some)
            }
        }
    }

    fn site<'a>(
        &'a self,
        sites: &'a Sites,
        launch: &'a Launch,
        (shortlist, resumes): (Option<Vec<String>>, bool),
        (budget, clock): (Budget, &Clock),
    ) -> Site<'a> {
        Site {
            subject: self.subject,
            sizes: self.sizes,
            options: self.options,
            store: self.store,
            stop: self.stop,
            kernel: &sites.kernels[launch.site],
            launch,
            target: self.options.by.target(),
            program: sites,
            shortlist,
            fresh: self.options.fresh && !resumes,
            budget,
            end: clock.end(&self.options.budget),
            mistake: RefCell::default(),
        }
    }

    /// Stores the program's schedule with its time, as a trial of the whole.
    fn record(&self, schedules: &[String], us: f64) -> Result<(), String> {
        if !program_schedule::is_joint(&self.subject.source) {
            return Ok(());
        }
        let key = schedules::key(self.subject, self.call, &self.options.by.device_name(), self.options.by.target());
        let status = if matches!(self.options.by, By::Measurement(_)) { Status::Measured } else { Status::Predicted };
        let schedule = Joint::of(self.subject, schedules).to_string();
        let trial = Trial {
            schedule,
            status,
            reason: String::new(),
            median_us: Some(us),
            samples_us: Vec::new(),
            registers: None,
            flaw: None,
            code: None,
        };
        self.store.record(&key, &trial).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests;

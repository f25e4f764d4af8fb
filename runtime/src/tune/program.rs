//! A program tuned as a whole: coordinate descent over its launch sites on the time of the whole program, for each choice of its variants.

use super::client::WorkerMeasure;
use super::clock::{Clock, patience_ms};
use super::demands::{Compiling, Demands, small_calls};
use super::dry_run::{self, DryRuns};
use super::launches::Launch;
use super::protocol::Setup;
use super::search::Budget;
use super::site::Site;
use super::{By, Options, Progress, SEED, SiteOutcome};
use crate::compile::nvrtc::compile_until;
use crate::cores;
use crate::launch::program_schedule::{self, Joint};
use crate::launch::schedule_lookup::Origin;
use crate::store::{Elected, Status, Store, Trial};
use crate::subject::challenge::Sizes;
use crate::subject::schedules;
use crate::subject::{Call, Subject};
use girih_core::schedule::Schedule;
use girih_core::tile::Kernel;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How tuning a program ended.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The launch sites, as they are under the best variants.
    pub sites: Vec<SiteOutcome>,
    /// The schedule of the whole and its time in microseconds, where the program has several sites or variants.
    pub program: Option<(Joint, f64)>,
}

/// The launch sites of a program whose variants are chosen.
pub(super) struct Sites {
    /// By site.
    pub kernels: Vec<Kernel>,
    /// By site.
    pub names: Vec<String>,
    /// The first launch of each site that a call reaches.
    pub launches: Vec<Launch>,
    /// What the model gave sites under schedules, in microseconds: each search asks for all the others.
    pub predicted: RefCell<HashMap<(usize, String), f64>>,
    /// Reduced calls, which the sites share.
    pub dry_runs: Arc<DryRuns>,
    /// What trials launch.
    pub demands: Demands,
    /// By site, whether its first schedule is what the author listed first: nobody has measured it.
    pub of_author: Vec<bool>,
}

/// Rounds over the sites: the first tries every candidate, later ones the best of each site again beside the others' new schedules.
const SWEEPS: usize = 4;
/// Candidates of a site in the later rounds.
const SHORTLIST: usize = 8;

/// Tunes a subject at the given sizes: every launch site, each choice of variants. `stop` ends the search early and keeps what was
/// found.
///
/// # Errors
/// Anything that keeps the first trial from being made; a wrong naive schedule; a store that can't be written.
pub fn tune(
    subject: &Subject,
    sizes: &Sizes,
    options: &Options,
    store: &Store,
    stop: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<Tuned, String> {
    let (target, device) = (options.by.target(), options.by.device_name());
    let clock = Clock::start(&options.budget);
    let _always = Whenever(|| compile_until(None));
    let call = subject.call(sizes, super::SEED)?;
    store
        .adopt(program_schedule::former_identity(&subject.source), program_schedule::identity(&subject.source))
        .map_err(|e| e.to_string())?;
    let known = schedules::best(subject, Some(&call.lengths()), target, Some((store, &device)));
    let key = schedules::key(subject, &call, &device, target);
    let before = store.elected_for(&key).map_err(|e| e.to_string())?;
    let mut ways = subject.ways_for(&call.arguments());
    if let Some((_, best)) = &known {
        // The best known first: whatever the budget, the result is no worse than before.
        ways.sort_by_key(|w| !w.runs_as(best));
    }
    if let Some(only) = &options.only {
        ways.retain(|w| w.program.site_names().contains(only));
    }
    if let (Some(_), None, Some(several)) = (&options.among, &options.only, ways.iter().find(|w| w.program.site_names().len() > 1)) {
        let (name, sites) = (&subject.name, several.program.site_names());
        return Err(format!("{name} has the launch sites {}: name one, as in {name}.{}", sites.join(", "), sites[0]));
    }
    let mut best: Option<(Vec<SiteOutcome>, Joint, f64, bool)> = None;
    let mut failure = None;
    for (number, way) in ways.iter().enumerate() {
        // Behind the budget's end each other choice is still timed under what is known for it: it may be the better one at these sizes.
        if stop.load(Ordering::Relaxed) && best.is_some() {
            break;
        }
        if ways.len() > 1 {
            progress.note(&schedules::way_name(way));
        }
        let former = known.as_ref().map(|(joint, _)| joint);
        compile_until(clock.end(&options.budget));
        let search = Descent { subject: way, sizes, call: &call, options, store, stop, clock, ways_left: ways.len() - number };
        match search.run(former, progress) {
            Ok((outcomes, joint, us)) => {
                let whole = search.times_are_whole(&joint, &outcomes);
                if ways.len() > 1 {
                    progress.note(&verdict(way, us, whole, &options.by));
                }
                // What was timed whole wins over what has sites of which nobody knows the time.
                if best.as_ref().is_none_or(|(.., least, known)| (!whole, us) < (!*known, *least)) {
                    best = Some((outcomes, joint, us, whole));
                }
            }
            // Another choice may do what this one cannot: a row that does not fit in registers, say.
            Err(e) => {
                if ways.len() > 1 {
                    progress.note(&format!("{}: {e}", schedules::way_name(way)));
                }
                failure.get_or_insert(e);
            }
        }
    }
    let Some((mut sites, joint, us, _)) = best else {
        return Err(failure.unwrap_or_else(|| format!("{} has no launch site to tune", subject.name)));
    };
    // Another choice may launch the same kernel for the same arguments, and its search came later or was shorter.
    for elected in sites.iter().filter_map(|site| site.elected.as_ref()).filter(|_| ways.len() > 1) {
        store.elect(elected).map_err(|e| e.to_string())?;
    }
    // NVIDIA's disassembler takes half a second to start.
    std::thread::scope(|scope| sites.iter_mut().for_each(|site| drop(scope.spawn(|| site.accept(target)))));
    if !program_schedule::is_joint(&subject.source) || !us.is_finite() {
        return Ok(Tuned { sites, program: None });
    }
    let elected = Elected { key, schedule: joint.to_string(), median_us: us };
    if let Some((faster, us)) = store.elect_since(&elected, before.as_ref()).map_err(|e| e.to_string())? {
        progress.note(&format!("another tuner has elected {faster} meanwhile, {us:.2} us, which stays"));
    }
    Ok(Tuned { sites, program: Some((joint, us)) })
}

/// Does something when it goes out of scope, however that comes about.
struct Whenever<F: Fn()>(F);

impl<F: Fn()> Drop for Whenever<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The search under one choice of variants.
struct Descent<'a> {
    subject: &'a Subject,
    sizes: &'a Sizes,
    call: &'a Call,
    options: &'a Options,
    store: &'a Store,
    stop: &'a AtomicBool,
    /// Of the whole program.
    clock: Clock,
    /// Choices of variants that are to be tuned yet, this one included.
    ways_left: usize,
}

impl Descent<'_> {
    /// Each site's outcome, the schedules that were found, and the whole program's time under them (infinite if none was timed).
    fn run(&self, former: Option<&Joint>, progress: &mut dyn Progress) -> Result<(Vec<SiteOutcome>, Joint, f64), String> {
        let (target, device) = (self.options.by.target(), self.options.by.device_name());
        // The worker opens the GPU and makes inputs while the tuner finds out what to try there.
        let mut worker = self.worker()?;
        let searches = self.searches_left(0, self.subject.program.sites().len(), 0);
        let dry_runs = Arc::new(DryRuns::within(self.clock.share(&self.options.budget, searches).time));
        let (launches, unsure) = dry_run::found(&dry_runs, self.subject, self.call, target)?;
        unsure.into_iter().for_each(|text| progress.note(&text));
        self.tell_unreached(&launches, progress);
        let start = schedules::schedules(self.subject, former, target, Some((self.store, &device)), &launches)?;
        let schedules: Vec<String> = start.iter().map(|(s, kernel, _)| s.short(kernel)).collect();
        let of_author = start.iter().map(|(_, _, origin)| *origin == Origin::Default.name()).collect();
        let (kernels, first): (Vec<Kernel>, Vec<Option<Schedule>>) = start.into_iter().map(|(s, kernel, _)| (kernel, Some(s))).unzip();
        let demands = match worker {
            Some(_) => Demands::of(self.subject, self.call, &small_calls(self.subject, SEED)?),
            None => Demands::default(),
        };
        let names = self.subject.program.site_names();
        let sites = Sites { kernels, names, launches, predicted: RefCell::default(), dry_runs, demands, of_author };
        let (Some(worker), By::Measurement(workers)) = (&mut worker, &self.options.by) else {
            return self.descend(&sites, schedules, None, progress);
        };
        std::thread::scope(|scope| {
            let threads = cores::cores().saturating_sub(1).max(1);
            let compiling = Compiling::begin(scope, threads, (&sites.kernels, &first), &sites.demands, (target, workers.compile));
            progress.doing("making inputs, and the naive schedule's result to compare with");
            let ready_by = self.clock.ready_by(&self.options.budget, self.ways_left);
            let found = worker.ready(ready_by).and_then(|()| {
                if let Some(note) = worker.note() {
                    progress.note(&note);
                }
                self.descend(&sites, schedules, Some((worker, &compiling)), progress)
            });
            // What is still being compiled is of no use to anybody.
            compile_until(Some(Instant::now()));
            found
        })
    }

    /// From site to site, until none changes any more.
    fn descend(
        &self,
        sites: &Sites,
        mut schedules: Vec<String>,
        mut worker: Option<(&mut WorkerMeasure, &Compiling)>,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<SiteOutcome>, Joint, f64), String> {
        let tuned: Vec<&Launch> = sites.launches.iter().filter(|l| self.wanted(&sites.names[l.site])).collect();
        let mut outcomes: Vec<Option<SiteOutcome>> = vec![None; tuned.len()];
        // What stood beside a site when it was tuned: where nothing else has changed, neither would it.
        let mut beside: Vec<Option<Vec<String>>> = vec![None; tuned.len()];
        let mut us = f64::INFINITY;
        for sweep in 0..SWEEPS {
            let mut settled = true;
            for (i, launch) in tuned.iter().enumerate() {
                let mut others = schedules.clone();
                others[launch.site].clear();
                let ended = self.stop.load(Ordering::Relaxed) || self.clock.is_over();
                if beside[i].as_ref() == Some(&others) || (sweep > 0 && ended) {
                    continue;
                }
                if self.clock.is_over() && us.is_finite() {
                    let name = &sites.names[launch.site];
                    progress.note(&format!("{name}: the budget is spent, so it keeps {}", schedules[launch.site]));
                    continue;
                }
                settled = false;
                let budget = self.clock.share(&self.options.budget, self.searches_left(sweep, tuned.len(), i));
                let shortlist = outcomes[i].as_ref().map(|o| shortlist(o, &schedules[launch.site]));
                let worker = worker.as_mut().map(|(worker, compiling)| (&mut **worker, *compiling));
                let outcome = self.site(sites, launch, shortlist, budget).tune(&schedules, worker, progress)?;
                if let Some((winner, _)) = &outcome.winner {
                    schedules[launch.site] = winner.clone();
                }
                if let Some(new) = outcome.median_us {
                    us = new;
                    self.record(&schedules, new)?;
                }
                beside[i] = Some(others);
                outcomes[i] = Some(match outcomes[i].take() {
                    Some(before) => again(before, outcome),
                    None => outcome,
                });
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            if settled || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok((outcomes.into_iter().flatten().collect(), Joint::of(self.subject, &schedules), us))
    }

    /// Whether a time is that of all launch sites: a prediction leaves out those that depend on a value which the program reads back, where
    /// no reduced call reads it.
    fn times_are_whole(&self, joint: &Joint, outcomes: &[SiteOutcome]) -> bool {
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

    /// Searches that share what is left of the budget before site `i` of so many is searched: those of the first round, of this choice of
    /// variants and of the others, and a part for the later rounds.
    fn searches_left(&self, sweep: usize, sites: usize, i: usize) -> usize {
        let others = (self.ways_left - 1) * sites;
        let later = usize::from(sweep == 0 && sites > 1);
        sites - i + others + later
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
                let setup = Setup { name, variants, sizes: self.sizes.to_string(), seed: SEED, ordinal: workers.gpu.ordinal, patience_ms };
                let end = self.clock.end(&self.options.budget);
                WorkerMeasure::begin(workers.launcher.clone(), setup, self.options.limit, end).map(Some)
            }
        }
    }

    fn site<'a>(&'a self, sites: &'a Sites, launch: &'a Launch, shortlist: Option<Vec<String>>, budget: Budget) -> Site<'a> {
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
            budget,
            end: self.clock.end(&self.options.budget),
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

/// How one choice of a program's variants came out, in words.
fn verdict(way: &Subject, us: f64, whole: bool, by: &By) -> String {
    let name = schedules::way_name(way);
    let verb = if matches!(by, By::Measurement(_)) { "median" } else { "predicted" };
    match (us.is_finite(), whole) {
        (false, _) => format!("{name}: no candidate was right and timed, so it cannot win"),
        (true, false) => format!("{name}: {verb} {us:.2} us without the sites that were not timed, so it wins over no other choice"),
        (true, true) => format!("{name}: {verb} {us:.2} us"),
    }
}

/// The best few of a site, and what it has now.
fn shortlist(outcome: &SiteOutcome, now: &str) -> Vec<String> {
    let best = outcome.ranking.iter().map(|t| t.schedule.clone()).filter(|s| s != now);
    std::iter::once(now.to_string()).chain(best).take(SHORTLIST).collect()
}

/// A site's outcome after it was tuned again beside other schedules of the others: the latest word, with the counts of both.
fn again(before: SiteOutcome, after: SiteOutcome) -> SiteOutcome {
    let counts = (before.counts.0 + after.counts.0, before.counts.1 + after.counts.1, before.counts.2);
    let (winner, median_us) = (after.winner.or(before.winner), after.median_us.or(before.median_us));
    // The whole ranking stays, for the next round's shortlist: the latest times first.
    let mut ranking = after.ranking;
    let former = before.ranking.into_iter().filter(|t| !ranking.iter().any(|r| r.schedule == t.schedule)).collect::<Vec<_>>();
    ranking.extend(former);
    let (won, elected) = (after.won.or(before.won), after.elected.or(before.elected));
    SiteOutcome { counts, winner, median_us, ranking, won, elected, naive_us: before.naive_us, dropped: before.dropped, ..after }
}

//! One launch site that is being tuned: its candidates, their order, and what the search comes to.

use super::ahead::Ahead;
use super::client::WorkerMeasure;
use super::clock::reserve;
use super::demands::{CUBIN, Compiling};
use super::early::Early;
use super::launches::Launch;
use super::pool::Pool;
use super::predict::Prediction;
use super::rounds::Sites;
use super::search::{Budget, Candidates, Outcome, Strategy};
use super::streaming_choice::{self, Streaming};
use super::trials::{First, Inner, Log, Trials, eligible_us};
use super::{Among, By, Options, Progress, SiteOutcome, search};
use crate::compile::nvrtc::compile_until;
use crate::error::headline;
use crate::launch::program_schedule::Joint;
use crate::store::winners;
use crate::store::{Status, Store, Trial, TrialKey};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::{parse_schedule, parse_schedules, parse_space};
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// One launch site that is being tuned.
pub(super) struct Site<'a> {
    pub(super) subject: &'a Subject,
    pub(super) sizes: &'a Sizes,
    pub(super) options: &'a Options,
    pub(super) store: &'a Store,
    pub(super) stop: &'a AtomicBool,
    pub(super) kernel: &'a Kernel,
    pub(super) launch: &'a Launch,
    pub(super) target: &'a Target,
    /// All launch sites of the program: kernels and names by site, and what a call launches.
    pub(super) program: &'a Sites,
    /// The only candidates; the whole space without.
    pub(super) shortlist: Option<Vec<String>>,
    /// Whether trials of earlier searches are made again.
    pub(super) fresh: bool,
    /// This search's share of the program's.
    pub(super) budget: Budget,
    /// When the last answer of the program's search is waited for.
    pub(super) end: Option<Instant>,
    /// What the author got wrong, whatever the schedule.
    pub(super) mistake: RefCell<Option<String>>,
}

/// A search that has less time than this puts candidates in order without reduced calls.
const REHEARSED: Duration = Duration::from_secs(1);
/// What it takes to list candidates and put a few in order.
const LISTING: Duration = Duration::from_millis(150);

/// What the sizes of a trial say of a program's launch site before the schedules of the sites beside it.
pub(crate) fn beside_text(sizes: &Sizes, subject: &str, site: &str) -> String {
    format!("{sizes} in {subject}.{site} beside ")
}

impl Site<'_> {
    /// How long the model may take to put candidates in order: a small part of the budget, which is better spent on trials.
    pub(super) fn ordering(&self) -> Duration {
        self.budget.time.map_or(Duration::from_secs(30), |t| t / 6)
    }

    pub(super) fn tune(
        &self,
        schedules: &[String],
        worker: Option<(&mut WorkerMeasure, &Compiling)>,
        progress: &mut dyn Progress,
    ) -> Result<SiteOutcome, String> {
        let begun = Instant::now();
        let key = self.key(schedules);
        let (space, listed) = self.space()?;
        let mut former = if self.fresh { Vec::new() } else { self.former(&key)? };
        let first = &schedules[self.launch.site];
        let before = self.store.elected_for(&self.elected_key(&key)).map_err(|e| e.to_string())?;
        if let Some((count, other)) = self.store.made_elsewhere(&key).map_err(|e| e.to_string())?.filter(|_| !self.fresh) {
            progress.note(&format!("{count} trials of earlier runs were made under {other}; --fresh makes them again"));
        }
        let mut worker = worker;
        // Whatever comes of the search, something is timed at once.
        let early = match &mut worker {
            Some((worker, compiling)) => Early { site: self, key: &key, progress }.timed(schedules, &former, (worker, compiling))?,
            None => Vec::new(),
        };
        let (worker, beside) = worker.unzip();
        let known_before: HashSet<String> = former.iter().map(|t| t.schedule.clone()).collect();
        let was_early = early.len();
        former.extend(early);
        let late = was_early > 0 && self.budget.time.is_some_and(|t| begun.elapsed() + LISTING >= t);
        if late {
            progress.note(&format!("{}: the budget is spent, so no other candidate is listed", self.program.names[self.launch.site]));
        } else {
            progress.doing("listing candidates, and putting them in the order of their predictions");
        }
        let (mut pool, seeds) = self.candidates(&space, listed, &former, first, late);
        let known_count = (0..pool.len()).filter(|c| known_before.contains(&pool.get(*c).name)).count();
        progress.begin(&self.program.names[self.launch.site], pool.len(), known_count);

        let mut ways = Vec::new();
        for (kernel, text) in self.program.kernels.iter().zip(schedules) {
            ways.push(parse_schedule(kernel, text).map_err(|e| e.to_string())?);
        }
        let end = self.budget.time.map(|t| begun + t + t / 20);
        let others_us = self.others_us(&ways, end)?;
        let prediction = Prediction::new(self.subject, self.sizes, (self.kernel, self.launch), self.target, ways);
        let prediction = prediction.beside(others_us).sharing(&self.program.dry_runs).until(end);
        let measured = matches!(self.options.by, By::Measurement(_));
        let prediction = prediction.rehearsing(!measured || self.budget.time.is_none_or(|t| t >= REHEARSED));
        let naive = space.naive().ok();
        if let Some(Among::Shard(shard)) = self.options.among {
            pool.deal(shard);
        }
        let first_of_all = [parse_schedule(self.kernel, first).ok(), naive.clone()].into_iter().flatten();
        let dealt = seeds.into_iter().filter(|seed| pool.place(seed).is_some_and(|c| pool.is_dealt(c)));
        let order = self.order(&pool, &prediction, first_of_all.chain(dealt).collect(), late);
        let best_us = former.iter().filter_map(eligible_us).reduce(f64::min);
        let mut log = Log { site: self, key: &key, progress, trials: former, error: None };
        let unknown = order.iter().filter(|c| pool.known(**c).is_none()).map(|c| pool.get(*c).schedule).collect();
        let (later, announced) = channel();
        pool.announce(later);
        let compile = if let By::Measurement(workers) = &self.options.by { workers.compile } else { CUBIN };
        let facts = (&self.launch.facts, self.program.demands.small_of(self.launch.site));
        let ahead = Ahead::new((self.kernel, self.target, compile), facts, unknown, announced);
        let of_author = self.program.of_author[self.launch.site];
        let outcome = std::thread::scope(|scope| {
            ahead.start(scope);
            let inner = worker.map_or(Inner::Model(&prediction), Inner::Worker);
            let time = self.budget.time.map(|t| t.saturating_sub(begun.elapsed() + reserve(t)));
            let first = parse_schedule(self.kernel, first).ok().filter(|f| pool.place(f).is_some_and(|at| pool.known(at).is_none()));
            let first = first.filter(|_| matches!(inner, Inner::Worker(_))).map(|f| First::among(f, time, !of_author));
            let (twins, glances, raced, throttled) = Default::default();
            let mut measure =
                Trials { inner, pool: &pool, ahead: &ahead, beside, site: self, best_us, first, twins, glances, raced, throttled };
            let outcome =
                search::search(&order, &mut *self.options.strategy.walk(), &pool, Budget { time, ..self.budget }, &mut measure, &mut log);
            ahead.stop();
            // What is still being compiled is of no use to anybody.
            compile_until(Some(Instant::now()));
            let plainest = outcome.best.is_none_or(|(best, _)| Some(pool.get(best).schedule) == naive);
            let missed = measure.first.as_ref().is_some_and(|first| first.is_missed(plainest));
            let untried = missed && time.is_some() && !self.stop.load(Ordering::Relaxed);
            (untried, Outcome { best: outcome.best.filter(|_| !untried), ..outcome }, measure.raced, measure.throttled)
        });
        let (untried, outcome, raced, throttled) = outcome;
        if untried {
            let (site, why) = (&self.program.names[self.launch.site], if of_author { "listed first" } else { "known best" });
            log.progress.note(&format!("{site}: there was no time for {first}, which is {why}"));
        }
        compile_until(self.end);
        let (trials, error) = (std::mem::take(&mut log.trials), log.error.take().or(self.mistake.take()));
        match error {
            Some(e) => Err(e),
            None => {
                let streaming = self.streaming(&outcome, &pool, schedules, &trials, self.budget.time.map(|t| begun + t));
                // A program of several launches is elected as a whole, for one set of lengths: there the one schedule has to do for all.
                let alone = self.program.names.len() == 1;
                let instead = streaming.as_ref().filter(|_| !alone).and_then(|s| Some((pool.named(&s.schedule)?, s.tuned_us)));
                let outcome = Outcome { best: instead.or(outcome.best), ..outcome };
                let large = streaming.filter(|_| alone);
                large.iter().try_for_each(|large| self.elect_streaming(&key, large))?;
                let outcome = Outcome { tried: outcome.tried + was_early, ..outcome };
                let raced = outcome.best.and_then(|(winner, _)| raced.get(&winner)).filter(|samples| !samples.is_empty());
                let of_trial =
                    || trials.iter().rev().find(|t| outcome.best.is_some_and(|(b, _)| pool.get(b).name == t.schedule))?.throttled();
                let throttled = if raced.is_some() { throttled } else { of_trial().map(str::to_string) };
                let equals = outcome.equals.iter().filter(|_| instead.is_none()).map(|c| pool.get(*c).name).collect();
                let concluded = self.conclude(&key, &pool, naive.as_ref(), outcome, known_count, trials);
                let elected = self.elect(&key, &concluded, before.as_ref(), log.progress)?;
                let interval_us = raced.and_then(|samples| search::interval(samples));
                Ok(SiteOutcome { large, interval_us, equals, throttled, elected, missed: untried && !of_author, ..concluded })
            }
        }
    }

    /// The candidates, and those of them that did best for neighbours of the launch. Where it is late, what was timed and what is known best alone:
    /// listing others takes a while, too.
    fn candidates<'s>(
        &self,
        space: &'s Space<'s>,
        listed: Option<Vec<String>>,
        former: &[Trial],
        first: &str,
        late: bool,
    ) -> (Pool<'s>, Vec<Schedule>) {
        let timed = || former.iter().map(|t| t.schedule.clone()).chain([first.to_string()]).collect();
        let names = if late { Some(timed()) } else { self.shortlist.clone().or(listed) };
        let whole = self.options.strategy == Strategy::Exhaustive;
        let pool = match &names {
            Some(names) => Pool::of_names(space, former, names),
            None => Pool::of_space(space, former, first, whole, self.ordering() / 2, self.options.among.is_none()),
        };
        if self.options.among.is_some()
            && let Ok(first) = parse_schedule(self.kernel, first)
            && space.check(&first).is_ok()
        {
            pool.add(first);
        }
        let seeds = if names.is_some() { Vec::new() } else { self.seeds(space) };
        for seed in &seeds {
            pool.add(seed.clone());
        }
        (pool, seeds)
    }

    /// The space that is searched, and the only schedules of it that are if some were listed.
    fn space(&self) -> Result<(Space<'_>, Option<Vec<String>>), String> {
        let whole = Space::new(self.kernel, &self.launch.facts, self.target);
        match &self.options.among {
            None | Some(Among::Shard(_)) => Ok((whole, None)),
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
        self.store.adopt(self.kernel.former_identity(), key.identity).map_err(|e| e.to_string())?;
        let mut former = self.store.trials(key).map_err(|e| e.to_string())?;
        // Former versions remembered what they had no time for.
        former.retain(|t| t.status != Status::Untried && !t.reason.starts_with("there was no time"));
        // These may be faster than they looked.
        former.retain(|t| t.throttled().is_none());
        former.retain(|t| parse_schedule(self.kernel, &t.schedule).is_ok_and(|s| t.code == self.code(&s)));
        Ok(former)
    }

    /// What streams large tensors best of the candidates that are about as fast as the winner, where the tuned size is small, if that is
    /// known in time (`by`): other searches go on then.
    fn streaming(&self, outcome: &Outcome, pool: &Pool, schedules: &[String], trials: &[Trial], by: Option<Instant>) -> Option<Streaming> {
        let (By::Measurement(_), Some((best, us))) = (&self.options.by, outcome.best) else { return None };
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let (place, winner) = ((self.launch.site, schedules), pool.get(best).name);
        streaming_choice::streaming(
            self.subject,
            self.sizes,
            self.target.l2 as f64,
            self.options,
            place,
            (&winner, us),
            trials,
            [by, self.end].into_iter().flatten().min(),
        )
    }

    /// What the model gives the other launch sites under these schedules; 0 where times are measured.
    fn others_us(&self, ways: &[Schedule], end: Option<Instant>) -> Result<f64, String> {
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
            let other = Prediction::new(self.subject, self.sizes, (kernel, launch), self.target, ways.to_vec());
            let other = other.sharing(&self.program.dry_runs).until(end);
            let site = &self.program.names[launch.site];
            let (us, _) = other.site_us(schedule).map_err(|e| format!("{site}: there is no time of the whole program: {e}"))?;
            self.program.predicted.borrow_mut().insert(key, us);
            sum += us;
        }
        Ok(sum)
    }

    /// Trials of a program's site are of the whole program: they say how it ran beside them.
    pub(super) fn key(&self, schedules: &[String]) -> TrialKey {
        let sizes = if self.program.names.len() > 1 {
            let joint = Joint::of(self.subject, schedules);
            let others = joint.sites.iter().enumerate().filter(|(i, _)| *i != self.launch.site).map(|(_, s)| s.clone()).collect();
            let beside = Joint { sites: others, ..joint };
            format!("{}{beside}", beside_text(self.sizes, &self.subject.name, &self.program.names[self.launch.site]))
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
    ) -> SiteOutcome {
        let mut dropped = BTreeMap::new();
        for t in trials.iter().filter(|t| t.median_us.is_none()) {
            *dropped.entry(format!("{}: {}", t.status.name(), headline(&t.reason))).or_default() += 1;
        }
        let time = |name: &str| trials.iter().rev().find(|t| t.schedule == name).and_then(|t| t.median_us);
        let naive_us = naive.and_then(|n| time(&n.short(self.kernel)));
        let mut ranking: Vec<Trial> = trials.into_iter().filter(|t| t.right_us().is_some()).collect();
        ranking.sort_by(|a, b| a.median_us.unwrap_or(f64::MAX).total_cmp(&b.median_us.unwrap_or(f64::MAX)));
        ranking.truncate(10);
        SiteOutcome {
            winner: outcome.best.map(|(b, _)| pool.get(b)).map(|c| (c.name, c.schedule.attribute(self.kernel))),
            median_us: outcome.best.map(|(_, t)| t),
            naive_us,
            ranking,
            counts: (outcome.tried, known, outcome.left),
            dropped,
            won: outcome.best.map(|(b, _)| Box::new((self.kernel.clone(), self.launch.facts.clone(), pool.get(b).schedule))),
            ..SiteOutcome::of(self.program.names[self.launch.site].clone(), key.kernel.clone())
        }
    }
}

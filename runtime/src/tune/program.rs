//! A program tuned as a whole: each choice of its variants in turn, and then the best of them for as long as there is time.

use super::clock::Clock;
use super::descent::Descent;
use super::naive_ahead::NaiveAhead;
use super::outcomes::{Found, merged};
use super::promise::{self, Promise};
use super::{By, Options, Progress, SiteOutcome};
use crate::compile::nvrtc::compile_until;
use crate::launch::program_schedule::{self, Joint};
use crate::store::{Elected, Store};
use crate::subject::challenge::Sizes;
use crate::subject::schedules;
use crate::subject::{Call, Subject};
use girih_core::target::Target;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// How tuning a program ended.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The launch sites, as they are under the best variants.
    pub sites: Vec<SiteOutcome>,
    /// The schedule of the whole and its time in microseconds, where the program has several sites or variants; nothing where there was no time
    /// for what is known best, which stays.
    pub program: Option<(Joint, f64)>,
}

/// A set-up that has less time than this need not begin.
const SET_UP: Duration = Duration::from_millis(300);
/// Part of the time that the model's promises may take, and how long at most: the first trial waits for them.
const PROMISES: u32 = 10;
const PROMISED: Duration = Duration::from_millis(700);
/// The smallest part of the time for which the best choice of variants is set up once more.
const WORTH_GOING_ON: u32 = 6;

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
    let ways = ways(subject, &call, options, known.as_ref().map(|(_, way)| way))?;
    let (worth, promises) = (vec![1.0; ways.len()], vec![Promise::default(); ways.len()]);
    let mut search = Ways { ways, worth, promises, call: &call, sizes, options, store, stop, clock, known };
    let found = std::thread::scope(|scope| {
        search.put_in_order(scope, progress);
        let found = search.run(progress);
        // What is still being compiled is of no use to anybody.
        compile_until(Some(Instant::now()));
        found
    });
    let ((mut sites, joint, us), missed) = found?;
    // Another choice may launch the same kernel for the same arguments, and its search came later or was shorter.
    for elected in sites.iter().filter_map(|site| site.elected.as_ref()).filter(|_| search.ways.len() > 1) {
        store.elect(elected).map_err(|e| e.to_string())?;
    }
    // NVIDIA's disassembler takes half a second to start.
    let end = clock.end_of_all(&options.budget);
    std::thread::scope(|scope| sites.iter_mut().for_each(|site| drop(scope.spawn(move || site.accept(target, end)))));
    if !program_schedule::is_joint(&subject.source) || !us.is_finite() {
        return Ok(Tuned { sites, program: None });
    }
    if let Some((known, _)) = search.known.as_ref().filter(|_| missed) {
        progress.note(&format!("there was no time for {known}, which is known best and stays; {joint} was timed: {us:.2} us"));
        return Ok(Tuned { sites, program: None });
    }
    let elected = Elected { key, schedule: joint.to_string(), median_us: us };
    if let Some((faster, us)) = store.elect_since(&elected, before.as_ref()).map_err(|e| e.to_string())? {
        progress.note(&format!("another tuner has elected {faster} meanwhile, {us:.2} us, which stays"));
    }
    Ok(Tuned { sites, program: Some((joint, us)) })
}

/// The choices of variants that are tuned. The best `known` first: whatever the budget, the result is no worse than before.
fn ways(subject: &Subject, call: &Call, options: &Options, known: Option<&Subject>) -> Result<Vec<Subject>, String> {
    let mut ways = subject.ways_for(&call.arguments());
    if let Some(best) = known {
        ways.sort_by_key(|w| !w.runs_as(best));
    }
    if let Some(only) = &options.only {
        ways.retain(|w| w.program.site_names().contains(only));
    }
    if let (Some(_), None, Some(several)) = (&options.among, &options.only, ways.iter().find(|w| w.program.site_names().len() > 1)) {
        let (name, sites) = (&subject.name, several.program.site_names());
        return Err(format!("{name} has the launch sites {}: name one, as in {name}.{}", sites.join(", "), sites[0]));
    }
    if ways.is_empty() { Err(format!("{} has no launch site to tune", subject.name)) } else { Ok(ways) }
}

/// The choices of variants of a program, and what they are tuned for.
struct Ways<'a> {
    ways: Vec<Subject>,
    /// What the search of each is worth, in parts of the time.
    worth: Vec<f64>,
    /// What is promised of each.
    promises: Vec<Promise>,
    call: &'a Call,
    sizes: &'a Sizes,
    options: &'a Options,
    store: &'a Store,
    stop: &'a AtomicBool,
    clock: Clock,
    /// What was known best before.
    known: Option<(Joint, Subject)>,
}

/// The best so far: which choice of variants, what was found, and whether its time is that of all launch sites.
struct Best {
    way: usize,
    found: Found,
    whole: bool,
}

impl<'a> Ways<'a> {
    /// Where the time is limited and none of the choices is known best, those come first that promise most.
    fn put_in_order<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, progress: &mut dyn Progress)
    where
        'a: 'scope,
    {
        let time = self.options.budget.time.filter(|time| !time.is_zero() && self.ways.len() > 1 && self.known.is_none());
        let (Some(time), By::Measurement(workers)) = (time, &self.options.by) else { return };
        let target: &Target = &workers.gpu.target;
        let ahead = NaiveAhead::begin(scope, self.ways.clone(), self.call, (target, workers.compile));
        let promises = promise::promises(&self.ways, self.sizes, target, PROMISED.min(time / PROMISES));
        drop(ahead);
        for (way, promise) in self.ways.iter().zip(&promises) {
            let us = promise.us.map_or("an unknown time".into(), |us| format!("{us:.2} us"));
            progress.note(&format!("{}: the model promises {us}", schedules::way_name(way)));
        }
        let all = promise::worth(&promises).into_iter().zip(promises).zip(std::mem::take(&mut self.ways));
        let mut order: Vec<((f64, Promise), Subject)> = all.collect();
        order.sort_by(|a, b| b.0.0.total_cmp(&a.0.0));
        ((self.worth, self.promises), self.ways) = order.into_iter().unzip();
    }

    /// What was found under the best choice, and whether there was no time for what is known best.
    fn run(&self, progress: &mut dyn Progress) -> Result<(Found, bool), String> {
        let mut best: Option<Best> = None;
        let (mut failure, mut missed) = (None, false);
        for (number, way) in self.ways.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) && best.is_some() {
                break;
            }
            if self.ways.len() > 1 {
                progress.note(&schedules::way_name(way));
            }
            // A choice that can be set up is timed under what is known for it, however little time there is: it may be the better one.
            if best.is_some() && self.clock.time_for_answers(&self.options.budget).is_some_and(|left| left < SET_UP) {
                progress.note(&format!("{}: the budget is spent, so it was not tried", schedules::way_name(way)));
                continue;
            }
            let former = self.known.as_ref().map(|(joint, _)| joint);
            let descent = self.descent(number, self.worth[number] / self.worth[number..].iter().sum::<f64>());
            let found = descent.run(former, progress);
            missed |= descent.is_known && found.as_ref().map_or(descent.late.get(), is_untimed);
            match found {
                Ok(found) => {
                    let whole = descent.times_are_whole(&found);
                    if self.ways.len() > 1 {
                        progress.note(&verdict(way, found.2, whole, &self.options.by));
                    }
                    // What was timed whole wins over what has sites of which nobody knows the time.
                    if best.as_ref().is_none_or(|b| (!whole, found.2) < (!b.whole, b.found.2)) {
                        best = Some(Best { way: number, found, whole });
                    }
                }
                // Another choice may do what this one cannot: a row that does not fit in registers, say.
                Err(e) => {
                    if self.ways.len() > 1 {
                        progress.note(&format!("{}: {e}", schedules::way_name(way)));
                    }
                    failure.get_or_insert(e);
                }
            }
        }
        match best {
            Some(best) => Ok((self.gone_on(best, progress), missed)),
            None => Err(failure.unwrap_or_default()),
        }
    }

    /// What comes of the best choice when it has the time that others left: what they could try was tried, or they failed.
    fn gone_on(&self, best: Best, progress: &mut dyn Progress) -> Found {
        let enough = self.options.budget.time.is_some_and(|t| self.clock.left().is_some_and(|left| left > t / WORTH_GOING_ON));
        let untried = best.found.0.iter().any(|site| site.counts.2 > 0);
        if self.ways.len() < 2 || !enough || !untried || self.stop.load(Ordering::Relaxed) {
            return best.found;
        }
        progress.note(&format!("going on with {}", schedules::way_name(&self.ways[best.way])));
        let descent = Descent { resumes: true, ..self.descent(best.way, 1.0) };
        match descent.run(Some(&best.found.1), progress) {
            Ok(found) if found.2.is_finite() => merged(best.found, found),
            Ok(_) => best.found,
            Err(e) => {
                progress.note(&format!("{}: {e}", schedules::way_name(&self.ways[best.way])));
                best.found
            }
        }
    }

    /// Whether a choice is the one of what is known best.
    fn is_known(&self, way: usize) -> bool {
        self.known.as_ref().is_some_and(|(_, best)| self.ways[way].runs_as(best))
    }

    /// The search under a choice, for such a part of the time that is left.
    fn descent(&self, way: usize, part: f64) -> Descent<'_> {
        let Ways { call, sizes, options, store, stop, clock, .. } = self;
        let (is_known, late, resumes) = (self.is_known(way), Cell::new(false), false);
        Descent {
            subject: &self.ways[way],
            promised: &self.promises[way].first,
            sizes,
            call,
            options,
            store,
            stop,
            clock: *clock,
            part,
            is_known,
            late,
            resumes,
        }
    }
}

/// Whether a program was not timed because there was no time for what is known best.
fn is_untimed((sites, _, us): &Found) -> bool {
    us.is_infinite() && sites.iter().any(|site| site.missed)
}

/// Does something when it goes out of scope, however that comes about.
struct Whenever<F: Fn()>(F);

impl<F: Fn()> Drop for Whenever<F> {
    fn drop(&mut self) {
        (self.0)();
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

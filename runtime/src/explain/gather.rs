//! What a page is made of: counts, predictions and cubins of a subject's launches, and what the store knows of them.

use super::advice::{Change, advice, knobs_now};
use super::knobs::{Point, effects};
use super::numbers::Numbers;
use super::stored::{Asked, Stored, choose};
use super::{Attempt, Measured, Page, SitePage, Tip, Tuning};
use crate::cores::each_of;
use crate::launch::program_schedule::Joint;
use crate::measure::floor::floor;
use crate::store::winners::{self, Winner, kernel_path};
use crate::store::{Store, Trial};
use crate::subject::challenge::Sizes;
use crate::subject::{Subject, names, schedules};
use crate::tune::floor::{Basis, Predicted};
use crate::tune::launches::{self, Launch};
use crate::tune::predict::{Explained, Prediction};
use crate::tune::{beside_text, code};
use girih_core::facts::Facts;
use girih_core::lengths::Lengths;
use girih_core::program::walk::ProgramArg;
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashMap;

/// How much to find out.
pub struct Options<'a> {
    /// The GPU to explain for.
    pub target: &'a Target,
    /// The store, if there is one.
    pub store: Option<&'a Store>,
    /// The GPU at hand, by its driver's name.
    pub here: Option<&'a str>,
    /// Ask NVRTC for registers and spills, where there is one.
    pub cubins: bool,
    /// Predict what is to be tried, too.
    pub attempts: bool,
    /// Only this launch site.
    pub only: Option<&'a str>,
}

/// Schedules that are predicted for one launch site's advice, at most, and choices of one knob.
const MOST_ATTEMPTS: usize = 32;
const MOST_CHOICES: usize = 2;

/// A launch site with what a call launches there.
pub(super) struct At<'a> {
    pub subject: &'a Subject,
    pub sizes: &'a Sizes,
    pub way: &'a [(Schedule, &'static str)],
    pub launch: &'a Launch,
    pub kernel: Kernel,
    pub site: String,
    pub options: &'a Options<'a>,
}

impl At<'_> {
    pub fn schedule(&self) -> &Schedule {
        &self.way[self.launch.site].0
    }

    /// What speaks for other schedules of the site, too.
    pub fn prediction(&self) -> Prediction<'_> {
        let all = self.way.iter().map(|(s, _)| s.clone()).collect();
        Prediction::new(self.subject, self.sizes, (&self.kernel, self.launch), self.options.target, all)
    }

    /// An error with the site that it is about, where there are several.
    pub fn named(&self, error: &str) -> String {
        if self.way.len() > 1 { names::named(&self.site, error) } else { error.to_string() }
    }
}

/// Explains a subject whose variants are chosen, under a schedule for each launch site.
///
/// # Errors
/// Sizes that do not fit; a schedule that is illegal for a call of these sizes; nothing is launched.
pub fn page(subject: &Subject, sizes: &Sizes, way: &[(Schedule, &'static str)], options: &Options) -> Result<Page, String> {
    let (mut sites, mut total, mut least) = (Vec::new(), 0.0, Basis::Counted);
    let (found, not_launched) = launched(subject, sizes, options)?;
    for launch in &found {
        let at = at(subject, sizes, way, launch, options)?;
        let site = site(&at).map_err(|e| at.named(&e))?;
        total += site.us;
        least = least.max(site.basis);
        sites.push(site);
    }
    let bytes = subject.compulsory_bytes(&subject.call(sizes, 1)?);
    let floor = floor(subject, sizes, bytes, options.target);
    let whole = options.only.is_none().then(|| Predicted::at_least(total, least, floor.seconds * 1e6));
    let name = schedules::way_name(subject);
    Ok(Page { name, sizes: sizes.to_string(), target: options.target.clone(), floor, predicted: whole, sites, not_launched })
}

/// The first launch of each site that is asked for, and the sites that are not launched.
pub(super) fn launched(subject: &Subject, sizes: &Sizes, options: &Options) -> Result<(Vec<Launch>, Vec<String>), String> {
    let names = subject.program.site_names();
    let mut found = launches::at(subject, sizes)?;
    let asked = |site: usize| options.only.is_none_or(|only| names[site] == only);
    found.retain(|launch| asked(launch.site));
    let missing = (0..names.len()).filter(|site| asked(*site) && !found.iter().any(|l| l.site == *site));
    let not_launched: Vec<String> = missing.map(|site| names[site].clone()).collect();
    if found.is_empty() {
        let which = not_launched.join(", ");
        return Err(format!("{} at {sizes} does not launch {which}: name other sizes by --size", subject.name));
    }
    Ok((found, not_launched))
}

pub(super) fn at<'a>(
    subject: &'a Subject,
    sizes: &'a Sizes,
    way: &'a [(Schedule, &'static str)],
    launch: &'a Launch,
    options: &'a Options<'a>,
) -> Result<At<'a>, String> {
    let kernel = (launch.kernel.build)().map_err(|e| e.to_string())?;
    let site = subject.program.site_names().swap_remove(launch.site);
    Ok(At { subject, sizes, way, launch, kernel, site, options })
}

fn site(at: &At) -> Result<SitePage, String> {
    let prediction = at.prediction();
    let explained = prediction.explain(at.schedule(), at.options.cubins)?;
    if !explained.us.is_finite() {
        return Err(format!(
            "a block of {} does not fit a multiprocessor of the {}",
            at.schedule().short(&at.kernel),
            at.options.target.name
        ));
    }
    let launches = Numbers::of(&explained, at.options.target);
    let stored = stored(at)?;
    let tips = tips(at, &prediction, &explained, &launches);
    Ok(SitePage {
        site: at.site.clone(),
        kernel: kernel_path(&at.kernel),
        schedule: at.schedule().short(&at.kernel),
        from: at.way[at.launch.site].1,
        count: at.launch.count,
        us: explained.us,
        first_us: explained.first_us,
        basis: explained.basis,
        uncounted: explained.uncounted.clone(),
        measured: measured(at, stored.as_ref()),
        verdict: verdict(&explained),
        launches,
        tips,
        tuning: tuning(at, stored),
    })
}

/// The verdict on the cubin, as `show --ir sass` has it.
pub(super) fn verdict(explained: &Explained) -> Option<String> {
    explained.compiled.as_ref().and_then(|compiled| compiled.acceptance().ok()).map(|verdict| verdict.to_string())
}

/// What may help the launch that takes the longest, each tried by the model.
fn tips(at: &At, prediction: &Prediction, explained: &Explained, launches: &[Numbers]) -> Vec<Tip> {
    let longest = launches.iter().max_by(|a, b| a.predicted.seconds.total_cmp(&b.predicted.seconds));
    let Some(numbers) = longest else { return Vec::new() };
    let found = advice(numbers, &knobs_now(&at.kernel, &at.schedule().choices), at.options.target);
    let cubins = explained.compiled.is_some();
    let mut known: HashMap<Schedule, Result<f64, String>> = HashMap::new();
    let mut predict = |schedule: Schedule| -> Option<Result<f64, String>> {
        if !at.options.attempts || !known.contains_key(&schedule) && known.len() >= MOST_ATTEMPTS {
            return None;
        }
        let us = known.entry(schedule).or_insert_with_key(|schedule| {
            let us = prediction.explain(schedule, cubins).map(|e| e.us);
            us.and_then(|us| if us.is_finite() { Ok(us) } else { Err("a block does not fit a multiprocessor".into()) })
        });
        Some(us.clone())
    };
    let mut attempts = |change: &Change| -> Vec<Attempt> {
        let of = |choice: &Choice| {
            let mut all = ways(&at.kernel, at.schedule(), (change.knob, choice)).into_iter().map(|schedule| {
                let setting = setting(&at.kernel, at.schedule(), &schedule);
                Attempt { words: change.words.clone(), setting, us: predict(schedule) }
            });
            let alone = all.next()?;
            // What is illegal alone may be legal beside another knob's next choice.
            let legal = if matches!(alone.us, Some(Err(_))) { all.find(|a| matches!(a.us, Some(Ok(_)))) } else { None };
            Some(legal.unwrap_or(alone))
        };
        change.choices.iter().take(MOST_CHOICES).filter_map(of).collect()
    };
    let tip = |advice: super::advice::Advice| Tip {
        rule: advice.rule,
        why: advice.why,
        attempts: advice.changes.iter().flat_map(&mut attempts).collect(),
    };
    found.into_iter().map(tip).collect()
}

/// A schedule with another choice of one knob; behind it the same with one knob more, where these two hang together: a wider vector needs as
/// many elements of a thread.
fn ways(kernel: &Kernel, schedule: &Schedule, (knob, choice): (usize, &Choice)) -> Vec<Schedule> {
    let with = |base: &Schedule, knob: usize, choice: &Choice| {
        let mut changed = base.clone();
        changed.choices[knob] = choice.clone();
        changed
    };
    let alone = with(schedule, knob, choice);
    let mut all = vec![alone.clone()];
    if kernel.knobs[knob].kind == KnobKind::Vector {
        let coarsen = kernel.knobs.iter().enumerate().filter(|(_, k)| matches!(k.kind, KnobKind::Coarsen { .. }));
        let wide = coarsen.filter_map(|(k, other)| Some((k, other.choices.iter().filter(|c| *c >= choice).min()?)));
        all.extend(wide.filter(|(k, c)| schedule.choices[*k] < **c).map(|(k, c)| with(&alone, k, c)));
    }
    all
}

/// What a schedule sets that another one has otherwise: `V=4 C=4`.
fn setting(kernel: &Kernel, now: &Schedule, then: &Schedule) -> String {
    let changed = kernel.knobs.iter().zip(now.choices.iter().zip(&then.choices)).filter(|(_, (a, b))| a != b);
    // The vector that needs the coarsening comes first.
    let mut all: Vec<String> = changed.map(|(knob, (_, choice))| format!("{}={choice}", knob.name)).collect();
    all.reverse();
    all.join(" ")
}

/// The store's trials of the site that can be compared; without a store nothing.
pub(super) fn stored(at: &At) -> Result<Option<Stored>, String> {
    let Some(store) = at.options.store else { return Ok(None) };
    let (facts, arch) = (at.launch.facts.to_string(), at.options.target.arch);
    let (now, former) = (at.kernel.identity(), at.kernel.former_identity());
    let mut rows = store.trials_of(now, &facts, arch).map_err(|e| e.to_string())?;
    if former != now {
        rows.extend(store.trials_of(former, &facts, arch).map_err(|e| e.to_string())?);
    }
    let beside = if at.way.len() > 1 { beside_text(at.sizes, &at.subject.name, &at.site) } else { String::new() };
    let sizes = at.sizes.to_string();
    Ok(choose(rows, &Asked { sizes: &sizes, beside: &beside, target: at.options.target, here: at.options.here }))
}

/// Times that were measured of the schedule at hand: trials of the store, and committed winners of the very launch.
pub(super) fn measured(at: &At, stored: Option<&Stored>) -> Vec<Measured> {
    let schedule = at.schedule().short(&at.kernel);
    let mut all = Vec::new();
    if let Some(stored) = stored.filter(|s| !s.predicted)
        && let Some(trial) =
            stored.trials.iter().rfind(|t| t.schedule == schedule && is_of_this_code(&at.kernel, &at.launch.facts, at.options.target, t))
        && let Some(us) = trial.median_us
    {
        let of = stored.beside.as_ref().map_or(String::new(), |beside| format!(", of the whole program beside {beside}"));
        all.push(Measured { us, source: format!("a trial on {}{of}", stored.device) });
    }
    let (facts, arch) = (at.launch.facts.to_string(), at.options.target.arch);
    let (path, lengths) = (kernel_path(&at.kernel), Some(&at.launch.lengths));
    let own = winners::all()
        .into_iter()
        .find(|w| (w.arch.as_str(), &w.kernel, &w.facts, w.lengths.as_ref(), &w.schedule) == (arch, &path, &facts, lengths, &schedule));
    let several = at.way.len() > 1;
    let of_site = own.map(|w| {
        let of = if several { ", of a whole program" } else { "" };
        Measured { us: w.median_us, source: format!("a committed winner for {arch}{of}{}", made(&w)) }
    });
    let of_program = if several { winning_program(at) } else { None };
    all.extend(of_program.or(of_site));
    all
}

/// Where a winner was measured, if that is known.
fn made(winner: &Winner) -> String {
    if winner.made.is_empty() { String::new() } else { format!(" ({})", winner.made) }
}

/// The time of the whole program, where its schedule is that of a committed winner.
fn winning_program(at: &At) -> Option<Measured> {
    let args = at.subject.arguments(at.sizes).ok()?;
    let lengths: Lengths = ProgramArg::lengths(&args);
    let kernels = at.subject.program.sites().into_iter().map(|def| (def.build)().ok()).collect::<Option<Vec<Kernel>>>()?;
    let texts: Vec<String> = at.way.iter().zip(&kernels).map(|((s, _), k)| s.short(k)).collect();
    let joint = Joint::of(at.subject, &texts).to_string();
    let arch = at.options.target.arch;
    let own = winners::all()
        .into_iter()
        .find(|w| (w.arch.as_str(), &w.kernel, w.lengths.as_ref(), &w.schedule) == (arch, &at.subject.source.path, Some(&lengths), &joint));
    own.map(|w| Measured {
        us: w.median_us,
        source: format!("a committed winner for {arch}, of the whole program under these schedules{}", made(&w)),
    })
}

/// Whether a trial is of the code that its schedule gives now.
pub(super) fn is_of_this_code(kernel: &Kernel, facts: &Facts, target: &Target, trial: &Trial) -> bool {
    parse_schedule(kernel, &trial.schedule).is_ok_and(|schedule| trial.code == code(kernel, facts, &schedule, target))
}

fn tuning(at: &At, stored: Option<Stored>) -> Tuning {
    let trials = stored.as_ref().map_or(&[][..], |s| &s.trials[..]);
    let (kernel, facts, target) = (&at.kernel, &at.launch.facts, at.options.target);
    let current = each_of(trials.len(), |i| is_of_this_code(kernel, facts, target, &trials[i]));
    let of_now = trials.iter().enumerate().filter(|(number, _)| current[*number]);
    let points: Vec<Point> = of_now.filter_map(|(number, trial)| Point::of(kernel, number, trial)).collect();
    Tuning {
        knobs: at.kernel.knobs.iter().map(|k| k.name.clone()).collect(),
        of_other_code: current.iter().filter(|current| !**current).count(),
        effects: effects(&points),
        command: command(at),
        predicted: stored.as_ref().is_some_and(|s| s.predicted),
        device: stored.as_ref().map(|s| s.device.clone()),
        beside: stored.and_then(|s| s.beside),
    }
}

/// The command that makes trials of the site.
pub(super) fn command(at: &At) -> String {
    let site = if at.way.len() > 1 { format!(".{}", at.site) } else { String::new() };
    let own_size = at.subject.perf_sizes(&Sizes::default()).is_ok_and(|perf| perf == *at.sizes);
    let size = if own_size { String::new() } else { format!(" --size {}", at.sizes.to_string().replace(' ', ",")) };
    let target = if at.options.here.is_some() { String::new() } else { format!(" --target {}", at.options.target.name) };
    let name = format!("{}{site}", at.subject.name);
    // A shell takes the types of an instance for redirections.
    let name = if name.contains('<') { format!("'{name}'") } else { name };
    format!("autotune tune {name}{size}{target} --budget 60s")
}

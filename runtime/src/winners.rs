//! Winners: the best schedules by architecture, committed as text beside the kernels and compiled in.
//!
//! `autotune winners` writes them from the store; `winners!` compiles the file in. A machine with no GPU and an empty store exports and launches good code
//! this way. A winner is a proposal: whoever uses one proves first, by lowering, that it is legal for the facts at hand.
//!
//! # The file
//! One winner a line, fields separated by ` | `; `#` starts a comment:
//! ```text
//! # arch | kernel | facts | schedule | median us
//! sm_90a | gallery::softmax::solve | program | row in registers=no; stats: T=1024; normalise: T=512 V=4 | 80.10
//! sm_90a | gallery::vector_add::vector_add | 16p/16 16p/16 16p/16 i32 noalias | T=1024 C=4 V=4 S=1 | 73.90
//! ```

use crate::device::Device;
use crate::joint;
use crate::launch::{ScheduleSource, add_schedule_source};
use crate::store::{Elected, Store, default_folder};
use girih_core::facts::Facts;
use girih_core::facts_distance;
use girih_core::linkme::distributed_slice;
use girih_core::schedule::Schedule;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::fmt;
use std::sync::{Arc, Mutex};

/// The texts of every linked winners' file. Filled by [`winners!`](crate::winners!).
#[distributed_slice]
#[linkme(crate = girih_core::linkme)]
pub static WINNERS: [&'static str];

/// Compiles a winners' file in: `winners!("winners.txt")`, the path as for `include_str!`. One per module.
#[macro_export]
macro_rules! winners {
    ($path:literal) => {
        #[$crate::linkme::distributed_slice($crate::winners::WINNERS)]
        #[linkme(crate = $crate::linkme)]
        static GIRIH_WINNERS: &'static str = include_str!($path);
    };
}

/// One line of a winners' file.
#[derive(Clone, PartialEq, Debug)]
pub struct Winner {
    /// `sm_90a`.
    pub arch: String,
    /// `crate::module::name`.
    pub kernel: String,
    /// The facts' key text.
    pub facts: String,
    /// `T=1024 C=4 V=4`.
    pub schedule: String,
    /// Median time in microseconds where it won.
    pub median_us: f64,
}

impl fmt::Display for Winner {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Winner { arch, kernel, facts, schedule, median_us } = self;
        write!(f, "{arch} | {kernel} | {facts} | {schedule} | {median_us:.2}")
    }
}

/// Reads a winners' file.
///
/// # Errors
/// The number and text of the first line that is none.
pub fn parse(text: &str) -> Result<Vec<Winner>, String> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let wrong = || format!("line {}: `{line}` is no winner: arch | kernel | facts | schedule | median us", number + 1);
        let [arch, kernel, facts, schedule, median] = fields[..] else { return Err(wrong()) };
        let median_us = median.parse().map_err(|_| wrong())?;
        all.push(Winner { arch: arch.into(), kernel: kernel.into(), facts: facts.into(), schedule: schedule.into(), median_us });
    }
    Ok(all)
}

/// Every winner that is compiled in.
pub fn all() -> Vec<Winner> {
    WINNERS.iter().flat_map(|text| parse(text).unwrap_or_else(|e| panic!("winners' file: {e}"))).collect()
}

/// The text of a winners' file with the elected schedules of the store, and the lines of `former` that the store knows
/// nothing newer about.
pub fn file_text(elected: &[Elected], former: &[Winner]) -> String {
    let mut lines: Vec<Winner> = Vec::new();
    // Predictions are no measurements: they stay in the store.
    for e in elected.iter().filter(|e| !e.key.device.starts_with("simulated")) {
        let winner = Winner {
            arch: e.key.arch.clone(),
            kernel: e.key.kernel.clone(),
            facts: e.key.facts.clone(),
            schedule: e.schedule.clone(),
            median_us: e.median_us,
        };
        // Several sizes may have been tuned: the largest took longest and says most about bandwidth.
        match lines.iter_mut().find(|w| same_key(w, &winner)) {
            Some(w) if w.median_us < winner.median_us => *w = winner,
            Some(_) => {}
            None => lines.push(winner),
        }
    }
    for w in former {
        if !lines.iter().any(|l| same_key(l, w)) {
            lines.push(w.clone());
        }
    }
    lines.sort_by(|a, b| (&a.arch, &a.kernel, &a.facts).cmp(&(&b.arch, &b.kernel, &b.facts)));
    let mut text = String::from(
        "# The best schedules by architecture. Written by `autotune winners`.\n# arch | kernel | facts | schedule | median us\n",
    );
    for line in lines {
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn same_key(a: &Winner, b: &Winner) -> bool {
    (&a.arch, &a.kernel, &a.facts) == (&b.arch, &b.kernel, &b.facts)
}

/// The compiled-in winners' schedules of a whole program ([`crate::joint`]), of the nearest architecture first.
pub fn programs(path: &str, target: &Target) -> Vec<String> {
    let mut found: Vec<(u32, String)> = all()
        .into_iter()
        .filter(|w| w.kernel == path && w.facts == joint::FACTS)
        .filter_map(|w| Some((capability(&w.arch)?.abs_diff(target.capability), w.schedule)))
        .collect();
    found.sort_by_key(|(distance, _)| *distance);
    found.into_iter().map(|(_, schedule)| schedule).collect()
}

/// The compiled-in winners' schedules for a kernel, the nearest first: of this architecture, of the nearest other one; of those under these
/// facts, under the nearest others. Schedules that don't name exactly the kernel's knobs are left out.
pub fn candidates(kernel: &Kernel, facts: &Facts, target: &Target) -> Vec<Schedule> {
    nearest(&all(), kernel, &facts.to_string(), target)
}

fn nearest(winners: &[Winner], kernel: &Kernel, facts: &str, target: &Target) -> Vec<Schedule> {
    let path = kernel_path(kernel);
    let mut found: Vec<(u32, f64, Schedule)> = winners
        .iter()
        .filter(|w| w.kernel == path)
        .filter_map(|w| {
            let distance = capability(&w.arch)?.abs_diff(target.capability);
            Some((distance, facts_distance::distance(&w.facts, facts), parse_schedule(kernel, &w.schedule).ok()?))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    found.into_iter().map(|(_, _, s)| s).collect()
}

/// Where a schedule came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Tuned on this device.
    Store,
    /// A committed winner.
    Winner,
    /// The first legal one: the default, else the naive one.
    Default,
}

impl Origin {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Store => "tuned here",
            Origin::Winner => "committed winner",
            Origin::Default => "default",
        }
    }
}

/// The best schedule known that is legal: the store's for this device, else a winner, else the default, else the naive one.
///
/// `legal` proves legality for the facts and target at hand (by lowering). `None` only if nothing is legal.
pub fn choose(
    kernel: &Kernel,
    facts: &Facts,
    target: &Target,
    store: Option<(&Store, &str)>,
    mut legal: impl FnMut(&Schedule) -> bool,
) -> Option<(Schedule, Origin)> {
    let stored = store.and_then(|(s, device)| s.candidates(kernel.identity(), &facts.to_string(), device).ok()).unwrap_or_default();
    let stored = stored.iter().filter_map(|s| parse_schedule(kernel, s).ok()).map(|s| (s, Origin::Store));
    let winners = candidates(kernel, facts, target).into_iter().map(|s| (s, Origin::Winner));
    let default = std::iter::once((Schedule::default_of(kernel), Origin::Default));
    let known = stored.chain(winners).chain(default).find(|(s, _)| legal(s));
    known.or_else(|| instead(kernel, facts, target).filter(|s| legal(s)).map(|s| (s, Origin::Default)))
}

/// What stands in for first listed values that are illegal here: they need not be legal for every target and every launch. Of a kernel that
/// multiplies tiles the highest rung of its ladder, of others the naive schedule, or any that is legal.
pub fn instead(kernel: &Kernel, facts: &Facts, target: &Target) -> Option<Schedule> {
    let space = Space::new(kernel, facts, target);
    let highest = Ladder::new(&space).ok().flatten().map(|l| l.up_to(Step::Mma).clone());
    highest.or_else(|| space.naive().ok()).or_else(|| space.candidates().next())
}

/// `sm_90a` → 90.
fn capability(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// `crate::module::name` with the instance's types, as [`girih_core::registry::KernelDef::path`] writes it.
pub fn kernel_path(kernel: &Kernel) -> String {
    let types: Vec<&str> = kernel.instance.iter().map(|(_, t)| t.as_str()).collect();
    if types.is_empty() { kernel.path.clone() } else { format!("{}<{}>", kernel.path, types.join(", ")) }
}

/// Makes launches without an explicit schedule use the tuner's store, then the committed winners. Once per process is enough.
pub fn add_sources() {
    // A launch does not make a store; only tuning does.
    if default_folder().join("tune.sqlite").exists()
        && let Ok(store) = Store::open_default()
    {
        add_schedule_source(Arc::new(Stored(Mutex::new(store))));
    }
    add_schedule_source(Arc::new(Committed));
}

/// The tuner's store as launches ask it.
struct Stored(Mutex<Store>);

impl ScheduleSource for Stored {
    fn schedule(&self, kernel: &Kernel, facts: &Facts, device: &Device) -> Option<Schedule> {
        let store = self.0.lock().ok()?;
        let found = store.candidates(kernel.identity(), &facts.to_string(), &device.name()).ok()?;
        let legal = |s: &Schedule| girih_core::lower::check(kernel, facts, s, device.target()).is_ok();
        found.iter().filter_map(|s| parse_schedule(kernel, s).ok()).find(legal)
    }
}

/// The committed winners as launches ask them.
struct Committed;

impl ScheduleSource for Committed {
    fn schedule(&self, kernel: &Kernel, facts: &Facts, device: &Device) -> Option<Schedule> {
        let legal = |s: &Schedule| girih_core::lower::check(kernel, facts, s, device.target()).is_ok();
        candidates(kernel, facts, device.target()).into_iter().find(legal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_back_as_written() {
        let w = Winner {
            arch: "sm_90a".into(),
            kernel: "g::k<f32>".into(),
            facts: "16p/16 - i32".into(),
            schedule: "T=8 V=4".into(),
            median_us: 73.9,
        };
        let text = file_text(&[], std::slice::from_ref(&w));
        assert_eq!(parse(&text).unwrap(), [w]);
        assert!(parse("sm_90a | k").unwrap_err().starts_with("line 1: `sm_90a | k` is no winner"));
    }
}

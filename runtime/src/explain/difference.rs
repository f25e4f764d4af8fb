//! Two schedules beside each other: their texts, and what changes in the counts.

use super::Measured;
use super::gather::{At, Options, at, launched, measured, stored, verdict};
use super::numbers::{Numbers, sectors_per_request};
use super::text::Lines;
use super::units::{amount, bytes, kib, plain};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::tune::floor::Basis;
use girih_core::schedule::Schedule;
use similar::TextDiff;

/// A launch site under one schedule.
#[derive(Clone, Debug)]
pub struct Side {
    /// The site's name.
    pub site: String,
    /// `T=1024 C=4 V=4`.
    pub schedule: String,
    /// The CUDA C.
    pub source: String,
    /// Its launches.
    pub launches: Vec<Numbers>,
    /// Predicted microseconds of all of them, and how they came to be.
    pub us: f64,
    pub basis: Basis,
    /// Times that were measured.
    pub measured: Vec<Measured>,
    /// The verdict on its cubin; without one registers are a guess.
    pub verdict: Option<String>,
}

/// The launch sites of a subject under a schedule each.
///
/// # Errors
/// As [`super::gather::page`].
pub fn sides(subject: &Subject, sizes: &Sizes, way: &[(Schedule, &'static str)], options: &Options) -> Result<Vec<Side>, String> {
    let (found, _) = launched(subject, sizes, options)?;
    let side = |launch| {
        let at = at(subject, sizes, way, launch, options)?;
        one(&at).map_err(|e| at.named(&e))
    };
    found.iter().map(side).collect()
}

fn one(at: &At) -> Result<Side, String> {
    let explained = at.prediction().explain(at.schedule(), at.options.cubins)?;
    let facts = &at.launch.facts;
    let compiled = crate::compile(&at.kernel, facts, at.schedule(), at.options.target, crate::compile::Output::Source);
    Ok(Side {
        site: at.site.clone(),
        schedule: at.schedule().short(&at.kernel),
        source: compiled.map_err(|e| e.to_string())?.source,
        launches: Numbers::of(&explained, at.options.target),
        us: explained.us,
        basis: explained.basis,
        measured: measured(at, stored(at)?.as_ref()),
        verdict: verdict(&explained),
    })
}

/// The two texts as a unified diff with so many lines around each change; empty where they are the same.
pub fn unified(a: &Side, b: &Side, around: usize) -> String {
    let header = |name: &str, side: &Side| format!("{name}: {} {}", side.site, side.schedule);
    let diff = TextDiff::from_lines(&a.source, &b.source);
    diff.unified_diff().context_radius(around).header(&header("a", a), &header("b", b)).to_string()
}

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A count.
    Count,
    /// A small number, or an average.
    Plain,
    /// Bytes that move.
    Bytes,
    /// Bytes of a multiprocessor's memory.
    Kib,
    /// Microseconds.
    Us,
}

impl Unit {
    fn text(self, x: f64) -> String {
        match self {
            _ if x.is_infinite() => "any".into(),
            Unit::Count => amount(x),
            Unit::Plain => plain(x),
            Unit::Bytes => bytes(x),
            Unit::Kib => kib(x),
            Unit::Us => format!("{x:.2} us"),
        }
    }
}

/// A number of both sides; nothing where a side has none.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    pub what: &'static str,
    pub unit: Unit,
    pub a: Option<f64>,
    pub b: Option<f64>,
}

impl Row {
    /// Whether both sides read the same.
    pub fn is_same(&self) -> bool {
        match (self.a, self.b) {
            (Some(a), Some(b)) => self.unit.text(a) == self.unit.text(b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// `0.5 x`, where that says something.
    fn change(&self) -> String {
        match (self.a, self.b) {
            (Some(a), Some(b)) if a > 0.0 && a.is_finite() && b.is_finite() => format!("{} x", plain(b / a)),
            _ => String::new(),
        }
    }
}

/// The numbers of one launch under both schedules; nothing where a schedule has no such launch.
pub fn rows(a: Option<&Numbers>, b: Option<&Numbers>) -> Vec<Row> {
    type Of = fn(&Numbers) -> Option<f64>;
    let all: [(&'static str, Unit, Of); 24] = [
        ("predicted time", Unit::Us, |n| Some(n.predicted.seconds * 1e6)),
        ("blocks", Unit::Count, |n| Some(n.grid as f64)),
        ("threads per block", Unit::Count, |n| Some(f64::from(n.block))),
        ("registers per thread", Unit::Plain, |n| Some(f64::from(n.resources.registers))),
        ("spilled bytes per thread", Unit::Plain, |n| Some(f64::from(n.resources.spills))),
        ("shared memory per block", Unit::Kib, |n| Some(f64::from(n.resources.shared))),
        ("blocks per multiprocessor", Unit::Plain, |n| Some(f64::from(n.predicted.occupancy.blocks))),
        ("occupancy, % of threads", Unit::Plain, |n| Some(100.0 * n.predicted.occupancy.fraction)),
        ("waves of blocks", Unit::Plain, |n| Some(n.predicted.waves)),
        ("bytes in flight", Unit::Kib, |n| Some(n.predicted.bytes_in_flight)),
        ("instructions of warps", Unit::Count, |n| Some(n.counts.as_ref()?.instructions())),
        ("sectors loaded", Unit::Count, |n| n.counts.as_ref().map(|c| c.loads.sectors + c.copies.sectors)),
        ("sectors stored", Unit::Count, |n| n.counts.as_ref().map(|c| c.stores.sectors + c.atomics.sectors)),
        ("sectors per load", Unit::Plain, |n| n.counts.as_ref().map(|c| sectors_per_request(&c.loads).0)),
        ("sectors per store", Unit::Plain, |n| n.counts.as_ref().map(|c| sectors_per_request(&c.stores).0)),
        ("distinct bytes read", Unit::Bytes, |n| Some(n.counts.as_ref()?.unique[0])),
        ("distinct bytes written", Unit::Bytes, |n| Some(n.counts.as_ref()?.unique[1])),
        ("shared wavefronts", Unit::Count, |n| Some(n.counts.as_ref()?.shared.iter().map(|s| s.wavefronts).sum())),
        ("bank conflicts", Unit::Count, |n| Some(n.counts.as_ref()?.shared.iter().map(|s| s.conflicts).sum())),
        ("loads of constants", Unit::Count, |n| Some(n.counts.as_ref()?.constants)),
        ("barriers per block", Unit::Plain, |n| Some(n.counts.as_ref()?.barriers)),
        ("barriers of some warps, each", Unit::Plain, |n| Some(n.counts.as_ref()?.named_barriers)),
        ("phases that a warp waits for", Unit::Plain, |n| Some(n.counts.as_ref()?.phase_waits)),
        ("chain of a block, clocks", Unit::Count, |n| Some(n.counts.as_ref()?.chain.round())),
    ];
    let row = |(what, unit, of): (&'static str, Unit, Of)| Row { what, unit, a: a.and_then(of), b: b.and_then(of) };
    all.into_iter().map(row).collect()
}

/// The tables of a site: times, then what changes in each launch; what stays is named below.
pub fn table(a: &Side, b: &Side) -> String {
    let mut out = Lines::default();
    out.line(format!("{}: a {}", a.site, a.schedule));
    out.line(format!("{:>width$}  b {}", "", b.schedule, width = a.site.chars().count()));
    let mut lines = vec![head(), line(&Row { what: "predicted time, all launches", unit: Unit::Us, a: Some(a.us), b: Some(b.us) })];
    let first = |side: &Side| side.measured.first().map(|m| m.us);
    if first(a).is_some() || first(b).is_some() {
        lines.push(line(&Row { what: "measured time", unit: Unit::Us, a: first(a), b: first(b) }));
    }
    lines.into_iter().for_each(|l| out.line(l));
    for (name, side) in [("a", a), ("b", b)] {
        side.measured.first().into_iter().for_each(|m| out.line(format!("  measured, {name}: {}", m.source)));
        let cubin = side.verdict.as_ref().map_or("none, registers are a guess".to_string(), Clone::clone);
        out.line(format!("  machine code, {name}: {cubin}"));
    }
    for i in 0..a.launches.len().max(b.launches.len()) {
        launch(&mut out, a.launches.get(i), b.launches.get(i));
    }
    out.text
}

fn launch(out: &mut Lines, a: Option<&Numbers>, b: Option<&Numbers>) {
    let Some(named) = a.or(b) else { return };
    let only = match (a, b) {
        (Some(_), None) => ", under a alone",
        (None, Some(_)) => ", under b alone",
        _ => "",
    };
    out.line(format!("launch {}{only}", named.function));
    let bound = |n: Option<&Numbers>| n.map_or("-", |n| n.predicted.bottleneck.name());
    let (changed, same): (Vec<Row>, Vec<Row>) = rows(a, b).into_iter().partition(|row| !row.is_same());
    out.line(head());
    changed.iter().for_each(|row| out.line(line(row)));
    out.line(format!("  {:<30} {:>18} {:>18}", "bound by", bound(a), bound(b)));
    // What neither side has is no news.
    let same: Vec<String> = same
        .iter()
        .filter_map(|r| Some((r, r.a.filter(|x| *x != 0.0)?)))
        .map(|(r, x)| format!("{} ({})", r.what, r.unit.text(x)))
        .collect();
    if !same.is_empty() {
        out.line(format!("  the same: {}", same.join(", ")));
    }
}

fn head() -> String {
    format!("  {:<30} {:>18} {:>18} {:>10}", "", "a", "b", "b / a")
}

fn line(row: &Row) -> String {
    let cell = |x: Option<f64>| x.map_or("-".to_string(), |x| row.unit.text(x));
    format!("  {:<30} {:>18} {:>18} {:>10}", row.what, cell(row.a), cell(row.b), row.change())
}

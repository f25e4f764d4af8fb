//! The page of `explain` as text. What was not computed is not there, or says why.

use super::numbers::{Counts, Numbers, sectors_per_request};
use super::profiled::profiled;
use super::tuning_text::tuning;
use super::units::{amount, bytes, class, counted, flop, kib, many, percent, plain, us};
use super::{Attempt, Page, SitePage, Tip};
use crate::measure::floor::{Bound, Part};
use crate::tune::floor::Basis;
use girih_core::model::{self, Bottleneck, Limit};
use std::fmt::Write;

/// The whole page.
pub fn text(page: &Page) -> String {
    let mut out = Lines::default();
    let target = &page.target;
    out.line(format!(
        "{} at {} on the {} ({}, {} multiprocessors)",
        page.name, page.sizes, target.name, target.arch, target.multiprocessors
    ));
    floor(&mut out, page);
    roofline(&mut out, page);
    if let Some(predicted) = &page.predicted {
        let floor = match page.floor.seconds * 1e6 {
            0.0 => String::new(),
            _ if launch_hides_floor(page) => ", mostly launches: the floor is far below them".to_string(),
            floor => format!(", {} x the floor", plain(predicted.us / floor)),
        };
        let remark = predicted.remark().map_or(String::new(), |remark| format!(" ({remark})"));
        out.item("predicted", format!("{:.2} us{floor}{remark}", predicted.us));
    }
    for site in &page.sites {
        out.line(String::new());
        self::site(&mut out, site, page.sites.len() > 1);
    }
    for site in &page.not_launched {
        out.line(String::new());
        out.line(format!("{site}: a call of these sizes does not launch it"));
    }
    out.text
}

/// Lines with a name in front of what belongs to it.
#[derive(Default)]
pub(super) struct Lines {
    pub text: String,
}

/// Columns of a name.
const NAME: usize = 14;

impl Lines {
    pub fn line(&mut self, text: String) {
        writeln!(self.text, "{}", text.trim_end()).expect("a String takes all text");
    }

    /// `  name          text`; without a name what belongs to the one above.
    pub fn item(&mut self, name: &str, text: String) {
        self.line(format!("  {name:<NAME$} {text}"));
    }
}

/// Part of a launch below which a floor says nothing of the time.
const NO_FLOOR: f64 = 0.1;

/// The work is so little that a call's time is that of its launches.
fn launch_hides_floor(page: &Page) -> bool {
    page.floor.seconds < NO_FLOOR * page.target.launch
}

/// What has to move and to be computed, at the rates that count.
fn floor(out: &mut Lines, page: &Page) {
    let what = |part: &Part| match part.bound {
        Bound::Memory => (bytes(part.amount), bytes(part.rate)),
        Bound::MultiplyAdds | Bound::Matrix(_) => (flop(part.amount), flop(part.rate)),
        Bound::Integers => (format!("{} integer operations", amount(part.amount)), amount(part.rate)),
    };
    let mut parts: Vec<&Part> = page.floor.parts.iter().filter(|part| part.amount > 0.0).collect();
    parts.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    for (number, part) in parts.into_iter().enumerate() {
        let (work, rate) = what(part);
        let alone = if number > 0 { " (hidden behind that)" } else { "" };
        out.item(
            if number == 0 { "floor" } else { "" },
            format!("{}: {work} at {rate}/s, {}{alone}", us(part.seconds() * 1e6), part.bound),
        );
    }
}

/// Where the work stands under the roofs of bandwidth and arithmetic, where both are asked for.
fn roofline(out: &mut Lines, page: &Page) {
    let (Some(memory), Some(arithmetic)) = page.floor.roofs() else { return };
    let (intensity, ridge) = (arithmetic.amount / memory.amount, arithmetic.rate / memory.rate);
    let side = match intensity < ridge {
        _ if launch_hides_floor(page) => "the launch takes longer than both",
        true => "bandwidth is",
        false => "arithmetic is",
    };
    let text = format!("{} operations for each byte, and arithmetic is the roof from {} on: here {side}", plain(intensity), plain(ridge));
    out.item("roofline", text);
}

fn site(out: &mut Lines, site: &SitePage, several: bool) {
    let launches = if site.count > 1 { format!(", launched {} times", site.count) } else { String::new() };
    let name = if several { format!("{}: {}", site.site, site.kernel) } else { site.kernel.clone() };
    out.line(format!("{name}{launches}"));
    out.item("schedule", format!("{} ({})", if site.schedule.is_empty() { "no knobs" } else { &site.schedule }, site.from));
    if site.launches.is_empty() {
        out.item("launch", "none: at these sizes there is nothing to do".into());
        return;
    }
    let basis = match site.basis {
        Basis::Counted => "counted at the true size",
        Basis::Estimated => "an estimate: something stands for the true data",
        Basis::Scaled => "an estimate: a call at a reduced size was counted, and scaled",
        Basis::Static => "from bytes alone, whatever the schedule",
    };
    out.item("predicted", format!("{:.2} us, {basis}", site.us));
    if site.first_us > 0.0 {
        out.item("", format!("{} of that is for the call's beginning: its first launch takes longer than others", us(site.first_us)));
    }
    if let Some(why) = &site.uncounted {
        out.item("", format!("its launches are not counted: {why}"));
    }
    for measured in &site.measured {
        out.item("measured", format!("{:.2} us, {}", measured.us, measured.source));
    }
    match &site.verdict {
        Some(verdict) => out.item("machine code", verdict.clone()),
        None => out.item("machine code", "none was made: registers and spills below are a guess".into()),
    }
    for launch in &site.launches {
        numbers(out, launch);
    }
    tips(out, site);
    tuning(out, &site.tuning);
}

/// One launch.
fn numbers(out: &mut Lines, n: &Numbers) {
    let (grid, time) = (counted(n.grid as f64, "block"), us(n.predicted.seconds * 1e6));
    out.item("launch", format!("{}: {grid} of {} threads, {time} predicted", n.function, n.block));
    bounds(out, n);
    occupancy(out, n);
    let predicted = &n.predicted;
    let last = if predicted.waves > 1.0 { format!("; the last one fills {} of its places", percent(n.last_wave())) } else { String::new() };
    let waves = if predicted.waves < 0.005 { "< 0.01".to_string() } else { plain(predicted.waves) };
    out.item("waves", format!("{waves} of blocks{last}"));
    let busy = format!("{} keep the memory busy (Little's law: its bandwidth x its latency)", kib(n.needed_in_flight));
    let in_flight = match predicted.bytes_in_flight {
        flight if flight.is_finite() => format!("{} of loads per multiprocessor; {busy}", kib(flight)),
        _ => format!("nothing is loaded, so nothing waits; {busy}"),
    };
    out.item("in flight", in_flight);
    if let Some(counts) = &n.counts {
        self::counts(out, counts);
    }
    profiled(out, n);
}

/// What each resource would take alone.
fn bounds(out: &mut Lines, n: &Numbers) {
    let bounds = n.bounds();
    let longest = bounds.first().map_or(0.0, |(_, seconds)| *seconds);
    let by = match n.predicted.bottleneck {
        Bottleneck::Launch => "the launch itself, which takes longer than any part of its work; each resource alone would take".to_string(),
        bottleneck => format!("{}; each resource alone would take", bottleneck.name()),
    };
    out.item("bound by", by);
    for (bound, seconds) in bounds {
        let (share, time) = (percent(seconds / longest), us(seconds * 1e6));
        out.item("", format!("{time:>13} {share:>6}  {}", in_words(bound)));
    }
    let model::Prediction { seconds, front, ends, .. } = n.predicted;
    let [beside, ends, front] = [seconds - front - ends, ends, front].map(|part| us(part.max(0.0) * 1e6));
    let before =
        if n.predicted.ends > 0.0 { format!(" + {ends} of a block's first and last waits, which nothing hides") } else { String::new() };
    out.item("adds up", format!("{beside} of all these beside each other{before} + {front} of the launch itself"));
}

/// What a bound is, for a learner.
pub(crate) fn in_words(bound: Bottleneck) -> &'static str {
    match bound {
        Bottleneck::Latency => "memory latency: waves of blocks, each as long as its chain of dependent operations",
        Bottleneck::Shared => "shared memory and L1: passes through the banks, lines of global accesses",
        Bottleneck::Arithmetic => "arithmetic: fp32 units",
        Bottleneck::SpecialFunctions => "special functions: exponentials, roots, divisions",
        Bottleneck::Tensor => "tensor pipe: matrix instructions",
        Bottleneck::Memory | Bottleneck::L2 | Bottleneck::Issue | Bottleneck::Atomics | Bottleneck::Launch | Bottleneck::Resources => {
            bound.name()
        }
    }
}

fn occupancy(out: &mut Lines, n: &Numbers) {
    let (found, resources) = (n.predicted.occupancy, n.resources);
    let shared = kib(f64::from(resources.shared));
    let limit = match found.limit {
        Limit::Registers => format!("registers ({} per thread{})", resources.registers, if n.is_guess { ", a guess" } else { "" }),
        Limit::Shared => format!("shared memory ({shared} per block)"),
        Limit::Warps => format!("threads ({} per block)", n.block),
        Limit::Blocks => "the number of blocks".to_string(),
    };
    let blocks = counted(f64::from(found.blocks), "block");
    out.item("occupancy", format!("{blocks} per multiprocessor, {} of its threads; limited by {limit}", percent(found.fraction)));
    let others = n.fits.iter().filter(|(blocks, limit)| *limit != found.limit && *blocks != u32::MAX).map(|(blocks, limit)| match limit {
        Limit::Blocks => format!("{blocks} by their number"),
        Limit::Registers | Limit::Shared | Limit::Warps => format!("{blocks} by {}", limit.name()),
    });
    out.item("", format!("alone, the other limits allow {}", others.collect::<Vec<_>>().join(", ")));
    let guess = if n.is_guess { " (a guess)" } else { "" };
    let spills = match (resources.spills, n.is_guess) {
        (0, _) => "nothing spilled".to_string(),
        (bytes, true) => format!("perhaps {bytes} bytes spilled"),
        (bytes, false) => format!("{bytes} bytes spilled"),
    };
    out.item("resources", format!("{} registers per thread, {spills}{guess}; {shared} of shared memory per block", resources.registers));
}

fn counts(out: &mut Lines, counts: &Counts) {
    let mut name = "global memory";
    for (kind, traffic) in counts.global() {
        let (found, least) = sectors_per_request(traffic);
        let (requests, asked) = (many(traffic.requests, "request"), bytes(traffic.bytes));
        // Lanes that load the same bytes need fewer sectors than these bytes fill.
        let least = if found < least { "lanes share some".to_string() } else { format!("{} at least", plain(least)) };
        out.item(name, format!("{kind}: {requests} for {asked}, {} per request ({least})", counted(found, "sector")));
        name = "";
    }
    let [read, written] = counts.unique.map(bytes);
    out.item(name, format!("distinct sectors: {read} read, {written} written"));
    if counts.each_first {
        let text =
            "threads draw numbers by an atomic: each block is counted as if it came first, without what later ones look up of those before";
        out.item("", text.into());
    }
    if counts.asks_words {
        out.item("", "blocks ask for words that others leave: these are taken to be there, as in a smaller launch".into());
    }
    name = "shared memory";
    for (kind, traffic) in counts.shared() {
        let (requests, wavefronts) = (many(traffic.requests, "request"), many(traffic.wavefronts, "wavefront"));
        let ideal = amount(traffic.wavefronts - traffic.conflicts);
        let verdict = if traffic.conflicts > 0.0 { format!("{ideal} without bank conflicts") } else { "no bank conflicts".into() };
        out.item(name, format!("{kind}: {requests}, {wavefronts}, {verdict}"));
        name = "";
    }
    if counts.constants > 0.0 {
        out.item("constant memory", format!("loads: {}, of one word for all lanes", many(counts.constants, "request")));
    }
    let all = counts.instructions();
    let mix: Vec<String> = counts.mix.iter().map(|(kind, n)| format!("{} {}", percent(n / all), class(*kind))).collect();
    out.item("instructions", format!("{} of warps: {}", amount(all), mix.join(", ")));
    if counts.matrix > 0.0 {
        out.item("", format!("{} multiply-adds of matrix instructions", amount(counts.matrix)));
    }
    barriers(out, counts);
    out.item("chain", format!("{} clocks of dependent operations in a block, on average", amount(counts.chain.round())));
}

/// Where warps wait for each other, and for copies.
fn barriers(out: &mut Lines, counts: &Counts) {
    out.item("barriers", format!("{} of the whole block", plain(counts.barriers)));
    let named = (counts.named_barriers, "of some of the block's warps");
    let phases = (counts.phase_waits, "phases of mbarriers (copies that have arrived, stages that are free)");
    for (each, what) in [named, phases].into_iter().filter(|(each, _)| *each > 0.0) {
        out.item("", format!("{} {what}, for a warp on average", plain(each)));
    }
}

fn tips(out: &mut Lines, site: &SitePage) {
    if site.tips.is_empty() {
        out.item("try next", "no rule has anything to say of these numbers".into());
        return;
    }
    let (mut name, mut told): (&str, Vec<&str>) = ("try next", Vec::new());
    for Tip { why, attempts, .. } in &site.tips {
        out.item(name, why.clone());
        name = "";
        let (known, new): (Vec<&Attempt>, Vec<&Attempt>) = attempts.iter().partition(|a| told.contains(&a.setting.as_str()));
        told.extend(new.iter().map(|a| a.setting.as_str()));
        self::attempts(out, &new, site.us);
        if !known.is_empty() {
            out.item("", format!("  as above: {}", settings(&known)));
        }
    }
}

fn settings(attempts: &[&Attempt]) -> String {
    attempts.iter().map(|a| a.setting.as_str()).collect::<Vec<_>>().join(", ")
}

/// What the model says of settings: those that change the time one by one, then those that do not, and those that are none.
fn attempts(out: &mut Lines, all: &[&Attempt], now: f64) {
    let is_same = |a: &&&Attempt| matches!(a.us, Some(Ok(us)) if (us / now - 1.0).abs() < 5e-4);
    let is_illegal = |a: &&&Attempt| matches!(a.us, Some(Err(_)));
    let mut last = "";
    for attempt in all.iter().filter(|a| !is_same(a) && !is_illegal(a)) {
        let words = if attempt.words == last { String::new() } else { format!("{}:", attempt.words) };
        last = &attempt.words;
        let outcome = match attempt.us {
            Some(Ok(us)) => format!("{us:>10.2} us predicted, {:+.1} %", 100.0 * (us / now - 1.0)),
            Some(Err(_)) | None => String::new(),
        };
        out.item("", format!("  {words:<14} {:<14} {outcome}", attempt.setting));
    }
    let same: Vec<&Attempt> = all.iter().filter(is_same).copied().collect();
    if !same.is_empty() {
        out.item("", format!("  the model expects the same time of {}", settings(&same)));
    }
    let illegal: Vec<&Attempt> = all.iter().filter(is_illegal).copied().collect();
    if let [Attempt { us: Some(Err(why)), setting, .. }, ..] = illegal[..] {
        let why = why.lines().next().unwrap_or_default().trim_start_matches("illegal schedule: ");
        let first = if illegal.len() > 1 { format!(" (of {setting})") } else { String::new() };
        out.item("", format!("  not with the other knobs as they are: {}: {why}{first}", settings(&illegal)));
    }
}

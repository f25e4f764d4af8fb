//! Stored schedules give what they gave: the CUDA C, or another text of the same form (`simt::form`).
//!
//! `replay/*.txt` has schedules as texts: the textbook kernel, the author's first choice, what is committed for the H200, and legal
//! points drawn by a seed. Samples move when knobs do, stored texts don't. Behind each stand the hashes of what it gave, with no facts and
//! with the best facts, for sm_75 and sm_90a.
//!
//! | `GIRIH_REPLAY` | what is done |
//! |---|---|
//! | not set | the first [`IN_CI`] schedules of each kernel are compared |
//! | `all` | all that are stored are compared |
//! | `record` | hashes are written anew, schedules drawn where there are fewer than [`STORED`]; prints what has changed |
//!
//! `GIRIH_TEST_KERNEL=a,b` does so for these kernels alone.

mod stored;

use super::launches::{best_facts, facts_for};
use super::rungs::{all_kernels, in_gallery};
use girih::launch::schedule_lookup;
use girih_core::cuda::emit;
use girih_core::error::CompileError;
use girih_core::facts::Facts;
use girih_core::loc::SourceLoc;
use girih_core::lower::lower;
use girih_core::scalar::fnv1a64;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Schedule, mix};
use girih_core::simt::form::form;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use stored::{Gave, Line, OCCASIONS, Stored};

/// Schedules of a kernel of the gallery that every run compares.
const IN_CI: usize = 20;
/// The same of a kernel of the tests.
const IN_CI_OF_TESTS: usize = 6;
/// Schedules of a kernel that are stored, where its space has so many.
const STORED: usize = 40;
/// Points that are drawn to find as many.
const DRAWN: u64 = 600;

#[test]
fn stored_schedules_give_what_they_gave() {
    let mode = std::env::var("GIRIH_REPLAY").unwrap_or_default();
    let work: fn(&Kernel) -> Report = match mode.as_str() {
        "record" => record,
        "all" => |kernel| compare(kernel, usize::MAX),
        "" => |kernel| compare(kernel, if in_gallery(&kernel.path) { IN_CI } else { IN_CI_OF_TESTS }),
        other => panic!("GIRIH_REPLAY is `{other}`; it may be `all` or `record`"),
    };
    let kernels = all_kernels();
    let report = on_all_cores(&kernels, work);
    println!("{} lowered: {} texts and {} forms changed", report.lowered, report.texts.len(), report.forms.len());
    if mode == "record" {
        report.forms.iter().for_each(|what| println!("another form: {what}"));
        return;
    }
    let changed: Vec<&String> = report.forms.iter().chain(&report.texts).collect();
    let most = changed.iter().take(20).map(|s| s.as_str()).collect::<Vec<_>>().join("\n");
    assert!(
        changed.is_empty(),
        "{} of {} kernels changed, {} of them in form too (GIRIH_REPLAY=record accepts that):\n{most}",
        changed.len(),
        report.lowered,
        report.forms.len()
    );
}

/// What became of stored schedules.
#[derive(Default)]
struct Report {
    lowered: usize,
    /// Whose text is another one, of the same form.
    texts: Vec<String>,
    /// Whose form is another one, too.
    forms: Vec<String>,
}

fn on_all_cores(kernels: &[Kernel], work: fn(&Kernel) -> Report) -> Report {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = work(kernel);
                    let mut all = all.lock().expect("no panic in between");
                    all.lowered += one.lowered;
                    all.texts.extend(one.texts);
                    all.forms.extend(one.forms);
                }
            });
        }
    });
    all.into_inner().expect("no panic in between")
}

/// What a schedule gives on each of the occasions.
fn gives(kernel: &Kernel, schedule: &Schedule) -> [Gave; OCCASIONS] {
    let facts = [Facts::none(kernel), facts_for(kernel, schedule)];
    let targets = ["sm_75", "sm_90a"].map(|arch| Target::find(arch).unwrap_or_else(|| panic!("no target has {arch}")));
    std::array::from_fn(|occasion| {
        let (facts, target) = (&facts[occasion / targets.len()], targets[occasion % targets.len()]);
        match lower(kernel, facts, schedule, target) {
            Ok(mut simt) => {
                let form = form(&simt) as u32;
                // Where in a file a kernel stands is nothing of it.
                simt.each_launch(&mut |launch| launch.provenance.loc = SourceLoc::NONE);
                Gave::Code { text: fnv1a64(emit(&simt).as_bytes()) as u32, form }
            }
            Err(CompileError::Schedule(_)) => Gave::Illegal,
            Err(e) => panic!("{} under {}: {e}", kernel.full_name(), schedule.short(kernel)),
        }
    })
}

/// Adds to a report how what a schedule gives differs from what it gave.
fn tell(report: &mut Report, kernel: &Kernel, line: &Line, now: &[Gave; OCCASIONS]) {
    let names = ["no facts, sm_75", "no facts, sm_90a", "best facts, sm_75", "best facts, sm_90a"];
    for ((then, now), name) in line.gave.iter().zip(now).zip(names) {
        report.lowered += 1;
        let what = || format!("{} with {name}: {}", kernel.full_name(), line.schedule);
        match (then, now) {
            (Gave::Code { text: a, form: f }, Gave::Code { text: b, form: g }) => match (a == b, f == g) {
                (true, true) => {}
                (false, true) => report.texts.push(what()),
                (_, false) => report.forms.push(what()),
            },
            (Gave::Illegal, Gave::Illegal) => {}
            (Gave::Illegal, Gave::Code { .. }) => report.forms.push(format!("{} (was illegal)", what())),
            (Gave::Code { .. }, Gave::Illegal) => report.forms.push(format!("{} (is illegal)", what())),
        }
    }
}

fn compare(kernel: &Kernel, most: usize) -> Report {
    let mut report = Report::default();
    let stored = Stored::read(kernel);
    if stored.lines.is_empty() {
        report.forms.push(format!("{}: no schedule is stored (GIRIH_REPLAY=record draws some)", kernel.full_name()));
    }
    for line in stored.lines.iter().take(most) {
        match line.schedule_of(kernel) {
            Ok(schedule) => tell(&mut report, kernel, line, &gives(kernel, &schedule)),
            Err(e) => report.forms.push(format!("{}: {}: {e}", kernel.full_name(), line.schedule)),
        }
    }
    report
}

fn record(kernel: &Kernel) -> Report {
    let (mut report, mut stored) = (Report::default(), Stored::read(kernel));
    let mut lines = Vec::new();
    let mut known = HashSet::new();
    for mut line in stored.lines {
        // A schedule whose knobs are no longer there has nothing to be compared with.
        let Ok(schedule) = line.schedule_of(kernel) else { continue };
        let now = gives(kernel, &schedule);
        tell(&mut report, kernel, &line, &now);
        line.gave = now;
        known.insert(schedule);
        lines.push(line);
    }
    let mut drawn = drawn(kernel).into_iter();
    while lines.len() < STORED
        && let Some(schedule) = drawn.next()
    {
        let line = Line { schedule: schedule.short(kernel), gave: gives(kernel, &schedule) };
        let new = lines.iter().all(|l| l.gave != line.gave) && line.gave.iter().any(|g| *g != Gave::Illegal);
        if new && known.insert(schedule) {
            lines.push(line);
        }
    }
    stored.lines = lines;
    stored.write();
    report
}

/// Schedules to store, the most telling ones first.
fn drawn(kernel: &Kernel) -> Vec<Schedule> {
    let facts = best_facts(kernel);
    let space = Space::new(kernel, &facts, Target::h200());
    let committed = schedule_lookup::of_kernel(kernel, &facts, None, Target::h200(), None);
    let named = space.naive().into_iter().chain([Schedule::default_of(kernel)]).chain(committed.into_iter().map(|(s, _)| s));
    let points = space.points();
    let random = (0..DRAWN.min(4 * points)).map(|n| space.point(mix(n) % points.max(1)));
    named.chain(random).collect()
}

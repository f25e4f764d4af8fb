//! `diff`: the CUDA C of two schedules, and what changes in the counts.

use super::explain::{Of, Setting, numbers_json};
use super::print_json;
use super::settings::way_at;
use super::show::Preset;
use crate::explain::difference::{Side, sides, table, unified};
use crate::subject::{Subject, names};
use clap::ValueEnum;
use serde_json::json;

#[derive(clap::Args)]
pub struct Args {
    /// A challenge (all its launch sites), one of its sites as in softmax.stats, or a kernel (which needs --size).
    name: String,
    /// The first schedule: knobs as in --a T=1024,V=4 (at every launch), launch sites and variants by name as in
    /// --a 'row in registers=no; stats: T=1024,C=4', or a preset of `show` (naive, default, ..). What it leaves out is as it is best known.
    #[arg(long, value_name = "SCHEDULE", default_value = "best")]
    a: String,
    /// The second schedule.
    #[arg(long, value_name = "SCHEDULE")]
    b: String,
    #[command(flatten)]
    of: Of,
    /// Lines around each change of the text.
    #[arg(long, default_value_t = 3, value_name = "N")]
    context: usize,
    /// Only the tables.
    #[arg(long)]
    no_text: bool,
    /// One JSON object per launch site.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (subject, only) = names::subject_site(&args.name)?;
    let setting = args.of.setting()?;
    let [a, b] = [("--a", &args.a), ("--b", &args.b)]
        .map(|(flag, schedule)| side(&subject, only.as_deref(), &setting, schedule).map_err(|e| format!("{flag} {schedule}: {e}")));
    let (a, b) = (a?, b?);
    // Variants may have other launch sites.
    let of_b = |site: &Side| b.iter().find(|other| other.site == site.site);
    for first in &a {
        match of_b(first) {
            Some(second) if args.json => print_json(&as_json(first, second, args.context)),
            Some(second) => print!("{}", text(first, second, args)),
            None => only_under("a", first, args.json),
        }
    }
    b.iter().filter(|second| !a.iter().any(|first| first.site == second.site)).for_each(|side| only_under("b", side, args.json));
    Ok(())
}

/// The launch sites under a schedule or a preset.
fn side(subject: &Subject, only: Option<&str>, setting: &Setting, schedule: &str) -> Result<Vec<Side>, String> {
    subject.perf_sizes(&setting.sizes)?;
    let preset = Preset::from_str(schedule.trim(), false).ok();
    let set = preset.is_none().then_some(schedule);
    let (subject, way) = way_at(subject, &setting.sizes, only, &setting.target, preset.unwrap_or(Preset::Best), set)?;
    let sizes = subject.perf_sizes(&setting.sizes)?;
    sides(&subject, &sizes, &way, &setting.options(only, false))
}

fn text(a: &Side, b: &Side, args: &Args) -> String {
    let diff = unified(a, b, args.context);
    let diff = match (args.no_text, diff.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{}: the CUDA C is the same\n\n", a.site),
        (false, false) => format!("{diff}\n"),
    };
    diff + &table(a, b)
}

fn only_under(name: &str, side: &Side, json: bool) {
    if json {
        print_json(&json!({ "site": side.site, name: side_json(side) }));
    } else {
        println!("{}: launched under {name} alone, in {:.2} us as predicted, with {}", side.site, side.us, side.schedule);
    }
}

fn as_json(a: &Side, b: &Side, around: usize) -> serde_json::Value {
    json!({ "site": a.site, "a": side_json(a), "b": side_json(b), "diff": unified(a, b, around) })
}

fn side_json(side: &Side) -> serde_json::Value {
    let measured: Vec<_> = side.measured.iter().map(|m| json!({ "us": m.us, "source": m.source })).collect();
    json!({
        "schedule": side.schedule, "predicted_us": side.us, "measured": measured, "machine_code": side.verdict,
        "numbers": side.launches.iter().map(numbers_json).collect::<Vec<_>>(),
    })
}

//! `diff`: the CUDA C of two schedules, what changes in the counts, and on a GPU the times of both in turns.

use super::explain::{Of, Setting, numbers_json};
use super::settings::way_at;
use super::show::Preset;
use super::{device, print_json};
use crate::explain::beside::beside;
use crate::explain::difference::{Side, sides, table, unified};
use crate::ladder::At;
use crate::ladder::timed::{Measured, timed};
use crate::measure::timing::L2;
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
    /// The texts stand side by side in lines of so many characters.
    #[arg(long, value_name = "WIDTH", default_value_t = 160)]
    columns: usize,
    /// A unified diff in the place of two columns.
    #[arg(long, conflicts_with = "columns")]
    unified: bool,
    /// Only the tables.
    #[arg(long)]
    no_text: bool,
    /// On a GPU: rounds in which the program is timed once under each schedule.
    #[arg(long, default_value_t = 31, value_name = "N")]
    rounds: usize,
    /// What these times find in the L2 cache.
    #[arg(long, value_enum, default_value = "cold")]
    l2: L2,
    /// Time nothing, though there is a GPU.
    #[arg(long)]
    predict: bool,
    /// One JSON object per launch site.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (subject, only) = names::subject_site(&args.name)?;
    let setting = args.of.setting()?;
    let [a, b] = [("--a", &args.a), ("--b", &args.b)]
        .map(|(flag, schedule)| side(&subject, only.as_deref(), &setting, schedule).map_err(|e| format!("{flag} {schedule}: {e}")));
    let ((at_a, a), (at_b, b)) = (a?, b?);
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
    // Times are of the GPU at hand only where it is the one that is asked for.
    if setting.here.is_some() && !args.predict {
        let gpu = device::gpu().map_err(|e| e.to_string())?;
        let times = timed(&gpu, &[Some(&at_a), Some(&at_b)], args.rounds, args.l2)?;
        let [Some(a), Some(b)] = &times[..] else { return Err("two schedules have two times".into()) };
        if args.json {
            print_json(&times_json(&subject.name, (a, b)));
        } else {
            println!("{}", times_text((a, b), args.l2));
        }
    }
    Ok(())
}

/// A time, or why there is none.
type Time = Result<Measured, String>;

fn times_text((a, b): (&Time, &Time), l2: L2) -> String {
    let one = |name: &str, time: &Time| match time {
        Ok(measured) => format!("{name} {:.2} us", measured.us),
        Err(why) => format!("{name} none: {why}"),
    };
    let faster = b.as_ref().ok().and_then(|b| b.faster).map_or(String::new(), |faster| format!(", {faster:.3} x as fast as a"));
    let warm = if l2 == L2::Warm { " with a warm L2" } else { "" };
    format!("measured in turns, the whole program{warm}: {}, {}{faster}", one("a", a), one("b", b))
}

fn times_json(name: &str, (a, b): (&Time, &Time)) -> serde_json::Value {
    let us = |time: &Time| time.as_ref().ok().map(|measured| measured.us);
    let failure = |time: &Time| time.as_ref().err().cloned();
    json!({
        "program": name, "a_us": us(a), "b_us": us(b), "faster": b.as_ref().ok().and_then(|b| b.faster),
        "failures": [failure(a), failure(b)],
    })
}

/// The launch sites under a schedule or a preset.
fn side(subject: &Subject, only: Option<&str>, setting: &Setting, schedule: &str) -> Result<(At, Vec<Side>), String> {
    subject.perf_sizes(&setting.sizes)?;
    let preset = Preset::from_str(schedule.trim(), false).ok();
    let set = preset.is_none().then_some(schedule);
    let (subject, way) = way_at(subject, &setting.sizes, only, &setting.target, preset.unwrap_or(Preset::Best), set)?;
    let sizes = subject.perf_sizes(&setting.sizes)?;
    let sides = sides(&subject, &sizes, &way, &setting.options(only, false))?;
    Ok((At { subject, sizes, way }, sides))
}

fn text(a: &Side, b: &Side, args: &Args) -> String {
    let diff = match args.unified {
        true => unified(a, b, args.context),
        false => headed(a, b, beside(&a.source, &b.source, args.columns, args.context)),
    };
    let diff = match (args.no_text, diff.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{}: the CUDA C is the same\n\n", a.site),
        (false, false) => format!("{diff}\n"),
    };
    diff + &table(a, b)
}

/// Texts in columns under the schedules whose they are.
fn headed(a: &Side, b: &Side, columns: String) -> String {
    if columns.is_empty() { columns } else { format!("left:  {} {}\nright: {} {}\n{columns}", a.site, a.schedule, b.site, b.schedule) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_turns_are_told() {
        let time = |us, faster| Ok(Measured { us, faster });
        assert_eq!(
            times_text((&time(37.66, None), &time(32.2951, Some(1.1661))), L2::Cold),
            "measured in turns, the whole program: a 37.66 us, b 32.30 us, 1.166 x as fast as a"
        );
        let wrong = Err("Y differs".to_string());
        assert_eq!(
            times_text((&time(37.66, None), &wrong), L2::Warm),
            "measured in turns, the whole program with a warm L2: a 37.66 us, b none: Y differs"
        );
        let told = times_json("copies", (&time(37.5, None), &wrong));
        assert_eq!(told, json!({ "program": "copies", "a_us": 37.5, "b_us": null, "faster": null, "failures": [null, "Y differs"] }));
    }
}

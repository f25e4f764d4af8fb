//! `check`: eval = simulator (or GPU) = reference, over odd sizes and sampled schedules.

use super::device::{self, DeviceChoice};
use super::show::Preset;
use super::{ahead, compile_apart, deviation_json, parse_time, print_json, settings};
use crate::check::{Failure, On, Options, Part, Progress, Report, Run};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::names;
use serde_json::json;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Challenges or kernels.
    names: Vec<String>,
    /// Every challenge, and every kernel that no challenge uses.
    #[arg(long)]
    all: bool,
    /// Where kernels run.
    #[arg(long, value_enum, default_value = "sim")]
    device: DeviceChoice,
    /// The GPU whose limits the simulator has: t4, a100, h100, h200, b200, rtx5090.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Schedules per kernel: the naive one, the default, the winner, and samples.
    #[arg(long, default_value_t = 20, value_name = "N")]
    schedules: usize,
    /// The only size to check at, as in --size N=1000 or --size width=64,height=48; what it leaves out is as in the perf size.
    #[arg(long, value_name = "SIZES", conflicts_with = "all")]
    size: Option<String>,
    /// Leave out the perf size, at which a GPU also runs the default and the best schedule, beside samples of the references.
    #[arg(long)]
    no_perf_size: bool,
    /// At that size, tensors one element off alignment, as they lie at every other check size.
    #[arg(long, requires = "size")]
    misaligned: bool,
    /// The only schedule to check, as in --set T=1024,V=4 (at every launch) or --set 'stats: T=1024,C=4; normalise: T=512' (launch sites
    /// and variants by name); what it leaves out is as it is best known.
    #[arg(long, value_name = "KNOBS", conflicts_with_all = ["all", "schedules"])]
    set: Option<String>,
    /// What NVRTC may take for one kernel of a GPU; what takes longer is given up.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2m")]
    compile_limit: Duration,
    /// Of random data, sizes and samples.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object per challenge or kernel.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let (subjects, unbuilt) = names::subjects(&args.names, args.all)?;
    let on = match args.device {
        DeviceChoice::Sim => On::Simulator(device::target(args.target.as_deref())?.clone()),
        DeviceChoice::Cuda => On::Device(device::gpu().map_err(|e| e.to_string())?),
    };
    compile_apart(args.compile_limit)?;
    let where_to = match &on {
        On::Simulator(target) => format!("simulator ({})", target.name),
        On::Device(device) => device.name(),
    };
    let options = Options { on, schedules: args.schedules, seed: args.seed };
    let parts = subjects.iter().map(|s| part(s, args, &options.on)).collect::<Result<Vec<_>, _>>()?;
    let (start, bar) = (Instant::now(), device::spinner());
    let printed = Printed { bar: &bar, args };
    let mut reports = crate::check::check_parts(&parts, &options, &printed);
    let unbuilt = unbuilt.into_iter().map(|u| Report { name: u.name, failures: vec![u.error.into()], ..Report::default() });
    reports.extend(unbuilt.inspect(|report| printed.report(report)));
    bar.finish_and_clear();
    let failed = reports.iter().filter(|r| !r.failures.is_empty()).count();
    let runs: usize = reports.iter().map(|r| r.runs).sum();
    if !args.json {
        println!("{runs} runs on {where_to} in {:.1} s", start.elapsed().as_secs_f64());
    }
    if failed > 0 { Err(format!("{failed} of {} are wrong", reports.len())) } else { Ok(()) }
}

/// Reports are printed as they are complete, so that a check that is broken off has said what it knows.
struct Printed<'a> {
    bar: &'a indicatif::ProgressBar,
    args: &'a Args,
}

impl Progress for Printed<'_> {
    fn size(&self, subject: &str) {
        self.bar.set_message(subject.to_string());
        self.bar.inc(1);
    }

    fn report(&self, report: &Report) {
        self.bar.suspend(|| if self.args.json { print_json(&as_json(report, self.args)) } else { print(report, self.args) });
    }

    fn compiling(&self, kernel: &str, schedule: &str, elapsed: Duration) {
        self.bar.suspend(|| eprintln!("note: NVRTC has compiled {kernel} [{schedule}] for {} s so far", elapsed.as_secs()));
    }
}

/// What of a subject is asked for.
fn part(subject: &Subject, args: &Args, on: &On) -> Result<Part, String> {
    let sizes = match &args.size {
        None => None,
        Some(text) => {
            let sizes = subject.perf_sizes(&Sizes::parse(text)?)?;
            if matches!(on, On::Simulator(_)) {
                ahead::simulated(subject, &sizes)?;
            }
            Some(sizes)
        }
    };
    let at_perf_size = matches!(on, On::Device(_)) && !args.no_perf_size;
    let part = Part { subject: subject.clone(), sizes, misaligned: args.misaligned, at_perf_size, way: None };
    let Some(set) = &args.set else { return Ok(part) };
    let (subject, schedules) = settings::way(subject, on.target(), Preset::Best, Some(set))?;
    Ok(Part { subject, way: Some(schedules.into_iter().map(|(schedule, _)| schedule).collect()), ..part })
}

fn print(report: &Report, args: &Args) {
    let verdict = if report.failures.is_empty() { "ok   " } else { "WRONG" };
    let rejected: usize = report.rejected.values().sum();
    let illegal = if rejected > 0 { format!(", {rejected} illegal there") } else { String::new() };
    let left_out = if report.left_out > 0 { format!(", {} lengths left out", report.left_out) } else { String::new() };
    let deviation = report.deviation.map_or(String::new(), |d| format!("; {d}"));
    println!(
        "{verdict} {:<24} {} sizes x {} schedules: {} runs{illegal}{left_out}{deviation}",
        report.name, report.sizes, report.schedules, report.runs
    );
    for failure in report.failures.iter().take(5) {
        print_failure(failure, args);
    }
    if report.failures.len() > 5 {
        println!("      and {} more", report.failures.len() - 5);
    }
}

/// What is wrong, the first elements of it, and the command that shows it again.
fn print_failure(failure: &Failure, args: &Args) {
    println!("      {}", failure.message);
    for element in &failure.elements {
        println!("        {element}: {}", element.beside_tolerance());
    }
    if let Some(run) = &failure.run {
        println!("      {}", replay(run, args));
    }
}

/// The command that makes a run again, for a shell.
fn replay(run: &Run, args: &Args) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "autotune".into());
    let mut words = vec![program];
    words.extend(run.arguments());
    words.extend(match args.device {
        DeviceChoice::Sim => ["--device".to_string(), "sim".into()],
        DeviceChoice::Cuda => ["--device".to_string(), "cuda".into()],
    });
    words.extend(args.target.iter().flat_map(|t| ["--target".to_string(), t.clone()]));
    words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-=,.:/+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn as_json(report: &Report, args: &Args) -> serde_json::Value {
    json!({
        "name": report.name, "ok": report.failures.is_empty(), "sizes": report.sizes, "schedules": report.schedules,
        "runs": report.runs, "error": report.deviation.as_ref().map(deviation_json), "rejected": report.rejected, "left_out": report.left_out,
        "failures": report.failures.iter().map(|f| failure_json(f, args)).collect::<Vec<_>>(),
    })
}

fn failure_json(failure: &Failure, args: &Args) -> serde_json::Value {
    // JSON has no numbers for NaN and the infinities; as text they are what a reader of the terminal sees.
    let number = |x: f64| if x.is_finite() { json!(x) } else { json!(format!("{x}")) };
    let elements = failure.elements.iter().map(|d| {
        json!({
            "tensor": d.tensor, "index": d.index, "found": number(d.found), "expected": number(d.expected),
            "error": number(d.error()), "allowed": number(d.allowed),
        })
    });
    let run = failure.run.as_ref();
    json!({
        "message": failure.message, "elements": elements.collect::<Vec<_>>(), "size": run.map(|r| &r.sizes.0),
        "seed": run.map(|r| r.seed), "misaligned": run.map(|r| r.misaligned), "schedule": run.and_then(|r| r.schedule.as_ref()),
        "replay": run.map(|r| replay(r, args)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for word in ["check", "T=256,C=1", "two launches=yes; affine: T=512", "it's", "f::g<f32>", "", "$x", "a\\b", "é"] {
            let script = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("there is a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{script}");
        }
        assert_eq!((quoted("T=256,C=1"), quoted("it's")), ("T=256,C=1".into(), "'it'\\''s'".into()));
    }
}

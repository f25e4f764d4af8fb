//! `check`: eval = simulator (or GPU) = reference, over odd sizes and sampled schedules.

use super::device::{self, DeviceChoice};
use super::{deviation_json, names, print_json};
use crate::check::{On, Options, Report};
use serde_json::json;
use std::time::Instant;

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
    let where_to = match &on {
        On::Simulator(target) => format!("simulator ({})", target.name),
        On::Device(device) => device.name(),
    };
    let options = Options { on, schedules: args.schedules, seed: args.seed };
    let (start, bar) = (Instant::now(), device::spinner());
    let mut reports = crate::check::check(&subjects, &options, &|name| {
        bar.set_message(name.to_string());
        bar.inc(1);
    });
    reports.extend(unbuilt.into_iter().map(|u| Report { name: u.name, failures: vec![u.error], ..Report::default() }));
    bar.finish_and_clear();
    for report in &reports {
        if args.json { print_json(&as_json(report)) } else { print(report) }
    }
    let failed = reports.iter().filter(|r| !r.failures.is_empty()).count();
    let runs: usize = reports.iter().map(|r| r.runs).sum();
    if !args.json {
        println!("{runs} runs on {where_to} in {:.1} s", start.elapsed().as_secs_f64());
    }
    if failed > 0 { Err(format!("{failed} of {} are wrong", reports.len())) } else { Ok(()) }
}

fn print(report: &Report) {
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
        println!("      {failure}");
    }
    if report.failures.len() > 5 {
        println!("      and {} more", report.failures.len() - 5);
    }
}

fn as_json(report: &Report) -> serde_json::Value {
    json!({
        "name": report.name, "ok": report.failures.is_empty(), "sizes": report.sizes, "schedules": report.schedules,
        "runs": report.runs, "error": report.deviation.as_ref().map(deviation_json), "rejected": report.rejected, "left_out": report.left_out, "failures": report.failures,
    })
}

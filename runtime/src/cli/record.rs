//! `record`: the times of many schedules, by which predictions are judged elsewhere.

use super::{compile_apart, device, parse_time};
use crate::subject::challenge::Sizes;
use crate::subject::names;
use crate::tune::record::{Asked, record};
use crate::tune::recording;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Challenges or kernels.
    #[arg(required = true)]
    names: Vec<String>,
    /// Schedules of each: half of them drawn evenly from all that are legal, the others beside the best of those, and at most twice as slow.
    #[arg(long, value_name = "N", default_value_t = 72)]
    schedules: usize,
    /// Of the draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sizes, as in --size N=1000; the perf size without.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// Time for each; fewer schedules are recorded where it is too short.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    budget: Option<Duration>,
    /// Limit for one schedule.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5s")]
    limit: Duration,
    /// What NVRTC may take for one kernel; what takes longer is left out.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20s")]
    compile_limit: Duration,
    /// The file that the times are added to; names that it has are left out.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<(), String> {
    let gpu = device::gpu().map_err(|e| format!("times are recorded on a GPU: {e}"))?;
    let asked_sizes = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
    device::provide_nvrtc();
    compile_apart(args.compile_limit)?;
    let mut failures = Vec::new();
    for name in missing(&args.names, &args.out)? {
        let subject = names::subject(&name)?;
        let sizes = subject.perf_sizes(&asked_sizes)?;
        let begun = Instant::now();
        let asked = Asked { schedules: args.schedules, seed: args.seed, end: args.budget.map(|b| begun + b), limit: args.limit };
        let mut file = OpenOptions::new().create(true).append(true).open(&args.out).map_err(|e| describe(&args.out, &e))?;
        let (mut headed, mut best) = (false, f64::INFINITY);
        let recorded = record(&subject, &sizes, &gpu, &asked, &mut |head, timed| {
            let head = if std::mem::replace(&mut headed, true) { String::new() } else { format!("{}\n", head.head()) };
            best = best.min(timed.us);
            writeln!(file, "{head}{timed}").map_err(|e| describe(&args.out, &e))
        });
        match recorded {
            Ok(n) => println!("{name} at {sizes}: {n} schedules in {:.1} s, the best takes {best:.2} us", begun.elapsed().as_secs_f64()),
            Err(e) => {
                eprintln!("{}", names::named(&name, &e));
                failures.push(name);
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("could not record {}", failures.join(", "))) }
}

/// The names that a file does not have yet.
fn missing(names: &[String], out: &Path) -> Result<Vec<String>, String> {
    let text = if out.exists() { std::fs::read_to_string(out).map_err(|e| describe(out, &e))? } else { String::new() };
    let there = recording::parse(&text).map_err(|e| format!("{}: {e}", out.display()))?;
    Ok(names.iter().filter(|n| !there.iter().any(|r| r.name == **n)).cloned().collect())
}

fn describe(path: &Path, e: &std::io::Error) -> String {
    format!("{}: {e}", path.display())
}

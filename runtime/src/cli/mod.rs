//! The command line: `autotune` for every kernel that is linked into a program.
//!
//! ```no_run
//! use girih as _; // and the crate with your kernels
//! fn main() -> std::process::ExitCode {
//!     girih::cli::main()
//! }
//! ```

mod abreast;
mod ahead;
mod bench;
mod bugs;
mod check;
mod counters;
mod device;
mod diff;
mod doctor;
mod explain;
mod export;
mod exports;
mod host;
mod known;
mod ladder;
mod list;
mod peers;
#[cfg_attr(not(feature = "image"), path = "no_picture.rs")]
mod picture;
mod presets;
mod record;
mod report;
mod run;
mod settings;
mod show;
mod store;
mod sweeps;
mod tune;
mod winners;

use crate::child::Launcher;
use crate::compile::nvrtc::{self, COMPILER};
use crate::measure::acceptance::Acceptance;
use crate::subject::deviation::Deviation;
use crate::tune::client::WORKER;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;

/// Lists, shows, checks, runs, tunes, times and exports the kernels that are linked into this program.
///
/// NAME is a challenge's slug (vector_add) or a kernel's path, or the end of one (vector_add::vector_add).
#[derive(Parser)]
#[command(version, name = "autotune", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List challenges and kernels with the number of their schedules.
    List(list::Args),
    /// Show a kernel at a schedule: tile IR, SIMT IR, CUDA C, PTX or SASS.
    Show(show::Args),
    /// Explain a schedule: what bounds it, what it occupies and moves, what trials say of its knobs, what to try next.
    Explain(explain::Args),
    /// Compare two schedules: their CUDA C, and what changes in the counts.
    Diff(diff::Args),
    /// Climb a ladder: a technique from the naive kernel to the best one, each rung timed beside the one before and explained by its counters.
    Ladder(ladder::Args),
    /// Run techniques of the host (copies beside kernels, graphs, memory that both reach), each way of doing the work with its timeline.
    Host(host::Args),
    /// Write all that is known of some challenges as one page of HTML: roofline, trials, knobs, ladder, winners.
    Report(report::Args),
    /// Say what was found on this machine, what is missing and what to do.
    Doctor(doctor::Args),
    /// Compare evaluator, simulator (or GPU) and plain-Rust reference over odd sizes and sampled schedules.
    Check(check::Args),
    /// Run a challenge or kernel once: on random data, or on an image.
    Run(run::Args),
    /// Find the best schedule: measured on a GPU, predicted without one.
    Tune(tune::Args),
    /// Record on a GPU how long schedules take that are drawn by a seed: predictions are judged by them.
    Record(record::Args),
    /// Time kernels at their perf size, beside PyTorch where there is one.
    Bench(bench::Args),
    /// Write .cu files with `solve` for a judge, ready for nvcc.
    Export(export::Args),
    /// Write the best schedules known to the winners' file that is compiled in.
    Winners(winners::Args),
    /// List, show, carry to other machines and remove what the tuner knows.
    Store(store::Args),
    /// The process that measures candidates for `tune`, one JSON request a line.
    #[command(name = WORKER, hide = true)]
    Worker,
    /// A process that compiles with NVRTC for another one, one JSON request a line.
    #[command(name = COMPILER, hide = true)]
    Compiler,
}

/// Runs the command line. The exit code is 0 if all went well, 1 if a check failed or a command could not do its work.
pub fn main() -> ExitCode {
    end_with_the_reader();
    crate::cli::bugs::watch_compiler();
    let cli = Cli::parse();
    crate::launch::schedule_lookup::add_sources();
    let (serves, checks) = (matches!(cli.command, Command::Worker | Command::Compiler), matches!(cli.command, Command::Check(_)));
    let result = match cli.command {
        Command::List(args) => list::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Ladder(args) => ladder::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Winners(args) => winners::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Worker => crate::tune::worker::serve(),
        Command::Compiler => crate::compile::nvrtc::serve(),
    };
    // Who asked a process for work runs into the same.
    let bugs = if serves { 0 } else { crate::cli::bugs::tell() };
    match result {
        Ok(()) if checks && bugs > 0 => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // A mistake in a kernel begins so by itself.
            eprintln!("error: {}", message.strip_prefix("error: ").unwrap_or(&message));
            ExitCode::FAILURE
        }
    }
}

/// `30s`, `5m`, `1h` or plain seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit `{other}`: write 30s, 5m or 1h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` is no time: write 30s, 5m or 1h"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|e| e.to_string())
}

/// From now on NVRTC runs in processes of its own, which may take so long for one kernel.
///
/// # Errors
/// This program's path is not known.
fn compile_apart(limit: Duration) -> Result<(), String> {
    nvrtc::compile_apart(Launcher::this_program(COMPILER)?, limit);
    Ok(())
}

/// A reader that has seen enough (`autotune list | head`) closes the pipe: printing then panics, which is no bug to report.
fn end_with_the_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") {
            std::process::exit(0);
        }
        report(info);
    }));
}

/// A verdict for a program to read.
fn acceptance_json(verdict: &Acceptance) -> serde_json::Value {
    let counts: Option<Vec<serde_json::Value>> = verdict.instructions.as_ref().ok().map(|counts| {
        counts.iter().map(|c| serde_json::json!({ "instruction": c.kind.to_string(), "meant": c.meant, "found": c.found })).collect()
    });
    serde_json::json!({ "accepted": verdict.accepted(), "verdict": verdict.to_string(), "resources": verdict.resources, "instructions": counts })
}

/// Errors against the reference for a program to read.
fn deviation_json(deviation: &Deviation) -> serde_json::Value {
    serde_json::json!({ "maximal": deviation.maximal(), "frobenius": deviation.frobenius() })
}

/// Prints a line for a program to read.
fn print_json(value: &serde_json::Value) {
    println!("{value}");
}

//! `tune`: the best schedule, measured on a GPU or predicted without one.

use super::device::{self, DeviceChoice};
use super::{acceptance_json, compile_apart, known, parse_time, print_json, sweeps};
use crate::child::Launcher;
use crate::measure::timing::L2;
use crate::store::provenance::Provenance;
use crate::store::{Status, Store, Trial};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::names::{self, Unbuilt};
use crate::tune::client::{self, WORKER};
use crate::tune::search::{Budget, Strategy};
use crate::tune::shard::Shard;
use crate::tune::{Among, By, Options, Progress, SiteOutcome, Tuned, Workers, tune};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Challenges or kernels; one launch site of a program as in softmax.stats.
    names: Vec<String>,
    /// Every challenge, and every kernel that no challenge uses (those need --size).
    #[arg(long)]
    all: bool,
    /// cuda measures; sim checks on the simulator and predicts. The first GPU, or sim where there is none.
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// The GPU to predict for: t4, a100, h100, h200, b200, rtx5090. Implies --device sim.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Sizes, as in --size N=1000; the perf size without.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// Tune every shape of a file (see examples/sweep.txt), those of the names if some are given, each under the budget. A launch without
    /// a schedule takes the one of the nearest lengths.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "size"])]
    sweep: Option<PathBuf>,
    /// Only these choices of one launch site's knobs, as in --space "S=3|4,G=0..1"; the others have all of theirs.
    #[arg(long, value_name = "SPACE", conflicts_with = "all")]
    space: Option<String>,
    /// Only the schedules of a file, one per line as in T=1024,V=4; # starts a comment.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "space"])]
    schedules: Option<PathBuf>,
    /// Time for each challenge or kernel: 30s, 5m. The launch sites of a program share it. All candidates without.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    budget: Option<Duration>,
    /// Number of trials of each launch site.
    #[arg(long, value_name = "N")]
    trials: Option<usize>,
    /// One of several shares, as 2/4, whose others run elsewhere: of several calls every fourth; of one call every fourth candidate. Their
    /// stores are merged behind that (`autotune store merge`).
    #[arg(long, value_name = "I/N", conflicts_with_all = ["space", "schedules"])]
    shard: Option<Shard>,
    /// Which candidate comes next.
    #[arg(long, value_enum, default_value = "model")]
    strategy: StrategyChoice,
    /// Limit for one trial; a candidate that takes longer is dropped.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20s")]
    limit: Duration,
    /// What NVRTC may take for one kernel; what takes longer is given up.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2m")]
    compile_limit: Duration,
    /// What samples find in the L2 cache. Times of a warm one, and what they elect, are kept apart; launches take what a cold one elects.
    #[arg(long, value_enum, default_value = "cold")]
    l2: L2,
    /// Repeat the trials that the store has.
    #[arg(long)]
    fresh: bool,
    /// One JSON object per kernel.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum StrategyChoice {
    /// What the model likes first, then what lies near the fastest.
    Model,
    /// The space's order.
    Exhaustive,
    /// A random order.
    Random,
    /// What the model likes first, then children of the fastest few.
    Evolve,
}

/// One call to tune for.
struct Task {
    subject: Subject,
    /// Only this launch site, by its name.
    site: Option<String>,
    /// What was said of its sizes.
    asked: Sizes,
}

/// The shapes of a sweep, or the names at one size; and what cannot be built.
fn tasks(args: &Args) -> Result<(Vec<Task>, Vec<Unbuilt>), String> {
    if let Some(file) = &args.sweep {
        let shapes = sweeps::read(file, &args.names)?.into_iter();
        let tasks = shapes.map(|e| Ok(Task { subject: names::subject(&e.name)?, site: None, asked: e.sizes }));
        return Ok((tasks.collect::<Result<_, String>>()?, Vec::new()));
    }
    let (subjects, unbuilt) = names::subjects_sites(&args.names, args.all)?;
    let asked = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
    Ok((subjects.into_iter().map(|(subject, site)| Task { subject, site, asked: asked.clone() }).collect(), unbuilt))
}

pub fn run(args: &Args) -> Result<(), String> {
    let begun = Instant::now();
    let (mut tasks, unbuilt) = tasks(args)?;
    let among = match args.shard {
        Some(shard) if tasks.len() == 1 => Some(Among::Shard(shard)),
        Some(shard) => {
            let mut place = 0..;
            tasks.retain(|_| place.next().is_some_and(|at| shard.takes(at)));
            None
        }
        None => among(args)?,
    };
    let by = by(args)?;
    // Predictions read registers from compiled kernels.
    let fetched = device::provide_nvrtc();
    let strategy = match args.strategy {
        StrategyChoice::Model => Strategy::Model,
        StrategyChoice::Exhaustive => Strategy::Exhaustive,
        StrategyChoice::Random => Strategy::Random { seed: 1 },
        StrategyChoice::Evolve => Strategy::Evolve { seed: 1 },
    };
    let budget = Budget { time: args.budget, trials: args.trials };
    let mut options = Options { by, budget, strategy, limit: args.limit, fresh: args.fresh, only: None, among };
    compile_apart(args.compile_limit)?;
    let store = Store::open_default().map_err(|e| e.to_string())?.making(provenance(&options.by));
    let stop = interrupt_flag();
    names::tell(&unbuilt);
    let mut failures: Vec<String> = unbuilt.into_iter().map(|u| u.name).collect();
    // What the program takes to start is the first call's, but for what is fetched once.
    let mut started = begun.elapsed().saturating_sub(fetched);
    for Task { subject, site, asked } in tasks {
        options.only = site;
        options.budget.time = args.budget.map(|time| time - std::mem::take(&mut started).min(time / 2));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Err(e) = tune_one(&subject, &asked, &options, &store, &stop, args.json) {
            let name = if args.sweep.is_some() { format!("{} at {asked}", subject.name) } else { subject.name };
            eprintln!("{}", names::named(&name, &e));
            failures.push(name);
        }
    }
    if stop.load(Ordering::Relaxed) {
        eprintln!("stopped; every trial so far is in {}, and the same command goes on from there", store.path().display());
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("could not tune {}", failures.join(", "))) }
}

/// Under which driver, NVRTC and clocks times are measured; of predictions nothing is known, nor does it matter.
fn provenance(by: &By) -> Provenance {
    match by {
        By::Measurement(workers) => known::provenance(&workers.gpu),
        By::Prediction(_) => Provenance::default(),
    }
}

/// Which part of a space was asked for.
fn among(args: &Args) -> Result<Option<Among>, String> {
    match (&args.space, &args.schedules) {
        (Some(text), _) => Ok(Some(Among::Space(text.clone()))),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            Ok(Some(Among::Schedules(text)))
        }
        (None, None) => Ok(None),
    }
}

fn tune_one(subject: &Subject, asked: &Sizes, options: &Options, store: &Store, stop: &AtomicBool, json: bool) -> Result<(), String> {
    let sizes = subject.perf_sizes(asked)?;
    if !json {
        println!("{} at {sizes}, {}", subject.name, describe(&options.by));
    }
    let mut bar = Bar { bar: ProgressBar::new(0), best: None };
    let tuned = tune(subject, &sizes, options, store, stop, &mut bar);
    bar.bar.finish_and_clear();
    let Tuned { sites, program } = tuned?;
    for outcome in &sites {
        if json { print_json(&as_json(outcome, &sizes, &options.by)) } else { print(outcome, &options.by) }
    }
    if let Some((joint, us)) = program {
        if json {
            print_json(&json!({
                "program": subject.source.path, "sizes": sizes.0, "device": options.by.device_name(), "arch": options.by.target().arch,
                "predicted": matches!(options.by, By::Prediction(_)), "schedule": joint.to_string(), "median_us": us,
            }));
        } else {
            println!("  the whole program: {us:.2} us with {joint}");
        }
    }
    Ok(())
}

fn by(args: &Args) -> Result<By, String> {
    if args.target.is_some() && args.device == Some(DeviceChoice::Cuda) {
        return Err("--target predicts for a GPU that need not be here; --device cuda measures on the one that is: give one of them".into());
    }
    if args.target.is_some() || args.device == Some(DeviceChoice::Sim) {
        return Ok(By::Prediction(device::target(args.target.as_deref())?));
    }
    // Opened by those who measure, the first of whom begins at once.
    client::start_ahead(&Launcher::this_program(WORKER)?);
    match (device::look(), args.device) {
        (Ok(gpu), _) => Ok(By::Measurement(Workers::of(gpu, args.l2)?)),
        (Err(e), Some(_)) => Err(e.to_string()),
        (Err(e), None) => {
            eprintln!("note: no GPU can be used, so times are predicted: {e}");
            Ok(By::Prediction(device::target(None)?))
        }
    }
}

fn describe(by: &By) -> String {
    match by {
        By::Measurement(workers) => format!("measured on {}", workers.gpu.name),
        By::Prediction(target) => {
            format!("PREDICTED for {} ({}): checked on the simulator, times from the model, nothing was measured", target.name, target.arch)
        }
    }
}

fn print(outcome: &SiteOutcome, by: &By) {
    told(outcome, by).iter().for_each(|line| println!("  {line}"));
}

/// What came of a launch site, line by line.
fn told(outcome: &SiteOutcome, by: &By) -> Vec<String> {
    let (tried, known, left) = outcome.counts;
    let place = if outcome.kernel.ends_with(&format!("::{}", outcome.site)) { String::new() } else { format!("{}, ", outcome.site) };
    let mut lines = vec![format!("{place}{}: {tried} trials, {known} known, {left} untried", outcome.kernel)];
    let verb = if matches!(by, By::Prediction(_)) { "predicted" } else { "median" };
    match (&outcome.winner, outcome.median_us) {
        (Some((schedule, attribute)), Some(us)) => {
            let gain = outcome.naive_us.map_or(String::new(), |n| format!(", {:.2} x the naive schedule's speed", n / us));
            let bound = outcome.bound().map_or(String::new(), |b| format!(", {b}"));
            let within = outcome.interval_us.map_or(String::new(), |(low, high)| format!(" ({low:.2} to {high:.2})"));
            lines.push(format!("best {schedule}: {verb} {us:.2} us{within}{gain}{bound}"));
            if let [first, more @ ..] = &outcome.equals[..] {
                let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
                lines.push(format!("as fast, as far as can be told, and not simpler: {first}{more}"));
            }
            lines.extend(outcome.throttled.as_ref().map(|throttled| format!("{throttled}; the next run takes such trials again")));
            lines.push(attribute.clone());
            lines.extend(outcome.acceptance.as_ref().map(ToString::to_string));
        }
        _ if outcome.ranking.is_empty() => lines.push("no candidate was right and timed".into()),
        _ => lines.push("nothing is elected; the fastest that were timed:".into()),
    }
    let large = outcome.large.as_ref();
    lines.extend(large.map(|large| format!("best at {}: {}, median {:.2} us", large.sizes, large.schedule, large.median_us)));
    for t in outcome.ranking.iter().skip(outcome.winner.iter().len()).take(4) {
        let flaw = t.flaw.as_ref().map_or(String::new(), |f| format!(", not accepted: {f}"));
        lines.push(format!("     {:<40} {:.2} us{flaw}", t.schedule, t.median_us.unwrap_or(f64::NAN)));
    }
    lines.extend(outcome.dropped.iter().map(|(reason, count)| format!("dropped {count}: {reason}")));
    lines
}

fn as_json(outcome: &SiteOutcome, sizes: &Sizes, by: &By) -> serde_json::Value {
    let (tried, known, left) = outcome.counts;
    json!({
        "kernel": outcome.kernel, "site": outcome.site, "sizes": sizes.0, "device": by.device_name(), "arch": by.target().arch,
        "predicted": matches!(by, By::Prediction(_)),
        "schedule": outcome.winner.as_ref().map(|w| &w.0), "attribute": outcome.winner.as_ref().map(|w| &w.1),
        "large": outcome.large.as_ref().map(|l| json!({ "sizes": l.sizes.0, "schedule": l.schedule, "median_us": l.median_us })),
        "median_us": outcome.median_us, "interval_us": outcome.interval_us, "equals": outcome.equals, "naive_us": outcome.naive_us, "acceptance": outcome.acceptance.as_ref().map(acceptance_json),
        "throttled": outcome.throttled, "missed": outcome.missed,
        "bound": outcome.bound(), "tried": tried, "known": known, "untried": left, "dropped": outcome.dropped,
    })
}

/// Whether stderr is a terminal, on which progress is drawn; lines stand in for it elsewhere.
fn console_is_read_by_people() -> bool {
    std::io::stderr().is_terminal()
}

/// Becomes true at the first Ctrl-C; the second ends the process.
fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let handler = move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    // Without a handler Ctrl-C ends the process at once; nothing is lost then either.
    let _ = ctrlc::set_handler(handler);
    flag
}

/// The progress bar with the best so far.
struct Bar {
    bar: ProgressBar,
    best: Option<(f64, String)>,
}

impl Progress for Bar {
    fn begin(&mut self, site: &str, candidates: usize, known: usize) {
        let style = ProgressStyle::with_template("  {prefix} [{bar:30}] {pos}/{len} {elapsed}<{eta} {msg}").expect("a constant template");
        self.bar.finish_and_clear();
        self.bar = ProgressBar::new((candidates - known) as u64).with_style(style);
        self.bar.set_prefix(site.to_string());
        self.best = None;
    }

    fn tried(&mut self, trial: &Trial) {
        if let Some(us) = trial.median_us
            && self.best.as_ref().is_none_or(|(best, _)| us < *best)
        {
            self.best = Some((us, trial.schedule.clone()));
            if !console_is_read_by_people() {
                eprintln!("  {} {us:.2} us {}", trial.status.name(), trial.schedule);
            }
        }
        if let Some((us, schedule)) = &self.best {
            let word = if trial.status == Status::Predicted { "predicted best" } else { "best" };
            self.bar.set_message(format!("{word} {us:.2} us {schedule}"));
        }
        self.bar.inc(1);
    }

    fn doing(&mut self, text: &str) {
        if console_is_read_by_people() {
            self.bar.finish_and_clear();
            self.bar =
                ProgressBar::new_spinner().with_style(ProgressStyle::with_template("  {elapsed} {msg}").expect("a constant template"));
            self.bar.enable_steady_tick(Duration::from_millis(200));
            self.bar.set_message(text.to_string());
        } else {
            eprintln!("  {text}");
        }
    }

    fn note(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("  {text}"));
    }
}

#[cfg(test)]
mod tests;

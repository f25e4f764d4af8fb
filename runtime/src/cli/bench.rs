//! `bench`: medians at the perf size, beside PyTorch in the same run.

use super::abreast::abreast;
use super::peers::Torch;
use super::{acceptance_json, ahead, deviation_json, device, exports, known, presets, print_json, sweeps};
use crate::compile::cache::write_atomically;
use crate::cores::cores;
use crate::device::Device;
use crate::launch::program::Way;
use crate::measure::bench::{Options, Peers, Row, bench};
use crate::measure::quiet::Quiet;
use crate::measure::sweep::Entry;
use crate::measure::timing::L2;
use crate::store::Store;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::names;
use crate::tune::reduced::scaled_tiles;
use crate::tune::{By, Workers};
use serde_json::json;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Once;

#[derive(clap::Args)]
pub struct Args {
    /// Challenges or kernels.
    names: Vec<String>,
    /// Every challenge.
    #[arg(long)]
    all: bool,
    /// Sizes, as in --size N=1000; the perf size without.
    #[arg(long, value_name = "SIZES")]
    size: Option<String>,
    /// Scale the perf size until the largest tensor has this many bytes (1GiB, 512MiB), and time torch's copy_ of one beside it.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    bytes: Option<f64>,
    /// Turns of each: eight samples of a work below 100 µs, one of a longer one.
    #[arg(long, default_value_t = 51, value_name = "N")]
    rounds: usize,
    /// As an exported `solve` launches: one launch after the other on a stream, also where a program could run as one CUDA graph.
    #[arg(long, alias = "no-graph")]
    stream: bool,
    /// Beside itself as exported, compiled by nvcc and called as a judge calls it: each may take 1.03 times the program's time on a stream
    /// and 0.3 µs more.
    #[arg(long, conflicts_with_all = ["bytes", "presets", "sweep"])]
    exported: bool,
    /// Challenges that are prepared at once, each in a thread of its own with a process of PyTorch's. Turns are taken alone. Half of the
    /// cores and at most 8 without; 1 with --bytes.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Leave PyTorch out.
    #[arg(long)]
    no_torch: bool,
    /// What samples find in the L2 cache; PyTorch is timed with a cold one alone.
    #[arg(long, value_enum, default_value = "cold", conflicts_with_all = ["presets", "exported"])]
    l2: L2,
    /// Time the named presets of `show --preset` one after another, from naive up, instead of the best schedule. Predicted without a GPU.
    #[arg(long, conflicts_with_all = ["bytes", "log", "stream"])]
    presets: bool,
    /// Time the shapes of a file (see examples/sweep.txt), those of the names if some are given, and say how fast they are beside the
    /// best peer on average and at worst. Predicted without a GPU.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "size", "bytes", "presets"])]
    sweep: Option<PathBuf>,
    /// Append the table, as markdown, to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// One JSON object per challenge or kernel.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    if args.l2 == L2::Warm && !args.no_torch {
        return Err("--l2 warm: PyTorch is timed with a cold L2 alone; leave it out by --no-torch".into());
    }
    if let Some(file) = &args.sweep {
        return sweep(args, file);
    }
    let (subjects, unbuilt) = names::subjects(&args.names, args.all)?;
    let wrong = names::tell(&unbuilt);
    if args.presets {
        let asked = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
        return presets::run(&subjects, &asked, &measured_or_predicted()?, args.rounds, args.json);
    }
    if args.exported {
        let asked = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
        return exports::run(&subjects, &asked, args.rounds, jobs(args), args.log.as_deref(), args.json);
    }
    let device = device::gpu().map_err(|e| format!("bench measures, so it needs a GPU (`tune` predicts without one): {e}"))?;
    let asked = args.size.as_deref().map_or(Ok(Sizes::default()), Sizes::parse)?;
    let sizes = |subject: &Subject| match args.bytes {
        Some(bytes) => scaled_tiles(subject, &asked, device.target(), bytes),
        None => subject.perf_sizes(&asked),
    };
    let works: Vec<Work> = subjects.iter().map(|s| Work { label: s.name.clone(), subject: s.clone(), sizes: sizes(s) }).collect();
    let failures = works.len() + wrong - rows(args, &device, &works, |_| String::new())?.len();
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} could not be timed", works.len() + wrong)) }
}

fn jobs(args: &Args) -> usize {
    let usual = if args.bytes.is_some() { 1 } else { (cores() / 2).clamp(1, 8) };
    args.jobs.map_or(usual, NonZeroUsize::get)
}

/// A row to be measured.
struct Work {
    /// What errors call it.
    label: String,
    subject: Subject,
    sizes: Result<Sizes, String>,
}

/// What a thread measures with.
struct Lane {
    /// With a stream of its own.
    device: Result<Device, String>,
    store: Option<Store>,
    torch: Result<Torch, String>,
}

impl Lane {
    fn start(args: &Args) -> Lane {
        let torch = if args.no_torch { Err("left out".to_string()) } else { Torch::start() };
        Lane { device: Device::cuda(0).map_err(|e| e.to_string()), store: known::store(), torch }
    }

    /// A row, and PyTorch's version.
    fn row(&mut self, args: &Args, work: &Work, quiet: &Quiet) -> Result<(Row, String), String> {
        let device = self.device.as_ref().map_err(Clone::clone)?;
        let copy = args.bytes.is_some() && self.torch.is_ok();
        let options = Options { device, store: self.store.as_ref(), rounds: args.rounds, graphs: !args.stream, copy, quiet, l2: args.l2 };
        let peers = self.torch.as_mut().ok().map(|t| t as &mut dyn Peers);
        let row = bench(&work.subject, work.sizes.as_ref().map_err(Clone::clone)?, &options, peers)?;
        Ok((row, self.torch.as_ref().map_or("none".into(), |t| t.version.clone())))
    }
}

/// Measures, prints and logs rows, several prepared at once; those that could be measured, by their numbers. `more` is text behind the log's
/// table.
fn rows(args: &Args, device: &Device, works: &[Work], more: impl Fn(&[(usize, Row)]) -> String) -> Result<Vec<(usize, Row)>, String> {
    let (log, quiet, noted) = (Log::open(args, device)?, Quiet::default(), Once::new());
    let start = || {
        let lane = Lane::start(args);
        if let Err(e) = &lane.torch {
            noted.call_once(|| eprintln!("note: no PyTorch beside it: {e}"));
        }
        lane
    };
    let mut rows: Vec<(usize, Row)> = Vec::new();
    let told = |at: usize, row: Result<(Row, String), String>| match row {
        Ok((row, torch)) => {
            if args.json {
                print_json(&as_json(&row, device));
            } else {
                print(&row, device);
            }
            rows.push((at, row));
            rows.sort_by_key(|(at, _)| *at);
            log.write(&rows, &torch, &more(&rows))
        }
        Err(e) => {
            eprintln!("{}: {e}", works[at].label);
            Ok(())
        }
    };
    abreast(works.len(), jobs(args), start, |lane, at| lane.row(args, &works[at], &quiet), told)?;
    log.tell();
    Ok(rows)
}

/// The file that `--log` names. It is written again after every row, so that nothing is lost when the rest does not come.
struct Log<'a> {
    path: Option<&'a Path>,
    before: String,
    device: &'a Device,
    l2: L2,
}

impl<'a> Log<'a> {
    fn open(args: &'a Args, device: &'a Device) -> Result<Log<'a>, String> {
        let path = args.log.as_deref();
        path.map_or(Ok(()), ahead::writable)?;
        let before = match path.map(std::fs::read_to_string) {
            Some(Ok(text)) => text,
            Some(Err(e)) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", args.log.as_deref().unwrap_or(Path::new("")).display()));
            }
            _ => String::new(),
        };
        Ok(Log { path, before, device, l2: args.l2 })
    }

    /// What was there before, the rows so far, and more text.
    fn write(&self, rows: &[(usize, Row)], torch: &str, more: &str) -> Result<(), String> {
        let Some(path) = self.path else { return Ok(()) };
        let rows: Vec<&Row> = rows.iter().map(|(_, row)| row).collect();
        let text = self.before.clone() + &markdown(&rows, self.device, torch, self.l2) + more;
        write_atomically(path, text.as_bytes()).map_err(|e| e.to_string())
    }

    fn tell(&self) {
        if let Some(path) = self.path {
            eprintln!("appended to {}", path.display());
        }
    }
}

/// Times or predicts the shapes of a file.
fn sweep(args: &Args, file: &Path) -> Result<(), String> {
    let entries = sweeps::read(file, &args.names)?;
    let store = known::store();
    let device = match measured_or_predicted()? {
        By::Prediction(target) => return sweeps::predict(&entries, target, store.as_ref(), args.json),
        By::Measurement(workers) => workers.gpu.open()?,
    };
    let work = |e: &Entry| {
        let subject = names::subject(&e.name)?;
        let sizes = subject.perf_sizes(&e.sizes);
        Ok::<Work, String>(Work { label: format!("{} at {}", e.name, e.sizes), subject, sizes })
    };
    let works = entries.iter().map(work).collect::<Result<Vec<Work>, String>>()?;
    let summaries = |rows: &[(usize, Row)]| {
        let grouped: Vec<(String, Row)> = rows.iter().map(|(at, row)| (entries[*at].group.clone(), row.clone())).collect();
        sweeps::beside_peers(&grouped)
    };
    let rows = rows(args, &device, &works, |rows| sweeps::markdown(&summaries(rows)))?;
    sweeps::print(&summaries(&rows), args.json);
    let failures = works.len() - rows.len();
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} shapes could not be timed", works.len())) }
}

/// The GPU, or the model where there is none.
fn measured_or_predicted() -> Result<By, String> {
    match device::look() {
        Ok(gpu) => Ok(By::Measurement(Workers::of(gpu, L2::Cold)?)),
        Err(e) => {
            eprintln!("note: no GPU can be used, so times are predicted: {e}");
            // Predictions read registers from compiled kernels.
            device::provide_nvrtc();
            Ok(By::Prediction(device::target(None)?))
        }
    }
}

fn print(row: &Row, device: &Device) {
    let peers: Vec<String> = row.peers.iter().map(|(n, t)| format!("{n} {t:.2} us")).collect();
    println!(
        "{:<20} {:>10.2} us  {}  {:>5.1} % of the floor  {}  [{}]",
        row.name,
        row.median_us,
        rate(row, device),
        100.0 * row.floor_us() / row.median_us,
        if peers.is_empty() { row.note.clone().unwrap_or_default() } else { peers.join(", ") },
        shown_schedules(row),
    );
    if let Some(throttled) = &row.throttled {
        println!("{:<20} {throttled}", "");
    }
    if let Some(below) = row.floor.contradicts(row.median_us) {
        println!("{:<20} wrong: {below}", "");
    }
    if row.way != Way::OneStep.to_string() {
        println!("{:<20} {}", "", row.way);
    }
    for (name, error) in &row.errors {
        println!("{:<20} {name}: {error}, against float64", "");
    }
    for (site, verdict) in &row.verdicts {
        println!("{:<20} {site}: {verdict}", "");
    }
    let spent = row.spent;
    if spent.checking + spent.peers + spent.turns > WORTH_TELLING {
        let (checking, peers, turns) = (spent.checking, spent.peers, spent.turns);
        println!("{:<20} took {checking:.1} s of checking, {peers:.1} s of the peers' preparation, {turns:.1} s of turns", "");
    }
    if let Some(copy) = row.copy_bandwidth() {
        println!("{:<20} {:.1} % of the bandwidth of copy_ ({:.0} GB/s)", "", 100.0 * row.bandwidth() / copy, copy / 1e9);
    }
}

/// Seconds of a row from which on its output says what they went into.
const WORTH_TELLING: f64 = 20.0;

/// What is scarce: bandwidth, or operations where these take longer than the memory.
fn rate(row: &Row, device: &Device) -> String {
    let memory_us = row.bytes / device.target().bandwidth * 1e6;
    if row.floor_us() > memory_us * 1.001 {
        format!("{:>7.2} T operations/s", row.operations / row.median_us * 1e-6)
    } else {
        format!("{:>7.0} GB/s", row.bandwidth() / 1e9)
    }
}

fn shown_schedules(row: &Row) -> String {
    row.schedules.iter().map(|(s, origin)| format!("{s}, {origin}")).collect::<Vec<_>>().join("; ")
}

fn as_json(row: &Row, device: &Device) -> serde_json::Value {
    let peers: serde_json::Map<String, serde_json::Value> = row.peers.iter().map(|(n, t)| (n.clone(), json!(t))).collect();
    json!({
        "name": row.name, "sizes": row.sizes, "device": device.name(), "median_us": row.median_us, "bytes": row.bytes,
        "gb_per_s": row.bandwidth() / 1e9, "tflop_per_s": row.operations / row.median_us * 1e-6, "floor_us": row.floor_us(),
        "floor_bound": row.floor.bound.to_string(), "below_floor": row.floor.contradicts(row.median_us),
        "share_of_floor": row.floor_us() / row.median_us, "peers_us": peers, "copy_gb_per_s": row.copy_bandwidth().map(|b| b / 1e9),
        "schedules": row.schedules.iter().map(|(s, o)| json!({ "schedule": s, "from": o })).collect::<Vec<_>>(), "note": row.note, "runs": row.way,
        "errors": row.errors.iter().map(|(n, d)| (n.clone(), deviation_json(d))).collect::<serde_json::Map<_, _>>(),
        "spent_s": { "checking": row.spent.checking, "peers": row.spent.peers, "turns": row.spent.turns },
        "acceptance": row.verdicts.iter().map(|(site, v)| json!({ "site": site, "verdict": acceptance_json(v) })).collect::<Vec<_>>(),
    })
}

fn markdown(rows: &[&Row], device: &Device, torch: &str, l2: L2) -> String {
    let mut text = format!("\n{}, PyTorch {torch}; medians in microseconds, {}, taken in turn.\n\n", device.name(), l2.state());
    let copy = rows.iter().any(|r| r.copy_bandwidth().is_some());
    let copy_head = if copy { " copy_ GB/s | of copy_ |" } else { "" };
    let sums = rows.iter().any(|r| r.plain_sum().is_some());
    let sum_head = if sums { " plain sum | girih / sum |" } else { "" };
    let cub = rows.iter().any(|r| r.peers.iter().any(|(n, _)| n == "CUB"));
    let cub_head = if cub { " CUB |" } else { "" };
    let _ = writeln!(
        text,
        "| kernel | size | girih | eager | compiled |{cub_head} best peer / girih | floor | floor / girih | GB/s |{copy_head}{sum_head} schedule |"
    );
    let _ = writeln!(
        text,
        "|---|---|--:|--:|--:|{}--:|--:|--:|--:|{}{}---|",
        if cub { "--:|" } else { "" },
        if copy { "--:|--:|" } else { "" },
        if sums { "--:|--:|" } else { "" }
    );
    for row in rows {
        let peer = |name: &str| row.peers.iter().find(|(n, _)| n == name).map_or("–".to_string(), |(_, t)| format!("{t:.2}"));
        let ratio = row.best_peer().map_or("–".to_string(), |p| format!("{:.3}", p / row.median_us));
        let cub_cell = if cub { format!(" {} |", peer("CUB")) } else { String::new() };
        let copy_cells = match row.copy_bandwidth() {
            Some(b) => format!(" {:.0} | {:.1} % |", b / 1e9, 100.0 * row.bandwidth() / b),
            None if copy => " – | – |".into(),
            None => String::new(),
        };
        let sum_cells = match row.plain_sum() {
            Some(t) => format!(" {t:.2} | {:.3} |", row.median_us / t),
            None if sums => " – | – |".into(),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} | {} |{cub_cell} {ratio} | {:.2} | {:.3} | {:.0} |{copy_cells}{sum_cells} {} |",
            row.name,
            row.sizes,
            row.median_us,
            peer("eager"),
            peer("compiled"),
            row.floor_us(),
            row.floor_us() / row.median_us,
            row.bandwidth() / 1e9,
            shown_schedules(row),
        );
    }
    for row in rows {
        if let Some(below) = row.floor.contradicts(row.median_us) {
            let _ = writeln!(text, "\n{} at {} is wrong: {below}.", row.name, row.sizes);
        }
    }
    for row in rows.iter().filter(|r| !r.verdicts.is_empty() || !r.errors.is_empty()) {
        let _ = writeln!(text, "\n{} at {}:", row.name, row.sizes);
        for (name, error) in &row.errors {
            let _ = writeln!(text, "- {name}: {error}, against float64");
        }
        for (site, verdict) in &row.verdicts {
            let r = verdict.resources;
            let _ = writeln!(text, "- {site}: {verdict}; {} registers, {} bytes of shared memory", r.registers, r.shared_bytes);
        }
    }
    text
}

/// `1GiB`, `512MiB`, `1e9`.
fn parse_bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 7] =
        [("KiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("B", 1.0)];
    let (number, unit) = UNITS.iter().find_map(|(u, f)| text.strip_suffix(u).map(|n| (n, *f))).unwrap_or((text, 1.0));
    number.trim().parse::<f64>().map(|n| n * unit).map_err(|_| format!("`{text}` is no size in bytes: write 1GiB or 512MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_bytes_are_read() {
        assert_eq!(parse_bytes("1GiB"), Ok(1073741824.0));
        assert_eq!(parse_bytes("2.5MB"), Ok(2.5e6));
        assert_eq!(parse_bytes("64"), Ok(64.0));
        assert!(parse_bytes("many").is_err());
    }
}

//! `bench --exported`: programs beside their exported files, which nvcc compiles and which are called as a judge calls them.

use super::export::export;
use super::{ahead, device, print_json};
use crate::bench::Options;
use crate::cache::write_atomically;
use crate::challenge::Sizes;
use crate::device::Device;
use crate::exported::{Build, Exported, Timed, nvcc, timed};
use crate::store::Store;
use crate::subject::Subject;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Times challenges at their perf sizes, or at those asked for.
pub fn run(subjects: &[Subject], asked: &Sizes, rounds: usize, log: Option<&Path>, json: bool) -> Result<(), String> {
    log.map_or(Ok(()), ahead::writable)?;
    let device = Device::cuda_on_default_stream(0).map_err(|e| format!("bench measures, so it needs a GPU: {e}"))?;
    device::provide_nvrtc();
    let subjects: Vec<&Subject> = subjects.iter().filter(|s| s.signature().is_some()).collect();
    let folder = std::env::temp_dir().join(format!("girih-exports-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let libraries = compiled(&subjects, &device, &folder);
    let store = Store::open_default().ok();
    let options = Options { device: &device, store: store.as_ref(), rounds, graphs: false, copy: false };
    let (mut rows, mut failures) = (Vec::new(), 0);
    for (subject, library) in subjects.iter().zip(libraries) {
        let sizes = subject.perf_sizes(asked);
        let times = library.and_then(|path| timed(subject, sizes.as_ref().map_err(Clone::clone)?, &options, &Exported::open(&path)?));
        match times {
            Ok(times) => {
                rows.push((subject.name.clone(), times));
                print(&subject.name, times, json);
                log.map_or(Ok(()), |log| write(log, &rows, &device))?;
            }
            Err(e) => {
                eprintln!("{}: {e}", subject.name);
                failures += 1;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    let within = rows.iter().filter(|(_, t)| t.is_within()).count();
    eprintln!("{within} of {} exports take what they may", rows.len());
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} exports could not be timed", subjects.len())) }
}

/// The library of each subject's exported file, compiled on all cores.
fn compiled(subjects: &[&Subject], device: &Device, folder: &Path) -> Vec<Result<PathBuf, String>> {
    let (next, nvcc, (send, done)) = (AtomicUsize::new(0), nvcc(), channel());
    let one = |subject: &Subject| {
        let signature = subject.signature().expect("filtered");
        let (text, _) = export(subject, device.target(), None)?;
        Build { name: &subject.name, text: &text, signature }.run(&nvcc, folder)
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (send, next, one) = (send.clone(), &next, &one);
            scope.spawn(move || {
                while let Some((at, subject)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, subjects.get(at)?))) {
                    let _ = send.send((at, one(subject)));
                }
            });
        }
    });
    drop(send);
    let mut all: Vec<(usize, Result<PathBuf, String>)> = done.iter().collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, library)| library).collect()
}

fn print(name: &str, times: Timed, json: bool) {
    let Timed { ours_us, exported_us } = times;
    if json {
        return print_json(&json!({
            "name": name, "median_us": ours_us, "exported_us": exported_us, "allowed_us": times.allowed_us(), "within": times.is_within(),
        }));
    }
    let verdict = if times.is_within() { "" } else { "  SLOWER than it may be" };
    println!("{name:<28} {ours_us:>10.2} us  exported {exported_us:>10.2} us  {:.3}{verdict}", exported_us / ours_us);
}

/// The rows so far, as a table.
fn write(log: &Path, rows: &[(String, Timed)], device: &Device) -> Result<(), String> {
    let mut text =
        format!("{}; medians in microseconds, launches one after the other, L2 flushed before every sample, in turn.\n\n", device.name());
    text += "| challenge | girih | exported | exported / girih | at most 1.03 x + 0.3 |\n|---|--:|--:|--:|---|\n";
    for (name, times) in rows {
        let (ours, exported) = (times.ours_us, times.exported_us);
        let within = if times.is_within() { "yes" } else { "no" };
        let _ = writeln!(text, "| {name} | {ours:.2} | {exported:.2} | {:.3} | {within} |", exported / ours);
    }
    write_atomically(log, text.as_bytes()).map_err(|e| e.to_string())
}

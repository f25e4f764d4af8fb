//! `bench --exported`: programs beside their exported files, which nvcc compiles and which are called as a judge calls them.

use super::abreast::abreast;
use super::export::export;
use super::{ahead, device, known, print_json};
use crate::compile::cache::write_atomically;
use crate::device::Device;
use crate::measure::bench::Options;
use crate::measure::exported::{Build, Exported, Timed, nvcc, timed};
use crate::measure::quiet::Quiet;
use crate::measure::timing::L2;
use crate::store::Store;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Times challenges at their perf sizes, or at those asked for. `jobs` of them are compiled and compared with their references at once.
pub fn run(subjects: &[Subject], asked: &Sizes, rounds: usize, jobs: usize, log: Option<&Path>, json: bool) -> Result<(), String> {
    log.map_or(Ok(()), ahead::writable)?;
    let device = Device::cuda_on_default_stream(0).map_err(|e| format!("bench measures, so it needs a GPU: {e}"))?;
    device::provide_nvrtc();
    let subjects: Vec<&Subject> = subjects.iter().filter(|s| s.signature().is_some()).collect();
    let folder = std::env::temp_dir().join(format!("girih-exports-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let (nvcc, quiet) = (nvcc(), Quiet::default());
    let one = |store: &mut Option<Store>, at: usize| {
        let subject = subjects[at];
        let options = Options { device: &device, store: store.as_ref(), rounds, graphs: false, copy: false, quiet: &quiet, l2: L2::Cold };
        let library = compiled(subject, &device, &nvcc, &folder)?;
        timed(subject, &subject.perf_sizes(asked)?, &options, &Exported::open(&library)?)
    };
    let (mut rows, mut failures) = (Vec::new(), 0);
    let told = |at: usize, times: Result<Timed, String>| {
        let name = &subjects[at].name;
        match times {
            Ok(times) => {
                rows.push((at, name.clone(), times));
                rows.sort_unstable_by_key(|(at, ..)| *at);
                print(name, times, json);
                log.map_or(Ok(()), |log| write(log, &rows, &device))
            }
            Err(e) => {
                eprintln!("{name}: {e}");
                failures += 1;
                Ok(())
            }
        }
    };
    let done = abreast(subjects.len(), jobs, known::store, one, told);
    let _ = std::fs::remove_dir_all(&folder);
    done?;
    let within = rows.iter().filter(|(.., t)| t.is_within()).count();
    eprintln!("{within} of {} exports take what they may", rows.len());
    if failures == 0 { Ok(()) } else { Err(format!("{failures} of {} exports could not be timed", subjects.len())) }
}

/// The library of a subject's exported file.
fn compiled(subject: &Subject, device: &Device, nvcc: &Path, folder: &Path) -> Result<PathBuf, String> {
    let signature = subject.signature().expect("filtered");
    let (text, _) = export(subject, device.target(), None)?;
    Build { name: &subject.name, text: &text, signature }.run(nvcc, folder)
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
fn write(log: &Path, rows: &[(usize, String, Timed)], device: &Device) -> Result<(), String> {
    let mut text =
        format!("{}; medians in microseconds, launches one after the other, L2 flushed before every sample, in turn.\n\n", device.name());
    text += "| challenge | girih | exported | exported / girih | at most 1.03 x + 0.3 |\n|---|--:|--:|--:|---|\n";
    for (_, name, times) in rows {
        let (ours, exported) = (times.ours_us, times.exported_us);
        let within = if times.is_within() { "yes" } else { "no" };
        let _ = writeln!(text, "| {name} | {ours:.2} | {exported:.2} | {:.3} | {within} |", exported / ours);
    }
    write_atomically(log, text.as_bytes()).map_err(|e| e.to_string())
}

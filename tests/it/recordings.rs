//! Predictions beside times that were measured: `tests/recordings/*.txt.gz`, which `autotune record` has written on a GPU.

use girih::challenge::Sizes;
use girih::subject::{Subject, names};
use girih::tune::launches::at;
use girih::tune::predict::Prediction;
use girih::tune::record::schedules;
use girih::tune::recording::{Recording, Timed, parse};
use girih_core::schedule::Schedule;
use girih_core::target::{TARGETS, Target};
use girih_core::tile::Kernel;
use std::io::Read;
use std::path::Path;

/// How the model does on one recording.
#[derive(Debug)]
struct Verdict {
    name: String,
    /// Rank correlation (Spearman's) of predicted and measured times.
    correlation: f64,
    /// The best measured time of the eight schedules that are predicted to be fastest, over the best of all.
    first_eight: f64,
    /// The median of how far a prediction is from its time, as a ratio that is at least 1.
    error: f64,
    /// The share of predictions that are at most 1.5 times off.
    near: f64,
}

/// Fewer times say nothing of an order.
const LEAST: usize = 12;
/// Of all schedules one in so many is predicted, where no recording is asked for by name (`GIRIH_TEST_CHALLENGE=softmax`, `=all`).
const EVERY: usize = 3;

/// The GPU of a recording.
pub fn target_of(recording: &Recording) -> &'static Target {
    let device = recording.device.to_lowercase();
    let target = TARGETS.iter().find(|t| device.contains(t.name)).or_else(|| Target::find(&recording.arch));
    target.unwrap_or_else(|| panic!("{} is no known GPU", recording.device))
}

/// A recorded schedule: the subject with its variants, its kernels, and a schedule for each; nothing where these are no longer theirs.
pub fn way_of(recording: &Recording, timed: &Timed) -> Option<(Subject, Vec<Kernel>, Vec<Schedule>)> {
    let subject = names::subject(&recording.name).unwrap_or_else(|e| panic!("{e}"));
    let chosen = |name: &String| timed.joint.variants.iter().find(|(n, _)| n == name).is_none_or(|(_, first)| *first);
    let subject = subject.with_variants(&subject.source.variants.iter().map(chosen).collect::<Vec<bool>>());
    let kernels: Vec<Kernel> = subject.program.sites().iter().filter_map(|d| (d.build)().ok()).collect();
    let way = schedules(&subject, &kernels, timed)?;
    Some((subject, kernels, way))
}

fn judged(recording: &Recording, every: usize) -> Result<Verdict, String> {
    let target = target_of(recording);
    let sizes = Sizes::parse(&recording.sizes)?;
    let mut pairs = Vec::new();
    for timed in recording.timed.iter().step_by(every) {
        let Some((subject, kernels, way)) = way_of(recording, timed) else { continue };
        let mut us = 0.0;
        for launch in &at(&subject, &sizes)? {
            let prediction = Prediction::new(&subject, &sizes, (&kernels[launch.site], launch), target, way.clone());
            let resources = timed.resources.get(launch.site).copied().unwrap_or((32, 0));
            us += prediction.site_us_compiled(&way[launch.site], resources)?.0;
        }
        pairs.push((us, timed.us));
    }
    if pairs.len() < LEAST {
        return Err(format!("{} of {} schedules are still those of the kernel", pairs.len(), recording.timed.len()));
    }
    let best = pairs.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let mut errors: Vec<f64> = pairs.iter().map(|(p, m)| (p / m).max(m / p)).collect();
    errors.sort_by(f64::total_cmp);
    let correlation = correlation(&ranks(pairs.iter().map(|p| p.0)), &ranks(pairs.iter().map(|p| p.1)));
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = pairs.iter().take(8).map(|p| p.1).fold(f64::INFINITY, f64::min);
    let near = errors.iter().filter(|e| **e <= 1.5).count() as f64 / errors.len() as f64;
    Ok(Verdict { name: recording.name.clone(), correlation, first_eight: first / best, error: errors[errors.len() / 2], near })
}

/// The place of each number in their order; equals share theirs.
fn ranks(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let all: Vec<f64> = numbers.collect();
    let place = |x: &f64| {
        let (less, same) = (all.iter().filter(|y| *y < x).count(), all.iter().filter(|y| *y == x).count());
        less as f64 + (same as f64 - 1.0) / 2.0
    };
    all.iter().map(place).collect()
}

/// Pearson's correlation.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    let (ab, aa, bb) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    if aa * bb > 0.0 { ab / (aa * bb).sqrt() } else { 0.0 }
}

/// Samples of spaces at the perf sizes.
pub fn recordings() -> Vec<Recording> {
    recordings_in("")
}

/// What a folder of recordings holds: `full` has all legal schedules of some kernels, `lengths` samples at other than the perf sizes.
pub fn recordings_in(folder: &str) -> Vec<Recording> {
    // Links the gallery in.
    use girih_examples as _;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings").join(folder);
    let files = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok).map(|e| e.path()).filter(|file| file.is_file());
    let mut all = Vec::new();
    for file in files {
        let text = unzipped(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        all.extend(parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display())));
    }
    all
}

fn unzipped(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file)?).read_to_string(&mut text)?;
    Ok(text)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn ranks_and_correlations_are_what_they_are() {
    assert_eq!(ranks([3.0, 1.0, 3.0, 7.0].into_iter()), [1.5, 0.0, 1.5, 3.0]);
    assert!((correlation(&[0.0, 1.0, 2.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
    assert!((correlation(&[0.0, 1.0, 2.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
}

/// Ranks, the best of the first eight, and errors, in the median of what is recorded.
#[test]
fn predictions_stand_beside_recorded_times() {
    let asked = std::env::var("GIRIH_TEST_CHALLENGE").ok().filter(|names| names != "all");
    let every = if std::env::var_os("GIRIH_TEST_CHALLENGE").is_some() { 1 } else { EVERY };
    let mut verdicts = Vec::new();
    for recording in recordings() {
        if asked.as_ref().is_some_and(|names| !names.split(',').any(|n| n == recording.name)) {
            continue;
        }
        match judged(&recording, every) {
            Ok(verdict) => verdicts.push(verdict),
            Err(e) => println!("{}: {e}", recording.name),
        }
    }
    for v in &verdicts {
        let Verdict { name, correlation, first_eight, error, near } = v;
        println!(
            "{name:<36} correlation {correlation:.2}, best of the first eight {first_eight:.2}, error {error:.2}, within 1.5 times {near:.2}"
        );
    }
    assert!(asked.is_some() || verdicts.len() >= 12, "{} recordings", verdicts.len());
    let of = |f: fn(&Verdict) -> f64| median(verdicts.iter().map(f).collect());
    let near = verdicts.iter().map(|v| v.near).sum::<f64>() / verdicts.len() as f64;
    println!(
        "median correlation {:.2}, best of the first eight {:.2}, within 1.5 times {near:.2}",
        of(|v| v.correlation),
        of(|v| v.first_eight)
    );
    if asked.is_none() {
        assert!(of(|v| v.correlation) >= 0.78, "{verdicts:?}");
        assert!(of(|v| v.first_eight) <= 1.05, "{verdicts:?}");
        assert!(of(|v| v.error) <= 1.25, "{verdicts:?}");
        assert!(near >= 0.9, "{near}: {verdicts:?}");
    }
}

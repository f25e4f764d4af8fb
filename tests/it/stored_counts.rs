//! What launches do by the simulator's counts, beside what they did: `counts.txt` has a line for each launch of the gallery's challenges at its
//! perf size, under the schedules that are known. A change of the compiler that makes a kernel do more is seen there, and told by name.
//!
//! `GIRIH_COUNTS=record` writes the file anew.

use super::rungs::gallery;
use girih::challenge::{Challenge, Sizes, challenges};
use girih::subject::{Subject, schedules};
use girih::tune::contents::Inputs;
use girih::tune::counted::{Counted, counted};
use girih::tune::launches::launches;
use girih_core::lower::lower;
use girih_core::target::Target;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Warp-level operations that are looked at for a launch, at most. What takes more, or goes where data send it, has no line.
const FUEL: u64 = 6_000_000;
/// Launches that have a line, at least.
const LEAST: usize = 150;
/// What is counted of a launch, per warp or request, barriers once per warp that arrives.
const COLUMNS: [&str; 5] = ["instructions", "barriers", "shared wavefronts", "load sectors", "store sectors"];

/// Counts by launch: `softmax softmax_rows`.
type Counts = BTreeMap<String, [u64; COLUMNS.len()]>;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}

fn numbers(own: &Counted) -> [u64; COLUMNS.len()] {
    let work = &own.work;
    let all = [work.instructions, own.count.block_barriers(), work.shared_wavefronts, work.load_sectors, work.store_sectors];
    all.map(|n| n.round() as u64)
}

/// The launches of a challenge's call.
fn counts_of(challenge: &Challenge) -> Counts {
    let of = || -> Result<Counts, String> {
        let subject = Subject::of_challenge(challenge)?;
        let sizes = subject.perf_sizes(&Sizes::default())?;
        let call = subject.call(&sizes, 1)?;
        let launches = launches(&subject.program, &call, 0)?;
        let sites = schedules::schedules(&subject, None, Target::h200(), None, &launches)?;
        let mut found = Counts::new();
        for launch in &launches {
            let (schedule, kernel, _) = &sites[launch.site];
            let simt = lower(kernel, &launch.facts, schedule, Target::h200()).map_err(|e| e.to_string())?;
            let inputs = Inputs::of(&subject, &sizes, launch, &launches);
            let Ok(counted) = counted(&simt, &launch.args, &inputs, Target::h200(), FUEL.into()) else { continue };
            for own in counted.iter().filter(|c| !c.count.guessed) {
                found.entry(format!("{} {}", challenge.slug, own.function)).or_insert_with(|| numbers(own));
            }
        }
        Ok(found)
    };
    of().unwrap_or_else(|e| panic!("{}: {e}", challenge.slug))
}

fn counts() -> Counts {
    // Links the gallery in.
    assert!(!gallery().is_empty());
    let (all, next, found) = (challenges(), AtomicUsize::new(0), Mutex::new(Counts::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(challenge) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = counts_of(challenge);
                    found.lock().expect("no panic in between").extend(own);
                }
            });
        }
    });
    found.into_inner().expect("no panic in between")
}

fn text(counts: &Counts) -> String {
    let head = format!("# challenge function | {}\n", COLUMNS.join(", "));
    let line = |(name, numbers): (&String, &[u64; COLUMNS.len()])| format!("{name} | {}\n", numbers.map(|n| n.to_string()).join(" "));
    head + &counts.iter().map(line).collect::<String>()
}

fn stored() -> Counts {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let read = |line: &str| -> Option<(String, [u64; COLUMNS.len()])> {
        let (name, numbers) = line.split_once(" | ")?;
        let numbers: Vec<u64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((name.to_string(), numbers.try_into().ok()?))
    };
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines.map(|line| read(line).unwrap_or_else(|| panic!("counts.txt: `{line}` has no counts"))).collect()
}

/// What became more and what fewer, the most first: `3.1 %: softmax softmax_rows: instructions 100 -> 103`.
fn changes(then: &Counts, now: &Counts) -> [Vec<String>; 2] {
    let (mut more, mut fewer) = (Vec::new(), Vec::new());
    for (name, numbers) in now {
        let Some(before) = then.get(name) else { continue };
        for ((what, a), b) in COLUMNS.iter().zip(before).zip(numbers).filter(|((_, a), b)| a != b) {
            let by = (*b as f64 - *a as f64) / (*a).max(1) as f64;
            let told = (by.abs(), format!("{:+.1} %: {name}: {what} {a} -> {b}", by * 100.0));
            if by > 0.0 { more.push(told) } else { fewer.push(told) }
        }
    }
    [more, fewer].map(|mut all| {
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, told)| told).collect()
    })
}

#[test]
fn launches_do_what_they_did() {
    let begun = std::time::Instant::now();
    let (then, now) = (stored(), counts());
    println!("{} launches in {:?}", now.len(), begun.elapsed());
    let [more, fewer] = changes(&then, &now);
    if std::env::var("GIRIH_COUNTS").is_ok_and(|how| how == "record") {
        more.iter().for_each(|what| println!("more: {what}"));
        fewer.iter().for_each(|what| println!("fewer: {what}"));
        std::fs::write(file(), text(&now)).unwrap_or_else(|e| panic!("{e}"));
        return;
    }
    assert!(now.len() >= LEAST, "{} launches were counted", now.len());
    let shown = |all: &[String]| all.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    let hint = "`GIRIH_COUNTS=record cargo test -p girih-tests stored_counts` accepts that";
    assert!(
        more.is_empty() && fewer.is_empty(),
        "more ({}):\n{}\nfewer ({}):\n{}\n{hint}",
        more.len(),
        shown(&more),
        fewer.len(),
        shown(&fewer)
    );
    let names = |counts: &Counts| counts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&then), names(&now), "other launches are counted; {hint}");
}

#[test]
fn what_became_more_is_told_first() {
    let of = |numbers: [u64; 5]| Counts::from([("a one".to_string(), numbers)]);
    let [more, fewer] = changes(&of([100, 2, 30, 40, 50]), &of([103, 4, 30, 20, 50]));
    assert_eq!(more, ["+100.0 %: a one: barriers 2 -> 4", "+3.0 %: a one: instructions 100 -> 103"]);
    assert_eq!(fewer, ["-50.0 %: a one: load sectors 40 -> 20"]);
    assert_eq!(text(&of([1, 2, 3, 4, 5])).lines().last(), Some("a one | 1 2 3 4 5"));
}

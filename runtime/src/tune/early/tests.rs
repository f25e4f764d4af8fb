//! The order of what happens before a search, with a worker that is a shell script.

use super::*;
use crate::subject::challenge::Sizes;
use crate::tune::by_shell;
use crate::tune::search::Budget;
use crate::tune::tune;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::program::ProgramDef;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

/// The same.
#[kernel(tile(T = 64), coarsen(C of T = [2, 1]))]
pub fn same(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn copies(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    same(x, y);
}

/// Threads have at least two elements: the naive schedule has a coarsening that is not listed.
#[kernel(tile(T = 64), coarsen(C of T = [4, 2]))]
pub fn in_runs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn copies_in_runs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    in_runs(x, y);
}

/// Seconds since the beginning of time.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs_f64()
}

/// When a schedule began to be compiled.
static AT_ONCE: Mutex<Vec<(f64, String)>> = Mutex::new(Vec::new());

fn at_once(kernel: &Kernel, _facts: &Facts, schedule: &Schedule, _target: &Target) {
    AT_ONCE.lock().unwrap().push((now(), schedule.short(kernel)));
}

fn slowly(_kernel: &Kernel, _facts: &Facts, _schedule: &Schedule, _target: &Target) {
    std::thread::sleep(Duration::from_millis(1500));
}

/// A compiler that is done soon behind the set-up.
fn soon(_kernel: &Kernel, _facts: &Facts, _schedule: &Schedule, _target: &Target) {
    std::thread::sleep(Duration::from_millis(300));
}

/// When each trial was told of, and its schedule; a word for the beginning of the search.
struct Told(Vec<(Instant, String)>);

impl Progress for Told {
    fn begin(&mut self, _site: &str, _candidates: usize, _known: usize) {
        self.0.push((Instant::now(), "search".into()));
    }
    fn tried(&mut self, trial: &Trial) {
        self.0.push((Instant::now(), trial.schedule.clone()));
    }
    fn note(&mut self, _text: &str) {}
}

/// Tunes with a worker whose set-up takes some seconds; the trials that were told of, and when the set-up ended.
fn tuned(
    name: &str,
    program: fn() -> ProgramDef,
    set_up: f64,
    compile: fn(&Kernel, &Facts, &Schedule, &Target),
) -> (Vec<(Instant, String)>, f64) {
    let folder = by_shell::folder(&format!("early-{name}"));
    let store = by_shell::store(&folder);
    let log = folder.join("log");
    let script = format!(
        r#"read setup; sleep {set_up}; date +%s.%N >> {}; echo '"ready"'
        while read line; do case $line in
        *interleaved*) echo '{{"interleaved":{{"samples_us":[[],[]]}}}}';;
        *'T=64 C=1'*) sleep 1.2; echo '{{"measured":{{"samples_us":[3.0]}}}}';;
        *) echo '{{"measured":{{"samples_us":[3.0]}}}}';; esac; done"#,
        log.display()
    );
    let subject = by_shell::copying(program);
    let options = by_shell::options(script, compile, Budget { time: Some(Duration::from_secs(8)), trials: None });
    let mut told = Told(Vec::new());
    tune(&subject, &Sizes::parse("N=100000000").unwrap(), &options, &store, &AtomicBool::new(false), &mut told).expect("it is timed");
    let ready = std::fs::read_to_string(&log).expect("it was set up").trim().parse().expect("a number");
    let _ = std::fs::remove_dir_all(&folder);
    (told.0, ready)
}

/// Whatever the set-up takes, what is known best is compiled meanwhile, and tried first.
#[test]
fn what_is_known_best_is_compiled_while_inputs_are_made() {
    let (told, ready) = tuned("at-once", copies::Program::def, 1.0, at_once);
    // The search compiles its candidates when the set-up is there.
    let compiled: Vec<(f64, String)> = AT_ONCE.lock().unwrap().iter().filter(|(at, _)| *at < ready).cloned().collect();
    assert!(
        compiled.len() >= 2 && compiled.iter().all(|(_, schedule)| schedule == "T=64 C=2"),
        "the tuned call and a small one: {compiled:?}"
    );
    assert!(compiled.iter().all(|(at, _)| *at < ready - 0.5), "{compiled:?} and {ready}");
    assert_eq!(told[0].1, "T=64 C=2");
}

/// A compiler that takes long keeps nobody waiting: the naive schedule was compiled for the inputs' sake.
#[test]
fn while_the_best_is_compiled_the_plainest_is_timed() {
    let start = Instant::now();
    let (told, _) = tuned("slowly", copies::Program::def, 0.1, slowly);
    let names: Vec<&str> = told.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names[0], "T=64 C=1");
    assert!(told[0].0 - start < Duration::from_millis(1000 + 1200), "{:?}", told[0].0 - start);
    assert!(names.contains(&"T=64 C=2"), "{names:?}");
}

/// It is the best that is known, and the search may have no time for it.
#[test]
fn what_is_compiled_while_the_plainest_is_timed_comes_next() {
    let (told, _) = tuned("soon", copies::Program::def, 0.1, soon);
    let names: Vec<&str> = told.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names[..3], ["T=64 C=1", "T=64 C=2", "search"]);
}

/// The naive schedule is a candidate even where a knob does not list its choice: its trial counts.
#[test]
fn the_plainest_takes_part_where_its_choices_are_not_listed() {
    let (told, _) = tuned("unlisted", copies_in_runs::Program::def, 0.1, slowly);
    let names: Vec<&str> = told.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names[0], "T=64 C=1");
    assert!(names.contains(&"T=64 C=4") && names.contains(&"T=64 C=2"), "{names:?}");
}

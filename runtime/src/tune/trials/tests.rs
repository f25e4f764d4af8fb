//! What a search tries before what, and what it waits for, with a worker that is a shell script.

use super::*;
use crate::subject::challenge::Sizes;
use crate::tune::by_shell;
use crate::tune::search::Budget;
use crate::tune::tune;
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::program::ProgramDef;
use girih_core::schedule::Choice;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use std::sync::atomic::AtomicBool;

#[test]
fn the_same_machine_code_is_measured_once() {
    let trial = |schedule: &str, status| Trial {
        schedule: schedule.into(),
        status,
        reason: String::new(),
        median_us: Some(3.0),
        samples_us: vec![3.0],
        registers: None,
        flaw: None,
        code: None,
    };
    let mut twins = Twins::default();
    twins.add(1, &trial("T=1", Status::Measured));
    twins.add(2, &trial("T=2", Status::TimedOut));
    let twin = twins.of(1, "T=3").expect("it launches the same");
    assert_eq!((twin.schedule.as_str(), twin.median_us, twin.reason.as_str()), ("T=3", Some(3.0), "the same machine code as T=1"));
    assert!(twins.of(2, "T=4").is_none(), "what had no time, or died, is tried again");
    twins.add(3, &Trial { reason: "measured while throttled: power brake".into(), ..trial("T=4", Status::Measured) });
    assert!(twins.of(3, "T=5").is_none(), "a time that does not count is nobody else's");
    // A twin's twin names who was measured.
    twins.add(1, &twin);
    assert_eq!(twins.of(1, "T=6").unwrap().reason, "the same machine code as T=1");
}

#[test]
fn what_was_known_best_is_not_left_for_last() {
    let schedule = |i| Schedule { choices: vec![Choice::Int(i)] };
    let first = First::among(schedule(1), Some(Duration::from_millis(200)), true);
    assert!(first.lets(&schedule(1)) && first.lets(&schedule(2)));
    std::thread::sleep(Duration::from_millis(120));
    assert!(first.lets(&schedule(1)) && !first.lets(&schedule(2)), "half of the time is over");
    let of_author = First::among(schedule(1), None, false);
    assert!(of_author.lets(&schedule(1)) && of_author.lets(&schedule(2)), "nobody says that it is good");
    // Nothing is elected without it where it may be lost by that.
    assert!([false, true].iter().all(|plainest| first.is_missed(*plainest)));
    assert!(of_author.is_missed(true) && !of_author.is_missed(false));
    let patient = First::among(schedule(1), None, true);
    assert!(patient.lets(&schedule(1)) && !patient.lets(&schedule(2)));
}

/// The same.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]))]
pub fn same(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn copies(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    same(x, y);
}

/// What small calls launch takes its time.
fn slow_for_small(_kernel: &Kernel, facts: &Facts, _schedule: &Schedule, _target: &Target) {
    let small = facts.tensors.iter().flatten().any(|tensor| tensor.lens[0] < 8);
    std::thread::sleep(Duration::from_millis(if small { 300 } else { 1 }));
}

struct Told(Vec<(String, Status)>);

impl Progress for Told {
    fn begin(&mut self, _site: &str, _candidates: usize, _known: usize) {}
    fn tried(&mut self, trial: &Trial) {
        self.0.push((trial.schedule.clone(), trial.status));
    }
    fn note(&mut self, _text: &str) {}
}

/// Its first choice is not the plainest.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [2, 4, 1]))]
pub fn same_in_runs(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn copies_twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut between = temp([x.len(0)]);
    same_in_runs(x, &mut between);
    same_in_runs(&between, y);
}

/// What a worker was asked for, and what was told, while a program was tuned whose checks take a compiler long.
fn asked_while_checks_are_compiled(name: &str, program: fn() -> ProgramDef) -> (String, Vec<(String, Status)>) {
    let folder = by_shell::folder(name);
    let (store, log) = (by_shell::store(&folder), folder.join("log"));
    let script = format!(
        r#"read setup; echo '"ready"'
        while read line; do echo "$line" >> {}; case $line in
        *interleaved*) echo '{{"interleaved":{{"samples_us":[[],[]]}}}}';;
        *glance*) echo '{{"promising":{{"samples_us":[3.0]}}}}';;
        *) echo '{{"measured":{{"samples_us":[3.0]}}}}';; esac; done"#,
        log.display()
    );
    let options = by_shell::options(script, slow_for_small, Budget { time: None, trials: None });
    let mut told = Told(Vec::new());
    let (subject, sizes) = (by_shell::copying(program), Sizes::parse("N=100000000").expect("a size"));
    tune(&subject, &sizes, &options, &store, &AtomicBool::new(false), &mut told).unwrap_or_else(|e| panic!("{e}"));
    let asked = std::fs::read_to_string(&log).expect("it was asked");
    std::fs::remove_dir_all(folder).expect("its own folder");
    (asked, told.0)
}

/// Whether each line asks for a look only.
fn looks(asked: &str) -> Vec<bool> {
    asked.lines().map(|line| line.contains("glance")).collect()
}

#[test]
fn others_are_looked_at_while_a_check_is_compiled() {
    let (asked, told) = asked_while_checks_are_compiled("glances", copies::Program::def);
    assert!(told.len() >= 6 && told.iter().all(|(_, status)| *status == Status::Measured), "{told:?}");
    // Those that were glanced at have their trials behind glances at others.
    let looks = looks(&asked);
    assert!(looks.windows(2).any(|two| two == [true, true]), "{asked}");
    assert_eq!(looks.iter().filter(|look| **look).count() + 1, told.len(), "{asked}");
}

/// Beside the first choices of other launch sites nothing was timed yet: a look has no limit then, and a trial waits for no compiler either.
#[test]
fn a_site_of_several_is_looked_at_before_anything_is_known() {
    let (asked, told) = asked_while_checks_are_compiled("several", copies_twice::Program::def);
    assert!(told.iter().all(|(_, status)| *status == Status::Measured), "{told:?}");
    // The plainest way is timed, and then candidates are looked at.
    assert!(looks(&asked).starts_with(&[false, true, true]), "{asked}");
    let unlimited = |line: &str| line.contains("glance") && line.contains("null");
    assert!(!asked.lines().any(unlimited), "a worker reads numbers alone: {asked}");
}

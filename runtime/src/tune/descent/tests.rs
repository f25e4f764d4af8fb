//! How the time of a program is used, with a worker that is a shell script.

use super::*;
use crate::tune::{Tuned, by_shell, tune};
use girih::prelude::*;
use girih_core::facts::Facts;
use girih_core::program::ProgramDef;
use girih_core::target::Target;
use std::time::Duration;

/// The same.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]))]
pub fn same(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn copies_twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut between = temp([x.len(0)]);
    same(x, &mut between);
    same(&between, y);
}

/// Either way.
#[program]
pub fn copies_somehow(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    if variant("at once") {
        same(x, y);
    } else {
        let mut between = temp([x.len(0)]);
        same(x, &mut between);
        same(&between, y);
    }
}

fn at_once(_kernel: &Kernel, _facts: &Facts, _schedule: &Schedule, _target: &Target) {}

struct Notes(Vec<String>);

impl Progress for Notes {
    fn begin(&mut self, _site: &str, _candidates: usize, _known: usize) {}
    fn tried(&mut self, _trial: &Trial) {}
    fn note(&mut self, text: &str) {
        self.0.push(text.to_string());
    }
}

/// Tunes in a folder of that name within so many seconds, with a worker whose set-up, and whose answers to looks and trials, are given by shell
/// commands.
fn tuned(name: &str, program: fn() -> ProgramDef, seconds: u64, commands: (&str, &str)) -> (Tuned, Vec<String>) {
    let folder = by_shell::folder(name);
    let found = tuned_once_more(&by_shell::store(&folder), program, seconds, commands);
    std::fs::remove_dir_all(folder).expect("its own folder");
    found
}

fn tuned_once_more(store: &Store, program: fn() -> ProgramDef, seconds: u64, (set_up, answer): (&str, &str)) -> (Tuned, Vec<String>) {
    let script = format!(
        r#"read setup; {set_up}
        while read line; do case $line in
        *interleaved*) echo '{{"interleaved":{{"samples_us":[[],[]]}}}}';;
        *glance*) {answer}; echo '{{"promising":{{"samples_us":[3.0]}}}}';;
        *) {answer}; echo '{{"measured":{{"samples_us":[3.0]}}}}';; esac; done"#
    );
    let options = by_shell::options(script, at_once, Budget { time: Some(Duration::from_secs(seconds)), trials: None });
    let sizes = Sizes::parse("N=100000000").expect("a size");
    let mut notes = Notes(Vec::new());
    let options = Options { fresh: true, ..options };
    let found = tune(&by_shell::copying(program), &sizes, &options, store, &AtomicBool::new(false), &mut notes);
    (found.unwrap_or_else(|e| panic!("{e}")), notes.0)
}

const READY: &str = r#"echo '"ready"'"#;

/// The first launch site's share does for a few of its candidates; the others are tried when the second one has had its own.
#[test]
fn time_that_is_left_goes_to_what_was_not_tried() {
    let (found, _) = tuned("rest", copies_twice::Program::def, 9, (READY, "sleep 0.25"));
    let counts: Vec<_> = found.sites.iter().map(|site| site.counts).collect();
    assert!(counts.iter().all(|(tried, _, left)| *tried >= 6 && *left == 0), "{counts:?}");
}

/// One choice of variants is given up in its set-up: the other one has its time.
#[test]
fn time_that_others_leave_goes_to_the_best() {
    let only_at_once = format!(r#"case $setup in *'[false]'*) exit 1;; *) {READY};; esac"#);
    let (found, notes) = tuned("gone-on", copies_somehow::Program::def, 6, (&only_at_once, "sleep 0.35"));
    assert!(notes.contains(&"going on with copies (at once=yes)".to_string()), "{notes:?}");
    assert_eq!((found.sites.len(), found.sites[0].counts.2), (1, 0), "{notes:?}");
}

/// What is known best does not answer in time: another choice of variants is timed, but nobody knows whether it is better.
#[test]
fn what_is_known_best_is_not_given_up_for_lack_of_time() {
    let folder = by_shell::folder("stays");
    let store = by_shell::store(&folder);
    let (known, _) = tuned_once_more(&store, copies_somehow::Program::def, 4, (READY, "true"));
    let (known, _) = known.program.expect("it was timed");
    assert_eq!(known.variants, [("at once".to_string(), true)]);
    let hangs = r#"case $setup in *'[true]'*) sleep 60;; esac"#;
    let (found, notes) = tuned_once_more(&store, copies_somehow::Program::def, 4, (READY, hangs));
    assert!(found.program.is_none(), "{notes:?}");
    let word = format!("there was no time for {known}, which is known best and stays");
    assert!(notes.iter().any(|note| note.starts_with(&word)), "{notes:?}");
    let (found, _) = tuned_once_more(&store, copies_somehow::Program::def, 4, (READY, "true"));
    assert_eq!(found.program.expect("it was timed").0.variants, known.variants);
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// The first trial of a launch site takes its whole time: to list other candidates would take some more.
#[test]
fn when_it_is_late_no_candidates_are_listed() {
    let (found, notes) = tuned("late", copies_twice::Program::def, 3, (READY, "sleep 0.9"));
    let late = |site: &str| notes.contains(&format!("{site}: the budget is spent, so no other candidate is listed"));
    assert!(late("same"), "{notes:?}");
    assert!(found.program.is_some(), "what was timed is elected: {notes:?}");
}

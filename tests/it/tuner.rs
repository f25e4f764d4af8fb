//! The tuner and the checks on the gallery, on the simulator.

use girih::challenge;
use girih::challenge::Sizes;
use girih::check::{On, Options as CheckOptions, check};
use girih::launch::schedule_lookup;
use girih::store::{Store, Trial};
use girih::subject::Subject;
use girih::tune::search::{Budget, Strategy};
use girih::tune::{By, Options, Progress, SiteOutcome, tune};
use girih_core::facts::Facts;
use girih_core::registry::kernels;
use girih_core::target::Target;
use girih_examples as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn subjects() -> Vec<Subject> {
    challenge::challenges().iter().map(|c| Subject::of_challenge(c).expect(c.slug)).collect()
}

fn assert_right(subjects: &[Subject], schedules: usize) {
    let options = CheckOptions { on: On::Simulator(Target::h200().clone()), schedules, seed: 1 };
    let reports = check(subjects, &options, &());
    let wrong: Vec<String> = reports.iter().filter(|r| !r.failures.is_empty()).map(|r| format!("{}: {:#?}", r.name, r.failures)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for report in reports {
        assert!(report.runs > 0, "{} was not run", report.name);
    }
}

/// A part of the gallery: all of it takes minutes, and is what `autotune check --all` checks.
#[test]
fn the_gallery_is_right() {
    let part: Vec<Subject> = subjects().into_iter().step_by(12).collect();
    assert!(part.len() >= 10);
    assert_right(&part, 4);
}

/// Kernels whose integers must mean something: tickets and words that other blocks leave, places in other tensors.
const OF_MEANING: [&str; 2] = ["::scan_by_look_back", "::radix_step<Two>"];

#[test]
fn kernels_are_checked_without_a_challenge() {
    let gallery = kernels().into_iter().filter(|d| d.module.starts_with("girih_examples"));
    let bare = gallery.map(|d| Subject::of_kernel(&d).expect("a gallery kernel builds"));
    // Random signs bring their divisors near zero, where a quotient keeps no digits; their challenge's are sums of positive numbers.
    let bare = bare.filter(|s| !s.name.contains("::attend_to_states"));
    // Their groups are whole numbers of tiles, which their program sees to.
    let bare = bare.filter(|s| !["::scaled_groups", "::packed_groups"].iter().any(|name| s.name.contains(name)));
    // Their tables are as long as a power of two, and not empty, which their techniques see to.
    let bare = bare.filter(|s| !["::walked", "::added_in_rounds"].iter().any(|name| s.name.ends_with(name)));
    // Rows, planes, flaws and chunks belong to the matrices that their programs give, whatever each one's lengths are here.
    let of_programs = ["::split_planes::", "::half_products::", "::attention_planes::", "::flash_decoding::"];
    let bare = bare.filter(|s| !of_programs.iter().any(|module| s.name.contains(module)));
    // What these keep comes in any order, which the next launches of their challenges do not mind.
    let bare = bare.filter(|s| !s.name.ends_with("::keep_probable"));
    // Sums are those of as many chunks as the vector has.
    let bare = bare.filter(|s| !s.name.ends_with("::scan_segments"));
    // Lists begin with whom comes last.
    let bare = bare.filter(|s| !s.name.ends_with("::list_agents"));
    // Their states are as many as their tiles, which their programs see to.
    let bare = bare.filter(|s| !["::scan_in_order", "::compact"].iter().any(|name| s.name.ends_with(name)));
    // Sixty lengths of eight instances take the evaluator minutes; their challenges check them.
    let bare = bare.filter(|s| !s.name.contains("::flash_attention"));
    let (told, random): (Vec<Subject>, Vec<Subject>) = bare.partition(|s| OF_MEANING.iter().any(|name| s.name.ends_with(name)));
    // A part of them: `differential` launches all, and what is told apart here are the lengths and numbers of a check.
    // Both operands of outer products are as deep, which their rung's lengths see to.
    let random: Vec<Subject> = random.into_iter().step_by(4).filter(|s| !s.name.ends_with("::outer_products")).collect();
    assert!(random.len() >= 30, "{}", random.len());
    assert_right(&random, 2);
    // Their challenges check them; random numbers are refused by the evaluator, and the report says why.
    assert_eq!(told.len(), OF_MEANING.len());
    let options = CheckOptions { on: On::Simulator(Target::h200().clone()), schedules: 1, seed: 1 };
    for report in check(&told, &options, &()) {
        assert!(!report.failures.is_empty(), "{} takes any numbers", report.name);
        let eval = |f: &girih::check::Failure| f.message.contains("eval: ") && f.message.contains("gets random integers");
        assert!(report.failures.iter().all(eval), "{}: {:#?}", report.name, report.failures);
    }
}

/// Counts what the tuner tells, and stops it after some trials.
struct Count<'a> {
    known: usize,
    tried: usize,
    stop_after: usize,
    stop: &'a AtomicBool,
}

impl Progress for Count<'_> {
    fn begin(&mut self, _kernel: &str, _candidates: usize, known: usize) {
        self.known = known;
    }
    fn tried(&mut self, _trial: &Trial) {
        self.tried += 1;
        if self.tried == self.stop_after {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
    fn note(&mut self, text: &str) {
        panic!("{text}");
    }
}

fn predict(store: &Store, trials: usize, stop_after: usize) -> (SiteOutcome, usize) {
    let relu = subjects().into_iter().find(|s| s.name == "relu").expect("relu is in the gallery");
    let budget = Budget { time: None, trials: Some(trials) };
    let by = By::Prediction(Target::h200());
    let options = Options {
        by,
        budget,
        strategy: Strategy::Random { seed: 3 },
        limit: Duration::from_secs(10),
        fresh: false,
        only: None,
        among: None,
    };
    let stop = AtomicBool::new(false);
    let mut count = Count { known: 0, tried: 0, stop_after, stop: &stop };
    let sizes = Sizes::parse("N=100000").expect("a size");
    let mut tuned = tune(&relu, &sizes, &options, store, &stop, &mut count).expect("prediction needs no GPU");
    assert_eq!(tuned.program, None, "one launch is no program to tune as a whole");
    (tuned.sites.remove(0), count.known)
}

fn store(name: &str) -> (Store, PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-tuner-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    (Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable"), folder)
}

#[test]
fn a_second_run_resumes_the_first() {
    let (store, folder) = store("resume");
    let (first, known) = predict(&store, 3, usize::MAX);
    assert_eq!((known, first.counts.0), (0, 3));
    assert!(first.winner.is_some(), "{:?}", first.dropped);
    let (second, known) = predict(&store, 2, usize::MAX);
    assert_eq!((known, second.counts.0), (3, 2));
    assert!(second.median_us <= first.median_us);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn trials_of_other_code_are_not_known() {
    let (store, folder) = store("other-code");
    predict(&store, 3, usize::MAX);
    let key = store.elected().unwrap().remove(0).key;
    for trial in store.trials(&key).unwrap() {
        // As an earlier version would have left them, whose lowering was another.
        store.record(&key, &Trial { code: trial.code.map(|c| c ^ 1), ..trial }).unwrap();
    }
    let (second, known) = predict(&store, 2, usize::MAX);
    assert_eq!((known, second.counts.0), (0, 2));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn trials_of_former_identities_are_known() {
    let (store, folder) = store("former-identity");
    predict(&store, 3, usize::MAX);
    let (key, kernel) = (store.elected().unwrap().remove(0).key, girih::subject::names::kernel("relu::relu").unwrap());
    let kernel = (kernel.build)().unwrap();
    assert_eq!(key.identity, kernel.identity());
    // As a former version would have left them: under a hash of the space, too.
    store.adopt(kernel.identity(), kernel.former_identity()).unwrap();
    assert_eq!(store.trials(&key).unwrap(), []);
    let lengths = key.lengths.as_ref();
    let facts = Facts::best(&kernel);
    let taken = schedule_lookup::of_kernel(&kernel, &facts, lengths, Target::h200(), Some((&store, &key.device)));
    assert!(taken.iter().any(|(_, origin)| *origin == schedule_lookup::Origin::Predicted), "launches find them, too");
    assert_eq!(predict(&store, 0, usize::MAX).1, 3);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_interrupt_keeps_what_was_found() {
    let (store, folder) = store("interrupt");
    let (outcome, _) = predict(&store, 10, 2);
    assert_eq!(outcome.counts.0, 2);
    assert!(outcome.counts.2 > 0, "candidates are left");
    assert_eq!(predict(&store, 0, usize::MAX).1, 2);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

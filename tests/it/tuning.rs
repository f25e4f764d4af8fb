//! Tuning large spaces, and the smaller calls by which the model puts candidates in order.

use girih::challenge::{Sizes, challenges};
use girih::store::{Store, Trial};
use girih::subject::Subject;
use girih::tune::reduced::{reduced, scaled_tiles};
use girih::tune::search::{Budget, Strategy};
use girih::tune::{Among, By, Options, Progress, tune};
use girih_core::target::Target;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn subject(slug: &str) -> Subject {
    let challenge = challenges().into_iter().find(|c| c.slug == slug).expect("a challenge of the gallery");
    Subject::of_challenge(&challenge).expect("a program")
}

fn fewer(challenge: &str, sizes: &str) -> String {
    let subject = subject(challenge);
    let kernel = (subject.program.sites()[0].build)().expect("a kernel");
    let sizes = Sizes::parse(sizes).expect("sizes");
    reduced(&subject, &sizes, (0, &kernel), Target::h200(), 256.0 * 1024.0).expect("a smaller size").to_string()
}

/// A model that sees short rows knows nothing of kernels for long ones.
#[test]
fn tiles_stay_what_they_are_in_smaller_calls() {
    assert_eq!(fewer("layer_normalization", "N=65536 C=512 eps=0.00001"), "C=512 N=64 eps=0.00001");
    assert_eq!(fewer("fused_residual_add_rms_norm", "N=4096 C=4096 eps=0.00001"), "C=4096 N=8 eps=0.00001");
    assert_eq!(fewer("batch_normalization", "N=5000 C=512 eps=0.00001"), "C=8 N=5000 eps=0.00001", "its tiles lie beside each other");
    assert_eq!(fewer("matrix_transpose", "rows=7000 cols=6000"), "cols=256 rows=288");
    assert_eq!(fewer("relu", "N=25000000"), "N=65536");
    assert_eq!(fewer("relu", "N=1000"), "N=1000");
}

/// And in larger ones: a gibibyte of rows has more of them.
#[test]
fn tiles_stay_what_they_are_in_larger_calls() {
    let larger = |challenge, sizes| {
        let sizes = Sizes::parse(sizes).expect("sizes");
        scaled_tiles(&subject(challenge), &sizes, Target::h200(), (1u64 << 30) as f64).expect("a larger size").to_string()
    };
    assert_eq!(larger("layer_normalization", "N=65536 C=512 eps=0.00001"), "C=512 N=524288 eps=0.00001");
    assert_eq!(larger("fused_residual_add_rms_norm", "N=4096 C=4096 eps=0.00001"), "C=4096 N=65536 eps=0.00001");
    assert_eq!(larger("matrix_copy", "N=4096"), "N=16384");
}

#[derive(Default)]
struct Told {
    candidates: usize,
    tried: Vec<Trial>,
}

impl Progress for Told {
    fn begin(&mut self, _site: &str, candidates: usize, _known: usize) {
        self.candidates = candidates;
    }
    fn tried(&mut self, trial: &Trial) {
        self.tried.push(trial.clone());
    }
    fn note(&mut self, text: &str) {
        panic!("{text}");
    }
}

fn store(name: &str) -> (Store, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-tuning-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    (Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable"), folder)
}

/// The search of a part of a space: what was tried, or why nothing.
fn searched(slug: &str, among: Among) -> Result<Vec<String>, String> {
    let (store, folder) = store(&format!("part-{}", fnv(&format!("{among:?}"))));
    let options = Options {
        by: By::Prediction(Target::h200()),
        budget: Budget { time: None, trials: None },
        strategy: Strategy::Model,
        limit: Duration::from_secs(20),
        fresh: false,
        only: None,
        among: Some(among),
    };
    let mut told = Told::default();
    let sizes = Sizes::parse("N=4096").expect("a size");
    let tuned = tune(&subject(slug), &sizes, &options, &store, &AtomicBool::new(false), &mut told);
    let _ = std::fs::remove_dir_all(&folder);
    let mut tried: Vec<String> = told.tried.iter().map(|t| t.schedule.clone()).collect();
    tried.sort();
    tuned.map(|_| tried)
}

fn fnv(text: &str) -> u64 {
    girih_core::scalar::fnv1a64(text.as_bytes())
}

#[test]
fn a_part_of_a_space_is_searched_beside_what_is_known() {
    let known = "T=1024 C=4 V=2 G=0 H=Default";
    let among = |text: &str| searched("relu", Among::Space(text.into()));
    let part = ["T=512 C=4 V=2 G=0 H=Default", "T=512 C=4 V=4 G=0 H=Default"];
    assert_eq!(among("T=512,C=4,V=4|2,G=0,H=Default").unwrap(), [known, part[0], part[1]]);
    let wrong = among("Q=77").unwrap_err();
    assert!(wrong.starts_with("relu: ") && wrong.contains("Q=77"), "{wrong}");
    let listed = |text: &str| searched("relu", Among::Schedules(text.into()));
    assert_eq!(listed("# two\nT=1024,V=1\n\nT=256,C=8,V=4 # the other").unwrap(), listed("T=256,C=8,V=4\nT=1024,V=1").unwrap());
    assert_eq!(listed("T=256,C=8,V=4").unwrap().len(), 2);
    let wrong = listed("T=256,C=8,V=4\nT=256,W=1").unwrap_err();
    assert!(wrong.contains("line 2"), "{wrong}");
    let several = searched("softmax", Among::Space("V=4".into())).unwrap_err();
    assert!(several.starts_with("softmax has the launch sites ") && several.contains("softmax."), "{several}");
}

/// Of a large space, too, nothing else is tried: not what lies beside what is known.
#[test]
fn a_part_of_a_large_space_is_kept_to() {
    let (store, folder) = store("large-part");
    let options = Options {
        by: By::Prediction(Target::h200()),
        budget: Budget { time: None, trials: Some(12) },
        strategy: Strategy::Model,
        limit: Duration::from_secs(20),
        fresh: false,
        only: None,
        among: Some(Among::Space("U=Ffma".into())),
    };
    let mut told = Told::default();
    let sizes = Sizes::parse("M=256 N=256 K=256 alpha=1 beta=1").expect("sizes");
    let tuned = tune(&subject("gemm"), &sizes, &options, &store, &AtomicBool::new(false), &mut told);
    let _ = std::fs::remove_dir_all(&folder);
    tuned.expect("a winner");
    let others: Vec<&String> = told.tried.iter().map(|t| &t.schedule).filter(|s| !s.contains(" U=Ffma ")).collect();
    assert!(told.tried.len() >= 12 && others.len() == 1, "{others:?}");
}

/// Looking for all candidates of this space would take many minutes.
#[test]
fn large_spaces_are_sampled_within_the_budget() {
    let subject = subject("gemm");
    let kernel = (subject.program.sites()[0].build)().expect("a kernel");
    let points: u64 = kernel.knobs.iter().map(|k| k.choices.len() as u64).product();
    assert!(points > 100_000, "{points}");
    let (store, folder) = store("large");
    let options = Options {
        by: By::Prediction(Target::h200()),
        budget: Budget { time: Some(Duration::from_secs(2)), trials: Some(3) },
        strategy: Strategy::Model,
        limit: Duration::from_secs(20),
        fresh: false,
        only: None,
        among: None,
    };
    let (mut told, start) = (Told::default(), Instant::now());
    let sizes = Sizes::parse("M=256 N=256 K=256 alpha=1 beta=1").expect("sizes");
    let tuned = tune(&subject, &sizes, &options, &store, &AtomicBool::new(false), &mut told).expect("a winner");
    // Generous, and no number of trials: other tests run beside this one.
    assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
    assert!(told.candidates < 2000 && told.candidates > 2, "{}", told.candidates);
    assert!((1..=3).contains(&told.tried.len()), "{}", told.tried.len());
    assert!(tuned.sites[0].winner.is_some());
    let _ = std::fs::remove_dir_all(&folder);
}

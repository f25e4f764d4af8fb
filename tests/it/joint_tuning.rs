//! Programs tuned as a whole: several launch sites, and variants, by prediction.

use super::programs::affine;
use girih::challenge::{Challenge, Sizes};
use girih::check::{On, Options as CheckOptions, check, check_ways};
use girih::launch::program_schedule::Joint;
use girih::launch::schedule_lookup;
use girih::prelude::*;
use girih::store::{Elected, Status, Store, Trial, TrialKey};
use girih::subject::schedules;
use girih::subject::{Call, Subject};
use girih::tune::launches;
use girih::tune::search::{Budget, Strategy};
use girih::tune::{By, Options, Progress, Tuned, tune};
use girih_core::facts::Facts;
use girih_core::lengths::Lengths;
use girih_core::program::Stmt;
use girih_core::program::export::export_program;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Two launches of one kernel.
#[program]
pub fn twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut once = temp([x.len(0)]);
    affine(x, &mut once, scalar(2.0), scalar(1.0));
    affine(&once, y, scalar(0.5), scalar(3.0));
}

/// The same in one launch, or in two where the tuner finds that better, which it never is.
#[program]
pub fn once_or_twice(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    if !variant("two launches") || x.len(0) < 2 {
        affine(x, y, scalar(1.0), scalar(3.5));
    } else {
        twice(x, y);
    }
}

/// The second variant is asked for on one side of the first only.
#[program]
pub fn nested(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    if variant("outer") {
        if variant("inner") {
            twice(x, y);
        } else {
            affine(x, y, scalar(1.0), scalar(3.5));
        }
    } else {
        affine(x, y, scalar(1.0), scalar(3.5));
    }
}

/// The first variant is asked for where there are few elements.
#[program]
pub fn by_length(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    if x.len(0) <= 1000 && variant("at once") {
        affine(x, y, scalar(1.0), scalar(3.5));
    } else if variant("in two") {
        twice(x, y);
    } else {
        affine(x, y, scalar(1.0), scalar(3.5));
    }
}

fn subject(name: &'static str, program: fn() -> girih_core::program::ProgramDef) -> Subject {
    let challenge = Challenge::new(name, program, "void solve(const float* X[N], float* Y[N], int N)")
        .input("X", girih::inputs::uniform(-4.0, 4.0))
        .output("Y", |x, i| x.at("X", i) + 3.5)
        .tolerance(1e-5, 1e-5)
        .check_at(["N=1", "N=300"])
        .perf_at("N=100000");
    Subject::of_challenge(&challenge).unwrap_or_else(|e| panic!("{e}"))
}

fn call(subject: &Subject, sizes: &str) -> Call {
    subject.call(&Sizes::parse(sizes).expect("sizes"), 1).expect("a call")
}

/// What the tuner tells.
#[derive(Default)]
pub struct Told {
    /// Sites in the order in which they were searched, with their candidates and what was known of them.
    pub searches: Vec<(String, usize, usize)>,
    pub tried: usize,
    pub notes: Vec<String>,
}

impl Progress for Told {
    fn begin(&mut self, site: &str, candidates: usize, known: usize) {
        self.searches.push((site.to_string(), candidates, known));
    }
    fn tried(&mut self, _trial: &Trial) {
        self.tried += 1;
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_string());
    }
}

fn predict(subject: &Subject, store: &Store, only: Option<&str>) -> (Tuned, Told) {
    predict_within(Budget { time: None, trials: None }, subject, store, only)
}

fn predict_within(budget: Budget, subject: &Subject, store: &Store, only: Option<&str>) -> (Tuned, Told) {
    let by = By::Prediction(Target::h200());
    let only = only.map(str::to_string);
    let options = Options { by, budget, strategy: Strategy::Exhaustive, limit: Duration::from_secs(10), fresh: false, only, among: None };
    let mut told = Told::default();
    let sizes = Sizes::parse("N=100000").expect("a size");
    let tuned = tune(subject, &sizes, &options, store, &AtomicBool::new(false), &mut told).unwrap_or_else(|e| panic!("{e}"));
    (tuned, told)
}

fn store(name: &str) -> (Store, PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-joint-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    (Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable"), folder)
}

const DEVICE: &str = "simulated h200";

#[test]
fn launch_sites_are_tuned_together() {
    let (store, folder) = store("sites");
    let twice = subject("twice", twice::Program::def);
    assert_eq!(twice.program.site_names(), ["affine", "affine_2"]);
    assert!(schedules::best(&twice, None, Target::h200(), Some((&store, DEVICE))).is_none());
    let (tuned, told) = predict(&twice, &store, None);
    let (joint, us) = tuned.program.expect("two sites are tuned as a whole");
    assert_eq!(tuned.sites.iter().map(|s| s.site.as_str()).collect::<Vec<_>>(), ["affine", "affine_2"]);
    assert!(told.searches[0].1 > 4 && told.tried >= 2 * told.searches[0].1.min(8), "{:?}", told.searches);
    // Both sites do the same, so they end up with the same schedule, and each takes half of the time.
    assert_eq!(joint.sites[0].1, joint.sites[1].1, "{joint}");
    let key = schedules::key(&twice, &call(&twice, "N=100000"), DEVICE, Target::h200());
    let trials = store.trials(&key).unwrap();
    assert!(trials.iter().any(|t| t.schedule == joint.to_string() && t.status == Status::Predicted && t.median_us == Some(us)));
    assert_eq!(store.elected_for(&key).unwrap(), Some((joint.to_string(), us)));
    let alone = tuned.sites[0].ranking.iter().filter_map(|t| t.median_us).fold(f64::INFINITY, f64::min);
    assert!((us - alone).abs() < 1e-6 * us, "the times of sites are the whole program's: {us} and {alone}");

    // What was found is found again, runs, and is where the next run starts: it has nothing to try.
    let lengths = call(&twice, "N=100000").lengths();
    let (found, ready) = schedules::best(&twice, Some(&lengths), Target::h200(), Some((&store, DEVICE))).expect("it was stored");
    assert_eq!((found.to_string(), found.predicted), (joint.to_string(), true));
    let kernels = ready.program.sites().into_iter().map(|d| (d.build)().expect("it builds"));
    let way = kernels.zip(&joint.sites).map(|(k, (_, text))| parse_schedule(&k, text).expect("its own text")).collect();
    let options = CheckOptions { on: On::Simulator(Target::h200().clone()), schedules: 1, seed: 1 };
    let report = check_ways(&ready, vec![way], &options);
    assert!(report.failures.is_empty() && report.runs == 2, "{report:?}");
    let (again, told) = predict(&twice, &store, None);
    assert_eq!((told.tried, again.program.expect("as before").0), (0, joint));
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn a_programs_sites_share_its_time() {
    let (store, folder) = store("share");
    let budget = Budget { time: Some(Duration::ZERO), trials: None };
    let (tuned, told) = predict_within(budget, &subject("twice", twice::Program::def), &store, None);
    // One trial says something of the whole program; there is no time for more, nor for the other site.
    assert_eq!((told.tried, told.searches.len(), tuned.sites.len()), (1, 1, 1), "{:?}", told.notes);
    assert!(told.notes[0].starts_with("affine_2: the budget is spent, so it keeps T="), "{:?}", told.notes);
    assert_eq!(tuned.program.expect("it was timed").0.sites.len(), 2);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn nested_variants_are_listed_once() {
    let ways = subject("nested", nested::Program::def).ways();
    let chosen: Vec<&[bool]> = ways.iter().map(|w| w.variants.as_slice()).collect();
    assert_eq!(chosen, [&[true, true][..], &[false, true], &[true, false]]);
}

/// A call decides which variants it asks for: what does the same there is tuned once.
#[test]
fn variants_that_a_call_does_not_ask_for_are_not_tuned() {
    let (store, folder) = store("by-length");
    let subject = subject("by_length", by_length::Program::def);
    assert_eq!(subject.ways().len(), 4, "some call tells them all apart");
    let (_, told) = predict_within(Budget { time: None, trials: Some(1) }, &subject, &store, None);
    let ways: Vec<&String> = told.notes.iter().filter(|n| n.starts_with("by_length (") && n.ends_with(')')).collect();
    assert_eq!(ways, ["by_length (at once=yes; in two=yes)", "by_length (at once=yes; in two=no)"], "{:?}", told.notes);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

/// Where nothing was measured, what was predicted is taken, and called that.
#[test]
fn predictions_stand_in_for_measurements() {
    let (store, folder) = store("stand-in");
    let subject = subject("twice", twice::Program::def);
    let (tuned, _) = predict_within(Budget { time: None, trials: Some(2) }, &subject, &store, None);
    let kernel = (affine::Kernel::<f32>::def().build)().expect("it builds");
    let facts = Facts::best(&kernel);
    let lengths = call(&subject, "N=100000").lengths();
    let lengths = Lengths(vec![lengths.0[0].clone(), lengths.0[1].clone(), None, None]);
    let taken = |device: &str| {
        let known = schedule_lookup::choose(&kernel, &facts, Some(&lengths), Target::h200(), Some((&store, device)), |_| true);
        known.map(|(s, origin)| (s.short(&kernel), origin.name())).expect("there is one")
    };
    let winner = tuned.sites[1].winner.clone().expect("it was tuned").0;
    for device in [DEVICE, "NVIDIA H200", "simulator (h200)"] {
        assert_eq!(taken(device), (winner.clone(), "predicted on this machine"), "{device}");
    }
    let (joint, _) = schedules::best(&subject, None, Target::h200(), Some((&store, "NVIDIA H200"))).expect("it was predicted");
    assert_eq!(joint.origin(), "predicted on this machine, with the program");
    // A measurement, of whatever lengths, comes before it.
    let mut measured = store.elected().unwrap().into_iter().find(|e| e.key.identity == kernel.identity()).expect("it was elected");
    measured.key = TrialKey { device: "NVIDIA H200".into(), lengths: None, ..measured.key };
    store.elect(&measured).unwrap();
    assert_eq!(taken("NVIDIA H200").1, "tuned here");
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn an_authors_mistake_is_told_once() {
    let (store, folder) = store("mistake");
    let challenge = Challenge::new("mistaken", twice::Program::def, "void solve(const float* X[N], float* Y[N], int N)")
        .input("X", girih::inputs::uniform(-4.0, 4.0))
        .output("Y", |x, i| x.at("Z", i))
        .check_at(["N=1", "N=300"])
        .perf_at("N=100000");
    let subject = Subject::of_challenge(&challenge).expect("the program is right");
    let options = Options {
        by: By::Prediction(Target::h200()),
        budget: Budget { time: None, trials: None },
        strategy: Strategy::Exhaustive,
        limit: Duration::from_secs(10),
        fresh: false,
        only: None,
        among: None,
    };
    let mut told = Told::default();
    let sizes = Sizes::parse("N=100000").expect("a size");
    let error = tune(&subject, &sizes, &options, &store, &AtomicBool::new(false), &mut told).unwrap_err();
    assert!(error.contains("a reference names the tensor `Z`"), "{error}");
    assert_eq!((told.tried, told.notes.len()), (0, 0), "{:?}", told.notes);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

/// However little time there is: at other lengths another choice may be the better one.
#[test]
fn each_choice_of_variants_is_timed() {
    let (store, folder) = store("ways");
    let budget = Budget { time: Some(Duration::ZERO), trials: None };
    let subject = subject("once_or_twice", once_or_twice::Program::def);
    let (tuned, _) = predict_within(budget, &subject, &store, None);
    let key = schedules::key(&subject, &call(&subject, "N=100000"), DEVICE, Target::h200());
    let tried = store.trials(&key).unwrap();
    let timed = |way: &str| tried.iter().any(|t| t.schedule.starts_with(way) && t.median_us.is_some());
    assert!(timed("two launches=yes") && timed("two launches=no"), "{tried:?}");
    assert!(!tuned.program.expect("it was timed").0.variants[0].1, "one launch is faster");
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn one_site_of_a_program_can_be_tuned() {
    let (store, folder) = store("one");
    let (tuned, told) = predict(&subject("twice", twice::Program::def), &store, Some("affine_2"));
    assert_eq!(tuned.sites.len(), 1);
    assert!(told.searches.iter().all(|(site, ..)| site == "affine_2"), "{:?}", told.searches);
    let (joint, _) = tuned.program.expect("the other site keeps what it has");
    assert_eq!(joint.sites.len(), 2);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn the_tuner_chooses_among_variants() {
    let (store, folder) = store("variants");
    let subject = subject("once_or_twice", once_or_twice::Program::def);
    assert_eq!(subject.source.variants, ["two launches"]);
    let launches = |s: &Subject| s.program.sites().len();
    let ways = subject.ways();
    assert_eq!(ways.iter().map(launches).collect::<Vec<_>>(), [3, 1], "a shape still decides under the first choice");
    assert!(matches!(ways[1].program.body[..], [Stmt::Launch { site: 0, .. }]), "{:?}", ways[1].program.body);
    let options = CheckOptions { on: On::Simulator(Target::h200().clone()), schedules: 3, seed: 1 };
    let reports = check(std::slice::from_ref(&subject), &options, &());
    assert_eq!(reports.len(), 2, "each choice is checked");
    assert!(reports.iter().all(|r| r.failures.is_empty() && r.runs > 0), "{reports:?}");

    let (tuned, told) = predict(&subject, &store, None);
    let (joint, us) = tuned.program.expect("a program with variants is tuned as a whole");
    let unreached = "affine: a call at N=100000 does not launch it, so it is not tuned, nor part of the program's time";
    let notes = &told.notes;
    assert_eq!([&notes[0], &notes[1], &notes[3]], ["once_or_twice (two launches=yes)", unreached, "once_or_twice (two launches=no)"]);
    assert!(notes[2].starts_with("once_or_twice (two launches=yes): predicted ") && notes[2].ends_with(" us"), "{}", notes[2]);
    assert!(notes[4].starts_with(&format!("once_or_twice (two launches=no): predicted {us:.2} us")) && notes.len() == 5, "{notes:?}");
    assert_eq!((joint.variants[0].1, joint.sites.len()), (false, 1), "{joint}");
    let key = schedules::key(&subject, &call(&subject, "N=100000"), DEVICE, Target::h200());
    let slower = store.trials(&key).unwrap().into_iter().find(|t| t.schedule.starts_with("two launches=yes")).expect("both were tried");
    assert!(slower.median_us > Some(us), "{slower:?}");

    // The slower choice launches the same kernel on tensors of these lengths, and is searched last now: what won stays elected.
    predict(&subject, &store, None);
    let launches_of_it = launches::launches(&subject.with_variants(&[false]).program, &call(&subject, "N=100000"), 0).expect("it launches");
    let kernel = (affine::Kernel::<f32>::def().build)().expect("it builds");
    let own = TrialKey {
        kernel: girih::store::winners::kernel_path(&kernel),
        identity: kernel.identity(),
        facts: launches_of_it[0].facts.to_string(),
        lengths: Some(launches_of_it[0].lengths.clone()),
        ..key
    };
    assert_eq!(store.elected_for(&own).unwrap().map(|(_, us)| us), Some(us));

    // The choice is taken, and the exported text has nothing of the other side.
    let (_, ready) = schedules::best(&subject, None, Target::h200(), Some((&store, DEVICE))).expect("it was stored");
    assert_eq!(launches(&ready), 1);
    let signature = subject.signature().expect("a challenge has a signature");
    let kernel = (affine::Kernel::<f32>::def().build)().expect("it builds");
    let schedule = joint.schedule("affine", &kernel).expect("its own text");
    let text = export_program(&ready.program, signature, Target::h200(), &mut |_, _| schedule.clone()).unwrap();
    assert!(ready.program.temps.is_empty() && !text.contains("workspace("), "{text}");
    assert_eq!(Joint::parse(&joint.to_string()), Ok(joint));
    std::fs::remove_dir_all(folder).expect("it was made above");
}

/// A winner that multiplies by warp groups, or by matrix units for tf32, says nothing of a GPU that has none.
#[test]
fn variants_whose_schedules_a_target_lacks_are_not_taken() {
    let subject = girih::subject::names::subject("matrix_multiplication").expect("a challenge of the gallery");
    let way = |arch: &str| {
        let target = Target::find(arch).unwrap_or_else(|| panic!("{arch}"));
        schedules::best(&subject, None, target, None).map(|(_, way)| way.variants)
    };
    assert_eq!(way("sm_90a"), Some(vec![false, false]));
    assert!(way("sm_80").is_some_and(|way| way != [false, false]), "the nearest kind has no warp groups: {:?}", way("sm_80"));
    assert_eq!(way("sm_75"), None);
}

#[test]
fn programs_take_the_variants_of_the_nearest_lengths() {
    let (store, folder) = store("lengths");
    let subject = subject("once_or_twice", once_or_twice::Program::def);
    for (sizes, schedule) in [("N=1000", "two launches=no; affine: T=512"), ("N=1000000", "two launches=yes; affine: T=512")] {
        let key = schedules::key(&subject, &call(&subject, sizes), DEVICE, Target::h200());
        store.elect(&Elected { key, schedule: schedule.into(), median_us: 1.0 }).unwrap();
    }
    let two_launches = |sizes: Option<&str>| {
        let lengths = sizes.map(|s| call(&subject, s).lengths());
        let (joint, _) = schedules::best(&subject, lengths.as_ref(), Target::h200(), Some((&store, DEVICE))).expect("it was stored");
        joint.variants[0].1
    };
    let sizes = [Some("N=1000"), Some("N=1000000"), Some("N=8000"), Some("N=300000"), None];
    assert_eq!(sizes.map(two_launches), [false, true, false, true, true]);
    std::fs::remove_dir_all(folder).expect("it was made above");
}

/// What was tuned of a program at other lengths gives way to what was tuned of its kernel at nearer ones.
#[test]
fn sites_take_what_was_tuned_nearest() {
    const GPU: &str = "NVIDIA H200";
    let (store, folder) = store("nearest");
    let subject = subject("once_or_twice", once_or_twice::Program::def);
    let key = schedules::key(&subject, &call(&subject, "N=4097"), GPU, Target::h200());
    store.elect(&Elected { key, schedule: "two launches=no; affine: T=512".into(), median_us: 1.0 }).unwrap();

    let taken = |sizes: &str| {
        let call = call(&subject, sizes);
        let (joint, way) = schedules::best(&subject, Some(&call.lengths()), Target::h200(), Some((&store, GPU))).expect("it was stored");
        let launches = launches::launches(&way.program, &call, 0).expect("it launches");
        let found = schedules::schedules(&way, Some(&joint), Target::h200(), Some((&store, GPU)), &launches).expect("a schedule");
        let (facts, lengths) = launches::promised(&launches, 0, &found[0].1);
        (found[0].0.short(&found[0].1), found[0].2, found[0].1.clone(), facts, lengths)
    };
    let (schedule, origin, kernel, facts, lengths) = taken("N=4096");
    assert_eq!((schedule.as_str(), origin), ("T=512 C=1 vector=1", "tuned with the program"));
    let key = TrialKey {
        kernel: girih::store::winners::kernel_path(&kernel),
        identity: kernel.identity(),
        facts: facts.to_string(),
        lengths,
        sizes: "N=4096".into(),
        device: GPU.into(),
        arch: Target::h200().arch.to_string(),
    };
    store.elect(&Elected { key, schedule: "T=256 C=4 vector=4".into(), median_us: 1.0 }).unwrap();
    let text = |sizes: &str| taken(sizes).0;
    assert_eq!(text("N=4096"), "T=256 C=4 vector=4", "tuned at the very lengths");
    assert_eq!(text("N=4097"), "T=512 C=1 vector=1", "the program was");
    assert_eq!(text("N=4099"), "T=512 C=1 vector=1", "as odd as the program's");
    assert_eq!(text("N=2048"), "T=256 C=4 vector=4", "as even as the kernel's");
    std::fs::remove_dir_all(folder).expect("it was made above");
}

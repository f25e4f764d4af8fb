//! What breaks while the tuner works: nothing that was timed is lost, nothing that failed is elected, and the next run goes on from there. What
//! breaks of a store alone is tested beside it (`store/faults.rs`).

use super::by_shell::{copying, folder, options, store};
use super::search::Budget;
use super::{Among, Options, Progress, Tuned, tune};
use crate::store::faults::tear;
use crate::store::rows::Which;
use crate::store::{Status, Store, Trial};
use crate::subject::challenge::Sizes;
use girih::prelude::*;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The same.
#[kernel(tile(T = [128, 256]), coarsen(C of T = [1, 2, 4]))]
pub fn moved(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t));
    }
}

#[program]
pub fn moves(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    moved(x, y);
}

/// All candidates.
const ALL: usize = 6;
/// The candidate that the fault meets, which would be the fastest, and the one that is next.
const MET: &str = "T=256 C=2";
const NEXT: &str = "T=128 C=4";

/// A worker that answers a trial of [`MET`] by `met`, and others by so many microseconds, or one less for [`NEXT`].
fn worker(met: &str, us: u32) -> String {
    let measured = |us: u32| format!(r#"echo '{{"measured":{{"samples_us":[{us}.0]}}}}'"#);
    let (next, others) = (measured(us - 1), measured(us));
    format!(
        r#"read setup; echo '"ready"'; while read line; do case $line in
        *interleaved*) echo '{{"interleaved":{{"samples_us":[]}}}}';;
        *'"{MET}"'*) {met};; *'"{NEXT}"'*) {next};; *) {others};; esac; done"#
    )
}

/// What [`MET`] answers where nothing breaks.
const FASTEST: &str = r#"echo '{"measured":{"samples_us":[1.0]}}'"#;

/// Takes down what is told, and does something behind the first trial.
#[derive(Default)]
struct Told<'a> {
    known: usize,
    trials: Vec<Trial>,
    notes: Vec<String>,
    meanwhile: Option<Box<dyn FnOnce() + 'a>>,
}

impl Progress for Told<'_> {
    fn begin(&mut self, _site: &str, _candidates: usize, known: usize) {
        self.known = known;
    }
    fn tried(&mut self, trial: &Trial) {
        self.trials.push(trial.clone());
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_string());
    }
}

fn run_by(options: &Options, store: &Store, told: &mut Told) -> Result<Tuned, String> {
    let sizes = Sizes::parse("N=100000000").expect("a size");
    tune(&copying(moves::Program::def), &sizes, options, store, &AtomicBool::new(false), told)
}

/// A run over all candidates, as its winner or its error, with what it told.
fn run(script: String, limit: Duration, store: &Store) -> (Result<String, String>, Told<'static>) {
    let options = Options { limit, ..options(script, |_, _, _, _| {}, Budget { time: None, trials: None }) };
    let mut told = Told::default();
    let winner = run_by(&options, store, &mut told).map(|tuned| tuned.sites[0].winner.clone().expect("something is right").0);
    (winner, told)
}

const LONG: Duration = Duration::from_secs(10);

/// The trials that are stored, by the only launch that anything is elected for.
fn stored(store: &Store) -> Vec<Trial> {
    let elected = store.elected().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(elected.len(), 1, "{elected:?}");
    store.trials(&elected[0].key).unwrap_or_else(|e| panic!("{e}"))
}

fn status(trials: &[Trial], schedule: &str) -> Option<Status> {
    trials.iter().find(|t| t.schedule == schedule).map(|t| t.status)
}

fn done(folder: &Path) {
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// Somebody kills the process that measures: the candidate is asked for again, and wins.
#[test]
fn a_worker_that_is_killed_in_mid_trial_loses_nothing() {
    let folder = folder("faults-killed");
    let (store, pid) = (store(&folder), folder.join("pid"));
    let once = format!("if [ -e {0} ]; then {FASTEST}; else echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60; fi", pid.display());
    let (winner, told) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + Duration::from_secs(60);
            while !pid.exists() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let worker = std::fs::read_to_string(&pid).expect("a trial of it began");
            assert!(Command::new("kill").args(["-9", worker.trim()]).status().expect("there is a `kill`").success());
        });
        run(worker(&once, 3), LONG, &store)
    });
    assert_eq!(winner.as_deref(), Ok(MET));
    assert_eq!((told.trials.len(), stored(&store).len()), (ALL, ALL));
    assert!(told.trials.iter().all(|t| t.status == Status::Measured), "{:?}", told.trials);
    done(&folder);
}

/// A kernel that never ends costs its limit once; what is right and next best wins, and the next run does not try it again.
#[test]
fn a_kernel_that_hangs_is_not_elected_and_not_tried_again() {
    let folder = folder("faults-hung");
    let store = store(&folder);
    let hung = || run(worker("exec sleep 60", 3), Duration::from_millis(700), &store);
    let (winner, told) = hung();
    assert_eq!((winner.as_deref(), told.trials.len()), (Ok(NEXT), ALL));
    assert_eq!(status(&stored(&store), MET), Some(Status::TimedOut));
    let (winner, told) = hung();
    assert_eq!((winner.as_deref(), told.known, told.trials.len()), (Ok(NEXT), ALL, 0));
    done(&folder);
}

/// What a run had no time for is no trial: the next one makes it.
#[test]
fn what_was_left_untried_is_tried_by_the_next_run() {
    let folder = folder("faults-untried");
    let store = store(&folder);
    let (winner, told) = run(worker(FASTEST, 3), LONG, &store);
    assert_eq!((winner.as_deref(), told.trials.len()), (Ok(MET), ALL));
    let key = store.elected().unwrap_or_else(|e| panic!("{e}"))[0].key.clone();
    let met = stored(&store).into_iter().find(|t| t.schedule == MET).expect("it was tried");
    let (reason, samples_us) = ("there was no time".to_string(), Vec::new());
    store.record(&key, &Trial { status: Status::Untried, reason, samples_us, median_us: None, ..met }).unwrap_or_else(|e| panic!("{e}"));
    let (winner, told) = run(worker(FASTEST, 3), LONG, &store);
    assert_eq!((winner.as_deref(), told.known, told.trials.len()), (Ok(MET), ALL - 1, 1));
    done(&folder);
}

/// The disk is full in mid-search: the search ends there, what was timed stays, and the next run goes on from it.
#[test]
fn a_search_ends_with_a_full_disk_and_goes_on_behind_it() {
    let folder = folder("faults-full");
    // Each trial takes some pages.
    let many = vec!["1.0"; 2000].join(",");
    let script = worker(FASTEST, 3).replace("[3.0]", &format!("[{many}]").replace("1.0", "3.0"));
    let (winner, told) = run(script.clone(), LONG, &store(&folder).with_room_for(6));
    let error = winner.expect_err("nothing can be stored");
    assert!(error.contains("full") && error.contains("free some room"), "{error}");
    let kept = told.trials.len();
    assert!(kept > 0 && kept < ALL, "{kept} trials were made");
    let (winner, told) = run(script, LONG, &store(&folder));
    // The trial whose row found no room was told of, and is made again.
    assert!(told.known + 1 >= kept && told.known + told.trials.len() == ALL, "{kept}, then {} and {}", told.known, told.trials.len());
    assert_eq!(winner.as_deref(), Ok(MET));
    assert_eq!(stored(&store(&folder)).len(), ALL);
    done(&folder);
}

/// A store that cannot be written is told of before anything is measured for nothing.
#[test]
fn a_read_only_store_ends_a_search_before_its_first_trial() {
    let folder = folder("faults-read-only");
    let (winner, told) = run(worker(FASTEST, 3), LONG, &store(&folder).read_only());
    let error = winner.expect_err("nothing can be stored");
    assert!(error.contains("readonly") && error.ends_with("set GIRIH_CACHE to a folder that can be written"), "{error}");
    assert!(told.trials.is_empty(), "{:?}", told.trials);
    assert!(store(&folder).elected().expect("readable").is_empty());
    done(&folder);
}

/// A store whose pages are rubbish: nothing is taken from it, nothing is elected, and the file stays for whoever can save it.
#[test]
fn a_torn_store_ends_a_search_and_keeps_its_file() {
    let folder = folder("faults-torn");
    let script = worker(FASTEST, 3).replace("[3.0]", &format!("[{}]", vec!["3.0"; 4000].join(",")));
    assert_eq!(run(script.clone(), LONG, &store(&folder)).0.as_deref(), Ok(MET));
    let path = folder.join("tune.sqlite");
    let length = tear(&path);
    let error = match Store::open(&path) {
        Err(e) => e.to_string(),
        Ok(store) => run(script, LONG, &store).0.expect_err("its pages are torn"),
    };
    assert!(error.contains("malformed") && error.contains("move the file away"), "{error}");
    assert!(std::fs::read(&path).expect("the file").len() >= length);
    done(&folder);
}

/// A second tuner begins and ends while the first one is at work, and finds something faster: that stays, and both keep their trials.
#[test]
fn two_tuners_on_one_store_elect_the_faster() {
    let folder = folder("faults-two");
    let first = store(&folder);
    let quick = || {
        let (winner, told) = run(worker(FASTEST, 5), LONG, &store(&folder));
        // One trial of the first one is there.
        assert_eq!((winner.as_deref(), told.known), (Ok(MET), 1));
    };
    let mut told = Told { meanwhile: Some(Box::new(quick)), ..Told::default() };
    let slower = options(worker(r#"echo '{"measured":{"samples_us":[9.0]}}'"#, 8), |_, _, _, _| {}, Budget { time: None, trials: None });
    let tuned = run_by(&slower, &first, &mut told).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(tuned.sites[0].winner.as_ref().map(|w| w.0.as_str()), Some(NEXT), "of its own trials");
    assert!(told.notes.iter().any(|note| note.contains(&format!("another tuner has elected {MET}"))), "{:?}", told.notes);
    let elected = first.elected().expect("readable");
    assert_eq!(elected.iter().map(|e| (e.schedule.as_str(), e.median_us)).collect::<Vec<_>>(), [(MET, 1.0)]);
    assert_eq!(stored(&first).len(), ALL);
    done(&folder);
}

/// Two machines try a share each, with a store each: together they try everything once, and the merged store has the better winner.
#[test]
fn shares_of_a_search_are_all_of_it() {
    let folders = ["faults-share-1", "faults-share-2"].map(folder);
    let mut stores = folders.each_ref().map(|folder| store(folder));
    let share = |number: usize, store: &Store| {
        let options = options(worker(FASTEST, 3), |_, _, _, _| {}, Budget { time: None, trials: None });
        let shard = format!("{number}/2").parse().expect("a share");
        let mut told = Told::default();
        let tuned = run_by(&Options { among: Some(Among::Shard(shard)), ..options }, store, &mut told).unwrap_or_else(|e| panic!("{e}"));
        let tried: Vec<String> = told.trials.iter().map(|t| t.schedule.clone()).collect();
        (tuned.sites[0].winner.clone().expect("something is right").0, tried)
    };
    let [(first, mut tried), (second, others)] = [share(1, &stores[0]), share(2, &stores[1])];
    // What is listed first and the plainest are tried by both.
    let twice: Vec<&String> = tried.iter().filter(|t| others.contains(t)).collect();
    assert!(
        tried.len() < ALL && others.len() < ALL && twice.len() == 2 && twice.iter().all(|t| t.ends_with("C=1")),
        "{tried:?} {others:?}"
    );
    assert!([&first, &second].iter().any(|winner| *winner == MET), "{first} {second}");
    tried.extend(others);
    tried.sort();
    tried.dedup();
    assert_eq!(tried.len(), ALL, "{tried:?}");
    let mut rows = Vec::new();
    stores[1].export(&Which::default(), &mut rows).unwrap_or_else(|e| panic!("{e}"));
    stores[0].import(&mut rows.as_slice()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(stored(&stores[0]).len(), ALL);
    let (winner, told) = run(worker(FASTEST, 3), LONG, &stores[0]);
    assert_eq!((winner.as_deref(), told.known, told.trials.len()), (Ok(MET), ALL, 0));
    folders.iter().for_each(|folder| done(folder));
}

/// A GPU that is too hot for a whole run: the result says so, and the next run takes nothing of it for known.
#[test]
fn trials_of_a_throttled_gpu_are_told_of_and_made_again() {
    let folder = folder("faults-hot");
    let store = store(&folder);
    let hot = worker(FASTEST, 3).replace("]}}", r#"],"throttled":"measured while throttled: power brake"}}"#);
    let run_once = |script: String| {
        let options = options(script, |_, _, _, _| {}, Budget { time: None, trials: None });
        let mut told = Told::default();
        let tuned = run_by(&options, &store, &mut told).unwrap_or_else(|e| panic!("{e}"));
        (tuned.sites[0].throttled.clone(), told.known, told.trials.len())
    };
    assert_eq!(run_once(hot), (Some("measured while throttled: power brake".into()), 0, ALL));
    assert_eq!(run_once(worker(FASTEST, 3)), (None, 0, ALL));
    assert_eq!(run_once(worker(FASTEST, 3)), (None, ALL, 0));
    done(&folder);
}

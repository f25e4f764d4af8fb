//! Stores in folders of their own.

use super::database::VERSIONS;
use super::rows::Which;
use super::schema::SCHEMA;
use super::*;
use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;

fn key() -> TrialKey {
    let text = |s: &str| s.to_string();
    let lengths = Lengths::parse("8").ok();
    TrialKey {
        kernel: text("k"),
        identity: 7,
        facts: text("16p/16"),
        lengths,
        sizes: text("N=8"),
        device: text("GPU"),
        arch: text("sm_90a"),
    }
}

fn store(name: &str) -> (Store, PathBuf) {
    let folder = std::env::temp_dir().join(format!("girih-{name}-{}", std::process::id()));
    (Store::open(&folder.join("tune.sqlite")).unwrap(), folder)
}

/// The key at another size.
fn sized(n: i64) -> TrialKey {
    TrialKey { sizes: format!("N={n}"), lengths: Lengths::parse(&n.to_string()).ok(), ..key() }
}

fn elect(store: &Store, key: TrialKey, schedule: &str) {
    store.elect(&Elected { key, schedule: schedule.into(), median_us: 1.0 }).unwrap();
}

fn schedules(store: &Store, lengths: Option<&Lengths>, device: &str) -> Vec<String> {
    let asked = Occasion { facts: "16p/16", lengths };
    store.candidates(7, asked, device).unwrap().into_iter().map(|c| c.schedule).collect()
}

fn trial(schedule: &str, median_us: Option<f64>) -> Trial {
    let status = if median_us.is_some() { Status::Measured } else { Status::Wrong };
    let samples_us = median_us.into_iter().collect();
    let flaw = median_us.filter(|us| *us > 5.0).map(|_| "48 bytes spilled per thread".to_string());
    let (schedule, reason) = (schedule.to_string(), String::new());
    Trial { schedule, status, reason, median_us, samples_us, registers: Some(32), flaw, code: median_us.map(|_| u64::MAX) }
}

#[test]
fn trials_survive_reopening_and_replace_former_ones() {
    let folder = std::env::temp_dir().join(format!("girih-store-{}", std::process::id()));
    let path = folder.join("tune.sqlite");
    let store = Store::open(&path).unwrap();
    store.record(&key(), &trial("T=1", Some(9.0))).unwrap();
    store.record(&key(), &trial("T=2", None)).unwrap();
    store.record(&key(), &trial("T=1", Some(3.5))).unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    let mut trials = store.trials(&key()).unwrap();
    trials.sort_by(|a, b| a.schedule.cmp(&b.schedule));
    assert_eq!(trials, [trial("T=1", Some(3.5)), trial("T=2", None)]);
    let other = TrialKey { sizes: "N=9".into(), ..key() };
    assert_eq!(store.trials(&other).unwrap(), []);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn stores_of_former_versions_are_read_and_written() {
    let folder = std::env::temp_dir().join(format!("girih-former-{}", std::process::id()));
    let path = folder.join("tune.sqlite");
    std::fs::create_dir_all(&folder).unwrap();
    let former = SCHEMA
        .replace(", code TEXT", "")
        .replace(", flaw TEXT", "")
        .replace("\n        made TEXT NOT NULL DEFAULT '',", "")
        .replace(", lengths TEXT NOT NULL DEFAULT ''", "")
        .replace(", lengths))", "))");
    assert!(!former.contains("lengths"), "{former}");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(&former).unwrap();
    let old = "INSERT INTO elected VALUES ('0000000000000007', 'k', '16p/16', 'N=9', 'GPU', 'sm_90a', 'T=9', 1.0, ?1, 1)";
    db.execute(old, [VERSIONS]).unwrap();
    drop(db);
    for _ in 0..2 {
        let store = Store::open(&path).unwrap();
        store.record(&key(), &trial("T=1", Some(9.0))).unwrap();
        assert_eq!(store.trials(&key()).unwrap(), [trial("T=1", Some(9.0))]);
        elect(&store, key(), "T=8");
        // What was elected before is usable, in the middle between near and far.
        elect(&store, sized(8 << 12), "T=64");
        let at = |n: i64| schedules(&store, sized(n).lengths.as_ref(), "GPU");
        assert_eq!(at(8), ["T=8", "T=1", "T=9", "T=64"]);
        assert_eq!(at(8 << 10), ["T=64", "T=9", "T=8"]);
    }
    // Tuned again, its lengths are known.
    let store = Store::open(&path).unwrap();
    elect(&store, sized(9), "T=10");
    assert!(store.elected().unwrap().iter().all(|e| e.key.lengths.is_some() && e.schedule != "T=9"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn candidates_put_the_elected_first() {
    let (store, folder) = store("elect");
    store.record(&key(), &trial("T=1", Some(1.0))).unwrap();
    store.record(&key(), &trial("T=5", Some(2.0))).unwrap();
    elect(&store, key(), "T=2");
    elect(&store, TrialKey { facts: "4p/1".into(), ..key() }, "T=3");
    elect(&store, TrialKey { facts: "4s/1".into(), ..key() }, "T=4");
    let candidates = |device| schedules(&store, key().lengths.as_ref(), device);
    assert_eq!(candidates("GPU"), ["T=2", "T=1", "T=3", "T=4"]);
    assert_eq!(candidates("another"), [""; 0]);
    // What this one elected is known elsewhere as what another one did, the nearest first.
    let own = key();
    let other = |device: &str| store.candidates_elsewhere(7, Occasion { facts: "16p/16", lengths: own.lengths.as_ref() }, device);
    let found = other("another").unwrap();
    assert!(found.iter().all(|e| e.device == "GPU" && e.arch == "sm_90a"));
    assert_eq!(found.into_iter().map(|e| e.candidate.schedule).collect::<Vec<_>>(), ["T=2", "T=3", "T=4"]);
    assert_eq!(other("GPU").unwrap(), []);
    assert_eq!(store.elected_for(&key()).unwrap(), Some(("T=2".into(), 1.0)));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn candidates_are_those_of_the_nearest_lengths() {
    let (store, folder) = store("lengths");
    for n in [1 << 10, 1 << 27, 1 << 18] {
        elect(&store, sized(n), &format!("T={n}"));
    }
    // Trials of other sizes are no word on this one: shorter tensors take less time.
    store.record(&sized(64), &trial("T=7", Some(0.1))).unwrap();
    let first = |n: i64| schedules(&store, sized(n).lengths.as_ref(), "GPU")[0].clone();
    for (n, taken) in [(1 << 10, 1 << 10), (1 << 27, 1 << 27), (16, 1 << 10), (100_000, 1 << 18), (1 << 30, 1 << 27), (64, 7)] {
        assert_eq!(first(n), format!("T={taken}"), "{n}");
    }
    let all = schedules(&store, None, "GPU");
    assert_eq!(all, ["T=134217728", "T=262144", "T=1024", "T=7"], "the longest first");
    // Two programs may call equal things by different sizes, and different things by equal ones.
    elect(&store, TrialKey { lengths: Lengths::parse("512").ok(), ..sized(1 << 27) }, "T=1");
    assert_eq!((first(512), first(1 << 27)), ("T=1".into(), "T=134217728".into()));
    std::fs::remove_dir_all(folder).unwrap();
}

/// What a store exports is there again in another one, which keeps what it has newer.
#[test]
fn rows_travel_from_store_to_store() {
    let (from, folder) = store("travel-from");
    from.record(&key(), &trial("T=1", Some(9.0))).unwrap();
    from.record(&key(), &trial("T=2", None)).unwrap();
    from.record(&TrialKey { device: "other".into(), ..key() }, &trial("T=4", Some(1.0))).unwrap();
    elect(&from, sized(8), "T=1");
    let mut text = Vec::new();
    assert_eq!(from.export(&Which { device: Some("GPU".into()), ..Which::default() }, &mut text).unwrap(), 3);

    let (mut to, to_folder) = store("travel-to");
    assert_eq!(to.import(&mut text.as_slice()).unwrap(), (3, 3));
    assert_eq!(to.import(&mut text.as_slice()).unwrap(), (0, 3), "it has them");
    assert_eq!(to.trials(&key()).unwrap(), from.trials(&key()).unwrap());
    assert_eq!(to.elected_for(&key()).unwrap(), Some(("T=1".into(), 1.0)));
    std::thread::sleep(std::time::Duration::from_millis(5));
    to.record(&key(), &trial("T=1", Some(2.0))).unwrap();
    assert_eq!(to.import(&mut text.as_slice()).unwrap(), (0, 3), "what is here is newer");
    let kept = to.trials(&key()).unwrap();
    assert_eq!(kept.iter().find(|t| t.schedule == "T=1").unwrap().median_us, Some(2.0));

    let [summary] = &to.summaries(&Which::default()).unwrap()[..] else { panic!("one kernel on one device") };
    assert_eq!((summary.trials, summary.measured, summary.elected), (2, 1, 1));
    assert_eq!(to.shown(&Which::default()).unwrap()[0].schedule, "T=1");
    for folder in [folder, to_folder] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// A text that is wrong somewhere changes nothing, and its line is named.
#[test]
fn what_is_no_row_is_refused() {
    let (from, folder) = store("refused-from");
    elect(&from, key(), "T=1");
    let mut text = Vec::new();
    from.export(&Which::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (mut to, to_folder) = store("refused-to");
    let mut said = |text: &str| to.import(&mut text.as_bytes()).unwrap_err();
    assert!(said("{}").starts_with("line 1: `{\"girih_store\":1}` is expected here"), "{}", said("{}"));
    assert!(said("{\"girih_store\":2}").starts_with("line 1: format 2 was found, and this girih reads 1"));
    assert!(said(&(text.clone() + "T=1")).starts_with("line 3: this is no JSON: "));
    assert!(said(&(text.clone() + "{\"table\":\"times\"}")).starts_with("line 3: `times` is no table: trials and elected are"));
    let without = text.replace("\"arch\":", "\"arc\":");
    assert_eq!(said(&without), "line 2: a row of elected has a `arch`, and this one has none");
    assert_eq!(said(&text.replace("\"T=1\"", "[1]")), "line 2: `schedule` is [1]; a text, a number or null is allowed");
    assert!(to.summaries(&Which::default()).unwrap().is_empty(), "all or none");
    for folder in [folder, to_folder] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn rows_are_pruned_by_every_condition() {
    let (store, folder) = store("pruned");
    elect(&store, key(), "T=1");
    elect(&store, TrialKey { kernel: "once".into(), identity: 6, ..key() }, "T=2");
    store.record(&TrialKey { device: "other".into(), ..key() }, &trial("T=4", Some(1.0))).unwrap();
    let count = |which: &Which| store.prune(which, true).unwrap();
    assert_eq!(count(&Which { kernels: vec!["k".into()], ..Which::default() }), 2);
    assert_eq!(count(&Which { device: Some("GPU".into()), ..Which::default() }), 2);
    assert_eq!(count(&Which { before_ms: Some(1000), ..Which::default() }), 0);
    assert_eq!(count(&Which { before_ms: Some(i64::MAX), ..Which::default() }), 3);
    let former = Which { identity_not_in: Some(vec![7]), ..Which::default() };
    assert_eq!((count(&former), store.prune(&former, false).unwrap(), count(&former)), (1, 1, 0));
    assert_eq!(count(&Which::default()), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

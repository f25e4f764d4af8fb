//! What goes wrong with stores: nothing is lost, nothing wrong is elected, and whoever reads the error knows what to do.

use super::provenance::Provenance;
use super::rows::Which;
use super::*;
use girih_core::lengths::Lengths;
use std::path::Path;

impl Store {
    /// SQLite then answers as it does where the disk has no room for more than so many other pages.
    pub(crate) fn with_room_for(self, pages: i64) -> Store {
        let taken: i64 = self.db.pragma_query_value(None, "page_count", |r| r.get(0)).expect("a number");
        self.db.pragma_update_and_check(None, "max_page_count", taken + pages, |_| Ok(())).expect("a limit");
        self
    }

    /// SQLite then answers as it does where the file cannot be written.
    pub(crate) fn read_only(self) -> Store {
        self.db.pragma_update(None, "query_only", true).expect("a limit");
        self
    }
}

/// Fills a store's file with rubbish, but for the first pages, where the tables are described; its length.
pub(crate) fn tear(path: &Path) -> usize {
    let mut bytes = std::fs::read(path).expect("the file");
    assert!(bytes.len() > 16 * 4096, "{} bytes", bytes.len());
    bytes[3 * 4096..].fill(0xa5);
    std::fs::write(path, &bytes).expect("written");
    bytes.len()
}

fn key(device: &str) -> TrialKey {
    TrialKey {
        kernel: "k".into(),
        identity: 7,
        facts: "16p/16".into(),
        lengths: Lengths::parse("8").ok(),
        sizes: "N=8".into(),
        device: device.into(),
        arch: "sm_90a".into(),
    }
}

fn trial(number: usize) -> Trial {
    Trial {
        schedule: format!("T={number}"),
        status: Status::Measured,
        reason: String::new(),
        median_us: Some(number as f64),
        samples_us: vec![number as f64; 31],
        registers: Some(32),
        flaw: None,
        code: None,
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("girih-fault-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder of its own");
    folder
}

fn open(folder: &Path) -> Store {
    Store::open(&folder.join("tune.sqlite")).unwrap_or_else(|e| panic!("{e}"))
}

fn count(store: &Store) -> usize {
    store.trials(&key("GPU")).unwrap_or_else(|e| panic!("{e}")).len()
}

#[test]
fn a_file_that_is_no_store_is_left_as_it_is() {
    let folder = folder("corrupt");
    let path = folder.join("tune.sqlite");
    let text = "this was a store once ".repeat(100);
    std::fs::write(&path, &text).expect("written");
    let error = Store::open(&path).err().expect("it is none").to_string();
    assert!(error.contains("not a database") && error.ends_with("move the file away to start a new one"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn a_torn_store_is_told_and_keeps_its_file() {
    let folder = folder("torn");
    let path = folder.join("tune.sqlite");
    let store = open(&folder);
    (1..200).for_each(|n| store.record(&key("GPU"), &trial(n)).expect("written"));
    drop(store);
    let length = tear(&path);
    let told = match Store::open(&path) {
        Err(e) => e.to_string(),
        Ok(store) => store.trials(&key("GPU")).expect_err("its pages are torn").to_string(),
    };
    assert!(told.contains("malformed") && told.contains("move the file away"), "{told}");
    assert!(std::fs::read(&path).expect("the file").len() >= length);
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn a_full_disk_loses_nothing_that_was_written() {
    let folder = folder("full");
    let store = open(&folder).with_room_for(8);
    let failed = (1..10_000).find_map(|n| Some((n, store.record(&key("GPU"), &trial(n)).err()?)));
    let (first_lost, error) = failed.expect("eight pages are soon full");
    let error = error.to_string();
    assert!(error.contains("full") && error.ends_with("free some room, or set GIRIH_CACHE to a folder on another disk"), "{error}");
    assert_eq!(count(&store), first_lost - 1);
    drop(store);
    let store = open(&folder);
    assert_eq!(count(&store), first_lost - 1, "they are there for the next run, which can write again");
    store.record(&key("GPU"), &trial(first_lost)).expect("there is room again");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    let folder = folder("read-only");
    let store = open(&folder);
    store.record(&key("GPU"), &trial(1)).expect("written");
    let store = store.read_only();
    let error = store.record(&key("GPU"), &trial(2)).expect_err("nothing can be written").to_string();
    assert!(error.contains("readonly") && error.ends_with("set GIRIH_CACHE to a folder that can be written"), "{error}");
    assert_eq!(count(&store), 1);
    // A folder that cannot be made, as below a file.
    let error = Store::open(&folder.join("tune.sqlite").join("below").join("tune.sqlite")).err().expect("a file is no folder").to_string();
    assert!(error.starts_with("cannot make the folder ") && error.contains("set GIRIH_CACHE"), "{error}");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn two_tuners_on_one_store_lose_nothing() {
    let folder = folder("two");
    const EACH: usize = 100;
    std::thread::scope(|scope| {
        for tuner in 0..2 {
            let folder = &folder;
            scope.spawn(move || {
                let store = open(folder);
                for n in 0..EACH {
                    store.record(&key("GPU"), &trial(1 + tuner * EACH + n)).unwrap_or_else(|e| panic!("{e}"));
                    let elected = Elected { key: key("GPU"), schedule: format!("T={n}"), median_us: n as f64 };
                    store.elect(&elected).unwrap_or_else(|e| panic!("{e}"));
                }
            });
        }
    });
    let store = open(&folder);
    assert_eq!(count(&store), 2 * EACH);
    assert_eq!(store.elected().expect("readable").len(), 1, "one launch, one schedule");
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// Two tuners that begin at the same time: the slower winner, which comes later, does not take the place of the faster one.
#[test]
fn the_faster_of_two_elections_at_a_time_stays() {
    let folder = folder("elections");
    let (one, other) = (open(&folder), open(&folder));
    let elected = |schedule: &str, median_us: f64| Elected { key: key("GPU"), schedule: schedule.into(), median_us };
    let before = one.elected_for(&key("GPU")).expect("readable");
    assert_eq!(one.elect_since(&elected("T=1", 2.0), before.as_ref()).expect("written"), None);
    let stays = other.elect_since(&elected("T=2", 3.0), before.as_ref()).expect("written");
    assert_eq!(stays, Some(("T=1".into(), 2.0)));
    assert_eq!(other.elect_since(&elected("T=3", 1.0), before.as_ref()).expect("written"), None, "a faster one takes its place");
    // Who knows of the former one may say that it takes longer now, under another driver.
    let before = one.elected_for(&key("GPU")).expect("readable");
    assert_eq!(one.elect_since(&elected("T=3", 4.0), before.as_ref()).expect("written"), None);
    assert_eq!(other.elected_for(&key("GPU")).expect("readable"), Some(("T=3".into(), 4.0)));
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// A clock that was ahead and is put back: what is made now counts all the same.
#[test]
fn a_clock_that_jumps_back_hides_nothing_new() {
    let folder = folder("clock");
    let store = open(&folder);
    store.record(&key("GPU"), &trial(1)).expect("written");
    store.elect(&Elected { key: key("GPU"), schedule: "T=1".into(), median_us: 9.0 }).expect("written");
    let year = 365 * 24 * 3600 * 1000i64;
    for table in ["trials", "elected"] {
        store.db.execute(&format!("UPDATE {table} SET at = at + {}", 30 * year), []).expect("written");
    }
    store.record(&key("GPU"), &Trial { median_us: Some(0.5), ..trial(1) }).expect("written");
    store.elect(&Elected { key: key("GPU"), schedule: "T=2".into(), median_us: 8.0 }).expect("written");
    assert_eq!(store.trials(&key("GPU")).expect("readable")[0].median_us, Some(0.5));
    assert_eq!(store.elected_for(&key("GPU")).expect("readable"), Some(("T=2".into(), 8.0)));
    std::fs::remove_dir_all(folder).expect("its own folder");
}

/// Shares of one search, in whatever order their stores are merged.
#[test]
fn merged_shares_elect_the_fastest() {
    for order in [[1, 2], [2, 1]] {
        let here = folder(&format!("merged-{}", order[0]));
        let mut merged = open(&here);
        for number in order {
            let there = folder(&format!("share-{number}"));
            let share = open(&there).making(Provenance { driver: "570".into(), ..Provenance::default() });
            share.record(&key("GPU"), &trial(number)).expect("written");
            share.elect(&Elected { key: key("GPU"), schedule: format!("T={number}"), median_us: number as f64 }).expect("written");
            let mut rows = Vec::new();
            share.export(&Which::default(), &mut rows).expect("readable");
            assert_eq!(merged.import(&mut rows.as_slice()).expect("rows").1, 2);
            std::fs::remove_dir_all(there).expect("its own folder");
        }
        assert_eq!(count(&merged), 2);
        assert_eq!(merged.elected_for(&key("GPU")).expect("readable"), Some(("T=1".into(), 1.0)), "{order:?}");
        std::fs::remove_dir_all(here).expect("its own folder");
    }
}

#[test]
fn trials_that_were_made_elsewhere_are_told() {
    let folder = folder("made");
    let of = |driver: &str| Provenance { driver: driver.into(), nvrtc: "13.0".into(), ..Provenance::default() };
    let store = open(&folder).making(of("550"));
    (1..=3).for_each(|n| store.record(&key("GPU"), &trial(n)).expect("written"));
    assert_eq!(store.made_elsewhere(&key("GPU")).expect("readable"), None);
    let store = store.making(of("570"));
    store.record(&key("GPU"), &trial(4)).expect("written");
    assert_eq!(store.made_elsewhere(&key("GPU")).expect("readable"), Some((3, "driver 550 and not 570".into())));
    let mut rows = Vec::new();
    store.export(&Which::default(), &mut rows).expect("readable");
    assert!(String::from_utf8(rows).expect("a text").contains("\"made\":\"driver 550, NVRTC 13.0\""));
    // What former versions wrote has none, and is taken up all the same.
    let former = format!("{{\"girih_store\":1}}\n{}", former_row());
    let mut store = store;
    assert_eq!(store.import(&mut former.as_bytes()).expect("a row"), (1, 1));
    std::fs::remove_dir_all(folder).expect("its own folder");
}

fn former_row() -> String {
    let row = serde_json::json!({
        "table": "elected", "identity": "0000000000000007", "facts": "16p/16", "sizes": "N=9", "device": "GPU", "arch": "sm_90a", "lengths": "9",
        "kernel": "k", "schedule": "T=1", "median_us": 1.0, "versions": "girih 0.1.0", "at": 1,
    });
    row.to_string()
}

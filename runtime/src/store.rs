//! The tuner's memory: every trial, stored at once in SQLite, so that a killed run loses nothing and the next one resumes.
//!
//! One file, by default `tune.sqlite` in girih's cache folder; several processes may use it (WAL).
//! Trials are keyed by what was measured: the kernel's identity (a hash of its IR and space), the facts of the launch, the
//! sizes, the device and the schedule. The best schedule of a key is what the tuner elected after measuring the best few
//! again, or the fastest trial if it never came that far.

use girih_core::facts_distance::distance;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a trial measured: everything but the schedule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrialKey {
    /// `crate::module::name` of the kernel.
    pub kernel: String,
    /// [`girih_core::tile::Kernel::identity`].
    pub identity: u64,
    /// The facts' key text.
    pub facts: String,
    /// The sizes' text: `N=25000000`.
    pub sizes: String,
    /// The device's name as its driver gives it, or `simulated h200` for predictions.
    pub device: String,
    /// The architecture compiled for: `sm_90a`.
    pub arch: String,
}

/// How a trial ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Status {
    /// Right, and timed.
    Measured,
    /// Timed and found so much slower than the best that it was not checked: nothing is known of its result.
    Slow,
    /// Right on the simulator, and its time predicted by the model.
    Predicted,
    /// Could not be lowered, compiled or launched.
    Rejected,
    /// Wrote a wrong result, or outside of its buffers.
    Wrong,
    /// Took longer than the time limit.
    TimedOut,
    /// Its worker process died.
    Crashed,
}

impl Status {
    const ALL: [Status; 7] =
        [Status::Measured, Status::Slow, Status::Predicted, Status::Rejected, Status::Wrong, Status::TimedOut, Status::Crashed];

    /// The word in the store and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Status::Measured => "measured",
            Status::Slow => "slow",
            Status::Predicted => "predicted",
            Status::Rejected => "rejected",
            Status::Wrong => "wrong",
            Status::TimedOut => "timed out",
            Status::Crashed => "crashed",
        }
    }
}

/// One schedule tried under one key.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// The schedule as `T=1024 C=4 V=4`.
    pub schedule: String,
    /// How it ended.
    pub status: Status,
    /// Why, where it did not end well.
    pub reason: String,
    /// Median time in microseconds, where measured or predicted.
    pub median_us: Option<f64>,
    /// All samples in microseconds, in the order in which they were taken.
    pub samples_us: Vec<f64>,
    /// Registers per thread, where compiled.
    pub registers: Option<u32>,
    /// Why the cubin is not what the kernel was meant to become, where it is not: see [`crate::acceptance`].
    pub flaw: Option<String>,
}

impl Trial {
    /// Its median in microseconds, if its result is known to be right.
    pub fn right_us(&self) -> Option<f64> {
        self.median_us.filter(|_| self.status != Status::Slow)
    }
}

/// A schedule that the tuner elected.
#[derive(Clone, PartialEq, Debug)]
pub struct Elected {
    /// What it was elected for.
    pub key: TrialKey,
    /// The schedule as `T=1024 C=4 V=4`.
    pub schedule: String,
    /// Median time in microseconds.
    pub median_us: f64,
}

/// What goes wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder could not be made.
    #[error("cannot make the folder {0}: {1}; set GIRIH_CACHE to a folder that can be written")]
    Folder(PathBuf, std::io::Error),
    /// The file could not be read or written.
    #[error("cannot use the tuner's store {0}: {1}; move the file away to start a new one")]
    Database(PathBuf, rusqlite::Error),
}

/// The open store.
pub struct Store {
    path: PathBuf,
    db: Connection,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS trials (
        identity TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL, sizes TEXT NOT NULL,
        device TEXT NOT NULL, arch TEXT NOT NULL, schedule TEXT NOT NULL,
        status TEXT NOT NULL, reason TEXT NOT NULL, median_us REAL, samples_us TEXT NOT NULL, registers INTEGER,
        versions TEXT NOT NULL, at INTEGER NOT NULL, flaw TEXT,
        PRIMARY KEY (identity, facts, sizes, device, arch, schedule));
    CREATE TABLE IF NOT EXISTS elected (
        identity TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL, sizes TEXT NOT NULL,
        device TEXT NOT NULL, arch TEXT NOT NULL, schedule TEXT NOT NULL, median_us REAL NOT NULL,
        versions TEXT NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY (identity, facts, sizes, device, arch));";

impl Store {
    /// Opens the store of this user, `tune.sqlite` in [`default_folder`], and makes it if need be.
    pub fn open_default() -> Result<Store, StoreError> {
        Store::open(&default_folder().join("tune.sqlite"))
    }

    /// Opens or makes a store.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| StoreError::Folder(folder.to_path_buf(), e))?;
        }
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open(path)?;
            db.busy_timeout(Duration::from_secs(10))?;
            db.pragma_update(None, "journal_mode", "wal")?;
            db.execute_batch(SCHEMA)?;
            // Stores of former versions have no such column; those that have it refuse another one.
            if !has_column(&db, "flaw")? {
                db.execute_batch("ALTER TABLE trials ADD COLUMN flaw TEXT")?;
            }
            Ok(db)
        };
        let db = open().map_err(|e| StoreError::Database(path.to_path_buf(), e))?;
        Ok(Store { path: path.to_path_buf(), db })
    }

    /// Where the store lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a trial; a former one of the same key and schedule is replaced.
    pub fn record(&self, key: &TrialKey, trial: &Trial) -> Result<(), StoreError> {
        let samples: Vec<String> = trial.samples_us.iter().map(|s| format!("{s:.3}")).collect();
        self.done(self.db.execute(
            "INSERT OR REPLACE INTO trials (identity, kernel, facts, sizes, device, arch, schedule, status, reason, median_us, samples_us,
                                            registers, versions, at, flaw)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                hex(key.identity),
                key.kernel,
                key.facts,
                key.sizes,
                key.device,
                key.arch,
                trial.schedule,
                trial.status.name(),
                trial.reason,
                trial.median_us,
                samples.join(" "),
                trial.registers,
                VERSIONS,
                now(),
                trial.flaw
            ],
        ))
    }

    /// Every trial of a key by this version of girih, the oldest first.
    pub fn trials(&self, key: &TrialKey) -> Result<Vec<Trial>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Trial>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, status, reason, median_us, samples_us, registers, flaw FROM trials
                 WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND versions = ?6 ORDER BY at, rowid",
            )?;
            let key = params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS];
            rows.query_map(key, |r| {
                let status: String = r.get(1)?;
                let samples: String = r.get(4)?;
                Ok(Trial {
                    schedule: r.get(0)?,
                    status: Status::ALL.into_iter().find(|s| s.name() == status).unwrap_or(Status::Crashed),
                    reason: r.get(2)?,
                    median_us: r.get(3)?,
                    samples_us: samples.split(' ').filter_map(|s| s.parse().ok()).collect(),
                    registers: r.get(5)?,
                    flaw: r.get(6)?,
                })
            })?
            .collect()
        };
        query().map_err(|e| self.error(e))
    }

    /// Elects a schedule; a former one of the same key is replaced.
    pub fn elect(&self, elected: &Elected) -> Result<(), StoreError> {
        let key = &elected.key;
        self.done(self.db.execute(
            "INSERT OR REPLACE INTO elected VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                hex(key.identity),
                key.kernel,
                key.facts,
                key.sizes,
                key.device,
                key.arch,
                elected.schedule,
                elected.median_us,
                VERSIONS,
                now()
            ],
        ))
    }

    /// The schedules to consider for a launch on a device, the best first: elected under the very facts, then the fastest
    /// trial under the very facts, then elected under other facts, the nearest first. The caller proves that they are legal before it uses one.
    pub fn candidates(&self, identity: u64, facts: &str, device: &str) -> Result<Vec<String>, StoreError> {
        let query = || -> rusqlite::Result<Vec<String>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, facts FROM (
                     SELECT schedule, facts, 0 AS class, -at AS quality FROM elected WHERE identity = ?1 AND device = ?3 AND facts = ?2
                     UNION ALL
                     SELECT * FROM (SELECT schedule, facts, 1, median_us FROM trials WHERE identity = ?1 AND device = ?3 AND facts = ?2
                                    AND status = 'measured' ORDER BY median_us LIMIT 1)
                     UNION ALL
                     SELECT schedule, facts, 2, -at FROM elected WHERE identity = ?1 AND device = ?3 AND facts <> ?2)
                 ORDER BY class, quality",
            )?;
            let found = rows.query_map(params![hex(identity), facts, device], |r| Ok((r.get(0)?, r.get(1)?)))?;
            let mut found: Vec<(String, String)> = found.collect::<Result<_, _>>()?;
            // Equally near ones stay in their order.
            found.sort_by(|a, b| distance(&a.1, facts).total_cmp(&distance(&b.1, facts)));
            Ok(found.into_iter().map(|(schedule, _)| schedule).collect())
        };
        query().map_err(|e| self.error(e))
    }

    /// Every elected schedule, for the winners' file.
    pub fn elected(&self) -> Result<Vec<Elected>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Elected>> {
            let mut rows = self.db.prepare(
                "SELECT kernel, identity, facts, sizes, device, arch, schedule, median_us FROM elected ORDER BY arch, kernel, facts, sizes",
            )?;
            rows.query_map([], |r| {
                let identity: String = r.get(1)?;
                let key = TrialKey {
                    kernel: r.get(0)?,
                    identity: u64::from_str_radix(&identity, 16).unwrap_or(0),
                    facts: r.get(2)?,
                    sizes: r.get(3)?,
                    device: r.get(4)?,
                    arch: r.get(5)?,
                };
                Ok(Elected { key, schedule: r.get(6)?, median_us: r.get(7)? })
            })?
            .collect()
        };
        query().map_err(|e| self.error(e))
    }

    /// The elected schedule of a key.
    pub fn elected_for(&self, key: &TrialKey) -> Result<Option<(String, f64)>, StoreError> {
        let found = self
            .db
            .query_row(
                "SELECT schedule, median_us FROM elected
                 WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND versions = ?6",
                params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS],
                |r| Ok((r.get(0)?, r.get(1)?)),
            )
            .optional();
        found.map_err(|e| self.error(e))
    }

    fn done(&self, result: rusqlite::Result<usize>) -> Result<(), StoreError> {
        result.map(|_| ()).map_err(|e| self.error(e))
    }

    fn error(&self, e: rusqlite::Error) -> StoreError {
        StoreError::Database(self.path.clone(), e)
    }
}

fn has_column(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let mut columns = db.prepare("SELECT 1 FROM pragma_table_info('trials') WHERE name = ?1")?;
    columns.exists([name])
}

/// Trials of another version of girih are not resumed: its code may be faster or slower.
const VERSIONS: &str = concat!("girih ", env!("CARGO_PKG_VERSION"));

fn hex(identity: u64) -> String {
    format!("{identity:016x}")
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// girih's cache folder: `$GIRIH_CACHE`, else `$XDG_CACHE_HOME/girih`, else `~/.cache/girih`, else `.girih` here.
pub fn default_folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("GIRIH_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("girih")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/girih")))
        .unwrap_or_else(|| PathBuf::from(".girih"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TrialKey {
        let text = |s: &str| s.to_string();
        TrialKey { kernel: text("k"), identity: 7, facts: text("16p/16"), sizes: text("N=8"), device: text("GPU"), arch: text("sm_90a") }
    }

    fn trial(schedule: &str, median_us: Option<f64>) -> Trial {
        let status = if median_us.is_some() { Status::Measured } else { Status::Wrong };
        let samples_us = median_us.into_iter().collect();
        let flaw = median_us.filter(|us| *us > 5.0).map(|_| "48 bytes spilled per thread".to_string());
        Trial { schedule: schedule.into(), status, reason: String::new(), median_us, samples_us, registers: Some(32), flaw }
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
        Connection::open(&path).unwrap().execute_batch(&SCHEMA.replace(", flaw TEXT", "")).unwrap();
        for _ in 0..2 {
            let store = Store::open(&path).unwrap();
            store.record(&key(), &trial("T=1", Some(9.0))).unwrap();
            assert_eq!(store.trials(&key()).unwrap(), [trial("T=1", Some(9.0))]);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn candidates_put_the_elected_first() {
        let folder = std::env::temp_dir().join(format!("girih-elect-{}", std::process::id()));
        let store = Store::open(&folder.join("tune.sqlite")).unwrap();
        store.record(&key(), &trial("T=1", Some(1.0))).unwrap();
        store.elect(&Elected { key: key(), schedule: "T=2".into(), median_us: 1.01 }).unwrap();
        let other = TrialKey { facts: "4p/1".into(), ..key() };
        store.elect(&Elected { key: other, schedule: "T=3".into(), median_us: 2.0 }).unwrap();
        let far = TrialKey { facts: "4p/1<8".into(), ..key() };
        store.elect(&Elected { key: far, schedule: "T=4".into(), median_us: 1.0 }).unwrap();
        assert_eq!(store.candidates(7, "16p/16", "GPU").unwrap(), ["T=2", "T=1", "T=3", "T=4"]);
        assert_eq!(store.candidates(7, "16p/16", "another").unwrap(), [""; 0]);
        assert_eq!(store.elected_for(&key()).unwrap(), Some(("T=2".into(), 1.01)));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

//! The tuner's memory: every trial, stored at once in SQLite, so that a killed run loses nothing and the next one resumes.
//!
//! One file, by default `tune.sqlite` in girih's cache folder; several processes may use it (WAL).
//! Trials are keyed by what was measured: the kernel's identity (a hash of its IR and space), the facts and lengths of the launch,
//! the sizes, the device and the schedule. The best schedule of a key is what the tuner elected after measuring the best few
//! again, or the fastest trial if it never came that far.

use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
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
    /// Of the launch's arguments, of the program's where it is tuned as a whole; `None` in rows of former versions.
    pub lengths: Option<Lengths>,
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
    /// A digest of the CUDA C ([`crate::tune::code`]); `None` where the schedule has none. What girih generates now may differ: such a
    /// trial says nothing.
    pub code: Option<u64>,
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

/// A schedule that may serve a launch, and what it was tuned for.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The schedule as `T=1024 C=4 V=4`; of a program as [`crate::joint::Joint`] writes it.
    pub schedule: String,
    /// The facts' key text.
    pub facts: String,
    /// Of the launch's, or the program's, arguments; `None` where nobody wrote them down.
    pub lengths: Option<Lengths>,
}

impl Candidate {
    /// What it was tuned for.
    pub fn occasion(&self) -> Occasion<'_> {
        Occasion { facts: &self.facts, lengths: self.lengths.as_ref() }
    }
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
        versions TEXT NOT NULL, at INTEGER NOT NULL, flaw TEXT, lengths TEXT NOT NULL DEFAULT '', code TEXT,
        PRIMARY KEY (identity, facts, sizes, device, arch, schedule));
    CREATE TABLE IF NOT EXISTS elected (
        identity TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL, sizes TEXT NOT NULL,
        device TEXT NOT NULL, arch TEXT NOT NULL, schedule TEXT NOT NULL, median_us REAL NOT NULL,
        versions TEXT NOT NULL, at INTEGER NOT NULL, lengths TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (identity, facts, sizes, device, arch, lengths));";

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
            let mut db = Connection::open(path)?;
            db.busy_timeout(Duration::from_secs(10))?;
            db.pragma_update(None, "journal_mode", "wal")?;
            db.execute_batch(SCHEMA)?;
            bring_up_to_date(&mut db)?;
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
                                            registers, versions, at, flaw, lengths, code)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
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
                trial.flaw,
                text(key.lengths.as_ref()),
                trial.code.map(hex)
            ],
        ))
    }

    /// Every trial of a key by this version of girih, the oldest first.
    pub fn trials(&self, key: &TrialKey) -> Result<Vec<Trial>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Trial>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, status, reason, median_us, samples_us, registers, flaw, code FROM trials
                 WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND versions = ?6 ORDER BY at, rowid",
            )?;
            let key = params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS];
            rows.query_map(key, |r| {
                let status: String = r.get(1)?;
                let samples: String = r.get(4)?;
                let code: Option<String> = r.get(7)?;
                Ok(Trial {
                    schedule: r.get(0)?,
                    status: Status::ALL.into_iter().find(|s| s.name() == status).unwrap_or(Status::Crashed),
                    reason: r.get(2)?,
                    median_us: r.get(3)?,
                    samples_us: samples.split(' ').filter_map(|s| s.parse().ok()).collect(),
                    registers: r.get(5)?,
                    flaw: r.get(6)?,
                    code: code.and_then(|c| u64::from_str_radix(&c, 16).ok()),
                })
            })?
            .collect()
        };
        query().map_err(|e| self.error(e))
    }

    /// Elects a schedule; a former one of the same key is replaced, also one whose lengths nobody wrote down.
    pub fn elect(&self, elected: &Elected) -> Result<(), StoreError> {
        let key = &elected.key;
        self.done(self.db.execute(
            "DELETE FROM elected WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND lengths = ''",
            params![hex(key.identity), key.facts, key.sizes, key.device, key.arch],
        ))?;
        self.done(self.db.execute(
            "INSERT OR REPLACE INTO elected (identity, kernel, facts, sizes, device, arch, schedule, median_us, versions, at, lengths)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
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
                now(),
                text(key.lengths.as_ref())
            ],
        ))
    }

    /// The schedules to consider for a launch on a device, the best first: the nearest elected one ([`Occasion::order`]), of several that
    /// were elected for the very same launch the latest. The fastest trials of the very facts and lengths (of any lengths, if none are
    /// given) follow those elected for the same. The caller proves that a schedule is legal before it uses it.
    pub fn candidates(&self, identity: u64, asked: Occasion, device: &str) -> Result<Vec<Candidate>, StoreError> {
        let mut found = self.elected_and_fastest(identity, asked, device).map_err(|e| self.error(e))?;
        // Equally near ones stay in their order.
        found.sort_by(|a, b| asked.order(&a.occasion(), &b.occasion()));
        Ok(found)
    }

    /// What is elected on a device, the latest first, then the fastest trials of the very facts and lengths.
    fn elected_and_fastest(&self, identity: u64, asked: Occasion, device: &str) -> rusqlite::Result<Vec<Candidate>> {
        let found = |r: &rusqlite::Row| -> rusqlite::Result<Candidate> {
            Ok(Candidate { schedule: r.get(0)?, facts: r.get(1)?, lengths: lengths(&r.get::<_, String>(2)?) })
        };
        let mut elected = self.db.prepare_cached(
            "SELECT schedule, facts, lengths FROM elected WHERE identity = ?1 AND device = ?2 ORDER BY at DESC, rowid DESC",
        )?;
        let mut all: Vec<Candidate> = elected.query_map(params![hex(identity), device], found)?.collect::<Result<_, _>>()?;
        // A group's other columns are those of the row with the least time.
        let mut fastest = self.db.prepare_cached(
            "SELECT schedule, facts, lengths, min(median_us) FROM trials
             WHERE identity = ?1 AND device = ?2 AND facts = ?3 AND status = 'measured' AND (?4 = '' OR lengths = ?4) GROUP BY lengths",
        )?;
        for fast in fastest.query_map(params![hex(identity), device, asked.facts, text(asked.lengths)], found)? {
            all.push(fast?);
        }
        Ok(all)
    }

    /// Every elected schedule, for the winners' file.
    pub fn elected(&self) -> Result<Vec<Elected>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Elected>> {
            let mut rows = self.db.prepare(
                "SELECT kernel, identity, facts, sizes, device, arch, schedule, median_us, lengths FROM elected
                 ORDER BY arch, kernel, facts, sizes",
            )?;
            rows.query_map([], |r| {
                let identity: String = r.get(1)?;
                let key = TrialKey {
                    kernel: r.get(0)?,
                    identity: u64::from_str_radix(&identity, 16).unwrap_or(0),
                    facts: r.get(2)?,
                    lengths: lengths(&r.get::<_, String>(8)?),
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
                 WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND versions = ?6 AND lengths = ?7",
                params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS, text(key.lengths.as_ref())],
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

/// Adds what a store of a former version lacks.
fn bring_up_to_date(db: &mut Connection) -> rusqlite::Result<()> {
    let trials = [("flaw", "TEXT"), ("lengths", "TEXT NOT NULL DEFAULT ''"), ("code", "TEXT")];
    let whole: rusqlite::Result<bool> =
        trials.iter().try_fold(has_column(db, "elected", "lengths")?, |all, (name, _)| Ok(all && has_column(db, "trials", name)?));
    if whole? {
        return Ok(());
    }
    // Another process may do the same now: who comes second finds nothing left to do.
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (name, kind) in trials {
        if !has_column(&change, "trials", name)? {
            change.execute_batch(&format!("ALTER TABLE trials ADD COLUMN {name} {kind}"))?;
        }
    }
    if !has_column(&change, "elected", "lengths")? {
        // Lengths belong to the key, so the table is made again.
        change.execute_batch("ALTER TABLE elected RENAME TO elected_before")?;
        change.execute_batch(SCHEMA)?;
        change.execute_batch("INSERT INTO elected SELECT *, '' FROM elected_before; DROP TABLE elected_before")?;
    }
    change.commit()
}

fn has_column(db: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2")?.exists([table, column])
}

/// Lengths as a column has them; empty where they are not known.
fn text(lengths: Option<&Lengths>) -> String {
    lengths.map_or(String::new(), Lengths::to_string)
}

/// The inverse of [`text`]. What can't be read is not known.
fn lengths(text: &str) -> Option<Lengths> {
    Lengths::parse(text).ok().filter(|_| !text.is_empty())
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
            .replace(", lengths TEXT NOT NULL DEFAULT ''", "")
            .replace(", lengths))", "))");
        assert!(!former.contains("lengths"), "{former}");
        let db = Connection::open(&path).unwrap();
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
}

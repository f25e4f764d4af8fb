//! The store's database: every trial, stored at once in SQLite.

use super::provenance::{Provenance, elsewhere};
use super::schema::{SCHEMA, bring_up_to_date};
use super::{Candidate, Elected, Elsewhere, Status, StoreError, Trial, TrialKey, Tried, default_folder};
use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The open store.
pub struct Store {
    path: PathBuf,
    pub(super) db: Connection,
    /// Under what rows are made from now on.
    made: Provenance,
    /// Under what candidates are to be used, where that matters.
    here: Option<Provenance>,
}

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
        Ok(Store { path: path.to_path_buf(), db, made: Provenance::default(), here: None })
    }

    /// The store with where rows come from that are made from now on.
    pub fn making(self, made: Provenance) -> Store {
        Store { made, ..self }
    }

    /// The store, whose candidates say what was other where they were measured.
    pub fn read_at(self, here: Provenance) -> Store {
        Store { here: Some(here), ..self }
    }

    /// How many of a key's trials were made elsewhere, and what is other there; nothing where all that is known fits.
    pub fn made_elsewhere(&self, key: &TrialKey) -> Result<Option<(usize, String)>, StoreError> {
        let query = || -> rusqlite::Result<Vec<(String, usize)>> {
            let mut rows = self.db.prepare_cached(
                "SELECT made, count(*) FROM trials WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5
                 AND versions = ?6 GROUP BY made ORDER BY max(at) DESC",
            )?;
            let key = params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS];
            rows.query_map(key, |r| Ok((r.get(0)?, r.get::<_, i64>(1)? as usize)))?.collect()
        };
        let groups = query().map_err(|e| self.error(e))?;
        let others = groups.into_iter().filter_map(|(made, count)| Some((count, Provenance::parse(&made).other_than(&self.made)?)));
        Ok(others.reduce(|(count, latest), (more, _)| (count + more, latest)))
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
                                            registers, versions, at, flaw, lengths, code, made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
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
                trial.code.map(hex),
                self.made.to_string()
            ],
        ))
    }

    /// Brings what is stored under a former identity of a kernel or program under its present one; what is known there already stays.
    pub fn adopt(&self, former: u64, identity: u64) -> Result<(), StoreError> {
        for table in ["trials", "elected"] {
            let text = format!("UPDATE OR IGNORE {table} SET identity = ?1 WHERE identity = ?2");
            self.done(self.db.execute(&text, params![hex(identity), hex(former)]))?;
        }
        Ok(())
    }

    /// Every trial of a key by this version of girih, the oldest first.
    pub fn trials(&self, key: &TrialKey) -> Result<Vec<Trial>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Trial>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, status, reason, median_us, samples_us, registers, flaw, code FROM trials
                 WHERE identity = ?1 AND facts = ?2 AND sizes = ?3 AND device = ?4 AND arch = ?5 AND versions = ?6 ORDER BY at, rowid",
            )?;
            let key = params![hex(key.identity), key.facts, key.sizes, key.device, key.arch, VERSIONS];
            rows.query_map(key, trial)?.collect()
        };
        query().map_err(|e| self.error(e))
    }

    /// Every trial of a kernel under these facts by this version of girih, whatever its device and sizes, the oldest first.
    pub fn trials_of(&self, identity: u64, facts: &str, arch: &str) -> Result<Vec<Tried>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Tried>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, status, reason, median_us, samples_us, registers, flaw, code, device, sizes, made FROM trials
                 WHERE identity = ?1 AND facts = ?2 AND arch = ?3 AND versions = ?4 ORDER BY at, rowid",
            )?;
            let key = params![hex(identity), facts, arch, VERSIONS];
            rows.query_map(key, |r| {
                Ok(Tried { device: r.get(8)?, sizes: r.get(9)?, made: made_by(VERSIONS, &r.get::<_, String>(10)?), trial: trial(r)? })
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
            "INSERT OR REPLACE INTO elected (identity, kernel, facts, sizes, device, arch, schedule, median_us, versions, at, lengths, made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
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
                text(key.lengths.as_ref()),
                self.made.to_string()
            ],
        ))
    }

    /// Elects a schedule, unless another tuner has elected a faster one since `before` was elected: then that one stays, and is told.
    pub fn elect_since(&self, elected: &Elected, before: Option<&(String, f64)>) -> Result<Option<(String, f64)>, StoreError> {
        let transaction = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate).map_err(|e| self.error(e))?;
        let faster = self.elected_for(&elected.key)?.filter(|now| Some(now) != before && now.1 < elected.median_us);
        if faster.is_none() {
            self.elect(elected)?;
        }
        transaction.commit().map_err(|e| self.error(e))?;
        Ok(faster)
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

    /// The schedules that other devices elected, the nearest first as in [`Store::candidates`].
    pub fn candidates_elsewhere(&self, identity: u64, asked: Occasion, device: &str) -> Result<Vec<Elsewhere>, StoreError> {
        let query = || -> rusqlite::Result<Vec<Elsewhere>> {
            let mut rows = self.db.prepare_cached(
                "SELECT schedule, facts, lengths, device, arch FROM elected WHERE identity = ?1 AND device <> ?2 ORDER BY at DESC, rowid DESC",
            )?;
            let found = |r: &rusqlite::Row| {
                let lengths = lengths(&r.get::<_, String>(2)?);
                let candidate = Candidate { schedule: r.get(0)?, facts: r.get(1)?, lengths, elsewhere: None };
                Ok(Elsewhere { device: r.get(3)?, arch: r.get(4)?, candidate })
            };
            rows.query_map(params![hex(identity), device], found)?.collect()
        };
        let mut found = query().map_err(|e| self.error(e))?;
        found.sort_by(|a, b| asked.order(&a.candidate.occasion(), &b.candidate.occasion()));
        Ok(found)
    }

    /// What is elected on a device, the latest first, then the fastest trials of the very facts and lengths.
    fn elected_and_fastest(&self, identity: u64, asked: Occasion, device: &str) -> rusqlite::Result<Vec<Candidate>> {
        let found = |r: &rusqlite::Row| -> rusqlite::Result<Candidate> {
            let (made, versions): (String, String) = (r.get(3)?, r.get(4)?);
            let elsewhere = self.here.as_ref().and_then(|here| elsewhere((&made, &versions), (here, VERSIONS)));
            Ok(Candidate { schedule: r.get(0)?, facts: r.get(1)?, lengths: lengths(&r.get::<_, String>(2)?), elsewhere })
        };
        let mut elected = self.db.prepare_cached(
            "SELECT schedule, facts, lengths, made, versions FROM elected WHERE identity = ?1 AND device = ?2 ORDER BY at DESC, rowid DESC",
        )?;
        let mut all: Vec<Candidate> = elected.query_map(params![hex(identity), device], found)?.collect::<Result<_, _>>()?;
        // A group's other columns are those of the row with the least time.
        let mut fastest = self.db.prepare_cached(
            "SELECT schedule, facts, lengths, made, versions, min(median_us) FROM trials
             WHERE identity = ?1 AND device = ?2 AND facts = ?3 AND status = 'measured' AND (?4 = '' OR lengths = ?4) GROUP BY lengths",
        )?;
        for fast in fastest.query_map(params![hex(identity), device, asked.facts, text(asked.lengths)], found)? {
            all.push(fast?);
        }
        Ok(all)
    }

    /// Every elected schedule.
    pub fn elected(&self) -> Result<Vec<Elected>, StoreError> {
        Ok(self.elected_with_origins()?.into_iter().map(|(elected, _)| elected).collect())
    }

    /// The same with where each was elected, as [`Tried::made`] says it, for the winners' file.
    pub fn elected_with_origins(&self) -> Result<Vec<(Elected, String)>, StoreError> {
        let query = || -> rusqlite::Result<Vec<(Elected, String)>> {
            let mut rows = self.db.prepare(
                "SELECT kernel, identity, facts, sizes, device, arch, schedule, median_us, lengths, versions, made FROM elected
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
                let made = made_by(&r.get::<_, String>(9)?, &r.get::<_, String>(10)?);
                Ok((Elected { key, schedule: r.get(6)?, median_us: r.get(7)? }, made))
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

    pub(super) fn error(&self, e: rusqlite::Error) -> StoreError {
        StoreError::Database(self.path.clone(), e)
    }
}

/// A trial from its columns: schedule, status, reason, median_us, samples_us, registers, flaw, code.
fn trial(r: &rusqlite::Row) -> rusqlite::Result<Trial> {
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
}

/// Lengths as a column has them; empty where they are not known.
fn text(lengths: Option<&Lengths>) -> String {
    lengths.map_or(String::new(), Lengths::to_string)
}

/// Where a row was made, as [`Tried::made`] says it.
fn made_by(versions: &str, under: &str) -> String {
    if under.is_empty() { versions.to_string() } else { format!("{versions}, {under}") }
}

/// The inverse of [`text`]. What can't be read is not known.
fn lengths(text: &str) -> Option<Lengths> {
    Lengths::parse(text).ok().filter(|_| !text.is_empty())
}

/// Trials of another version of girih are not resumed: its code may be faster or slower.
pub(super) const VERSIONS: &str = concat!("girih ", env!("CARGO_PKG_VERSION"));

fn hex(identity: u64) -> String {
    format!("{identity:016x}")
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

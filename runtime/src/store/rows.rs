//! Rows of the store that travel: as JSON that another machine's store takes up, counted, shown and removed.
//!
//! The first line says the format, `{"girih_store":1}`; every other one is a row, its table and its columns by name. What a column means
//! [`super::TrialKey`], [`super::Trial`] and [`super::Elected`] say; `versions` is the girih that wrote the row, `at` when, in milliseconds since 1970, `made` under which
//! driver, NVRTC and clocks.

use super::StoreError;
use super::database::Store;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, params_from_iter};
use serde_json::{Map, Number, Value as Json, json};
use std::io::{BufRead, Write};

/// The number of this format.
const FORMAT: u64 = 1;
const FORMAT_KEY: &str = "girih_store";

/// A table with its columns, those of its key first.
struct Table {
    name: &'static str,
    key: &'static [&'static str],
    others: &'static [&'static str],
    /// Whether the row of a text takes the place of one with the same key.
    replaces: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        name: "trials",
        key: &["identity", "facts", "sizes", "device", "arch", "schedule"],
        others: &[
            "kernel",
            "status",
            "reason",
            "median_us",
            "samples_us",
            "registers",
            "versions",
            "at",
            "flaw",
            "lengths",
            "code",
            "made",
        ],
        replaces: "excluded.at > trials.at",
    },
    Table {
        name: "elected",
        key: &["identity", "facts", "sizes", "device", "arch", "lengths"],
        others: &["kernel", "schedule", "median_us", "versions", "at", "made"],
        // Shares of one search elect one schedule each: the fastest of them is the whole search's.
        replaces: "CASE WHEN excluded.versions = elected.versions AND excluded.made = elected.made
                   THEN excluded.median_us < elected.median_us ELSE excluded.at > elected.at END",
    },
];

impl Table {
    fn columns(&self) -> Vec<&'static str> {
        [self.key, self.others].concat()
    }

    /// Takes up a row; one of the same key stays unless this one replaces it.
    fn upsert(&self) -> String {
        let columns = self.columns();
        let places: Vec<String> = (1..=columns.len()).map(|i| format!("?{i}")).collect();
        let new: Vec<String> = self.others.iter().map(|c| format!("{c} = excluded.{c}")).collect();
        format!(
            "INSERT INTO {name} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {} WHERE {}",
            columns.join(", "),
            places.join(", "),
            self.key.join(", "),
            new.join(", "),
            self.replaces,
            name = self.name
        )
    }
}

/// Which rows are meant: all that meet every condition that is given.
#[derive(Clone, Default, Debug)]
pub struct Which {
    /// Of these kernels and programs, by their whole paths; of all where there is none.
    pub kernels: Vec<String>,
    /// Measured on this device, or predicted for it.
    pub device: Option<String>,
    /// Written before this time, in milliseconds since 1970.
    pub before_ms: Option<i64>,
    /// Of kernels whose identity is none of these: what they once were.
    pub identity_not_in: Option<Vec<u64>>,
}

impl Which {
    /// The condition as SQL, with its values.
    fn condition(&self) -> (String, Vec<Value>) {
        let (mut terms, mut values) = (vec!["1".to_string()], Vec::new());
        let mut places = |new: Vec<String>| {
            let first = values.len() + 1;
            let names: Vec<String> = (first..first + new.len()).map(|i| format!("?{i}")).collect();
            values.extend(new.into_iter().map(Value::Text));
            names.join(", ")
        };
        if !self.kernels.is_empty() {
            terms.push(format!("kernel IN ({})", places(self.kernels.clone())));
        }
        if let Some(device) = &self.device {
            terms.push(format!("device = {}", places(vec![device.clone()])));
        }
        if let Some(present) = &self.identity_not_in {
            terms.push(format!("identity NOT IN ({})", places(present.iter().map(|i| format!("{i:016x}")).collect())));
        }
        if let Some(before) = self.before_ms {
            terms.push(format!("at < {before}"));
        }
        (terms.join(" AND "), values)
    }
}

/// What a store has of a kernel or program on a device.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// Its path.
    pub kernel: String,
    /// The device, and the architecture compiled for.
    pub device: String,
    pub arch: String,
    /// Trials, and those of them that were timed and right.
    pub trials: i64,
    pub measured: i64,
    /// Launches for which a schedule is elected.
    pub elected: i64,
    /// The latest row's day, `2026-01-31`.
    pub latest: String,
}

/// An elected schedule with where it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    pub kernel: String,
    pub device: String,
    pub sizes: String,
    pub lengths: String,
    pub facts: String,
    pub schedule: String,
    pub median_us: f64,
    /// The girih that elected it, under which driver, NVRTC and clocks where that is known, and the day.
    pub versions: String,
    pub made: String,
    pub day: String,
}

impl Store {
    /// What there is of each kernel on each device, by their names.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn summaries(&self, which: &Which) -> Result<Vec<Summary>, StoreError> {
        let (condition, values) = which.condition();
        let text = format!(
            "SELECT kernel, device, arch, sum(trial), sum(measured), sum(elected), date(max(at) / 1000, 'unixepoch') FROM (
                 SELECT kernel, device, arch, 1 AS trial, status = 'measured' AS measured, 0 AS elected, at FROM trials WHERE {condition}
                 UNION ALL SELECT kernel, device, arch, 0, 0, 1, at FROM elected WHERE {condition})
             GROUP BY kernel, device, arch ORDER BY kernel, device, arch"
        );
        let read = |r: &Row| {
            let (kernel, device, arch) = (r.get(0)?, r.get(1)?, r.get(2)?);
            Ok(Summary { kernel, device, arch, trials: r.get(3)?, measured: r.get(4)?, elected: r.get(5)?, latest: r.get(6)? })
        };
        let query = || -> rusqlite::Result<Vec<Summary>> { self.db.prepare(&text)?.query_map(params_from_iter(values), read)?.collect() };
        query().map_err(|e| self.error(e))
    }

    /// The elected schedules, by kernel, device and size.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn shown(&self, which: &Which) -> Result<Vec<Shown>, StoreError> {
        let (condition, values) = which.condition();
        let text = format!(
            "SELECT kernel, device, sizes, lengths, facts, schedule, median_us, versions, date(at / 1000, 'unixepoch'), made FROM elected
             WHERE {condition} ORDER BY kernel, device, sizes, at"
        );
        let read = |r: &Row| {
            let (kernel, device, sizes, lengths, facts) = (r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?);
            let (schedule, median_us, versions, day, made) = (r.get(5)?, r.get(6)?, r.get(7)?, r.get(8)?, r.get(9)?);
            Ok(Shown { kernel, device, sizes, lengths, facts, schedule, median_us, versions, made, day })
        };
        let query = || -> rusqlite::Result<Vec<Shown>> { self.db.prepare(&text)?.query_map(params_from_iter(values), read)?.collect() };
        query().map_err(|e| self.error(e))
    }

    /// Writes rows as JSON, one a line; how many there are.
    ///
    /// # Errors
    /// The database cannot be read, or nothing can be written.
    pub fn export(&self, which: &Which, to: &mut dyn Write) -> Result<usize, String> {
        let (condition, values) = which.condition();
        writeln!(to, "{}", json!({ FORMAT_KEY: FORMAT })).map_err(|e| e.to_string())?;
        let mut count = 0;
        for table in &TABLES {
            let columns = table.columns();
            let text = format!("SELECT {} FROM {} WHERE {condition} ORDER BY kernel, at", columns.join(", "), table.name);
            let read = |r: &Row| -> rusqlite::Result<Json> {
                let mut row = Map::from_iter([("table".to_string(), Json::from(table.name))]);
                for (i, column) in columns.iter().enumerate() {
                    row.insert(column.to_string(), as_json(r.get_ref(i)?));
                }
                Ok(Json::Object(row))
            };
            let query =
                || self.db.prepare(&text)?.query_map(params_from_iter(values.clone()), read)?.collect::<rusqlite::Result<Vec<Json>>>();
            for row in query().map_err(|e| self.error(e).to_string())? {
                writeln!(to, "{row}").map_err(|e| e.to_string())?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Takes up rows that [`Store::export`] wrote, all or none: those that are new here, trials newer than what is here, and elections that are
    /// faster, or newer where they were made under another driver, NVRTC or girih. How many those were,
    /// and how many there are in the text.
    ///
    /// # Errors
    /// The line that is no row, or the database cannot be written.
    pub fn import(&mut self, from: &mut dyn BufRead) -> Result<(usize, usize), String> {
        let path = self.path().to_path_buf();
        let failed = |e: rusqlite::Error| StoreError::Database(path.clone(), e).to_string();
        let change = self.db.transaction().map_err(failed)?;
        let (mut taken, mut all) = (0, 0);
        for (number, line) in from.lines().enumerate() {
            let wrong = |what: String| format!("line {}: {what}", number + 1);
            let line = line.map_err(|e| wrong(e.to_string()))?;
            let row: Json = serde_json::from_str(&line).map_err(|e| wrong(format!("this is no JSON: {e}")))?;
            if number == 0 {
                is_format(&row).map_err(wrong)?;
                continue;
            }
            let (table, values) = values_of(&row).map_err(wrong)?;
            taken += change.prepare_cached(&table.upsert()).and_then(|mut s| s.execute(params_from_iter(values))).map_err(failed)?;
            all += 1;
        }
        change.commit().map_err(failed)?;
        Ok((taken, all))
    }

    /// Removes rows; how many there were. With `only_count` they stay.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn prune(&self, which: &Which, only_count: bool) -> Result<usize, StoreError> {
        let (condition, values) = which.condition();
        let mut count = 0;
        for table in &TABLES {
            let found = if only_count {
                let text = format!("SELECT count(*) FROM {} WHERE {condition}", table.name);
                self.db.query_row(&text, params_from_iter(values.clone()), |r| r.get::<_, i64>(0)).map(|n| n as usize)
            } else {
                self.db.execute(&format!("DELETE FROM {} WHERE {condition}", table.name), params_from_iter(values.clone()))
            };
            count += found.map_err(|e| self.error(e))?;
        }
        Ok(count)
    }
}

/// Whether the first line is that of this format.
fn is_format(row: &Json) -> Result<(), String> {
    match row.get(FORMAT_KEY).and_then(Json::as_u64) {
        Some(FORMAT) => Ok(()),
        Some(other) => {
            Err(format!("format {other} was found, and this girih reads {FORMAT}: export it again with a girih of its own version"))
        }
        None => Err(format!("`{{\"{FORMAT_KEY}\":{FORMAT}}}` is expected here, as `autotune store export` writes it")),
    }
}

/// The table of a row, and its values in the order of the columns.
fn values_of(row: &Json) -> Result<(&'static Table, Vec<Value>), String> {
    let named = row.get("table").and_then(Json::as_str).unwrap_or_default();
    let table = TABLES.iter().find(|t| t.name == named).ok_or_else(|| format!("`{named}` is no table: trials and elected are"))?;
    let value = |column: &&str| match row.get(*column) {
        Some(Json::Null) => Ok(Value::Null),
        Some(Json::String(text)) => Ok(Value::Text(text.clone())),
        Some(Json::Number(n)) => Ok(n.as_i64().map_or_else(|| Value::Real(n.as_f64().unwrap_or(f64::NAN)), Value::Integer)),
        Some(other) => Err(format!("`{column}` is {other}; a text, a number or null is allowed")),
        // Former versions did not write it down.
        None if *column == "made" => Ok(Value::Text(String::new())),
        None => Err(format!("a row of {named} has a `{column}`, and this one has none")),
    };
    Ok((table, table.columns().iter().map(value).collect::<Result<_, _>>()?))
}

fn as_json(value: ValueRef) -> Json {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Json::Null,
        ValueRef::Integer(i) => Json::from(i),
        ValueRef::Real(x) => Number::from_f64(x).map_or(Json::Null, Json::Number),
        ValueRef::Text(text) => Json::from(String::from_utf8_lossy(text).into_owned()),
    }
}

//! The store's tables, and how those of former versions become them.

use rusqlite::{Connection, TransactionBehavior};

/// Makes the tables that are missing.
pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS trials (
        identity TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL, sizes TEXT NOT NULL,
        device TEXT NOT NULL, arch TEXT NOT NULL, schedule TEXT NOT NULL,
        status TEXT NOT NULL, reason TEXT NOT NULL, median_us REAL, samples_us TEXT NOT NULL, registers INTEGER,
        versions TEXT NOT NULL, at INTEGER NOT NULL, flaw TEXT, lengths TEXT NOT NULL DEFAULT '', code TEXT,
        made TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (identity, facts, sizes, device, arch, schedule));
    CREATE TABLE IF NOT EXISTS elected (
        identity TEXT NOT NULL, kernel TEXT NOT NULL, facts TEXT NOT NULL, sizes TEXT NOT NULL,
        device TEXT NOT NULL, arch TEXT NOT NULL, schedule TEXT NOT NULL, median_us REAL NOT NULL,
        versions TEXT NOT NULL, at INTEGER NOT NULL, lengths TEXT NOT NULL DEFAULT '',
        made TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (identity, facts, sizes, device, arch, lengths));";

/// Adds what a store of a former version lacks.
pub(super) fn bring_up_to_date(db: &mut Connection) -> rusqlite::Result<()> {
    const MADE: (&str, &str) = ("made", "TEXT NOT NULL DEFAULT ''");
    let trials = [("flaw", "TEXT"), ("lengths", "TEXT NOT NULL DEFAULT ''"), ("code", "TEXT"), MADE];
    let of_elected = has_column(db, "elected", "lengths")? && has_column(db, "elected", MADE.0)?;
    let whole: rusqlite::Result<bool> = trials.iter().try_fold(of_elected, |all, (name, _)| Ok(all && has_column(db, "trials", name)?));
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
        change.execute_batch("INSERT INTO elected SELECT *, '', '' FROM elected_before; DROP TABLE elected_before")?;
    }
    if !has_column(&change, "elected", MADE.0)? {
        change.execute_batch(&format!("ALTER TABLE elected ADD COLUMN {} {}", MADE.0, MADE.1))?;
    }
    change.commit()
}

fn has_column(db: &Connection, table: &str, column: &str) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2")?.exists([table, column])
}

//! The tuner's memory: every trial, stored at once in SQLite, so that a killed run loses nothing and the next one resumes.
//!
//! One file, by default `tune.sqlite` in girih's cache folder; several processes may use it (WAL).
//! Trials are keyed by what was measured: the kernel's identity (a hash of its IR and space), the facts and lengths of the launch,
//! the sizes, the device and the schedule. The best schedule of a key is what the tuner elected after measuring the best few
//! again, or the fastest trial if it never came that far. Without the feature `tune` there is no database (`absent.rs`): launches then know
//! the committed [`winners`] only.

#[cfg(not(feature = "tune"))]
mod absent;
#[cfg(feature = "tune")]
mod database;
#[cfg(all(test, feature = "tune"))]
pub(crate) mod faults;
#[cfg(feature = "tune")]
pub mod provenance;
#[cfg(feature = "tune")]
pub mod rows;
#[cfg(feature = "tune")]
mod schema;
#[cfg(all(test, feature = "tune"))]
mod tests;
mod trial;
pub mod winners;

#[cfg(not(feature = "tune"))]
pub use absent::Store;
#[cfg(feature = "tune")]
pub use database::Store;
#[cfg(feature = "tune")]
pub use trial::THROTTLED;
pub use trial::{Candidate, Elected, Elsewhere, Status, StoreError, Trial, TrialKey, Tried};

use std::path::PathBuf;

/// The store of this user, if there is one and it can be opened: only tuning makes one.
pub(crate) fn existing() -> Option<Store> {
    default_folder().join("tune.sqlite").exists().then(Store::open_default).and_then(Result::ok)
}

/// girih's cache folder: `$GIRIH_CACHE`, else `$XDG_CACHE_HOME/girih`, else `~/.cache/girih`, else `.girih` here.
pub fn default_folder() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("GIRIH_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("girih")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/girih")))
        .unwrap_or_else(|| PathBuf::from(".girih"))
}

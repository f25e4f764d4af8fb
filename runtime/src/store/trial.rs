//! What the store keeps: trials, what they measured, and what was elected of them.

use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;
use std::path::PathBuf;

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
    /// There was no time for it: nothing is known, and nothing is remembered.
    Untried,
}

impl Status {
    #[cfg(feature = "tune")]
    pub(super) const ALL: [Status; 8] = [
        Status::Measured,
        Status::Slow,
        Status::Predicted,
        Status::Rejected,
        Status::Wrong,
        Status::TimedOut,
        Status::Crashed,
        Status::Untried,
    ];

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
            Status::Untried => "untried",
        }
    }
}

/// How the reason of a trial begins that was timed on a GPU whose clocks were lowered all the while.
#[cfg(feature = "tune")]
pub const THROTTLED: &str = "measured while throttled: ";

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
    /// Why the cubin is not what the kernel was meant to become, where it is not: see [`crate::measure::acceptance`].
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

    /// That none of its samples was taken while the GPU ran free, and why not. Its time says little, and is not taken up by later runs.
    #[cfg(feature = "tune")]
    pub fn throttled(&self) -> Option<&str> {
        Some(self.reason.as_str()).filter(|reason| reason.starts_with(THROTTLED))
    }
}

/// A trial with where it was made.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    /// The device's name, as [`TrialKey::device`].
    pub device: String,
    /// The sizes' text, as [`TrialKey::sizes`]: of a program's launch site also what the other sites ran under.
    pub sizes: String,
    /// By which girih, under which driver, NVRTC and clocks, as far as that is known.
    pub made: String,
    /// The trial.
    pub trial: Trial,
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
    #[cfg(feature = "tune")]
    #[error("cannot use the tuner's store {0}: {1}; {help}", help = help(.1))]
    Database(PathBuf, rusqlite::Error),
    /// There is none in this build.
    #[cfg(not(feature = "tune"))]
    #[error("this build has no store: build girih with its feature `tune`")]
    Absent,
}

/// What to do about an error of the database.
#[cfg(feature = "tune")]
fn help(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "free some room, or set GIRIH_CACHE to a folder on another disk",
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "set GIRIH_CACHE to a folder that can be written"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process holds it: try again when that has ended",
        _ => "move the file away to start a new one",
    }
}

/// A schedule that may serve a launch, and what it was tuned for.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The schedule as `T=1024 C=4 V=4`; of a program as [`crate::launch::program_schedule::Joint`] writes it.
    pub schedule: String,
    /// The facts' key text.
    pub facts: String,
    /// Of the launch's, or the program's, arguments; `None` where nobody wrote them down.
    pub lengths: Option<Lengths>,
    /// What was other where it was measured, `driver 550.54 and not 570.86`; nothing where all fits, and of a store that is not read at a place.
    pub elsewhere: Option<String>,
}

/// One that was elected on another device.
#[derive(Clone, PartialEq, Debug)]
pub struct Elsewhere {
    /// The device's name, as [`TrialKey::device`].
    pub device: String,
    /// `sm_90a`.
    pub arch: String,
    /// What was elected there.
    pub candidate: Candidate,
}

impl Candidate {
    /// What it was tuned for.
    pub fn occasion(&self) -> Occasion<'_> {
        Occasion { facts: &self.facts, lengths: self.lengths.as_ref() }
    }
}

//! The tuner measuring by a worker that is a shell script: for tests of what happens around a trial.

use super::client::Workers;
use super::demands::Compile;
use super::search::{Budget, Strategy};
use super::{By, Options};
use crate::child::Launcher;
use crate::device::cuda::Gpu;
use crate::store::Store;
use crate::subject::Subject;
use crate::subject::challenge::Challenge;
use crate::subject::inputs::uniform;
use girih_core::program::ProgramDef;
use girih_core::target::Target;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the GPU of the scripts is called.
pub(super) const DEVICE: &str = "a shell";

/// A folder of a test's own, which is empty.
pub(super) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("girih-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
    folder
}

/// The store in a folder.
pub(super) fn store(folder: &Path) -> Store {
    Store::open(&folder.join("tune.sqlite")).unwrap_or_else(|e| panic!("{e}"))
}

/// A challenge whose program copies `X` to `Y`.
pub(super) fn copying(program: fn() -> ProgramDef) -> Subject {
    let challenge = Challenge::new("copies", program, "void solve(const float* X[N], float* Y[N], int N)")
        .input("X", uniform(0.0, 1.0))
        .output("Y", |x, i| x.at("X", i))
        .check_at(["N=7"])
        .perf_at("N=100000000");
    Subject::of_challenge(&challenge).expect("it is right")
}

/// Measurement on a GPU that is a script, by the default's strategy.
pub(super) fn options(script: String, compile: Compile, budget: Budget) -> Options {
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script] };
    let gpu = Gpu { ordinal: 0, name: DEVICE.into(), target: Target::h200().clone() };
    let by = By::Measurement(Box::new(Workers { gpu, launcher, compile, l2: Default::default() }));
    Options { by, budget, strategy: Strategy::Model, limit: Duration::from_secs(10), fresh: false, only: None, among: None }
}

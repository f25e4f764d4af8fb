//! Features: what is built of girih where it is asked for less.

use std::path::Path;
use std::process::Command;

/// The crates that girih is built of, with these arguments for its features.
fn crates(features: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--package", "girih", "--edges", "normal,build", "--prefix", "none", "--format", "{lib}"]);
    let tree = cargo.args(features).current_dir(root).output().expect("cargo starts");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let mut all: Vec<String> = String::from_utf8_lossy(&tree.stdout).lines().map(|l| l.trim_end_matches(" (*)").to_string()).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn launches_need_no_tuner() {
    let has = |all: &[String], names: &[&str]| names.iter().filter(|n| all.iter().any(|c| c == *n)).count();
    let heavy = ["clap", "ctrlc", "image", "indicatif", "nvml_wrapper", "rusqlite"];
    let (everything, tuner) = (crates(&[]), crates(&["--no-default-features", "--features", "tune"]));
    assert_eq!(has(&everything, &heavy), heavy.len(), "{everything:?}");
    assert_eq!(has(&tuner, &heavy), 2, "{tuner:?}");
    let plain = crates(&["--no-default-features"]);
    assert_eq!(has(&plain, &heavy), 0, "{plain:?}");
    assert!(
        has(&plain, &["cudarc", "girih_compiler"]) == 2 && 2 * plain.len() < everything.len() + 5,
        "{} and {}",
        plain.len(),
        everything.len()
    );
}

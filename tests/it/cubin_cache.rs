//! The cubin cache across processes: this binary runs itself, with a cache folder of its own.

use super::cuda_text::conversions;
use super::nvrtc::provide;
use girih::{Compiled, nvrtc};
use girih_core::target::Target;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the processes that the test starts.
const CHILD: &str = "GIRIH_TEST_CHILD";

/// Compiles one kernel and says how.
fn child() {
    let start = std::time::Instant::now();
    let compiled = Compiled::of(conversions(), Target::h200()).with_cubin().unwrap_or_else(|e| panic!("{e}"));
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    let resources = compiled.resources.expect("a cubin has resources");
    let size = compiled.cubin.expect("a cubin was asked for").len();
    println!("compiled: loaded {} bytes {size} registers {} in {milliseconds:.2} ms", nvrtc::is_loaded(), resources.registers);
}

/// What [`child`] says in a process of its own.
fn run(cache: &Path) -> String {
    let executable = std::env::current_exe().expect("this test's binary");
    let output = Command::new(executable)
        .args(["--exact", "cubin_cache::a_cached_cubin_needs_no_nvrtc", "--nocapture"])
        .env(CHILD, "1")
        .env("GIRIH_CACHE", cache)
        .env("GIRIH_NVRTC", nvrtc::identity().expect("provided").path)
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{text}");
    let line = text.split("compiled: ").nth(1).expect("the child's line");
    line.split(" in ").next().expect("the line's first part").to_string()
}

/// The only entry of a cache.
fn entry(cache: &Path) -> PathBuf {
    let only = |folder: &Path| std::fs::read_dir(folder).expect("a folder").next().expect("one entry").expect("an entry").path();
    only(&only(&cache.join("cubin")))
}

#[test]
fn a_cached_cubin_needs_no_nvrtc() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    provide();
    let cache = std::env::temp_dir().join(format!("girih-test-cubins-{}", std::process::id()));
    let first = run(&cache);
    assert!(first.starts_with("loaded true"), "{first}");
    let cached = first.replace("loaded true", "loaded false");
    assert_eq!(run(&cache), cached);

    let path = entry(&cache);
    let whole = std::fs::read(&path).expect("the entry");
    for damaged in [&whole[..whole.len() / 2], &[], b"something else"] {
        std::fs::write(&path, damaged).expect("the cache can be written");
        assert_eq!(run(&cache), first);
        assert_eq!(std::fs::read(&path).expect("the entry"), whole);
    }

    // Two processes at once, from an empty cache.
    std::fs::remove_file(&path).expect("the entry");
    std::thread::scope(|s| {
        let both = [s.spawn(|| run(&cache)), s.spawn(|| run(&cache))];
        both.into_iter().for_each(|p| assert!(p.join().expect("no panic").ends_with(&first["loaded true".len()..])));
    });
    assert_eq!(std::fs::read(&path).expect("the entry"), whole);
    std::fs::remove_dir_all(cache).expect("the test's own folder");
}
